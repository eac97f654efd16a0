"""`format: orc` and `format: avro`: landed objects become a table as landed Parquet does, in their types."""

import datetime as dt
import io
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from lake_assets.config.models import LakeConfig
from lake_assets.duckdb_engine import identifier
from lake_assets.errors import MissingExtraError, SchemaError, SourceError
from lake_assets.parquet import landed_avro
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.world import NW, SW, World, plan

UTC = dt.UTC
MOMENT = dt.datetime(2026, 2, 11, 8, 0, 0, 123456, tzinfo=UTC)


def avro(rows: list[Any], fields: list[Any], codec: str = "null") -> bytes:
    """A file of these rows, by fastavro's writer."""
    file = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "row", "namespace": "a.b", "fields": fields})
    fastavro.writer(file, schema, rows, codec=codec)
    return file.getvalue()


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


SIMPLE = [field("id", "long"), field("total", ["null", "double"])]


def simple(*ids: int) -> bytes:
    """Rows with these numbers in Avro."""
    return avro([{"id": number, "total": number / 2} for number in ids], SIMPLE)


def as_orc(table: pa.Table, **options: Any) -> bytes:
    """A file of these rows, by Arrow's writer."""
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    return file.getvalue()


def small(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "total": pa.array([number / 2 for number in ids])})


def types(world: World) -> dict[str, str]:
    """The types of the table's columns, as DuckDB names them."""
    described = world.query("DESCRIBE lake.sales")
    return {name: kind for name, kind, *_ in described if name not in {"region", "date"}}


@pytest.fixture(params=["orc", "avro"])
def landed(request: pytest.FixtureRequest, local_world: World) -> World:
    """A world of each format."""
    local_world.options = {"format": request.param}
    return local_world


@pytest.fixture
def of_avro(local_world: World) -> World:
    local_world.options = {"format": "avro"}
    return local_world


@pytest.fixture
def of_orc(local_world: World) -> World:
    local_world.options = {"format": "orc"}
    return local_world


def body(world: World, *ids: int) -> bytes:
    """Rows with these numbers, in the world's format."""
    return simple(*ids) if world.options["format"] == "avro" else as_orc(small(*ids))


def name(world: World, stem: str) -> str:
    return f"{stem}.{world.options['format']}"


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


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_has_its_types_and_values_in_each_codec(of_avro: World, codec: str) -> None:
    fields = [field(name, ["null", kind]) for name, (kind, _, _) in AVRO_TYPES.items()]
    rows = [
        {"row": row, **{n: (values[row] if row < len(values) else None) for n, (_, _, values) in AVRO_TYPES.items()}}
        for row in range(5)
    ]
    of_avro.land(NW, avro(rows, [field("row", "int"), *fields], codec), "a.avro")

    of_avro.ingest(NW)

    assert types(of_avro) == {"row": "INTEGER", **{name: sql for name, (_, sql, _) in AVRO_TYPES.items()}}
    columns = ["row", *AVRO_TYPES]
    stored = of_avro.query(f"SELECT {', '.join(map(identifier, columns))} FROM lake.sales ORDER BY row")
    assert [dict(zip(columns, row, strict=True)) for row in stored] == rows


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd", "lz4"])
def test_orc_has_its_types_and_values_in_each_codec(of_orc: World, codec: str) -> None:
    moment = MOMENT.replace(tzinfo=None)
    columns: dict[str, tuple[pa.DataType, str, list[Any]]] = {
        "flag": (pa.bool_(), "BOOLEAN", [True, None]),
        "tiny": (pa.int8(), "TINYINT", [-128, 127]),
        "wide": (pa.int64(), "BIGINT", [2**63 - 1, None]),
        "ratio": (pa.float64(), "DOUBLE", [0.1, None]),
        "note": (pa.string(), "VARCHAR", ["Zürich", ""]),
        "raw": (pa.binary(), "BLOB", [b"\x00\xff", None]),
        "day": (pa.date32(), "DATE", [dt.date(2026, 2, 11), dt.date(1, 1, 1)]),
        "sold": (pa.timestamp("us"), "TIMESTAMP", [moment, dt.datetime.fromisoformat("1700-01-01")]),
        "seen": (pa.timestamp("us", "UTC"), "TIMESTAMP WITH TIME ZONE", [MOMENT, None]),
        "price": (pa.decimal128(20, 2), "DECIMAL(20,2)", [Decimal("-1.25"), None]),
        "tags": (pa.list_(pa.timestamp("us")), "TIMESTAMP[]", [[moment, None], []]),
        "place": (
            pa.struct({"x": pa.int32(), "a.b": pa.string()}),
            'STRUCT(x INTEGER, "a.b" VARCHAR)',
            [{"x": 1, "a.b": "c"}, None],
        ),
        "counts": (pa.map_(pa.string(), pa.int32()), "MAP(VARCHAR, INTEGER)", [{"a": 1}, {}]),
    }
    arrays = [
        pa.array([list(v.items()) for v in values] if pa.types.is_map(kind) else values, kind)
        for kind, _, values in columns.values()
    ]
    of_orc.land(NW, as_orc(pa.table(arrays, names=list(columns)), compression=codec), "a.orc")

    of_orc.ingest(NW)

    assert types(of_orc) == {name: sql for name, (_, sql, _) in columns.items()}
    stored = of_orc.query(f"SELECT {', '.join(columns)} FROM lake.sales ORDER BY tiny")
    assert stored == list(zip(*(values for _, _, values in columns.values()), strict=True))


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
    assert of_orc.query("SELECT epoch_ns(sold) FROM lake.sales") == [(1_001,)]


