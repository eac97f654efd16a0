"""What every format of landed objects has: its types, its rows, and the errors of what does not fit or is damaged."""

import datetime as dt
import gzip
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import MissingExtraError, SchemaError, SourceError
from lake_assets.storage.formats import avro
from lake_assets_tests.ingest.landed_as import as_avro, as_orc, columns_of, landed, load, types
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan

UTC = dt.UTC
MOMENT = dt.datetime(2026, 2, 11, 8, 0, 0, 123456, tzinfo=UTC)
BINARY = pytest.mark.parametrize("form", ["orc", "avro"])


def of(world: World, form: str, **options: Any) -> World:
    world.options = {"format": form} | options
    return world


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def body(form: str, *ids: int) -> bytes:
    """Rows with these numbers."""
    return landed(form, *({"id": number, "total": number / 2} for number in ids))


AVRO_TYPES: dict[str, tuple[Any, str, list[Any]]] = {
    "boolean": ("boolean", "BOOLEAN", [True, False]),
    "int": ("int", "INTEGER", [-(2**31), 2**31 - 1]),
    "long": ("long", "BIGINT", [-(2**63), 2**63 - 1]),
    "float": ("float", "FLOAT", [1.5, -0.25]),
    "double": ("double", "DOUBLE", [0.1, 1e300]),
    "string": ("string", "VARCHAR", ["Zürich\x00", ""]),
    "bytes": ("bytes", "BLOB", [b"a\x00\xff", b""]),
    "fixed": ({"type": "fixed", "name": "three", "size": 3}, "BLOB", [b"abc", b"\x00\x00\x00"]),
    "enum": ({"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}, "VARCHAR", ["BLUE", "RED"]),
    "array": ({"type": "array", "items": ["null", "int"]}, "INTEGER[]", [[1, None], []]),
    "map": ({"type": "map", "values": ["null", "long"]}, "MAP(VARCHAR, BIGINT)", [{"a": 1, "b": None}, {}]),
    "record": (
        {"type": "record", "name": "place", "fields": [field("x", "int"), field("when", ["null", "string"])]},
        'STRUCT(x INTEGER, "when" VARCHAR)',
        [{"x": 1, "when": None}, {"x": 2, "when": "b"}],
    ),
    "day": ({"type": "int", "logicalType": "date"}, "DATE", [dt.date(2026, 2, 11), dt.date(1, 1, 1)]),
    "time_ms": ({"type": "int", "logicalType": "time-millis"}, "TIME", [dt.time(8, 0, 0, 5000), dt.time(0)]),
    "time_us": ({"type": "long", "logicalType": "time-micros"}, "TIME", [dt.time(8, 0, 0, 5), dt.time(23, 59)]),
    "at_ms": (
        {"type": "long", "logicalType": "timestamp-millis"},
        "TIMESTAMP WITH TIME ZONE",
        [MOMENT.replace(microsecond=123000), dt.datetime(1, 1, 1, tzinfo=UTC)],
    ),
    "at_us": (
        {"type": "long", "logicalType": "timestamp-micros"},
        "TIMESTAMP WITH TIME ZONE",
        [MOMENT, dt.datetime(9999, 12, 31, tzinfo=UTC)],
    ),
    "local_ms": (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        "TIMESTAMP",
        [dt.datetime.fromisoformat("2026-02-11")],
    ),
    "local_us": ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP", [MOMENT.replace(tzinfo=None)]),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "UUID", [uuid.UUID(int=5), uuid.UUID(int=2**128 - 1)]),
    "dec": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
        "DECIMAL(38,2)",
        [Decimal("-1.25"), Decimal("0.00"), Decimal("999999999999999999999999999999999999.99"), Decimal("1.28")],
    ),
    "dec_fixed": (
        {"type": "fixed", "name": "eight", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 3},
        "DECIMAL(12,3)",
        [Decimal("-1.250"), Decimal("123456789.123")],
    ),
    "decs": (
        {"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}},
        "DECIMAL(9,1)[]",
        [[Decimal("-1.5"), Decimal("300.0")], []],
    ),
}

ORC_TYPES: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "tiny": (pa.int8(), "TINYINT", [-128, 127]),
    "flag": (pa.bool_(), "BOOLEAN", [True, None]),
    "wide": (pa.int64(), "BIGINT", [2**63 - 1, None]),
    "ratio": (pa.float64(), "DOUBLE", [0.1, None]),
    "note": (pa.string(), "VARCHAR", ["Zürich", ""]),
    "raw": (pa.binary(), "BLOB", [b"\x00\xff", None]),
    "day": (pa.date32(), "DATE", [dt.date(2026, 2, 11), dt.date(1, 1, 1)]),
    "sold": (pa.timestamp("us"), "TIMESTAMP", [MOMENT.replace(tzinfo=None), dt.datetime.fromisoformat("1700-01-01")]),
    "seen": (pa.timestamp("us", "UTC"), "TIMESTAMP WITH TIME ZONE", [MOMENT, None]),
    "price": (pa.decimal128(20, 2), "DECIMAL(20,2)", [Decimal("-1.25"), None]),
    "tags": (pa.list_(pa.timestamp("us")), "TIMESTAMP[]", [[MOMENT.replace(tzinfo=None), None], []]),
    "place": (
        pa.struct({"x": pa.int32(), "a.b": pa.string()}),
        'STRUCT(x INTEGER, "a.b" VARCHAR)',
        [{"x": 1, "a.b": "c"}, None],
    ),
    "counts": (pa.map_(pa.string(), pa.int32()), "MAP(VARCHAR, INTEGER)", [{"a": 1}, {}]),
}


def every_type(form: str, codec: str) -> tuple[bytes, dict[str, str], list[dict[str, Any]]]:
    """An object with all types of a format, the types of its columns in the table, and the rows."""
    kinds = AVRO_TYPES if form == "avro" else ORC_TYPES
    rows = [
        {"row": row, **{name: (values[row] if row < len(values) else None) for name, (*_, values) in kinds.items()}}
        for row in range(4)
    ]
    sql = {"row": "INTEGER", **{name: kind for name, (_, kind, _) in kinds.items()}}
    if form == "avro":
        fields = [field("row", "int"), *(field(name, ["null", kind]) for name, (kind, *_) in kinds.items())]
        return as_avro(rows, fields, codec), sql, rows
    schema = pa.schema({"row": pa.int32(), **{name: kind for name, (kind, *_) in kinds.items()}})
    return as_orc(pa.Table.from_pylist(rows, schema), compression=codec), sql, rows


@pytest.mark.journey
@pytest.mark.parametrize(
    ("form", "codec"),
    [
        ("avro", "null"),
        ("orc", "zlib"),
        *more(("avro", codec) for codec in ("deflate", "snappy", "zstandard", "bzip2", "xz")),
        *more(("orc", codec) for codec in ("uncompressed", "snappy", "zstd", "lz4")),
    ],
)
def test_a_format_has_its_types_and_values_in_each_codec(local_world: World, form: str, codec: str) -> None:
    landed_object, kinds, rows = every_type(form, codec)

    load(of(local_world, form), landed_object)

    assert types(local_world) == kinds
    stored = columns_of(local_world, ", ".join(map(identifier, kinds)))
    assert [dict(zip(kinds, row, strict=True)) for row in stored] == rows


@pytest.mark.journey
def test_auto_reads_each_object_by_its_name(local_world: World) -> None:
    names = ["a.parquet", "b.csv", "c.jsonl.gz", "d.avro", "e.ORC", "f.txt"]
    for number, (name, form) in enumerate(zip(names, ("parquet", "csv", "json", "avro", "orc", "csv"), strict=True)):
        rows = landed(form, {"id": number, "name": name})
        rows = rows.replace(b",", b"\t") if name == "f.txt" else rows
        of(local_world, "auto").land(NW, gzip.compress(rows) if form == "json" else rows, name)

    local_world.ingest(NW)
    assert columns_of(local_world, "id, name") == list(enumerate(names))

    local_world.land(NW, b"x", "d.dat")
    with pytest.raises(SourceError, match=r"the name of .*d\.dat does not show its format"):
        local_world.ingest(NW)


@pytest.mark.more
def test_a_finer_orc_timestamp_is_refused_unless_the_table_has_nanoseconds(local_world: World) -> None:
    finer = as_orc(pa.table({"sold": pa.array([1_001], pa.timestamp("ns"))}))
    with pytest.raises(SchemaError, match=r"column 'sold' of the object .*a\.orc has a timestamp that microseconds"):
        load(of(local_world, "orc"), finer)

    local_world.execute(
        "DROP TABLE IF EXISTS lake.sales",
        "CREATE TABLE lake.sales (sold TIMESTAMP_NS, region VARCHAR, date DATE)",
        "ALTER TABLE lake.sales SET PARTITIONED BY (region, date)",
    )
    local_world.ingest(NW)
    assert columns_of(local_world, "epoch_ns(sold)") == [(1_001,)]


@BINARY
def test_objects_are_replaced_and_appended(local_world: World, form: str) -> None:
    of(local_world, form)
    assert [load(local_world, body(form, *ids), text).row_count for ids, text in (((1, 2), NW), ((3,), SW))] == [2, 1]
    assert local_world.ingest(NW).row.status == "skipped"
    load(local_world, body(form, 9))
    assert columns_of(local_world, "id, total") == [(3, 1.5), (9, 4.5)]

    local_world.options |= {"mode": "append"}
    load(local_world, body(form, 4), SW, name="c")
    assert columns_of(local_world, "id") == [(3,), (4,), (9,)]


@pytest.mark.parametrize("form", ["csv", "orc", "avro"])
def test_columns_that_differ_are_refused_by_the_plan_too_or_evolve_the_table(local_world: World, form: str) -> None:
    of(local_world, form).land(NW, body(form, 1, 2), f"a.{form}")
    rows = 2 if form == "orc" else "the objects have to be read for it"
    assert plan(local_world.stream, local_world.partition(NW)).rows_after == rows
    local_world.ingest(NW)
    local_world.land(NW, landed(form, {"tax": 1.0, "id": 1}), f"a.{form}")

    refusal = "it lacks 'total' and it has 'tax'"
    assert refusal in plan(local_world.stream, local_world.partition(NW)).decision.why
    with pytest.raises(SchemaError, match=refusal):
        local_world.ingest(NW)
    local_world.options |= {"schema_policy": "evolve"}
    local_world.ingest(NW)
    assert columns_of(local_world, "id, total, tax") == [(1, None, 1.0)]
    assert types(local_world)["tax"] == "DOUBLE"
    local_world.options |= {"schema_policy": "ignore_extra"}
    load(local_world, landed(form, {"new": "x", "id": 2, "total": 1.0, "tax": 2.0}))
    assert columns_of(local_world, "id, total, tax") == [(2, 1.0, 2.0)]


@BINARY
def test_dead_letters_have_the_number_of_the_row(local_world: World, form: str) -> None:
    of(local_world, form, on_bad_row="dead_letter")
    narrow = pa.schema({"id": pa.int32(), "total": pa.float64()})
    load(local_world, landed(form, {"id": 0, "total": 0.0}, schema=narrow))

    assert load(local_world, body(form, 1, 2**40, 3), name="b").rows_dead_lettered == 1

    (letter,) = letters(local_world)
    assert (letter["_row"], letter["id"]) == (1, 2**40)
    assert columns_of(local_world, "id") == [(0,), (1,), (3,)]


@BINARY
def test_declared_and_added_columns_are_those_of_parquet(local_world: World, form: str) -> None:
    columns: dict[str, dict[str, Any]] = {"number": {"type": "INTEGER", "from": "id"}, "total": {"omit": True}}
    of(local_world, form, columns=columns, file_columns={"place": "row_number"})

    with pytest.raises(SchemaError, match="'number'"):
        load(local_world, body(form, 7, 2**40))  # INTEGER does not hold it
    columns["number"]["type"] = "BIGINT"
    local_world.ingest(NW)
    assert columns_of(local_world, "number, place") == [(7, 1), (2**40, 2)]


@pytest.mark.parametrize("form", ["parquet", *more(["csv", "orc", "avro"])])
def test_of_two_columns_that_differ_in_case_the_one_that_is_named_is_left_out(local_world: World, form: str) -> None:
    of(local_world, form, columns={"Total": {"omit": True}})

    load(local_world, landed(form, {"id": 1, "total": 1.5, "Total": 7.0}))
    load(local_world, landed(form, {"id": 2, "Total": 8.0, "total": 2.5}), name="b")

    assert columns_of(local_world, "id, total") == [(1, 1.5), (2, 2.5)]


@pytest.mark.more
@BINARY
def test_rows_may_have_no_column_of_the_object(local_world: World, form: str) -> None:
    omitted = {"id": {"omit": True}, "total": {"omit": True}}

    load(of(local_world, form, columns=omitted, file_columns={"place": "row_number"}), body(form, 7, 8))

    assert columns_of(local_world, "place") == [(1,), (2,)]


GZIPPED = gzip.compress(body("csv", 1) * 100, mtime=0)
DAMAGED: dict[str, tuple[bytes, str]] = {
    "csv truncated": (GZIPPED[:-30], "CSV: it ends within a compressed member"),
    **{
        f"{form} {how}": (damaged, f"{title}: ")
        for form, title in {"orc": "ORC", "avro": "Avro"}.items()
        for good in [body(form, 2)]
        for how, damaged in {
            "truncated": good[:-20],
            "another magic": b"PAR1" + good[4:-4] + b"PAR1",
            "another end": good[:-16] + b"x" * 16,  # Avro's last marker; the end of ORC
        }.items()
    },
}


@pytest.mark.parametrize("case", [*list(DAMAGED)[:1], *more(list(DAMAGED)[1:])])
def test_a_damaged_object_is_one_error_that_names_it_and_quarantine_leaves_it_out(
    local_world: World, case: str
) -> None:
    (damaged, message), form = DAMAGED[case], case.partition(" ")[0]
    of(local_world, form).land(NW, body(form, 1), f"a.{form}")

    with pytest.raises(SourceError, match=rf"bad\.{form} cannot be read as {message}"):
        load(local_world, damaged, name="bad")
    local_world.options |= {"on_bad_object": "quarantine"}
    assert local_world.ingest(NW).row.files_quarantined == 1
    assert columns_of(local_world, "id") == [(1,)]


def test_a_damaged_record_is_an_error_and_not_fewer_rows(local_world: World) -> None:
    rows = [{"id": 1, "note": "abcd"}, {"id": 2, "note": "efgh"}]
    good = as_avro(rows, [field("id", "long"), field("note", "string")])

    with pytest.raises(SourceError, match=r"a\.avro cannot be read as Avro: a record is damaged: 0 of 2 rows"):
        load(of(local_world, "avro"), good.replace(b"\x08abcd", b"\x7eabcd"))  # a text that is longer than its block


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["null", "int", "string"], "column 'x' has the type union of int32 and string.*omit: true"),
        *more([({"type": "array", "items": ["int", "string"]}, "column 'x' has the type union of")]),
    ],
)
def test_a_type_that_no_column_has_is_refused_by_its_name(local_world: World, kind: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        load(of(local_world, "avro"), as_avro([], [field("id", "long"), field("x", kind)]))


def within_itself(schema: dict[str, Any], values: Any, rows: int = 3) -> bytes:
    """A file whose column `x` has a type within itself, before and behind columns that have none."""
    fields = [field("id", "long"), field("x", schema), field("note", ["null", "string"])]
    return as_avro([{"id": n, "x": values, "note": f"é{n}"} for n in range(rows)], fields, "deflate")


TREE = {
    "type": "record",
    "name": "tree",
    "fields": [
        field("kind", {"type": "enum", "name": "kind", "symbols": ["a", "b"]}),
        field("size", {"type": "fixed", "name": "two", "size": 2}),
        field("weights", {"type": "array", "items": ["null", "double", "float", "boolean"]}),
        field("below", {"type": "map", "values": "tree"}),
        field("other", ["null", "string", "bytes"]),
    ],
}
LEAF = {"kind": "b", "size": b"\0\1", "weights": [0.5, None, True], "below": {}, "other": "é"}
LEAF_TEXT = {"kind": "b", "size": "0001", "weights": [0.5, None, True], "below": {}, "other": "é"}
DOUBLED: dict[str, Any] = {"type": "record", "name": "r0", "fields": [field("n", "int")]}
for _number in range(14):  # 2 ** 15 types
    DOUBLED = {
        "type": "record",
        "name": f"r{_number + 1}",
        "fields": [field("a", ["null", DOUBLED]), field("b", ["null", f"r{_number}"])],
    }
WITHIN: dict[str, tuple[Any, Any, Any]] = {
    "link": (
        {"type": "record", "name": "node", "fields": [field("n", "int"), field("next", ["null", "node"])]},
        {"n": -1, "next": {"n": 2**31 - 1, "next": None}},
        {"n": -1, "next": {"n": 2**31 - 1, "next": None}},
    ),
    "tree": (
        TREE,
        LEAF | {"below": {"ü": LEAF}, "other": b"\xff"},
        LEAF_TEXT | {"below": {"ü": LEAF_TEXT}, "other": "ff"},
    ),
    "row": (["null", "row"], {"id": 7, "x": None, "note": None}, {"id": 7, "x": None, "note": None}),
    "none": (["null", "row"], None, None),
    "of many types": (DOUBLED, {"a": None, "b": None}, {"a": None, "b": None}),
}


@pytest.mark.parametrize("kind", WITHIN)
def test_a_type_of_avro_within_itself_is_its_json(local_world: World, kind: str) -> None:
    schema, value, wanted = WITHIN[kind]

    load(of(local_world, "avro"), within_itself(schema, value))

    assert types(local_world) == {"id": "BIGINT", "x": "VARCHAR", "note": "VARCHAR"}
    rows = columns_of(local_world, "id, x, note")
    assert [(n, text and json.loads(text), note) for n, text, note in rows] == [(n, wanted, f"é{n}") for n in range(3)]


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({"columns": {"x": {"omit": True}}}, ["id", "note"]),
        *more([({"schema_policy": "ignore_extra"}, ["id", "note"]), ({"rescue": "_r"}, ["id", "note", "_r"])]),
    ],
)
def test_a_type_of_avro_within_itself_goes_where_the_policy_says(
    local_world: World, options: dict[str, Any], columns: list[str]
) -> None:
    schema, value, _ = WITHIN["link"]
    fields = [field("id", "long"), field("note", ["null", "string"])]
    load(of(local_world, "avro", **options), as_avro([{"id": 9, "note": "first"}], fields), SW)

    load(local_world, within_itself(schema, value))

    assert [*types(local_world)] == columns
    assert columns_of(local_world, "id, note", "id < 9") == [(n, f"é{n}") for n in range(3)]
    if "rescue" in options:
        assert columns_of(local_world, "count(*)", "_r LIKE '%next%'") == [(3,)]


