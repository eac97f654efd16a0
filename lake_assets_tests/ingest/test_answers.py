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
from lake_assets.duckdb_engine import literal
from lake_assets.lake.commit.strategy import REGISTER_STRATEGIES, STRATEGIES
from lake_assets_tests.faults.without_spark import sessions  # noqa: F401
from lake_assets_tests.ingest.index.indexing import index
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


def by_pyarrow(rows: pa.Table, **writer: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=2, **writer)
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


def differences(client: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """What `lake.sales` answers otherwise than the landed rows."""
    types = {name: kind for name, kind, *_ in client.execute("DESCRIBE lake.sales").fetchall()}
    values = {name: kind for name, kind in types.items() if not kind.endswith((")", "[]")) or kind.startswith("DEC")}
    if "part" in types:
        values |= {"part.x": "INTEGER", "part.at": "TIMESTAMP"}
    result: list[tuple[object, ...]] = []
    for name, kind in values.items():
        questions = [f"min({name})::VARCHAR", f"max({name})::VARCHAR", f"count({name})", "count(*)"]
        ends = client.execute(f"SELECT min({name})::VARCHAR, max({name})::VARCHAR FROM landed").fetchall()[0]
        conditions = [f"{name} IS NULL", f"{name} IS NOT NULL"]
        for text, sign in itertools.product({*ends} - {None}, ("=", "<=", ">=")):
            conditions.append(f"{name} {sign} {literal(text)}::{kind}")
        asked = [f"SELECT {question} FROM {{0}}" for question in questions]
        asked += [f"SELECT count(*) FROM {{0}} WHERE {condition}" for condition in conditions]
        sql = f"SELECT {', '.join(f'({one})' for one in asked)}"
        lake, landed = (client.execute(sql.format(t)).fetchall()[0] for t in ("lake.sales", "landed"))
        result += [(one, *pair) for one, *pair in zip(asked, lake, landed, strict=True) if pair[0] != pair[1]]
    return result


def ingest(world: World, text: str) -> None:
    if world.options["mode"] == "index":
        assert not [outcome.error for outcome in index(world, text).values() if outcome.error]
    else:
        world.ingest(text)


def only(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only this strategy commit; an encrypted lake leaves no other than INSERT."""
    if strategy == "extension":
        monkeypatch.setattr("lake_assets.lake.commit.strategy.STRATEGIES", STRATEGIES[1:])
        registering = "lake_assets.lake.commit.strategy.commit_registration.__defaults__"
        monkeypatch.setattr(registering, (REGISTER_STRATEGIES[1:],))


@pytest.mark.long
@pytest.mark.parametrize(("writer", "strategy", "mode"), CASES, ids=map("-".join, CASES))
def test_answers_are_those_of_the_landed_rows(
    local_world: World, request: pytest.FixtureRequest, tmp_path: Path, writer: str, strategy: str, mode: str
) -> None:
    world = local_world
    only(strategy, request.getfixturevalue("monkeypatch"))
    if strategy == "insert":
        world.lake_options = {"attach_options": {"encrypted": True}}
    modes = {"mode": "replace", "copy": "always"} if mode == "copy" else {"mode": mode}
    world.options = {"partitions": PARTITIONS} | modes
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
