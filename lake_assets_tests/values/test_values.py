"""What a reader that is not ours finds in a landed file, it finds in the lake, or the ingest is refused by column.

One random table each, always the same; with `LAKE_ASSETS_EXAMPLES=50`, `make soak` makes 49 others of each.
"""

import datetime as dt
import decimal
import os
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import SchemaError
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.differential.answers import differences
from lake_assets_tests.differential.landed import File, Landed
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.values.columns import LEAVES, Values, leaf
from lake_assets_tests.values.plain import plain
from lake_assets_tests.world import NW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5
OTHERS = 1000  # the number of the first row that is of another partition
EXAMPLES = int(os.environ.get("LAKE_ASSETS_EXAMPLES", "1"))


@pytest.fixture(params=[0, *soak(range(1, EXAMPLES))])
def chosen(request: pytest.FixtureRequest) -> random.Random:
    """The source of all chance."""
    return random.Random(request.param)


WAYS: dict[str, dict[str, Any]] = {
    "pass-through": {},
    "transform": {"transform": {"sql": "SELECT * EXCEPT (region, date) FROM source"}},
    "insert": {},
    "index": {"mode": "index"},
    "evolve": {"schema_policy": "evolve"},
    "in rows": {"partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01", "in": "rows"}}},
}
WRITERS: list[dict[str, Any]] = [
    {},
    {"flavor": "spark"},
    {"use_deprecated_int96_timestamps": True, "store_schema": False},
    {"row_group_size": 2},
    {"write_statistics": False},
    {"use_dictionary": False, "data_page_version": "2.0", "store_schema": False},
    {"store_decimal_as_integer": True, "use_compliant_nested_type": False},
]
DATES = [pa.date32(), pa.string(), pa.timestamp("us"), pa.string_view()]
NOT_OF_SPARK = {pa.uint64(), pa.uuid()}
# Of the types that Arrow has in memory alone: a value of each.
IN_MEMORY: list[tuple[pa.DataType, Any]] = [
    (pa.decimal32(5, 1), decimal.Decimal("1.5")),
    (pa.decimal64(15, 1), decimal.Decimal("1.5")),
    (pa.list_(pa.int32(), 2), [1, 2]),
    (pa.large_list_view(pa.string()), ["x"]),
    (pa.list_(pa.list_view(pa.int8())), [[1], []]),
    (pa.struct([("a", pa.list_view(pa.int8()))]), {"a": [1]}),
    (pa.map_(pa.string(), pa.list_view(pa.int8())), [("k", [1])]),
    (pa.list_view(pa.struct([("a", pa.int8())])), [{"a": 1}]),
]
OF_SPARK = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.decimal128(4, 2), pa.decimal128(18, 0), pa.decimal128(38, 10), pa.date32(), pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
]  # fmt: skip
# Of these types a lake has no column, or not for this value.
REFUSED: list[tuple[pa.DataType, Any]] = [
    (pa.decimal256(50, 2), decimal.Decimal(1)),
    (pa.decimal256(76, 0), decimal.Decimal(1)),
    (pa.date32(), -(2**31)),
    (pa.time64("ns"), 1),
    (pa.timestamp("ms"), 2**63 - 2),
    (pa.timestamp("ns"), -(2**63) + 2),
    (pa.timestamp("ns", "UTC"), 1),
    *((pa.duration(unit), 1) for unit in ("s", "ms", "us", "ns")),
]


class Worlds:
    """New small worlds, because a refused table is recreated with fewer columns."""

    def __init__(self, folder: Path, sessions: "Callable[[], SparkSession]") -> None:
        self._folder = folder
        self._sessions = sessions
        self._made = 0

    def new(self, way: str) -> World:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        world = World.in_folder(folder, self._sessions, **WAYS[way])
        world.lake_options = {"attach_options": {"encrypted": way == "insert"}}
        return world


@pytest.fixture
def worlds(tmp_path: Path, sessions: "Callable[[], SparkSession]") -> Worlds:
    return Worlds(tmp_path, sessions)


def ingest(world: World, way: str) -> None:
    if way != "index":
        world.ingest(NW)
        return
    (done,) = index(world, NW).values()
    if done.error is not None:
        raise done.error


def rows_in(world: World) -> int:
    if not Path(world.catalog["path"]).exists():
        return 0
    rows = world.query("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'lake' AND table_name = 'sales'")
    return world.query("SELECT count(*) FROM lake.sales")[0][0] if rows == [(1,)] else 0