def test_a_damaged_value_within_itself_is_an_error(local_world: World) -> None:
    schema, value, _ = WITHIN["link"]
    fields = [field("id", "long"), field("x", schema), field("note", ["null", "string"])]
    good = as_avro([{"id": 1, "x": value, "note": "abcd"}], fields)

    with pytest.raises(SourceError, match=r"a\.avro cannot be read as Avro: a record is damaged"):
        load(of(local_world, "avro"), good.replace(b"\x08abcd", b"\x7eabcd"))


@pytest.mark.parametrize("policy", ["strict", *more(["evolve", "ignore_extra"])])
def test_a_field_of_avro_is_the_known_one_of_its_aliases(local_world: World, policy: str) -> None:
    of(local_world, "avro", schema_policy=policy)

    def record(name: str, *fields: Any) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": list(fields)}

    def renamed(name: str, kind: Any) -> dict[str, Any]:
        return {"name": f"new_{name}", "aliases": ["none", name.upper()], "type": kind}

    for make, text in ((field, NW), (renamed, SW)):
        place = make("place", record("place", make("x", "long")))
        fields = [field("id", "long"), make("total", "long"), place, make("tags", {"type": "array", "items": "place"})]
        names = [column["name"] for column in fields]
        inner = place["type"]["fields"][0]["name"]
        load(local_world, as_avro([dict(zip(names, (1, 2, {inner: 3}, [{inner: 4}]), strict=True))], fields), text)

    assert columns_of(local_world, "id, total, place, tags") == [(1, 2, {"x": 3}, [{"x": 4}])] * 2
    assert [*types(local_world)] == ["id", "total", "place", "tags"]


def test_a_named_type_is_used_again(local_world: World) -> None:
    place = {"type": "record", "name": "place", "fields": [field("x", "int")]}
    rows = [{"here": {"x": 1}, "there": {"x": 2}, "all": [{"x": 3}]}]
    fields = [field("here", place), field("there", "place"), field("all", {"type": "array", "items": "a.b.place"})]

    load(of(local_world, "avro"), as_avro(rows, fields))

    assert columns_of(local_world, 'here, there, "all"') == [({"x": 1}, {"x": 2}, [{"x": 3}])]


def test_without_the_extension_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    avro._engine.cache_clear()
    monkeypatch.setattr("lake_assets.base.duckdb_engine._wheel_file", lambda _name: None)
    monkeypatch.setattr("lake_assets.base.duckdb_engine._installed_file", lambda _connection, _name: None)
    monkeypatch.setattr("lake_assets.base.duckdb_engine._REPOSITORY", " FROM '/nowhere'")

    with pytest.raises(MissingExtraError, match=r"\.\[avro\]"):
        avro._engine()
