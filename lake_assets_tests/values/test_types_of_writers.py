"""Each type that DuckDB, Arrow, polars and Spark write is in the lake as DuckDB reads it, or is refused by column.

The columns for Arrow's types are in `lake/schema/test_types.py`, their values in `test_values.py` and `differential/`.
"""

import datetime as dt
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import LakeAssetsError, SchemaError
from lake_assets_tests.faults.without_spark import sessions  # noqa: F401 - a fixture
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS: dict[str, dict[str, Any]] = {
    "encoded": {},
    "copied": {"copy": "always"},
    "indexed": {"mode": "index"},
    "evolved": {"schema_policy": "evolve"},
    "encrypted": {},
}

# Of DuckDB: what it writes and reads again as the same type, or as another one.
KEPT = [
    "true", "1::TINYINT", "1::SMALLINT", "1::INTEGER", "1::BIGINT", "1::UTINYINT", "1::USMALLINT", "1::UINTEGER",
    "18446744073709551615::UBIGINT", "1::HUGEINT", "1::UHUGEINT", "'12345678901234567890123'::BIGNUM", "1.5::FLOAT",
    "1.1::DOUBLE", "1.5::DECIMAL(4,1)", "1.5::DECIMAL(9,1)", "1.5::DECIMAL(18,1)", "1.5::DECIMAL(38,1)", "'ü'",
    "'\\xAA'::BLOB", "'101'::BIT", "'a'::ENUM('a', 'b')", "'{}'::JSON", "'12345678-1234-5678-1234-567812345678'::UUID",
    "DATE '2026-02-11'", "TIME '12:30:00.000001'", "'12:30:00.123456789'::TIME_NS", "TIMESTAMP '2026-02-11 12:30'",
    "'2026-02-11 12:30'::TIMESTAMP_S", "'2026-02-11 12:30'::TIMESTAMP_MS",
    "'2026-02-11 12:30:00.000000001'::TIMESTAMP_NS",
    "'2026-02-11 12:30:00+02'::TIMESTAMPTZ", "[1, NULL]", "[1, 2]::INTEGER[2]", "{'a': 1, 'b c': {'d': 'x'}}",
    "map {'k': 1}", "[map {'k': [{'a': 1.5::DECIMAL(4,1)}]}]",
]  # fmt: skip
REFUSED = {
    "INTERVAL": "INTERVAL 1 MONTH",
    "TIMETZ": "'12:00:00+02'::TIMETZ",
    "GEOMETRY": "'POINT(1 2)'::GEOMETRY",
    "VARIANT": "{'a': 1}::VARIANT",
}
NESTED = ["{}", "[{}]", "{{'a': {}}}", "map {{'k': {}}}"]
Write = Callable[[Path], bytes]