def test_objects_are_replaced_appended_and_counted(landed: World) -> None:
    landed.land(NW, body(landed, 1, 2), name(landed, "a"))
    landed.land(SW, body(landed, 3), name(landed, "b"))
    assert [landed.ingest(of).row.row_count for of in (NW, SW)] == [2, 1]
    assert landed.ingest(NW).row.status == "skipped"
    landed.land(NW, body(landed, 9), name(landed, "a"))
    landed.ingest(NW)
    assert landed.query("SELECT id, total FROM lake.sales ORDER BY id") == [(3, 1.5), (9, 4.5)]

    landed.options |= {"mode": "append"}
    landed.land(SW, body(landed, 4), name(landed, "c"))
    landed.ingest(SW)
    assert landed.query("SELECT id FROM lake.sales ORDER BY id") == [(3,), (4,), (9,)]


def test_plan_tells_the_rows_of_orc_and_columns_that_are_refused(landed: World) -> None:
    landed.land(NW, body(landed, 1, 2), name(landed, "a"))
    rows = "the objects have to be read for it" if landed.options["format"] == "avro" else 2
    assert plan(landed.stream, landed.partition(NW)).rows_after == rows
    landed.ingest(NW)
    other = as_orc(pa.table({"id": [1], "tax": [1.0]}))
    other = (
        other
        if landed.options["format"] == "orc"
        else avro([{"id": 1, "tax": 1.0}], [SIMPLE[0], field("tax", "double")])
    )
    landed.land(NW, other, name(landed, "a"))

    assert "it lacks 'total' and it has 'tax'" in plan(landed.stream, landed.partition(NW)).decision.why
    with pytest.raises(SchemaError, match="it lacks 'total' and it has 'tax'"):
        landed.ingest(NW)
    landed.options |= {"schema_policy": "evolve"}
    landed.ingest(NW)
    assert landed.query("SELECT id, total, tax FROM lake.sales") == [(1, None, 1.0)]


def test_ignore_extra_leaves_out_a_new_column(of_avro: World) -> None:
    of_avro.options |= {"schema_policy": "ignore_extra"}
    of_avro.land(NW, simple(1), "a.avro")
    of_avro.ingest(NW)
    of_avro.land(NW, avro([{"new": "x", "id": 2, "total": None}], [field("new", "string"), *SIMPLE]), "a.avro")
    of_avro.ingest(NW)
    assert of_avro.query("SELECT id, total FROM lake.sales") == [(2, None)]


def test_dead_letters_have_the_number_of_the_row(landed: World) -> None:
    landed.options |= {"on_bad_row": "dead_letter"}
    narrow = as_orc(pa.table({"id": pa.array([0], pa.int32()), "total": [0.0]}))
    if landed.options["format"] == "avro":
        narrow = avro([{"id": 0, "total": 0.0}], [field("id", "int"), SIMPLE[1]])
    landed.land(NW, narrow, name(landed, "a"))
    landed.ingest(NW)
    landed.land(NW, body(landed, 1, 2**40, 3), name(landed, "b"))

    assert landed.ingest(NW).row.rows_dead_lettered == 1

    (letter,) = letters(landed)
    assert (letter["_row"], letter["id"]) == (1, 2**40)
    assert landed.query("SELECT id FROM lake.sales ORDER BY id") == [(0,), (1,), (3,)]


def broken(good: bytes, how: str) -> bytes:
    """A file that is damaged in some way."""
    if how == "truncated":
        return good[:-20]
    if how == "another magic":
        return b"PAR1" + good[4:-4] + b"PAR1"
    return good[:-16] + b"x" * 16  # Avro's last marker; the end of ORC


