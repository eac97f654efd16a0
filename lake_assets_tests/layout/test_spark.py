"""The layout of Hive is, byte for byte, what Spark's `partitionBy` writes."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lake_assets.layout.template import Template

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every ASCII character but NUL, which no file system takes; the slash among them.
CHARACTERS = [chr(code) for code in range(1, 128)]
STRINGS = [
    *(f"a{character}b" for character in CHARACTERS),
    None,
    "",
    ".",
    "..",
    "../x",
    " ",
    " x ",
    "a b+c&d",
    "%41",
    "São Paulo",
    "東京",
    "🛒",
    "e\u0301",
    "x=y/z=1",
    "default_region",
    "__HIVE_DEFAULT_PARTITION__",
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


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_other_types_have_sparks_paths(spark: "SparkSession", tmp_path: Path, zone: str) -> None:
    columns = {
        "instant": pa.array(INSTANTS, pa.timestamp("us", "UTC")),
        "clock": pa.array([time and time.replace(tzinfo=None) for time in INSTANTS], pa.timestamp("us")),
        "n": pa.array([2**63 - 1, -1, 0, None], pa.int64()),
        "small": pa.array([-128, 127, 0, None], pa.int8()),
        "yes": pa.array([True, False, None, True]),
        "price": pa.array([Decimal("1.50"), Decimal("-0.00"), Decimal("0.0000001"), None], pa.decimal128(20, 7)),
    }
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for name, column in columns.items():
            table = pa.table({name: column, "x": range(4)})
            paths = written(spark.createDataFrame(table), [name], tmp_path / name)
            template = Template.parse(f"{name}={{{name}}}", time_zone=zone)
            assert set(template.render(table).to_pylist()) == paths, name
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_a_columns_name_has_sparks_form(spark: "SparkSession", tmp_path: Path) -> None:
    names = ["größe", "a b", "x:y", "50%"]
    table = pa.table({**{name: ["v"] for name in names}, "x": [1]})
    assert written(spark.createDataFrame(table), names, tmp_path / "lake") == {
        Template.hive(names).render_row(dict.fromkeys(names, "v"))
    }
