"""Texts that the writers of Spark and pandas landed have the rows that these wrote."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from lake_assets_tests.ingest.landed_as import columns_of, load
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World

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
BLANKS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


@pytest.mark.parametrize(
    ("form", "options", "dialect"),
    [
        ("csv", {}, {}),
        ("json", {}, {}),
        *more(
            [
                ("csv", {"quoteAll": "true"}, {"quoted_nulls": True}),
                ("csv", {"sep": "\t"}, {"delimiter": "\t"}),
                ("csv", {"quote": "'"}, {"quote": "'"}),
                ("csv", {"escape": '"'}, {"escape": None}),
                (
                    "csv",
                    {"escapeQuotes": "false", "quoteAll": "true", "escape": '"'},
                    {"escape": None, "quoted_nulls": True},
                ),
                ("csv", {"nullValue": "NULL"}, {"nulls": ["NULL"]}),
                ("csv", {"nullValue": "NULL", "quoteAll": "true"}, {"nulls": ["NULL"], "quoted_nulls": True}),
                ("csv", {"compression": "gzip"}, {}),
                ("csv", {"encoding": "UTF-16LE"}, {"encoding": "utf-16-le"}),
                ("json", {"compression": "bzip2"}, {}),
                ("json", {"ignoreNullFields": "false"}, {}),
            ]
        ),
    ],
)
def test_texts_of_spark_have_its_rows(
    local_world: World,
    spark: "SparkSession",
    tmp_path: Path,
    form: str,
    options: dict[str, str],
    dialect: dict[str, Any],
) -> None:
    written = tmp_path / "written"
    frame = spark.createDataFrame(ROWS, "id INT, text STRING").coalesce(1)
    of_csv = {"header": "true", **BLANKS} if form == "csv" else {}
    frame.write.format(form).options(**of_csv, **options).save(str(written))
    (path,) = written.glob("part-*")
    local_world.options = {"format": {"type": form, **({"escape": "\\"} if of_csv else {}), **dialect}, "files": "*"}

    load(local_world, path.read_bytes(), name=path.name)

    assert columns_of(local_world, "id, text") == ROWS


@pytest.mark.parametrize(
    ("options", "dialect"),
    [
        ({}, {}),
        ({"quoting": csv.QUOTE_ALL}, {"quoted_nulls": True}),
        ({"sep": "|", "quotechar": "'"}, {"delimiter": "|", "quote": "'"}),
        ({"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}, {"escape": "\\", "quoted_nulls": True}),
        *more(
            [
                ({"quoting": csv.QUOTE_NONNUMERIC, "na_rep": "NULL"}, {"nulls": ["NULL"], "quoted_nulls": True}),
                ({"header": False}, {"header": False, "names": ["id", "text"]}),
                ({"lineterminator": "\r\n"}, {}),
                ({"encoding": "utf-16"}, {}),
                ({"compression": "zstd"}, {}),
                ({"compression": "xz"}, {}),
            ]
        ),
    ],
)
def test_csv_of_pandas_has_its_rows(
    local_world: World, tmp_path: Path, options: dict[str, Any], dialect: dict[str, Any]
) -> None:
    local_world.options = {"format": {"type": "csv", **dialect}, "files": "*"}
    path = tmp_path / "written"
    pd.DataFrame(ROWS, columns=["id", "text"]).to_csv(path, index=False, **options)

    load(local_world, path.read_bytes())

    assert columns_of(local_world, "id, text") == ROWS
