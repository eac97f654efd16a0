"""`min`, `max`, counts and conditions are those of the landed rows: each type, by writer, strategy and mode.

DuckDB answers them from the catalog's bounds where it can, so each is a statement that it may answer alone.
"""

import datetime as dt
import decimal
import io
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dev.plain_client import plain_client
from lake_assets.errors import SchemaError
from lake_assets.lake.commit.strategy import REGISTER_STRATEGIES, STRATEGIES
from lake_assets_tests.faults.without_spark import sessions  # noqa: F401
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.values.columns import leaf
from lake_assets_tests.values.readers import constant
from lake_assets_tests.world import World

NULLS = "n=__HIVE_DEFAULT_PARTITION__,day=2026-01-05"
PARTITIONS = {"n": {"type": "integer"}, "day": {"type": "date", "start": "2026-01-01"}}

TYPES: dict[str, pa.DataType] = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64(),
    "f32": pa.float32(), "f64": pa.float64(), "flag": pa.bool_(), "text": pa.string(), "long": pa.string(),
    "bytes": pa.binary(), "id": pa.uuid(), "small": pa.decimal128(7, 2), "wide": pa.decimal128(38, 3),
    "date": pa.date32(), "clock": pa.time64("us"), "local": pa.timestamp("us"), "nanos": pa.timestamp("ns"),
    "instant": pa.timestamp("us", "UTC"), "part": pa.struct([("x", pa.int32()), ("at", pa.timestamp("us"))]),
    "many": pa.list_(pa.int32()), "map": pa.map_(pa.string(), pa.date32()),
}  # fmt: skip


def row(n: int) -> dict[str, Any]:
    """A row of every type; greater numbers have greater values, and 100 comes after 20."""
    moment = dt.datetime(2026, 1, 1, 12, 0, 0, n) + dt.timedelta(days=n)  # noqa: DTZ001 - without a zone
    return {
        "i8": n, "i16": n, "i32": -n, "i64": n * 10**15, "u8": n, "u16": n, "u32": n, "u64": n, "f32": n / 10,
        "f64": n / 10, "flag": n > 50, "text": f"ü{n:03}", "long": "x" * 5000 + str(n), "bytes": bytes([n, 0, 39, 255]),
        "id": uuid.UUID(int=n << 121).bytes, "small": decimal.Decimal(n) / 4, "wide": decimal.Decimal(n) ** 10,
        "date": moment.date(), "clock": dt.time(n % 24, 1, 2, n), "local": moment, "nanos": moment,
        "instant": moment.replace(tzinfo=dt.UTC), "part": {"x": n, "at": moment}, "many": [n, None],
        "map": [(f"k{n}", moment.date())],
    }  # fmt: skip


def table(*numbers: int | None, columns: list[str] | None = None) -> pa.Table:
    schema = pa.schema([(name, TYPES[name]) for name in columns or TYPES])
    nothing = dict.fromkeys(schema.names)
    return pa.Table.from_pylist([nothing if n is None else row(n) for n in numbers], schema)


def by_pyarrow(rows: pa.Table, row_group_size: int = 2, **writer: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_size, **writer)
    return sink.getvalue()


