"""The layout of Hive is, byte for byte, what Spark's `partitionBy` writes."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lake_assets.config.layout.template import Template

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every ASCII character but NUL, which no file system takes; the slash among them.
CHARACTERS = [chr(code) for code in range(1, 128)]
STRINGS = [
    *(f"a{character}b" for character in CHARACTERS),
    *(None, "", ".", "..", "../x", " ", " x ", "a b+c&d", "%41", "São Paulo", "東京", "🛒", "e\u0301", "x=y/z=1"),
    *("default_region", "__HIVE_DEFAULT_PARTITION__"),
]
INSTANTS = [
    dt.datetime(2026, 2, 11, 23, 30, tzinfo=dt.UTC),
    dt.datetime(2026, 7, 1, 0, 0, 0, 120_000, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    None,
]


def written(frame: "DataFrame", columns: list[str], folder: Path) -> set[str]:
    """The folders that Spark writes the frame to."""
    frame.coalesce(1).write.partitionBy(*columns).parquet(str(folder))
    return {str(file.parent.relative_to(folder)) for file in folder.rglob("part-*.parquet")}


def test_strings_and_dates_have_sparks_paths(spark: "SparkSession", tmp_path: Path) -> None:
    days = [dt.date(2026, 2, 11), dt.date(999, 1, 1), dt.date(9999, 12, 31), None]
    table = pa.table(
        {"region": STRINGS, "date": [days[index % 4] for index in range(len(STRINGS))], "x": range(len(STRINGS))}
    )
    paths = written(spark.createDataFrame(table), ["region", "date"], tmp_path / "lake")
    template = Template.hive(["region", "date"])
    assert set(template.render(table).to_pylist()) == paths
    read = spark.read.option("basePath", str(tmp_path / "lake")).parquet(str(tmp_path / "lake"))
    assert {row.region for row in read.select("region").distinct().collect()} == {
        value if value not in {"", "__HIVE_DEFAULT_PARTITION__"} else None for value in STRINGS
    }


@pytest.mark.parametrize("zone", ["Europe/Berlin", pytest.param("UTC", marks=pytest.mark.more)])
def test_other_types_and_names_have_sparks_paths(spark: "SparkSession", tmp_path: Path, zone: str) -> None:
    columns = {
        "größe": pa.array(INSTANTS, pa.timestamp("us", "UTC")),
        "a b": pa.array([time and time.replace(tzinfo=None) for time in INSTANTS], pa.timestamp("us")),
        "x:y": pa.array([2**63 - 1, -1, 0, None], pa.int64()),
        "50%": pa.array([-128, 127, 0, None], pa.int8()),
        "yes": pa.array([True, False, None, True]),
        "price": pa.array([Decimal("1.50"), Decimal("-0.00"), Decimal("0.0000001"), None], pa.decimal128(20, 7)),
    }
    table = pa.table({**columns, "x": range(4)})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        paths = written(spark.createDataFrame(table), list(columns), tmp_path / "lake")
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))

    assert set(Template.parse(Template.hive(columns).text, time_zone=zone).render(table).to_pylist()) == paths
