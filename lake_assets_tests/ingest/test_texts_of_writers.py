"""Texts that the writers of Spark and pandas landed have the rows that these wrote."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from lake_assets_tests.world import NW, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    "plain",
    "a, b; c\td|e",
    'say "hi"',
    '"',
    '""',
    "back\\slash",
    'both \\"',
    "C:\\temp, and \\\\share",
    "ends \\",
    "two\nlines",
    "é€日",
    "'single'",
    " blanks ",
    "# no comment",
]
ROWS = [(number, text) for number, text in enumerate(TEXTS)] + [(100, None)]


def land(world: World, spark: "SparkSession", form: str, options: dict[str, str], folder: Path) -> None:
    """Land the files of one write of Spark."""
    frame = spark.createDataFrame(ROWS, "id INT, text STRING").coalesce(1)
    frame.write.format(form).options(**options).save(str(folder))
    for path in folder.glob("part-*"):
        world.land(NW, path.read_bytes(), path.name)


@pytest.mark.parametrize(
    ("options", "dialect"),
    [
        ({}, {}),
        ({"quoteAll": "true"}, {"quoted_nulls": True}),
        ({"sep": ";"}, {"delimiter": ";"}),
        ({"sep": "\t"}, {"delimiter": "\t"}),
        ({"quote": "'"}, {"quote": "'"}),
        ({"escape": '"'}, {"escape": None}),
        ({"escapeQuotes": "false", "quoteAll": "true", "escape": '"'}, {"escape": None, "quoted_nulls": True}),
        ({"nullValue": "NULL"}, {"nulls": ["NULL"]}),
        ({"nullValue": "NULL", "quoteAll": "true"}, {"nulls": ["NULL"], "quoted_nulls": True}),
        ({"compression": "gzip"}, {}),
        ({"encoding": "UTF-16LE"}, {"encoding": "utf-16-le"}),
    ],
)
def test_csv_of_spark_has_its_rows(
    local_world: World, spark: "SparkSession", tmp_path: Path, options: dict[str, str], dialect: dict[str, Any]
) -> None:
    blanks = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
    local_world.options = {"format": {"type": "csv", "escape": "\\", **dialect}, "files": "part-*"}
    land(local_world, spark, "csv", {"header": "true", **blanks, **options}, tmp_path / "written")

    local_world.ingest(NW)

    assert local_world.query("SELECT id, text FROM lake.sales ORDER BY id") == ROWS


@pytest.mark.parametrize("options", [{}, {"compression": "bzip2"}, {"ignoreNullFields": "false"}])
def test_json_of_spark_has_its_rows(
    local_world: World, spark: "SparkSession", tmp_path: Path, options: dict[str, str]
) -> None:
    local_world.options = {"format": "json", "files": "part-*"}
    land(local_world, spark, "json", options, tmp_path / "written")

    local_world.ingest(NW)

    assert local_world.query("SELECT id, text FROM lake.sales ORDER BY id") == ROWS


@pytest.mark.parametrize(
    ("options", "dialect"),
    [
        ({}, {}),
        ({"quoting": csv.QUOTE_ALL}, {"quoted_nulls": True}),
        ({"quoting": csv.QUOTE_NONNUMERIC, "na_rep": "NULL"}, {"nulls": ["NULL"], "quoted_nulls": True}),
        ({"sep": ";"}, {"delimiter": ";"}),
        ({"sep": "|", "quotechar": "'"}, {"delimiter": "|", "quote": "'"}),
        ({"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}, {"escape": "\\", "quoted_nulls": True}),
        ({"header": False}, {"header": False, "names": ["id", "text"]}),
        ({"lineterminator": "\r\n"}, {}),
        ({"encoding": "utf-16"}, {}),
        ({"encoding": "utf-8-sig"}, {}),
        ({"compression": "gzip"}, {}),
        ({"compression": "zstd"}, {}),
        ({"compression": "bz2"}, {}),
        ({"compression": "xz"}, {}),
    ],
)
def test_csv_of_pandas_has_its_rows(
    local_world: World, tmp_path: Path, options: dict[str, Any], dialect: dict[str, Any]
) -> None:
    local_world.options = {"format": {"type": "csv", **dialect}, "files": "*"}
    path = tmp_path / "written"
    pd.DataFrame(ROWS, columns=["id", "text"]).to_csv(path, index=False, **options)
    local_world.land(NW, path.read_bytes(), "written")

    local_world.ingest(NW)

    assert local_world.query("SELECT id, text FROM lake.sales ORDER BY id") == ROWS