def arrived(
    worlds: Worlds, way: str, table: pa.Table, write: Callable[[World, pa.Table], str]
) -> tuple[World, File, list[str]]:
    """Land and ingest the table, without the columns that are refused; returns their errors too."""
    refusals: list[str] = []
    while True:
        world = worlds.new(way)
        if way == "evolve":
            world.land(NW, table.select(["id"]), "first.parquet")
            world.ingest(NW)
            world.unland(NW, "first.parquet")
        before = rows_in(world)
        uri = write(world, table)
        try:
            ingest(world, way)
        except SchemaError as error:
            (name,) = re.findall(r"column '(\w+)'", str(error)) or pytest.fail(f"names no column: {error}")
            assert name in table.column_names
            assert rows_in(world) == before
            refusals.append(f"{table.schema.field(name).type}: {error}")
            table = table.drop_columns([name])
        else:
            return world, File(Path(uri), "landed", table["id"].to_pylist()), refusals


def assert_same(world: World, chosen: random.Random, *files: File) -> None:
    """Whether the lake has the rows of the files, and finds them."""
    landed = Landed(world, Path(world.storage["path"]).parent, chosen, ["region", "date"], {NW: list(files)})
    landed.deleted = {number for file in files for number in file.ids if number >= OTHERS}
    assert list(differences(landed)) == []


def as_arrow_writes(writer: dict[str, Any]) -> Callable[[World, pa.Table], str]:
    return lambda world, table: world.land(NW, table, **writer)


def among_others(table: pa.Table, kind: pa.DataType) -> pa.Table:
    """The rows with their date, behind as many rows of another one."""
    day = dt.date(2026, 2, 11)
    others = table.set_column(0, "id", pc.add(table["id"], OTHERS))
    dated = [
        some.append_column("date", pa.array([date] * some.num_rows, pa.date32()).cast(kind))
        for some, date in ((others, day - dt.timedelta(days=1)), (table, day))
    ]
    return pa.concat_tables(dated)


def random_table(chosen: random.Random, way: str, leaves: Iterable[pa.DataType] = LEAVES, first: int = 0) -> pa.Table:
    """Numbered rows of a column of each type, and of some of them in a list, a struct or a map."""
    # Arrow's own statistics hide NaN of files that are read as they are, and DuckDB's dictionaries take -0.0 for 0.0.
    values = Values(chosen, has_nan=way != "index", has_negative_zero=way not in {"insert", "compacted"})
    columns: dict[str, pa.Array] = {"id": pa.array(range(first, first + ROWS), pa.int64())}
    for number, kind in enumerate(dict.fromkeys(leaves)):
        columns[f"c{number}"] = values.array(kind, ROWS, 0.2)
        if chosen.random() < 0.3 and not pa.types.is_null(kind):
            structure = pa.struct([("value", kind), ("number", pa.int64())])
            nested = chosen.choice([pa.list_(kind), structure, pa.map_(pa.string(), kind)])
            columns[f"n{number}"] = values.array(nested, ROWS, 0.2)
    return pa.table(columns)


@pytest.mark.parametrize("way", ["pass-through", *more(["transform"]), *soak(["in rows"])])
def test_the_lake_has_what_was_landed(worlds: Worlds, way: str, chosen: random.Random) -> None:
    """The other ways are in `differential/`."""
    table = random_table(chosen, way, [kind for kind in LEAVES if way != "transform" or kind not in NOT_OF_SPARK])
    for number, (kind, value) in enumerate(IN_MEMORY):
        table = table.append_column(f"m{number}", pa.array([value] * (ROWS - 1) + [None], kind))
    writer = chosen.choice(WRITERS)
    if "row_group_size" in writer:  # Arrow cannot slice a view within another type
        nested = [f.name for f in table.schema if pa.types.is_nested(f.type) and "_view" in str(f.type)]
        table = table.drop_columns(nested)
    if way == "in rows":
        table = among_others(table, chosen.choice(DATES))

    world, file, refusals = arrived(worlds, way, table, as_arrow_writes(writer))

    assert len(refusals) < len(table.column_names) // 4, refusals
    if way == "pass-through":
        world.ingest(NW, force=True)  # the table is known now, and the commit goes by the direct strategy
    assert_same(world, chosen, file)


@pytest.mark.more
@pytest.mark.parametrize("way", ["pass-through", "index"])
def test_values_that_no_column_holds_are_refused_by_column(worlds: Worlds, way: str, chosen: random.Random) -> None:
    arrays = {f"c{number}": leaf(kind, [value] * ROWS) for number, (kind, value) in enumerate(REFUSED)}
    table = pa.table({"id": range(ROWS), **arrays})

    world, file, refusals = arrived(worlds, way, table, as_arrow_writes({}))

    assert [refusal.partition(":")[0] for refusal in sorted(refusals)] == sorted(str(kind) for kind, _ in REFUSED)
    assert_same(world, chosen, file)