def by_duckdb(path: Path, columns: dict[str, str]) -> bytes:
    listed = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    # DuckDB writes an array that is NULL with elements, and Arrow does not read that.
    nulls = ", ".join(text if text.endswith("[2]") else "NULL" for text in columns.values())
    duckdb.sql(f"COPY (SELECT {listed} UNION ALL SELECT {nulls}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    return path.read_bytes()


def by_arrow(columns: dict[str, pa.Array]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def world_of(world: World, way: str) -> World:
    world.options = dict(WAYS[way])
    world.lake_options = {"attach_options": {"encrypted": way == "encrypted"}}
    return world


def ingest(world: World) -> None:
    if world.options.get("mode") != "index":
        world.ingest(NW)
        return
    (done,) = index(world).values()
    if done.error is not None:
        raise done.error


def read(client: duckdb.DuckDBPyConnection, relation: str, names: list[str]) -> list[tuple[Any, ...]]:
    """The type and the texts of each column."""
    client.execute("SET TimeZone = 'UTC'")
    listed = ", ".join(f"array_agg(DISTINCT typeof({name})), array_agg({name}::VARCHAR ORDER BY 1)" for name in names)
    row = client.execute(f"SELECT {listed} FROM {relation}").fetchone()
    assert row is not None
    return list(zip(names, row[::2], row[1::2], strict=True))


def as_in_the_lake(columns: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(name, [kind.replace("JSON", "VARCHAR") for kind in kinds], texts) for name, kinds, texts in columns]


def assert_as_duckdb_reads(world: World, uri: str, names: list[str]) -> None:
    with world.reader() as client:
        found = read(client, "lake.sales", names)
    with duckdb.connect() as client:
        landed = read(client, f"read_parquet('{uri}', hive_partitioning = false)", names)
    assert found == as_in_the_lake(landed)


def refused(world: World, body: bytes, reason: str) -> None:
    world.land(NW, body)
    with pytest.raises(SchemaError, match=reason):
        ingest(world)
    with pytest.raises(LakeAssetsError, match=reason):  # also where a table is known
        ingest(world)


@pytest.mark.parametrize("way", ["encoded", "indexed", "encrypted", *more(["copied", "evolved"])])
def test_types_of_duckdb_are_kept(local_world: World, tmp_path: Path, way: str) -> None:
    world = world_of(local_world, way)
    columns = {f"c{number}": expression for number, expression in enumerate(KEPT)}
    columns |= {f"n{number}": f"[{{'a': {expression}}}]" for number, expression in enumerate(KEPT)}
    left_out = [name for name, text in columns.items() if "JSON" in text] if way == "indexed" else []
    columns = {name: text for name, text in columns.items() if name not in left_out}
    uri = world.land(NW, by_duckdb(tmp_path / "a.parquet", columns))

    ingest(world)

    assert_as_duckdb_reads(world, uri, list(columns))


def geometry(version: str) -> Write:
    def write(path: Path) -> bytes:
        point = "SELECT 'POINT(1 2)'::GEOMETRY AS x"
        duckdb.sql(f"COPY ({point}) TO '{path}' (FORMAT parquet, GEOPARQUET_VERSION '{version}')")
        return path.read_bytes()

    return write


def of_duckdb(value: str) -> Write:
    return lambda path: by_duckdb(path, {"id": "1", "x": value})


def of_arrow(array: pa.Array) -> Write:
    return lambda _: by_arrow({"x": array})


def of_polars(value: Any, kind: Any) -> Write:
    def write(path: Path) -> bytes:
        pl.DataFrame([pl.Series("id", [1]), pl.Series("x", [value], dtype=kind)]).write_parquet(path)
        return path.read_bytes()

    return write


OPAQUE = pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "TYPE", "V"), pa.array([1], pa.int32()))
NO_NAME = "has in its column 'x' .*a field of the name '', which SQL cannot have"
WIDE = "column 'x' has the type 128-bit integer"
# A file with a column of a type that no lake holds, and the reason of the refusal.
CONTRADICTIONS: dict[str, tuple[Write, str]] = {
    **{
        f"{name} {number}": (
            of_duckdb(nesting.format(value)),
            f"column 'x' has the type {name}, which DuckLake cannot hold" if name != "UNION" else NO_NAME,
        )
        for name, value in (REFUSED | {"UNION": "union_value(a := 1)"}).items()
        for number, nesting in enumerate(NESTED[:1] if name == "VARIANT" else NESTED)  # DuckDB nests no VARIANT
    },
    **{
        f"geometry {version}": (geometry(version), "column 'x' has the type GEOMETRY")
        for version in ("V2", "NONE", "V1", "BOTH")
    },
    "duration": (of_arrow(pa.array([1], pa.duration("us"))), r"column 'x' has the type duration\[us\]"),
    "decimal256": (of_arrow(pa.array([1], pa.decimal256(50, 0))), r"column 'x' has the type decimal256\(50, 0\)"),
    "opaque": (of_arrow(OPAQUE), "column 'x' has the type TYPE"),
    "durations": (of_arrow(pa.array([[1]], pa.list_view(pa.duration("s")))), r"column 'x' has the type duration\["),
    "Int128": (of_polars(1, pl.Int128), WIDE),
    "list of Int128": (of_polars([1], pl.List(pl.Int128)), WIDE),
    "struct of UInt128": (of_polars({"a": 1}, pl.Struct({"a": pl.UInt128})), WIDE),
}
OF_EACH_WRITER = ("VARIANT 0", "duration", "list of Int128")


@pytest.mark.parametrize(
    ("way", "name"),
    # Every way reads a file's types by one function: all types are tried by one of the ways.
    [
        *(("encoded", name) for name in OF_EACH_WRITER),
        *more(("encoded", name) for name in CONTRADICTIONS if name not in OF_EACH_WRITER),
        *more((way, name) for way in WAYS if way != "encoded" for name in OF_EACH_WRITER),
    ],
)
def test_types_that_no_lake_holds_are_refused_by_column(
    local_world: World, tmp_path: Path, name: str, way: str
) -> None:
    write, reason = CONTRADICTIONS[name]

    refused(world_of(local_world, way), write(tmp_path / "a.parquet"), reason)


