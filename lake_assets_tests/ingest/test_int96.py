"""INT96 timestamps, of Spark's own writer and of pyarrow, from a landed file to a reader of the lake."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.wings.land.read_records import RecordSource, read_records
from lake_assets_tests.ingest.test_in_rows import EITHER_LAKE, put
from lake_assets_tests.world import NW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAR = ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2026-02-11 12:30:00.000001"]
TRANSFORM = {"transform": {"sql": "SELECT * EXCEPT (region, date) FROM source"}}
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


@EITHER_LAKE
@pytest.mark.parametrize(
    "options", [pytest.param({}, id="as-it-is"), pytest.param(TRANSFORM, id="transform", marks=pytest.mark.more)]
)
def test_times_far_from_now_are_those_of_the_file(either_lake: World, by_spark: bytes, options: dict[str, Any]) -> None:
    """Mode index refuses INT96: `values/schema_changes.py` has it."""
    either_lake.options = options
    either_lake.land(NW, by_spark)
    either_lake.land(NW, far(), "by_arrow.parquet", flavor="spark")
    either_lake.ingest(NW)
    asked = ", ".join(f"(SELECT count(*) FROM lake.sales WHERE t = TIMESTAMP '{text}')" for text in FAR)
    assert either_lake.query(f"SELECT {asked}") == [(2,) * len(FAR)]
    times = either_lake.query("SELECT t::VARCHAR, l[1]::VARCHAR FROM lake.sales ORDER BY id")
    assert times == [(text, text) for text in FAR for _ in range(2)]


def test_a_partition_column_of_int96_chooses_the_rows(local_world: World) -> None:
    days = pa.array(["0001-01-01", "9999-12-31", "1816-03-29"]).cast(pa.date32()).cast(MICROS)
    local_world.options = {
        "partitions": {"region": {}, "date": {"type": "date", "start": "0001-01-01", "in": "rows"}},
    }
    put(local_world, "region=NW/a.parquet", pa.table({"id": [0, 1, 2], "date": days}), flavor="spark", row_group_size=1)

    local_world.ingest("region=NW,date=0001-01-01")
    assert local_world.query("SELECT id, date::VARCHAR FROM lake.sales") == [(0, "0001-01-01")]


def test_records_to_be_landed_keep_their_times(tmp_path: Path) -> None:
    pq.write_table(far(), tmp_path / "a.parquet", flavor="spark", row_group_size=3)

    parts = list(read_records(RecordSource(str(tmp_path / "a.parquet"), "parquet"), lambda schema: schema()))
    rows = pa.concat_tables(part.parse() for part in parts)

    assert rows.column("t").cast(pa.string()).to_pylist() == far().column("t").cast(pa.string()).to_pylist()