@pytest.mark.more
@pytest.mark.parametrize("way", ["pass-through", *soak(way for way in WAYS if way != "pass-through")])
def test_the_lake_has_what_spark_wrote(worlds: Worlds, spark: "SparkSession", way: str, chosen: random.Random) -> None:
    table = in_sparks_years(random_table(chosen, way, OF_SPARK))
    kind = chosen.choice(["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
    legacy = chosen.random() < 0.5
    if way == "in rows":
        table = among_others(table, chosen.choice(DATES[:3]))

    def write(world: World, table: pa.Table) -> str:
        return world.land(NW, by_spark(spark, table, world.source["path"] + "-spark", kind, legacy=legacy))

    world, file, refusals = arrived(worlds, way, table, write)

    assert not refusals or (way == "index" and (legacy or kind == "INT96"))
    assert refusals or not (way == "index" and kind == "INT96")
    assert_same(world, chosen, file)


def in_sparks_years(table: pa.Table) -> pa.Table:
    """The table without nested times, and with NULL for days and times before year 1 or after year 9999."""
    for name in table.column_names:
        column = table[name]
        if pa.types.is_nested(column.type) and any(text in str(column.type) for text in ("date", "timestamp")):
            table = table.drop_columns([name])
        elif pa.types.is_temporal(column.type):
            per_day = 1 if pa.types.is_date(column.type) else 86_400 * 10**6
            stored = column.combine_chunks().view(pa.int32() if per_day == 1 else pa.int64())
            fits = pc.and_(pc.greater_equal(stored, -719_162 * per_day), pc.less(stored, 2_932_897 * per_day))
            table = table.set_column(table.column_names.index(name), name, pc.if_else(fits, column, None))
    return table


def by_spark(spark: "SparkSession", table: pa.Table, folder: str, kind: str, *, legacy: bool) -> bytes:
    """The bytes of the one file that Spark writes of a table."""
    settings = {
        "spark.sql.parquet.outputTimestampType": kind,
        "spark.sql.parquet.writeLegacyFormat": str(legacy).lower(),
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    }
    before = {name: spark.conf.get(name) or "" for name in settings}
    pq.write_table(table, f"{folder}.parquet")
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.read.parquet(f"{folder}.parquet").coalesce(1).write.parquet(folder)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    (file,) = Path(folder).glob("*.parquet")
    return file.read_bytes()


@pytest.mark.more
def test_the_lake_has_what_was_given_to_land(worlds: Worlds, chosen: random.Random) -> None:
    table = random_table(chosen, "pass-through")
    keep = chosen.random() < 0.5
    world = worlds.new("pass-through")
    world.options = {"landing": {"keep_path_columns": keep}}
    landing = Path(world.source["path"])
    landing.mkdir()
    keys = {"date": pa.repeat(dt.date(2026, 2, 11), ROWS), "region": pa.repeat("NW", ROWS)}
    with LandingWriter("sales", world.stream.config) as writer:
        writer.write(pa.table({**{name: table[name] for name in table.column_names}, **keys}))
    assert (writer.landed().records, writer.landed().files) == (ROWS, 1)
    world.ingest(NW)

    (path,) = landing.rglob("*.parquet")
    written = pq.read_table(path, partitioning=None)
    assert_same(world, chosen, File(path, "landed", range(ROWS)))
    assert {name: plain(written[name]) for name in table.column_names} == {
        name: plain(table[name]) for name in table.column_names
    }


@pytest.mark.parametrize("way", [*more(["pass-through"]), *soak(["insert"])])
def test_a_compaction_keeps_every_value(worlds: Worlds, way: str, chosen: random.Random) -> None:
    seed = chosen.random()  # both files have the same columns
    world, file, _ = arrived(worlds, way, random_table(random.Random(seed), "compacted"), as_arrow_writes({}))
    other = File(Path(world.storage["path"]).parent / "other.parquet", "", range(ROWS, 2 * ROWS))
    pq.write_table(random_table(random.Random(seed), "compacted", first=ROWS), other.path)
    with plain_client(world.config.lakes["test"], read_only=False) as client:  # adds a file
        types = {name: kind for name, kind, *_ in client.execute("DESCRIBE lake.sales").fetchall()}
        landed = Landed(world, other.path.parent, chosen, ["region", "date"])
        client.execute(f"INSERT INTO lake.sales BY NAME {landed.select(client, NW, other, types)}")

    (done,) = compact(world.stream, 2, world.sessions)

    assert (done.files_before, done.why) == (2, None)
    assert_same(world, chosen, file, replace(other, types=types))