def test_a_type_that_no_lake_holds_does_not_fit_the_column_that_an_earlier_version_made(
    local_world: World, tmp_path: Path
) -> None:
    local_world.land(NW, pa.table({"x": [b"123456789012"], "l": [[b"1"]]}))
    local_world.ingest(NW)
    columns = {"x": "INTERVAL 1 DAY", "l": "['POINT(1 2)'::GEOMETRY]"}
    local_world.land(NW, by_duckdb(tmp_path / "a.parquet", columns))

    with pytest.raises(SchemaError, match=r"column 'x' of the object .* is INTERVAL, and the table's is binary"):
        local_world.ingest(NW)
    local_world.land(NW, by_duckdb(tmp_path / "b.parquet", {"x": "'a'::BLOB", "l": columns["l"]}))
    with pytest.raises(SchemaError, match=r"field 'l.element' of the object .* is GEOMETRY, and the table's is binary"):
        local_world.ingest(NW)


def test_a_column_that_the_table_lacks_is_left_out_whatever_its_type(local_world: World, tmp_path: Path) -> None:
    local_world.options = {"schema_policy": "ignore_extra"}
    local_world.land(NW, pa.table({"s": [{"a": 1}]}))
    local_world.ingest(NW)
    columns = {"s": "{'a': 2::BIGINT, 'b': '12:00:00+02'::TIMETZ}"} | {f"x_{name}": REFUSED[name] for name in REFUSED}
    local_world.land(NW, by_duckdb(tmp_path / "a.parquet", columns), "a.parquet")

    local_world.ingest(NW)

    assert local_world.query("SELECT s FROM lake.sales ORDER BY ALL") == [({"a": 1},), ({"a": 2},), (None,)]


def test_other_columns_of_a_file_that_arrow_does_not_open_are_read(local_world: World, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [7, 8], "name": ["a", None], "sold": [dt.datetime(2026, 2, 11, tzinfo=dt.UTC)] * 2})
    wide = pl.Series("x", [1, None], dtype=pl.Int128)
    frame.with_columns(wide, wide.alias("y.z")).write_parquet(tmp_path / "a.parquet")
    local_world.options = {"columns": {"x": {"omit": True}, "y.z": {"omit": True}}}
    local_world.land(NW, (tmp_path / "a.parquet").read_bytes())

    local_world.ingest(NW)

    rows = local_world.query("SELECT id, name FROM lake.sales ORDER BY id")
    assert rows == [(7, "a"), (8, None)]
    assert local_world.query("SELECT DISTINCT typeof(sold) FROM lake.sales") == [("TIMESTAMP WITH TIME ZONE",)]


TIMES = {"us": pa.time64("us"), "ns": pa.time64("ns"), "ms": pa.time32("ms")}


@pytest.mark.parametrize(
    ("way", "nested", "unit", "days"),
    [
        ("encoded", False, "us", -1),
        ("indexed", False, "us", 1),
        *more(("encoded", False, unit, days) for unit in TIMES for days in (-1, 1) if (unit, days) != ("us", -1)),
        *more(("encoded", True, "us", days) for days in (-1, 1)),
        *more([("indexed", True, "us", 1)]),
        *more((way, False, "us", 1) for way in WAYS if way not in {"encoded", "indexed"}),
    ],
)
def test_a_time_of_another_day_is_a_bad_value(
    local_world: World, days: int, unit: str, way: str, *, nested: bool
) -> None:
    """In files with statistics, and without: DuckDB reads it in none."""
    world = world_of(local_world, way)
    per_day = 86_400 * {"us": 10**6, "ns": 10**9, "ms": 10**3}[unit]
    stored = pa.array([0, days * per_day, None], pa.int32() if unit == "ms" else pa.int64()).view(TIMES[unit])
    column = pa.ListArray.from_arrays([0, 1, 2, 3], stored) if nested else stored
    world.land(NW, pa.table({"id": [1, 2, 3], "x": column}), write_statistics=days == 1)

    with pytest.raises(SchemaError, match=r"column 'x' of the object .* has a time of day before 00:00 or of 24 hours"):
        ingest(world)
    if way == "encoded":
        world.options["on_bad_row"] = "dead_letter"
        ingest(world)
        assert world.query("SELECT id FROM lake.sales ORDER BY id") == [(1,), (3,)]


@pytest.mark.parametrize(
    ("way", "nested"), [("encoded", True), ("indexed", False), ("copied", False), *more([("encoded", False)])]
)
def test_a_map_with_a_key_twice_is_a_bad_value(local_world: World, way: str, *, nested: bool) -> None:
    """DuckDB commits it, and then shows no row that has it."""
    world = world_of(local_world, way)
    maps = pa.array([[("a", 1), ("b", 1)], [("a", 1), ("a", 2)], None, [("a", 3)]], pa.map_(pa.string(), pa.int64()))
    column = pa.ListArray.from_arrays([0, 1, 2, 3, 4], maps) if nested else maps
    world.land(NW, pa.table({"id": [1, 2, 3, 4], "x": column}))

    with pytest.raises(SchemaError, match=r"column 'x' of the object .* has a map with a key twice"):
        ingest(world)
    if way != "indexed":
        world.options["on_bad_row"] = "dead_letter"
        ingest(world)
        assert world.query("SELECT id FROM lake.sales ORDER BY id") == [(1,), (3,), (4,)]


