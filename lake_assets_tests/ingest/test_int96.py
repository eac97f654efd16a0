"""INT96 timestamps, of Spark's own writer and of pyarrow, from a landed file to a reader of the lake."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import SchemaError
from lake_assets.landing.read_records import read_records
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.ingest.test_in_rows import EITHER_LAKE, put
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAR = ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2026-02-11 12:30:00.000001"]
MODES: dict[str, dict[str, Any]] = {
    "pass-through": {},
    "transform": {"transform": {"sql": "SELECT * EXCEPT (region, date) FROM source"}},
    "evolve": {"schema_policy": "evolve"},
}
MICROS = pa.timestamp("us")


@pytest.fixture
def by_spark(spark: "SparkSession", tmp_path: Path) -> bytes:
    """A file with the timestamps that were long Spark's default."""
    option = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(option) or ""
    spark.conf.set(option, "INT96")
    try:
        rows = [(number, text, [text]) for number, text in enumerate(FAR)]
        frame = spark.createDataFrame(rows, "id bigint, text string, texts array<string>").coalesce(1)
        timed = frame.selectExpr("id", "timestamp(text) AS t", "transform(texts, x -> timestamp(x)) AS l")
        timed.write.parquet(str(tmp_path / "spark"))
    finally:
        spark.conf.set(option, before)
    (file,) = (tmp_path / "spark").glob("*.parquet")
    return file.read_bytes()


def far() -> pa.Table:
    times = pa.array(FAR).cast(MICROS)
    return pa.table({"id": range(len(FAR)), "t": times, "l": pa.array([[t] for t in times.to_pylist()])})


def times(world: World, files: int = 1) -> list[tuple[str, str]]:
    asked = ", ".join(f"(SELECT count(*) FROM lake.sales WHERE t = TIMESTAMP '{text}')" for text in FAR)
    assert world.query(f"SELECT {asked}") == [(files,) * len(FAR)]
    return world.query("SELECT t::VARCHAR, l[1]::VARCHAR FROM lake.sales ORDER BY id")


@EITHER_LAKE
@pytest.mark.parametrize("mode", ["pass-through", *more(["transform", "evolve"])])
def test_times_far_from_now_are_those_of_the_file(either_lake: World, by_spark: bytes, mode: str) -> None:
    either_lake.options = MODES[mode]
    either_lake.land(NW, by_spark)
    either_lake.land(NW, far(), "by_arrow.parquet", flavor="spark")
    either_lake.ingest(NW)
    assert times(either_lake, 2) == [(text, text) for text in FAR for _ in range(2)]


def test_a_partition_column_of_int96_chooses_the_rows(local_world: World) -> None:
    days = pa.array(["0001-01-01", "9999-12-31", "1816-03-29"]).cast(pa.date32()).cast(MICROS)
    local_world.options = {
        "partitions": {"region": {}, "date": {"type": "date", "start": "0001-01-01", "in": "rows"}},
    }
    put(local_world, "region=NW/a.parquet", pa.table({"id": [0, 1, 2], "date": days}), flavor="spark", row_group_size=1)

    local_world.ingest("region=NW,date=0001-01-01")
    assert local_world.query("SELECT id, date::VARCHAR FROM lake.sales") == [(0, "0001-01-01")]


@pytest.mark.more
def test_mode_index_refuses_int96_and_makes_no_table(local_world: World, by_spark: bytes) -> None:
    local_world.options = {"mode": "index"}
    local_world.land(NW, by_spark)
    for _ in range(2):
        (done,) = index(local_world).values()
        assert isinstance(done.error, SchemaError)
        assert "column 'l' of the object" in str(done.error)
        assert "spark.sql.parquet.outputTimestampType" in str(done.error)
    assert local_world.query("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'sales'") == [(0,)]

    local_world.land(SW, far().cast(pa.schema([("id", pa.int64()), ("t", MICROS), ("l", pa.list_(MICROS))])))
    done = index(local_world)["region=NW/date=2026-02-11"]
    assert isinstance(done.error, SchemaError)
    assert times(local_world) == [(text, text) for text in FAR]


def test_records_to_be_landed_keep_their_times(tmp_path: Path) -> None:
    pq.write_table(far(), tmp_path / "a.parquet", flavor="spark", row_group_size=3)

    parts = list(read_records(None, str(tmp_path / "a.parquet"), "parquet", lambda schema: schema(), 0))
    rows = pa.concat_tables(part.parse() for part in parts)

    assert rows.column("t").cast(pa.string()).to_pylist() == far().column("t").cast(pa.string()).to_pylist()
