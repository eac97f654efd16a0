"""`format: orc` and `format: avro`: landed objects become a table as landed Parquet does, in their types."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.duckdb_engine import identifier
from lake_assets.errors import MissingExtraError, SchemaError, SourceError
from lake_assets.parquet import landed_avro
from lake_assets_tests.ingest.landed_as import as_avro, as_orc, columns_of, landed, load, types
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan

UTC = dt.UTC
MOMENT = dt.datetime(2026, 2, 11, 8, 0, 0, 123456, tzinfo=UTC)


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


@pytest.fixture(params=["orc", "avro"])
def form(request: pytest.FixtureRequest, local_world: World) -> str:
    """The format of the local world's stream."""
    local_world.options = {"format": request.param}
    return str(request.param)


@pytest.fixture
def of_avro(local_world: World) -> World:
    local_world.options = {"format": "avro"}
    return local_world


@pytest.fixture
def of_orc(local_world: World) -> World:
    local_world.options = {"format": "orc"}
    return local_world


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


@pytest.mark.journey
@pytest.mark.parametrize("codec", ["null", *more(["deflate", "snappy", "zstandard", "bzip2", "xz"])])
def test_avro_has_its_types_and_values_in_each_codec(of_avro: World, codec: str) -> None:
    fields = [field(name, ["null", kind]) for name, (kind, _, _) in AVRO_TYPES.items()]
    rows = [
        {"row": row, **{n: (values[row] if row < len(values) else None) for n, (_, _, values) in AVRO_TYPES.items()}}
        for row in range(5)
    ]

    load(of_avro, as_avro(rows, [field("row", "int"), *fields], codec))

    assert types(of_avro) == {"row": "INTEGER", **{name: sql for name, (_, sql, _) in AVRO_TYPES.items()}}
    columns = ["row", *AVRO_TYPES]
    stored = columns_of(of_avro, ", ".join(map(identifier, columns)))
    assert [dict(zip(columns, row, strict=True)) for row in stored] == rows


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


@pytest.mark.journey
@pytest.mark.parametrize("codec", ["zlib", *more(["uncompressed", "snappy", "zstd", "lz4"])])
def test_orc_has_its_types_and_values_in_each_codec(of_orc: World, codec: str) -> None:
    arrays = [
        pa.array([list(v.items()) for v in values] if pa.types.is_map(kind) else values, kind)
        for kind, _, values in ORC_TYPES.values()
    ]

    load(of_orc, as_orc(pa.table(arrays, names=list(ORC_TYPES)), compression=codec))

    assert types(of_orc) == {name: sql for name, (_, sql, _) in ORC_TYPES.items()}
    values = zip(*(values for _, _, values in ORC_TYPES.values()), strict=True)
    assert columns_of(of_orc, ", ".join(ORC_TYPES)) == list(values)


@pytest.mark.more
def test_a_finer_orc_timestamp_is_refused_unless_the_table_has_nanoseconds(of_orc: World) -> None:
    of_orc.land(NW, as_orc(pa.table({"sold": pa.array([1_001], pa.timestamp("ns"))})), "a.orc")
    with pytest.raises(SchemaError, match=r"column 'sold' of the object .*a\.orc has a timestamp that microseconds"):
        of_orc.ingest(NW)

    of_orc.execute(
        "DROP TABLE IF EXISTS lake.sales",
        "CREATE TABLE lake.sales (sold TIMESTAMP_NS, region VARCHAR, date DATE)",
        "ALTER TABLE lake.sales SET PARTITIONED BY (region, date)",
    )
    of_orc.ingest(NW)
    assert columns_of(of_orc, "epoch_ns(sold)") == [(1_001,)]


def test_objects_are_replaced_and_appended(local_world: World, form: str) -> None:
    assert [load(local_world, body(form, *ids), text).row_count for ids, text in (((1, 2), NW), ((3,), SW))] == [2, 1]
    assert local_world.ingest(NW).row.status == "skipped"
    load(local_world, body(form, 9))
    assert columns_of(local_world, "id, total") == [(3, 1.5), (9, 4.5)]

    local_world.options |= {"mode": "append"}
    load(local_world, body(form, 4), SW, name="c")
    assert columns_of(local_world, "id") == [(3,), (4,), (9,)]


def test_plan_tells_the_rows_of_orc_and_columns_that_are_refused(local_world: World, form: str) -> None:
    local_world.land(NW, body(form, 1, 2), f"a.{form}")
    rows = "the objects have to be read for it" if form == "avro" else 2
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
    local_world.options |= {"schema_policy": "ignore_extra"}
    load(local_world, landed(form, {"new": "x", "id": 2, "total": 1.0, "tax": 2.0}))
    assert columns_of(local_world, "id, total, tax") == [(2, 1.0, 2.0)]


