"""Partition columns that come from another column, or stand in the rows and not in the path, as the config has them."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.load import parse_config
from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError
from lake_assets_tests.config.test_load import FILE, GOOD, parsed

DATE = {"type": "date", "from": "ts", "start": "2025-01-01"}
NOW = "{now(),,YY}-{now(),,MM}-{now(),,DD}"


def stream(partitions: dict[str, Any], **more: Any) -> Stream:
    made = Stream.model_validate({"source": "in", "partitions": partitions, "destination": {"table": "t"}} | more)
    assert Stream.model_validate_json(made.model_dump_json(by_alias=True)) == made
    return made


@pytest.mark.parametrize(
    ("partitions", "layout"),
    [
        ({"date": DATE}, "date={ts,,YY}-{ts,,MM}-{ts,,DD}"),
        ({"m": DATE | {"type": "month"}}, "m={ts,,YY}-{ts,,MM}"),
        ({"h": DATE | {"type": "hour", "from": "Zeit, lokal"}}, "h={'Zeit, lokal',,YY}-{'Zeit, lokal',,MM}"),
        ({"region": {"from": "store"}, "date": DATE}, "region={store}/date={ts,,YY}-{ts,,MM}-{ts,,DD}"),
    ],
)
def test_without_a_layout_its_folders_are_hives(partitions: dict[str, Any], layout: str) -> None:
    made = stream(partitions)

    assert made.template.text.startswith(layout)
    assert made.template.columns == tuple(partitions)


def test_the_paths_are_matched_and_listed_by_the_tables_names() -> None:
    made = stream(
        {"region": {"from": "store_region"}, "date": DATE}, layout="{store_region}/{ts,,YY}/{ts,,MM}/{ts,,DD}"
    )

    assert made.template.match("NW/2025/02/18/a.parquet") == {"region": "NW", "date": "2025-02-18"}
    assert made.template.prefix(made.partition("region=NW,date=2025-02-18").texts()) == "NW/2025/02/18/"
    assert made.template.render_row({"store_region": "NW", "ts": "2025-02-18T10:00:00"}) == "NW/2025/02/18"
    assert [(d.name, d.column) for d in made.derived] == [("region", "store_region"), ("date", "ts")]


def test_the_time_of_the_run_may_have_another_name_and_is_made_of_no_column() -> None:
    arrival = {"type": "date", "from": "date", "start": "2025-01-01"}
    made = stream({"arrival_date": arrival}, layout=f"date={NOW}")
    bare = stream({"arrival_date": arrival | {"from": "now()"}}, layout="in/{now(),,YY}/{now(),,MM}/{now(),,DD}")

    assert made.template.match("date=2025-02-18/a.parquet") == {"arrival_date": "2025-02-18"}
    assert bare.template.match("in/2025/02/18/a.parquet") == {"arrival_date": "2025-02-18"}
    assert made.derived == bare.derived == ()


def test_the_dates_of_hives_folders_are_those_of_the_streams_clock() -> None:
    assert stream({"date": DATE}, time_zone="Europe/Berlin").template.time_zone == "Europe/Berlin"
    assert stream({"date": DATE | {"type": "hour"}}, time_zone="Europe/Berlin").template.time_zone == "UTC"
    rows = stream({"date": DATE | {"in": "rows"}}, time_zone="Europe/Berlin")
    assert (rows.template.text, rows.derived[0].template.time_zone) == ("", "Europe/Berlin")


def test_a_path_column_may_have_another_name_too() -> None:
    made = stream(
        {"date": DATE},
        layout="{ts,,YY}-{ts,,MM}-{ts,,DD}/{h}/{n}",
        path_columns={"hour_of": {"from": "h", "type": "integer"}, "n": "integer"},
    )

    assert made.template.columns == ("date", "hour_of", "n")
    assert [column.type for column in made.path_columns.values()] == ["integer", "integer"]


@pytest.mark.parametrize(
    ("partitions", "more", "message"),
    [
        ({"date": DATE}, {"layout": "{x}"}, r"partitions.date.from is 'ts': .* has no column 'ts': it has x"),
        ({"region": {}}, {"layout": "region={store_region}"}, r"has no {region}.*: write region: {from: store_region}"),
        ({"region": {}}, {"layout": "{a}/{b}"}, r"has no {region}.*: name a column of the layout with `from` \(a, b\)"),
        (
            {"date": DATE},
            {"layout": "{ts,,YY}/{date}"},
            r"partitions.date.from is 'ts': .* has two columns named 'date': take another name",
        ),
        (
            {"date": DATE, "day": {"from": "ts"}},
            {"layout": "{ts,,YY}-{ts,,MM}-{ts,,DD}"},
            r"partitions.day.from is 'ts', which another column has already",
        ),
        ({"date": DATE | {"type": "month"}}, {"layout": "{ts,,YY}"}, r"partitions.date.type is month, and the paths"),
        (
            {"date": DATE | {"in": "rows"}},
            {"layout": "{date}"},
            r"partitions.date is in: rows, and the layout '{date}' has {date}",
        ),
        ({"date": DATE | {"from": ""}}, {}, "at least 1 character"),
    ],
)
def test_what_does_not_fit_is_refused(partitions: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        stream(partitions, **more)


ROWS = GOOD.replace("date: {type: date,", "date: {type: date, in: rows,")
BOTH = ROWS.replace('region: {values: [NW, "NO"]}', "region: {in: rows}")


def read(text: str, more: str = "") -> Stream:
    return parsed(text + more).streams["sales"]


def test_the_layout_is_of_the_other_columns_or_the_folder_alone() -> None:
    assert read(GOOD).selects_rows is False
    assert read(ROWS).template.text == "region={region}"
    assert read(BOTH).template.text == ""
    assert [column.in_rows for column in read(ROWS).columns] == [False, True]
    assert read(ROWS, "    layout: 'in/{region}/{batch}'\n").template.columns == ("region", "batch")
    assert read(BOTH, "    layout: 'in'\n").template.prefix({}) == "in/"


@pytest.mark.parametrize(
    ("text", "source", "root", "files"),
    [
        (BOTH, "s3://landing/x/*.parquet", "s3://landing/x", "/*.parquet"),
        (BOTH, "s3://landing/**/*.parquet", "s3://landing", "/**/*.parquet"),
        (BOTH, "in/2026-*/part-?.parquet", "/etc/lake/in", "/2026-*/part-?.parquet"),
        (BOTH, "s3://landing/x", "s3://landing/x", "*.parquet"),
        (ROWS, "s3://landing/x/region=*/*.parquet", "s3://landing/x", "*.parquet"),  # the column in the path
    ],
)
def test_a_glob_may_be_any_where_no_folder_is_a_partition(text: str, source: str, root: str, files: str) -> None:
    result = read(text.replace("s3://landing/sales", f'"{source}"'))

    assert (result.source.root, result.files) == (root, files)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (ROWS, "    layout: '{region}/{date}'\n", "date is in: rows, and the layout .* has {date}: remove one of them"),
        (ROWS, "    mode: index\n", "partitions.date is in: rows, and mode: index .*: use mode: replace"),
        (ROWS, "    sensor: {}\n", "partitions.date is in: rows, .* sensor cannot find what to refresh: use schedule"),
        (BOTH, "    automation: '@daily'\n", "region is in: rows, .* automation cannot find .*: use schedule"),
        (ROWS, "    files: 'x/*.parquet'\n", "files 'x/\\*.parquet' has a slash, and the layout has the folders"),
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
        parse_config(text + more, FILE, {})


def test_a_schedule_with_lookback_is_taken_and_editors_know_the_key() -> None:
    schedule = read(ROWS, "    schedule: {cron: '@daily', lookback: 3}\n").schedule
    field = LakeConfig.model_json_schema()["$defs"]["PartitionField"]["properties"]["in"]

    assert schedule is not None
    assert schedule.lookback == 3
    assert (field["anyOf"][0]["enum"], field["default"]) == (["path", "rows"], "path")