def by_duckdb(rows: pa.Table) -> bytes:
    with duckdb.connect() as engine:
        engine.register("given", rows)
        path = f"/dev/shm/{uuid.uuid4()}.parquet"
        engine.execute(f"COPY given TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
        body = Path(path).read_bytes()
        Path(path).unlink()
    return body


def by_polars(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    polars.DataFrame(rows).write_parquet(sink, row_group_size=2)
    return sink.getvalue()


def by_spark(rows: pa.Table, spark: SparkSession, folder: Path) -> bytes:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # and not INT96
    spark.createDataFrame(rows).coalesce(1).write.parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    return file.read_bytes()


# Each writer, and the columns that it cannot write, or writes as another type.
WRITERS: dict[str, tuple[Callable[[pa.Table], bytes] | None, set[str]]] = {
    "pyarrow": (by_pyarrow, set()),
    "pyarrow without statistics": (partial(by_pyarrow, write_statistics=False), set()),
    "duckdb": (by_duckdb, set()),
    "polars": (by_polars, {"id", "map", "clock"}),
    "spark": (None, {"u8", "u16", "u32", "u64", "id", "nanos", "clock"}),
}
CASES = [
    *itertools.product(["pyarrow"], ["direct", "extension"], ["replace", "append", "copy", "index"]),
    *itertools.product(["pyarrow without statistics"], ["direct", "extension"], ["index"]),
    *itertools.product(["duckdb", "polars", "spark"], ["direct"], ["copy", "index"]),
    ("pyarrow", "insert", "replace"),
]


@contextmanager
def compared(world: World, objects: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A plain client with `memory.main.landed`: the rows of these objects, by URI, with their partition's values."""
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        client.execute("SET TimeZone = 'UTC'; USE memory")
        client.execute("CREATE TABLE memory.main.landed AS FROM lake.sales LIMIT 0")
        for uri, text in objects.items():
            keys = [None if value is None else str(value) for value in world.partition(text).values]
            client.execute(
                "INSERT INTO memory.main.landed BY NAME SELECT *, ?::BIGINT AS n, ?::DATE AS day "
                "FROM read_parquet(?, hive_partitioning = false)",
                [*keys, uri],
            )
        yield client


def fields(client: duckdb.DuckDBPyConnection, relation: str) -> Iterator[tuple[str, str]]:
    """The columns and the fields of structs, each as an expression, with their types."""
    for name, kind, *_ in client.execute(f"DESCRIBE {relation}").fetchall():
        if kind.startswith("STRUCT") and not kind.endswith("]"):
            parts = client.execute(f"DESCRIBE SELECT {name}.* FROM {relation}").fetchall()
            yield from ((f"{name}.{part}", of_part) for part, of_part, *_ in parts)
        else:
            yield name, kind


def differences(client: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """What `lake.sales` answers otherwise than the landed rows."""
    result: list[tuple[object, ...]] = []
    for name, kind in fields(client, "lake.sales"):
        questions = [f"array_agg({name}::VARCHAR ORDER BY 1)", f"count({name})", "count(*)"]
        conditions = [f"{name} IS NULL", f"{name} IS NOT NULL"]
        if not kind.endswith(("]", ")")) or kind.startswith("DEC"):
            questions += [f"min({name})::VARCHAR", f"max({name})::VARCHAR"]
            ends = client.execute(
                f"SELECT {constant(f'min({name})', kind)}, {constant(f'max({name})', kind)} FROM landed"
            )
            for value, sign in itertools.product({*ends.fetchall()[0]} - {None}, ("=", "<=", ">=", "<", ">", "<>")):
                conditions.append(f"{name} {sign} {value}")
        asked = [f"SELECT {question} FROM {{0}}" for question in questions]
        asked += [f"SELECT count(*) FROM {{0}} WHERE {condition}" for condition in conditions]
        sql = f"SELECT {', '.join(f'({one})' for one in asked)}"
        lake, landed = (client.execute(sql.replace("{0}", t)).fetchall()[0] for t in ("lake.sales", "landed"))
        result += [(one, *pair) for one, *pair in zip(asked, lake, landed, strict=True) if pair[0] != pair[1]]
    return result


def ingest(world: World, text: str) -> None:
    if world.options["mode"] == "index":
        for outcome in index(world, text).values():
            if outcome.error is not None:
                raise outcome.error
    else:
        world.ingest(text)


def only(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only this strategy commit; an encrypted lake leaves no other than INSERT."""
    if strategy == "extension":
        monkeypatch.setattr("lake_assets.lake.commit.strategy.STRATEGIES", STRATEGIES[1:])
        monkeypatch.setattr("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", REGISTER_STRATEGIES[1:])


def way_of(world: World, monkeypatch: pytest.MonkeyPatch, strategy: str, mode: str) -> World:
    only(strategy, monkeypatch)
    if strategy == "insert":
        world.lake_options = {"attach_options": {"encrypted": True}}
    modes = {"mode": "replace", "copy": "always"} if mode == "copy" else {"mode": mode}
    world.options = {"partitions": PARTITIONS} | modes
    return world


@pytest.mark.long
@pytest.mark.parametrize(("writer", "strategy", "mode"), CASES, ids=map("-".join, CASES))
def test_answers_are_those_of_the_landed_rows(
    local_world: World, request: pytest.FixtureRequest, tmp_path: Path, writer: str, strategy: str, mode: str
) -> None:
    world = way_of(local_world, request.getfixturevalue("monkeypatch"), strategy, mode)
    write, missing = WRITERS[writer]
    columns = [name for name in TYPES if name not in missing]
    objects: dict[str, str] = {}

    def land(text: str, *numbers: int | None) -> None:
        rows = table(*numbers, columns=columns)
        folder = tmp_path / f"spark-{len(objects)}"
        body = write(rows) if write else by_spark(rows, request.getfixturevalue("spark"), folder)
        objects[world.land(text, body, f"{len(objects)}.parquet")] = text
        ingest(world, text)

    land(NULLS, None, None)
    with compared(world, objects) as client:
        assert differences(client) == []
    land("n=7,day=2026-01-07", None, None, 20, 10)
    land("n=5,day=2026-01-09", 5, 100, None)
    if mode in ("append", "index"):
        land("n=7,day=2026-01-07", 3, None, None, None, 101)
    land("n=5,day=2026-01-01", None)
    with compared(world, objects) as client:
        assert differences(client) == []
        client.register("given", table(30, columns=columns))
        for target in ("lake.sales", "landed"):
            client.execute(f"INSERT INTO {target} BY NAME SELECT *, 6 AS n, DATE '2026-01-06' AS day FROM given")
        assert differences(client) == []


# The ends of each type, as they are stored: those that DuckDB holds, and the values next to them that it does not.
DAYS, MICROS = 2**31 - 1, 2**63 - 1  # which are infinity
FIRST = {"us": -9_223_372_022_400_000_000, "ns": -9_223_286_400_000_000_000}
EXTREMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-(2**7), 2**7 - 1]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "u64": (pa.uint64(), [0, 2**64 - 1]),
    "date": (pa.date32(), [-DAYS + 1, DAYS - 1]),
    "ever": (pa.date32(), [-DAYS, DAYS]),
    "local": (pa.timestamp("us"), [FIRST["us"], MICROS - 1]),
    "always": (pa.timestamp("us"), [-MICROS, MICROS]),
    "millis": (pa.timestamp("ms"), [FIRST["us"] // 1000, MICROS // 1000]),
    "nanos": (pa.timestamp("ns"), [FIRST["ns"], MICROS - 1]),
    "instant": (pa.timestamp("us", "UTC"), [FIRST["us"], MICROS - 1]),
    "forever": (pa.timestamp("us", "UTC"), [-MICROS, MICROS]),
    "clock": (pa.time64("us"), [0, 86_400 * 10**6 - 1]),
    "small": (pa.decimal128(4, 2), [decimal.Decimal("-99.99"), decimal.Decimal("99.99")]),
    "wide": (pa.decimal128(38, 0), [decimal.Decimal(sign * (10**38 - 1)) for sign in (-1, 1)]),
    "deep": (pa.decimal128(38, 38), [decimal.Decimal((sign, (9,) * 38, -38)) for sign in (1, 0)]),
    "id": (pa.uuid(), [b"\0" * 16, b"\xff" * 16]),
    "text": (pa.string(), ["", "\\'\"\U0010ffff"]),
    "bool8": (pa.bool8(), [-128, 127]),
    "bytes": (pa.binary(), [b"\x00\x5c'\"", b"\xff\\x00"]),
    "slash": (pa.binary(), [b"\\", b"\\\x00"]),
    # The extension compares these as texts when they are in two row groups.
    "year": (pa.timestamp("us"), [MICROS // 200, MICROS // 15]),
    "age": (pa.date32(), [-800_000, 20_000]),
    "byte": (pa.binary(), [b"\x01", b"A"]),
    "f32": (pa.float32(), [-3.4028234663852886e38, 3.4028234663852886e38]),
    "f64": (pa.float64(), [float("-inf"), float("inf")]),
}
# Arrow's own statistics leave it out, so files that are read as they are do not have it.
NAN = {f"nan{width}": (data_type, [1.1, float("nan")]) for width, data_type in ((32, pa.float32()), (64, pa.float64()))}
NOT_HELD: dict[str, tuple[pa.DataType, int]] = {
    "date": (pa.date32(), -(2**31)),
    "local": (pa.timestamp("us"), FIRST["us"] - 1),
    "before": (pa.timestamp("us"), -(2**63)),
    "instant": (pa.timestamp("us", "UTC"), FIRST["us"] - 1),
    "millis": (pa.timestamp("ms"), MICROS // 1000 + 1),
    "nanos": (pa.timestamp("ns"), FIRST["ns"] - 1),
    "clock": (pa.time64("us"), 86_400 * 10**6),
}
INFINITE = {"local": -(2**63) + 1, "instant": -(2**63) + 1, "millis": 2**63 - 1}  # statistics have it as the bound
WAYS = [*itertools.product(["direct", "extension"], ["replace", "copy", "index"]), ("insert", "replace")]


def extremes(part: slice, more: Mapping[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """A column of each type with a part of its two ends and NULL; some are in a list, a struct and a map too."""
    arrays = {name: leaf(kind, [*values[part], None]) for name, (kind, values) in {**EXTREMES, **more}.items()}
    rows = len(arrays["i8"])
    for name in ("local", "bool8", "instant", "forever", "date", "bytes", "f64", *more):
        arrays[f"{name}_list"] = pa.ListArray.from_arrays(range(rows + 1), arrays[name])
        arrays[f"{name}_struct"] = pa.StructArray.from_arrays([arrays[name]], ["value"])
        keys = pa.array([f"k{n}" for n in range(rows)])
        arrays[f"{name}_map"] = pa.MapArray.from_arrays(range(rows + 1), keys, arrays[name])
    return pa.table(arrays)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("strategy", "mode"), WAYS, ids=map("-".join, WAYS))
def test_answers_about_the_ends_of_types(
    local_world: World, monkeypatch: pytest.MonkeyPatch, strategy: str, mode: str
) -> None:
    world = way_of(local_world, monkeypatch, strategy, mode)
    objects = {}
    for day, part in enumerate((slice(0, 1), slice(1, 2), slice(0, 2)), 5):
        rows = extremes(part, {} if mode in ("copy", "index") else NAN)
        text = f"n=5,day=2026-01-0{day}"
        objects[world.land(text, by_pyarrow(rows, row_group_size=1))] = text
        ingest(world, text)

    with compared(world, objects) as client:
        assert differences(client) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(("strategy", "mode"), WAYS, ids=map("-".join, WAYS))
def test_a_value_beyond_the_ends_of_a_type_is_refused_by_column(
    local_world: World, monkeypatch: pytest.MonkeyPatch, strategy: str, mode: str
) -> None:
    world = way_of(local_world, monkeypatch, strategy, mode)
    for number, (name, (kind, value)) in enumerate(NOT_HELD.items()):
        for nested, written in itertools.product((False, True), (True, False)):
            array = leaf(kind, [value, 0, INFINITE.get(name)])
            column = pa.ListArray.from_arrays([0, 1, 2, 3], array) if nested else array
            text = f"n={number},day=2026-01-05"
            world.land(text, by_pyarrow(pa.table({"i": [1, 2, 3], name: column}), 3, write_statistics=written))

            with pytest.raises(SchemaError, match=f"column '{name}.*' of the object .* has a "):
                ingest(world, text)