@pytest.mark.parametrize("how", ["truncated", "another magic", "another end"])
def test_a_damaged_object_is_one_error_that_names_it_and_quarantine_leaves_it_out(landed: World, how: str) -> None:
    bad = name(landed, "bad")
    landed.land(NW, body(landed, 1), name(landed, "a"))
    landed.land(NW, broken(body(landed, 2), how), bad)

    title = landed.options["format"].upper() if landed.options["format"] == "orc" else "Avro"
    with pytest.raises(SourceError, match=rf"{bad} cannot be read as {title}: "):
        landed.ingest(NW)
    landed.options |= {"on_bad_object": "quarantine"}
    assert landed.ingest(NW).row.files_quarantined == 1
    assert landed.query("SELECT id FROM lake.sales") == [(1,)]


def test_a_damaged_record_is_an_error_and_not_fewer_rows(of_avro: World) -> None:
    good = avro([{"id": 1, "note": "abcd"}, {"id": 2, "note": "efgh"}], [field("id", "long"), field("note", "string")])
    of_avro.land(NW, good.replace(b"\x08abcd", b"\x7eabcd"), "a.avro")  # a text that is longer than its block

    with pytest.raises(SourceError, match=r"a\.avro cannot be read as Avro: a record is damaged: 0 of 2 rows"):
        of_avro.ingest(NW)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["null", "int", "string"], "column 'x' of the object .*a.avro is a union of int32 and string"),
        ({"type": "array", "items": ["int", "string"]}, "column 'x' .* is a union of"),
        (
            {"type": "record", "name": "node", "fields": [field("next", ["null", "node"])]},
            r"column 'x' .* has the type a\.b\.node, which is within itself",
        ),
    ],
)
def test_a_type_that_no_column_has_is_refused_by_its_name(of_avro: World, kind: Any, message: str) -> None:
    of_avro.land(NW, avro([], [field("id", "long"), field("x", kind)]), "a.avro")

    with pytest.raises(SchemaError, match=message):
        of_avro.ingest(NW)


def test_a_named_type_is_used_again(of_avro: World) -> None:
    place = {"type": "record", "name": "place", "fields": [field("x", "int")]}
    rows = [{"here": {"x": 1}, "there": {"x": 2}, "all": [{"x": 3}]}]
    fields = [field("here", place), field("there", "place"), field("all", {"type": "array", "items": "a.b.place"})]
    of_avro.land(NW, avro(rows, fields), "a.avro")

    of_avro.ingest(NW)

    assert of_avro.query('SELECT here, there, "all" FROM lake.sales') == [({"x": 1}, {"x": 2}, [{"x": 3}])]


def test_without_the_extension_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    landed_avro._engine.cache_clear()
    monkeypatch.setattr("lake_assets.duckdb_engine._wheel_file", lambda _name: None)
    monkeypatch.setattr("lake_assets.duckdb_engine._installed_file", lambda _connection, _name: None)
    monkeypatch.setattr("lake_assets.duckdb_engine._REPOSITORY", " FROM '/nowhere'")

    with pytest.raises(MissingExtraError, match=r"\.\[avro\]"):
        landed_avro._engine()


def test_auto_knows_both_by_their_names(local_world: World) -> None:
    local_world.options = {"format": "auto"}
    local_world.land(NW, small(1), "a.parquet")
    local_world.land(NW, simple(2), "b.avro")
    local_world.land(NW, as_orc(small(3)), "c.ORC")

    local_world.ingest(NW)

    assert local_world.query("SELECT id, total FROM lake.sales ORDER BY id") == [(1, 0.5), (2, 1.0), (3, 1.5)]


@pytest.mark.parametrize("options", [{"mode": "index"}, {"copy": "always"}])
def test_what_makes_a_landed_file_a_file_of_the_lake_is_refused(landed: World, options: dict[str, Any]) -> None:
    landed.options |= options
    with pytest.raises(ValueError, match=landed.options["format"]):
        LakeConfig.model_validate(landed.document)


def test_declared_and_added_columns_are_those_of_parquet(landed: World) -> None:
    columns: dict[str, dict[str, Any]] = {"number": {"type": "INTEGER", "from": "id"}, "total": {"omit": True}}
    landed.options |= {"columns": columns, "file_columns": {"place": "row_number"}}
    landed.land(NW, body(landed, 7, 8), name(landed, "a"))

    with pytest.raises(SchemaError, match="'number'"):
        landed.ingest(NW)  # INTEGER does not hold what BIGINT does
    columns["number"]["type"] = "BIGINT"
    landed.ingest(NW)

    assert landed.query("SELECT number, place FROM lake.sales ORDER BY number") == [(7, 1), (8, 2)]


def test_rows_may_have_no_column_of_the_object(landed: World) -> None:
    landed.options |= {
        "columns": {"id": {"omit": True}, "total": {"omit": True}},
        "file_columns": {"place": "row_number"},
    }
    landed.land(NW, body(landed, 7, 8), name(landed, "a"))

    landed.ingest(NW)

    assert landed.query("SELECT place FROM lake.sales ORDER BY place") == [(1,), (2,)]