@pytest.mark.parametrize("way", ["encoded", "indexed", "copied"])
def test_a_type_of_pandas_is_what_it_is_stored_as(local_world: World, way: str) -> None:
    """Also in a process that knows the type, as this one does once pandas has written it."""
    world, body = world_of(local_world, way), io.BytesIO()
    intervals = pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2)])
    pd.DataFrame({"p": pd.period_range("1970-02", periods=2, freq="M"), "i": intervals}).to_parquet(body)
    world.land(NW, body.getvalue())

    ingest(world)

    expected = [(1, {"left": 0, "right": 1}), (2, {"left": 1, "right": 2})]
    assert world.query("SELECT p, i FROM lake.sales ORDER BY p") == expected


TRANSFORM = {"sql": "SELECT * EXCEPT (region, date) FROM source"}
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"1" * 16], pa.binary(16)))
NOT_OF_SPARK: dict[str, Write] = {
    "uuid": of_arrow(UUIDS),
    "INTERVAL": of_duckdb(f"[{REFUSED['INTERVAL']}]"),
    "uint64": of_arrow(pa.array([1], pa.uint64())),
    "TIMETZ": of_duckdb(REFUSED["TIMETZ"]),
    "GEOMETRY": of_duckdb(f"[{REFUSED['GEOMETRY']}]"),
    "VARIANT": of_duckdb(REFUSED["VARIANT"]),
}


@pytest.mark.parametrize("name", [*list(NOT_OF_SPARK)[:2], *more(list(NOT_OF_SPARK)[2:])])
def test_a_transform_refuses_a_type_that_spark_lacks_by_column(local_world: World, tmp_path: Path, name: str) -> None:
    local_world.options = {"transform": TRANSFORM}
    of_type = "" if name in ("uuid", "uint64") else f".*{name}"

    body = NOT_OF_SPARK[name](tmp_path / "a.parquet")

    refused(local_world, body, f"column 'x' has the type {of_type}.* which Spark cannot read")


POINT = "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040')"
RESULTS = {
    "parse_json('{}')": "VARIANT",
    "array(named_struct('v', parse_json('{}')))": "VARIANT",
    f"array({POINT})": "GEOMETRY",
    POINT.replace("Geom", "Geog"): "GEOGRAPHY",
    "INTERVAL '1' DAY": "duration",
    "INTERVAL '1' YEAR": "YearMonthInterval",
    "make_interval(1)": "CalendarInterval",
}


@pytest.mark.parametrize("result", [*list(RESULTS)[:2], *more(list(RESULTS)[2:])])
def test_a_result_of_a_type_that_no_lake_holds_is_refused(local_world: World, result: str) -> None:
    local_world.land(NW, pa.table({"id": [1]}))
    local_world.options = {"transform": {"sql": f"SELECT id, {result} AS x FROM source"}}

    with pytest.raises(LakeAssetsError, match=rf"column 'x' .*{RESULTS[result]}"):
        local_world.ingest(NW)


VARIANT = "parse_json('{\"a\": 1}')"


@pytest.mark.parametrize(
    ("value", "name", "nesting"),
    [
        (VARIANT, "VARIANT", "array({})"),
        ("INTERVAL '3' DAY", None, "{}"),
        *more([(VARIANT, "VARIANT", "named_struct('a', {})"), (POINT, "GEOMETRY", "array({})")]),
        *more([("INTERVAL '3' DAY", None, "map('k', {})")]),
    ],
)
def test_files_of_spark(
    local_world: World, spark: "SparkSession", tmp_path: Path, value: str, name: str | None, nesting: str
) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {nesting.format(value)} AS x")
    frame.coalesce(1).write.parquet(f"{tmp_path}/spark")
    (file,) = Path(tmp_path, "spark").glob("*.parquet")

    if name is not None:
        refused(local_world, file.read_bytes(), f"column 'x' has the type {name}, which DuckLake cannot hold")
        return
    uri = local_world.land(NW, file.read_bytes())
    local_world.ingest(NW)
    assert_as_duckdb_reads(local_world, uri, ["id", "x"])
