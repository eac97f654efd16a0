"""Partition columns that stand in the rows and not in the path, as the config has them."""

from pathlib import Path

import pytest

from lake_assets.config.load import parse_config
from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError
from lake_assets_tests.config.test_load import FILE, GOOD, parsed

ROWS = GOOD.replace("date: {type: date,", "date: {type: date, in: rows,")
BOTH = ROWS.replace('region: {values: [NW, "NO"]}', "region: {in: rows}")


def stream(text: str, more: str = "") -> Stream:
    return parsed(text + more).streams["sales"]


def test_the_layout_is_of_the_other_columns_or_the_folder_alone() -> None:
    assert stream(GOOD).selects_rows is False
    assert stream(ROWS).template.text == "region={region}"
    assert stream(BOTH).template.text == ""
    assert [column.in_rows for column in stream(ROWS).columns] == [False, True]
    assert stream(ROWS, "    layout: 'in/{region}/{batch}'\n").template.columns == ("region", "batch")
    assert stream(BOTH, "    layout: 'in'\n").template.prefix({}) == "in/"


@pytest.mark.parametrize(
    ("source", "root", "files"),
    [
        ("s3://landing/x/*.parquet", "s3://landing/x", "/*.parquet"),
        ("s3://landing/**/*.parquet", "s3://landing", "/**/*.parquet"),
        ("in/2026-*/part-?.parquet", "/etc/lake/in", "/2026-*/part-?.parquet"),
        ("s3://landing/x", "s3://landing/x", "*.parquet"),
    ],
)
def test_a_glob_may_be_any_where_no_folder_is_a_partition(source: str, root: str, files: str) -> None:
    result = stream(BOTH.replace("s3://landing/sales", f'"{source}"'))

    assert (result.source.root, result.files) == (root, files)


def test_a_glob_has_the_folders_of_the_columns_in_the_path() -> None:
    result = stream(ROWS.replace("s3://landing/sales", '"s3://landing/x/region=*/*.parquet"'))

    assert (result.source.root, result.files) == ("s3://landing/x", "*.parquet")


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (
            ROWS,
            "    layout: '{region}/{date}'\n",
            "partitions.date is in: rows, and the layout .* has {date}: remove one of them",
        ),
        (ROWS, "    layout: '{date,,YYYY}/{region}'\n", "partitions.date is in: rows, and the layout"),
        (ROWS, "    mode: index\n", "partitions.date is in: rows, and mode: index .*: use mode: replace"),
        (ROWS, "    sensor: {}\n", "partitions.date is in: rows, .* sensor cannot find what to refresh: use schedule"),
        (
            BOTH,
            "    automation: '@daily'\n",
            "partitions.region is in: rows, .* automation cannot find .*: use schedule",
        ),
        (ROWS, "    files: 'x/*.parquet'\n", "files 'x/\\*.parquet' has a slash, and the layout has the folders"),
        (GOOD, "    files: '/*.parquet'\n", "has a slash"),
        (GOOD.replace("type: date,", "type: date, in: column,"), "", "streams.sales.partitions.date.in"),
        (BOTH.replace("s3://landing/sales", '"s3://*/x.parquet"'), "", "has no folder before its first wildcard"),
        (
            BOTH.replace("s3://landing/sales", '"s3://landing/x/*.parquet"'),
            "    files: '*.parquet'\n",
            "source ends in '/\\*.parquet' and files is '\\*.parquet': remove one",
        ),
    ],
)
def test_what_such_a_column_cannot_do_is_refused(text: str, more: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(text + more, Path(FILE), {})


def test_a_schedule_with_lookback_is_taken() -> None:
    schedule = stream(ROWS, "    schedule: {cron: '@daily', lookback: 3}\n").schedule

    assert schedule is not None
    assert schedule.lookback == 3


def test_editors_know_the_key() -> None:
    field = LakeConfig.model_json_schema()["$defs"]["PartitionField"]["properties"]["in"]

    assert (field["anyOf"][0]["enum"], field["default"]) == (["path", "rows"], "path")
