"""`min`, `max`, counts and conditions at the ends of each type are those of the landed rows, by strategy and mode.

DuckDB answers them from the catalog's bounds where it can, so each is a statement that it may answer alone. What lies
between the ends is the subject of `differential/`.
"""

import decimal
import io
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import SchemaError
from lake_assets.lake.commit.strategy import REGISTER_STRATEGIES, STRATEGIES
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.values.columns import leaf
from lake_assets_tests.values.plain import constant
from lake_assets_tests.world import World

PARTITIONS = {"n": {"type": "integer"}, "day": {"type": "date", "start": "2026-01-01"}}


def by_pyarrow(rows: pa.Table, row_group_size: int = 2, **writer: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_size, **writer)
    return sink.getvalue()


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


def way_of(world: World, monkeypatch: pytest.MonkeyPatch, strategy: str, mode: str) -> World:
    """Let only this strategy commit; an encrypted lake leaves no other than INSERT."""
    if strategy == "extension":
        monkeypatch.setattr("lake_assets.lake.commit.strategy.STRATEGIES", STRATEGIES[1:])
        monkeypatch.setattr("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", REGISTER_STRATEGIES[1:])
    if strategy == "insert":
        world.lake_options = {"attach_options": {"encrypted": True}}
    modes = {"mode": "replace", "copy": "always"} if mode == "copy" else {"mode": mode}
    world.options = {"partitions": PARTITIONS} | modes
    return world


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
    "tiny": (pa.float32(), [-4.298330687e16, 1e-40]),
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
    "days": (pa.time64("us"), 2 * 86_400 * 10**6),
    "early": (pa.time64("us"), -1),
}
INFINITE = {"local": -(2**63) + 1, "instant": -(2**63) + 1, "millis": 2**63 - 1}  # statistics have it as the bound
WAYS = [*itertools.product(["direct", "extension"], ["replace", "copy", "index"]), ("insert", "replace")]


def extremes(part: slice, others: Mapping[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """A column of each type with a part of its two ends and NULL; some are in a list, a struct and a map too."""
    arrays = {name: leaf(kind, [*values[part], None]) for name, (kind, values) in {**EXTREMES, **others}.items()}
    rows = len(arrays["i8"])
    for name in ("local", "bool8", "instant", "forever", "date", "bytes", "f64", *others):
        arrays[f"{name}_list"] = pa.ListArray.from_arrays(range(rows + 1), arrays[name])
        arrays[f"{name}_struct"] = pa.StructArray.from_arrays([arrays[name]], ["value"])
        keys = pa.array([f"k{n}" for n in range(rows)])
        arrays[f"{name}_map"] = pa.MapArray.from_arrays(range(rows + 1), keys, arrays[name])
    return pa.table(arrays)


@pytest.mark.parametrize(("strategy", "mode"), [WAYS[0], *more(WAYS[1:3]), *soak(WAYS[3:])])
def test_answers_about_the_ends_of_types(
    local_world: World, monkeypatch: pytest.MonkeyPatch, strategy: str, mode: str
) -> None:
    world = way_of(local_world, monkeypatch, strategy, mode)
    objects = {}
    for day, part in enumerate((slice(0, 1), slice(1, 2), slice(0, 2)), 5):
        rows = extremes(part, {} if mode in ("copy", "index") else NAN)
        text = f"n=5,day=2026-01-0{day}"
        objects[world.land(text, by_pyarrow(rows, row_group_size=1))] = text
        world.ingest(text)

    with compared(world, objects) as client:
        assert differences(client) == []


@pytest.mark.more
@pytest.mark.parametrize(("strategy", "mode"), [WAYS[0], *soak(WAYS[1:])])
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
                world.ingest(text)
