"""What a reader that is not ours finds in a landed file, it finds in the lake, or the ingest is refused by column.

A few examples each, always the same; `LAKE_ASSETS_EXAMPLES=50` makes fifty new ones of each.
"""

import datetime as dt
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from lake_assets.errors import SchemaError
from lake_assets.landing.writer import LandingWriter
from lake_assets.maintenance.compaction import compact
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.values.columns import LEAVES, OF_SPARK, REFUSED, tables, without_nan, without_negative_zero
from lake_assets_tests.values.readers import OTHERS, Landed, differences, numbered
from lake_assets_tests.world import NW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ROWS = 5
_ASKED = int(os.environ.get("LAKE_ASSETS_EXAMPLES", "0"))
some = settings(
    max_examples=_ASKED or 1,
    derandomize=not _ASKED,
    deadline=None,
    database=None,
    # A smaller example would take as long as this one, for which all that is wrong is printed.
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

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
# What a way refuses of every file is left out, for each refusal is a new try; so is a column that has no type yet.
_TIMES = (pa.time32("s"), pa.time32("ms"), pa.time64("ns"))
TYPES = {
    "transform": {kind: values for kind, values in LEAVES.items() if kind not in {pa.uint64(), pa.uuid()}},
    "index": without_nan({kind: values for kind, values in LEAVES.items() if kind not in {pa.float16(), *_TIMES}}),
    "insert": without_negative_zero(LEAVES),
    "evolve": {kind: values for kind, values in LEAVES.items() if not pa.types.is_null(kind)},
}


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
        return World(
            {"type": "sqlite", "path": str(folder / "catalog.sqlite")},
            {"type": "local", "path": str(folder / "data")},
            {"type": "local", "path": str(folder / "landing")},
            self._sessions,
            WAYS[way],
            {"attach_options": {"encrypted": way == "insert"}},
        )


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
) -> tuple[World, Landed, list[str]]:
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
            return world, Landed([uri], [name for name in table.column_names if name not in {"id", "date"}]), refusals


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


def drawn(data: st.DataObject, leaves: Mapping[pa.DataType, st.SearchStrategy[Any]]) -> pa.Table:
    table = data.draw(tables(ROWS, leaves))
    assume(table["c3"].null_count < ROWS)  # the first example would be the simplest there is
    return table


@some
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_the_lake_has_what_was_landed(worlds: Worlds, way: str, data: st.DataObject) -> None:
    table = drawn(data, TYPES.get(way, LEAVES))
    writer = data.draw(st.sampled_from(WRITERS))
    write = as_arrow_writes(writer)
    if "row_group_size" in writer:  # Arrow cannot slice a view within another type
        nested = [f.name for f in table.schema if pa.types.is_nested(f.type) and "_view" in str(f.type)]
        table = table.drop_columns(nested)

    if way == "in rows":
        table = among_others(table, data.draw(st.sampled_from(DATES)))

    world, landed, _ = arrived(worlds, way, table, write)

    assert differences(landed, world) == []
    if way == "pass-through":
        world.ingest(NW, force=True)  # the table is known now, and the commit goes by the direct strategy
        assert differences(landed, world) == []


@pytest.mark.sample(1)
@some
@given(data=st.data())
@pytest.mark.parametrize("way", ["pass-through", "index"])
def test_values_that_no_column_holds_are_refused_by_column(worlds: Worlds, way: str, data: st.DataObject) -> None:
    table = data.draw(tables(ROWS, REFUSED))
    world, landed, refusals = arrived(worlds, way, table, as_arrow_writes({}))

    assert len(refusals) >= 6  # the types
    assert differences(landed, world) == []


@some
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_the_lake_has_what_spark_wrote(worlds: Worlds, spark: "SparkSession", way: str, data: st.DataObject) -> None:
    table = drawn(data, {"index": without_nan, "insert": without_negative_zero}.get(way, dict)(OF_SPARK))
    kind = data.draw(st.sampled_from(["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"]))
    legacy = data.draw(st.booleans())
    if way == "in rows":
        table = among_others(table, data.draw(st.sampled_from(DATES[:3])))

    def write(world: World, table: pa.Table) -> str:
        return world.land(NW, by_spark(spark, table, world.source["path"] + "-spark", kind, legacy=legacy))

    world, landed, refusals = arrived(worlds, way, table, write)

    assert not refusals or (way == "index" and (legacy or kind == "INT96"))
    assert refusals or not (way == "index" and kind == "INT96")
    assert differences(landed, world) == []


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


@some
@given(data=st.data())
def test_the_lake_has_what_was_given_to_land(worlds: Worlds, data: st.DataObject) -> None:
    table = drawn(data, LEAVES)
    keep = data.draw(st.booleans())
    world = worlds.new("pass-through")
    world.options = {"landing": {"keep_path_columns": keep}}
    landing = Path(world.source["path"])
    landing.mkdir()
    path = {"date": pa.repeat(dt.date(2026, 2, 11), ROWS), "region": pa.repeat("NW", ROWS)}
    with LandingWriter("sales", world.stream.config) as writer:
        writer.write(pa.table({**{name: table[name] for name in table.column_names}, **path}))
    assert (writer.landed().records, writer.landed().files) == (ROWS, 1)
    world.ingest(NW)

    landed = Landed([str(file) for file in landing.rglob("*.parquet")], table.column_names[1:])
    assert differences(landed, world) == []
    assert landed.values == numbered([table], landed.names)


@some
@given(data=st.data())
@pytest.mark.parametrize("way", ["pass-through", "insert"])
def test_a_compaction_keeps_every_value(worlds: Worlds, way: str, data: st.DataObject) -> None:
    world, landed, _ = arrived(worlds, way, drawn(data, without_negative_zero(LEAVES)), as_arrow_writes({}))
    with world.stream.lake.open() as lake:  # another client adds a file
        lake.rows("INSERT INTO lake.sales SELECT * REPLACE (id + 1000 AS id) FROM lake.sales")

    (done,) = compact(world.stream, 2, world.sessions)

    assert (done.files_before, done.why) == (2, None)
    assert differences(landed, world) == []
    assert differences(landed, world, first=OTHERS) == []