def test_dead_letters_have_the_number_of_the_row(local_world: World, form: str) -> None:
    local_world.options |= {"on_bad_row": "dead_letter"}
    narrow = pa.schema({"id": pa.int32(), "total": pa.float64()})
    load(local_world, landed(form, {"id": 0, "total": 0.0}, schema=narrow))

    assert load(local_world, body(form, 1, 2**40, 3), name="b").rows_dead_lettered == 1

    (letter,) = letters(local_world)
    assert (letter["_row"], letter["id"]) == (1, 2**40)
    assert columns_of(local_world, "id") == [(0,), (1,), (3,)]


def broken(good: bytes, how: str) -> bytes:
    """A file that is damaged in some way."""
    if how == "truncated":
        return good[:-20]
    if how == "another magic":
        return b"PAR1" + good[4:-4] + b"PAR1"
    return good[:-16] + b"x" * 16  # Avro's last marker; the end of ORC


@pytest.mark.more
@pytest.mark.parametrize("how", ["truncated", "another magic", "another end"])
def test_a_damaged_object_is_one_error_that_names_it_and_quarantine_leaves_it_out(
    local_world: World, form: str, how: str
) -> None:
    local_world.land(NW, body(form, 1), f"a.{form}")

    title = {"orc": "ORC", "avro": "Avro"}[form]
    with pytest.raises(SourceError, match=rf"bad\.{form} cannot be read as {title}: "):
        load(local_world, broken(body(form, 2), how), name="bad")
    local_world.options |= {"on_bad_object": "quarantine"}
    assert local_world.ingest(NW).row.files_quarantined == 1
    assert columns_of(local_world, "id") == [(1,)]


def test_a_damaged_record_is_an_error_and_not_fewer_rows(of_avro: World) -> None:
    rows = [{"id": 1, "note": "abcd"}, {"id": 2, "note": "efgh"}]
    good = as_avro(rows, [field("id", "long"), field("note", "string")])

    with pytest.raises(SourceError, match=r"a\.avro cannot be read as Avro: a record is damaged: 0 of 2 rows"):
        load(of_avro, good.replace(b"\x08abcd", b"\x7eabcd"))  # a text that is longer than its block


NODE = {"type": "record", "name": "node", "fields": [field("next", ["null", "node"])]}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["null", "int", "string"], "column 'x' of the object .*a.avro is a union of int32 and string"),
        (NODE, r"column 'x' .* has the type a\.b\.node, which is within itself"),
        *more([({"type": "array", "items": ["int", "string"]}, "column 'x' .* is a union of")]),
    ],
)
def test_a_type_that_no_column_has_is_refused_by_its_name(of_avro: World, kind: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        load(of_avro, as_avro([], [field("id", "long"), field("x", kind)]))


def test_a_named_type_is_used_again(of_avro: World) -> None:
    place = {"type": "record", "name": "place", "fields": [field("x", "int")]}
    rows = [{"here": {"x": 1}, "there": {"x": 2}, "all": [{"x": 3}]}]
    fields = [field("here", place), field("there", "place"), field("all", {"type": "array", "items": "a.b.place"})]

    load(of_avro, as_avro(rows, fields))

    assert columns_of(of_avro, 'here, there, "all"') == [({"x": 1}, {"x": 2}, [{"x": 3}])]


def test_without_the_extension_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    landed_avro._engine.cache_clear()
    monkeypatch.setattr("lake_assets.duckdb_engine._wheel_file", lambda _name: None)
    monkeypatch.setattr("lake_assets.duckdb_engine._installed_file", lambda _connection, _name: None)
    monkeypatch.setattr("lake_assets.duckdb_engine._REPOSITORY", " FROM '/nowhere'")

    with pytest.raises(MissingExtraError, match=r"\.\[avro\]"):
        landed_avro._engine()


def test_declared_and_added_columns_are_those_of_parquet(local_world: World, form: str) -> None:
    columns: dict[str, dict[str, Any]] = {"number": {"type": "INTEGER", "from": "id"}, "total": {"omit": True}}
    local_world.options |= {"columns": columns, "file_columns": {"place": "row_number"}}

    with pytest.raises(SchemaError, match="'number'"):
        load(local_world, body(form, 7, 8))  # INTEGER does not hold what BIGINT does
    columns["number"]["type"] = "BIGINT"
    local_world.ingest(NW)

    assert columns_of(local_world, "number, place") == [(7, 1), (8, 2)]


def test_rows_may_have_no_column_of_the_object(local_world: World, form: str) -> None:
    local_world.options |= {
        "columns": {"id": {"omit": True}, "total": {"omit": True}},
        "file_columns": {"place": "row_number"},
    }

    load(local_world, body(form, 7, 8))

    assert columns_of(local_world, "place") == [(1,), (2,)]
