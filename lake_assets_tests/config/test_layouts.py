"""Where the objects of a stream lie: its source, its layout, the names of files, and what its partitions come from."""

import datetime as dt
from typing import Any

import pytest
import yaml

from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.config.partitions import PartitionField
from lake_assets.config.sections import LayoutOptions
from lake_assets.config.storages import WebStorage
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.detection.scan import ScanOptions, scan
from lake_assets_tests.config.test_load import GOOD, parsed, refused
from lake_assets_tests.streams.detection.bucket import Bucket

BERLIN = {"template": "{region}/{date,,YYYY}/{date,,MM}/{date,,DD}", "time_zone": "Europe/Berlin"}
REGION = {"values": ["NW", "NO"]}
DATE = {"type": "date", "start": "2026-01-01"}
OF_TS = {"type": "date", "from": "ts", "start": "2025-01-01"}
NOW = "{now(),,YY}-{now(),,MM}-{now(),,DD}"
ROWS = {"region": REGION, "date": DATE | {"in": "rows"}}
BOTH = {"region": {"in": "rows"}, "date": DATE | {"in": "rows"}}
WEB = {"source": "https://host/in/", "files": "all.parquet"}


def text_of(**keys: Any) -> str:
    """A config whose stream `sales` has these keys, beside partitions by region and date."""
    document = yaml.safe_load(GOOD)
    document["streams"]["sales"] |= keys
    return yaml.safe_dump(document, sort_keys=False)


def stream(**keys: Any) -> StreamConfig:
    return parsed(text_of(**keys)).streams["sales"]


@pytest.mark.parametrize(
    ("keys", "root", "files", "layout"),
    [
        ({"source": "s3://landing/x/region=*/date=*/*.parquet"}, "s3://landing/x", "*.parquet", None),
        ({"source": "s3://landing/x/*/date=*/part-?.parquet"}, "s3://landing/x", "part-?.parquet", None),
        ({"source": "s3://landing/**/*.parquet"}, "s3://landing", "*.parquet", None),
        ({"source": "/data/in/region=*/date=*/*"}, "/data/in", "*", None),
        ({"source": "in/region=*/date=*/*.parquet"}, "/etc/lake/in", "*.parquet", None),
        (
            {"source": "s3://landing/x/in/*/*/*.parquet", "layout": "in/{region}/{date,,YYYY}-{date,,MM}-{date,,DD}"},
            "s3://landing/x",
            "*.parquet",
            "in/{region}/{date,,YYYY}-{date,,MM}-{date,,DD}",
        ),
        # Where no folder is a partition, any glob is one of files.
        ({"source": "s3://landing/**/*.parquet", "partitions": BOTH}, "s3://landing", "/**/*.parquet", ""),
        ({"source": "in/2026-*/part-?.parquet", "partitions": BOTH}, "/etc/lake/in", "/2026-*/part-?.parquet", ""),
        ({"source": "s3://landing/x", "partitions": BOTH}, "s3://landing/x", "*.parquet", ""),
        ({"source": "s3://landing/x/region=*/*.p", "partitions": ROWS}, "s3://landing/x", "*.p", "region={region}"),
        ({"source": {"type": "local", "path": "/data/in [1]"}}, "/data/in [1]", "*.parquet", None),
    ],
)
def test_a_glob_is_a_folder_its_layout_and_its_files(
    keys: dict[str, Any], root: str, files: str, layout: str | None
) -> None:
    found = stream(**keys)

    assert (found.source.root, found.files) == (root, files)
    assert found.template.text == ("region={region}/date={date}" if layout is None else layout)


def test_a_glob_validates_partitions_once_and_keeps_what_is_written() -> None:
    region = PartitionField(values=("NW",))
    data = {"source": "s3://landing/x/region=*/*.p", "partitions": {"region": region}, "destination": {"table": "t"}}

    found = StreamConfig.model_validate(data)

    assert found.partitions["region"] is region
    assert found.model_fields_set == {"source", "files", "partitions", "destination"}


def test_a_text_is_short_for_the_mapping_and_its_time_zone_files_instants() -> None:
    text = "r={region}/d={date}"
    assert stream(layout=text) == stream(layout={"template": text})
    assert stream(layout=text).template.text == text
    assert stream(layout=None).template.text == "region={region}/date={date}"

    late = dt.datetime(2026, 2, 11, 23, 30, tzinfo=dt.UTC)
    assert stream(layout=BERLIN).template.render_row({"region": "NW", "date": late}) == "NW/2026/02/12"


def test_today_is_that_of_the_layouts_time_zone_too_unless_the_stream_has_its_own() -> None:
    assert stream(layout=BERLIN).time_zone == "Europe/Berlin"
    data = {"source": "landing", "partitions": {"region": {}, "date": DATE}, "destination": {"table": "sales"}}
    of_objects = StreamConfig.model_validate(data | {"layout": LayoutOptions.model_validate(BERLIN)})
    assert of_objects.time_zone == "Europe/Berlin"
    assert stream(layout="{region}/{date}").time_zone == "UTC"
    assert stream(layout=BERLIN, time_zone="Asia/Tokyo").time_zone == "Asia/Tokyo"


def test_an_object_of_today_by_the_layouts_clock_is_not_of_the_future() -> None:
    tokyo = stream(source="s3://landing", layout=BERLIN | {"time_zone": "Asia/Tokyo"}, sensor={})
    now = dt.datetime(2026, 2, 11, 20, tzinfo=dt.UTC)

    result = scan(tokyo, Bucket.of(["NW/2026/02/12/a.parquet"]), None, ScanOptions(now=now))

    assert [str(request.first) for request in result.targets] == ["region=NW/date=2026-02-12"]


@pytest.mark.parametrize(
    ("files", "keys", "text"),
    [
        ("s_{date}_{region}.parquet", {}, "s_{date}_{region}.parquet"),
        ("s_{date}.parquet", {}, "region={region}/s_{date}.parquet"),
        ("s_{date}_*.parquet", {"partitions": {"region": {"in": "rows"}, "date": DATE}}, "s_{date}_*.parquet"),
        ("{n}_{date}_{region}.parquet", {"path_columns": {"n": "integer"}}, "{n}_{date}_{region}.parquet"),
    ],
)
def test_names_of_files_are_the_end_of_the_layout(files: str, keys: dict[str, Any], text: str) -> None:
    found = stream(files=files, **keys)

    assert found.template.text == text
    assert {column.name for column in found.partition_columns if not column.in_rows} <= set(found.template.columns)


@pytest.mark.parametrize(
    ("partitions", "layout"),
    [
        ({"date": OF_TS}, "date={ts,,YY}-{ts,,MM}-{ts,,DD}"),
        ({"m": OF_TS | {"type": "month"}}, "m={ts,,YY}-{ts,,MM}"),
        ({"h": OF_TS | {"type": "hour", "from": "Zeit, lokal"}}, "h={'Zeit, lokal',,YY}-{'Zeit, lokal',,MM}"),
        ({"region": {"from": "store"}, "date": OF_TS}, "region={store}/date={ts,,YY}-{ts,,MM}-{ts,,DD}"),
    ],
)
def test_without_a_layout_its_folders_are_hives(partitions: dict[str, Any], layout: str) -> None:
    found = stream(partitions=partitions)

    assert found.template.text.startswith(layout)
    assert found.template.columns == tuple(partitions)


def test_the_paths_are_matched_and_listed_by_the_tables_names() -> None:
    partitions = {"region": {"from": "store_region"}, "date": OF_TS}
    found = stream(partitions=partitions, layout="{store_region}/{ts,,YY}/{ts,,MM}/{ts,,DD}")

    assert found.template.match("NW/2025/02/18/a.parquet") == {"region": "NW", "date": "2025-02-18"}
    assert found.template.prefix(found.partition("region=NW,date=2025-02-18").texts()) == "NW/2025/02/18/"
    assert found.template.render_row({"store_region": "NW", "ts": "2025-02-18T10:00:00"}) == "NW/2025/02/18"
    assert [(d.name, d.column) for d in found.derived] == [("region", "store_region"), ("date", "ts")]


def test_the_time_of_the_run_may_have_another_name_and_is_made_of_no_column() -> None:
    arrival = {"type": "date", "from": "date", "start": "2025-01-01"}
    named = stream(partitions={"arrival_date": arrival}, layout=f"date={NOW}")
    layout = "in/{now(),,YY}/{now(),,MM}/{now(),,DD}"
    bare = stream(partitions={"arrival_date": arrival | {"from": "now()"}}, layout=layout)

    assert named.template.match("date=2025-02-18/a.parquet") == {"arrival_date": "2025-02-18"}
    assert bare.template.match("in/2025/02/18/a.parquet") == {"arrival_date": "2025-02-18"}
    assert named.derived == bare.derived == ()


def test_the_dates_of_hives_folders_are_those_of_the_streams_clock() -> None:
    zone = {"time_zone": "Europe/Berlin"}
    assert stream(partitions={"date": OF_TS}, **zone).template.time_zone == "Europe/Berlin"
    assert stream(partitions={"date": OF_TS | {"type": "hour"}}, **zone).template.time_zone == "UTC"
    rows = stream(partitions={"date": OF_TS | {"in": "rows"}}, **zone)
    assert (rows.template.text, rows.derived[0].template.time_zone) == ("", "Europe/Berlin")


def test_a_path_column_may_have_another_name_too() -> None:
    columns = {"hour_of": {"from": "h", "type": "integer"}, "n": "integer"}
    layout = "{ts,,YY}-{ts,,MM}-{ts,,DD}/{h}/{n}"
    found = stream(partitions={"date": OF_TS}, layout=layout, path_columns=columns)

    assert found.template.columns == ("date", "hour_of", "n")
    assert [column.type for column in found.path_columns.values()] == ["integer", "integer"]


def test_the_layout_is_of_the_columns_in_the_path_or_the_folder_alone() -> None:
    assert stream().selects_rows is False
    assert [column.in_rows for column in stream(partitions=ROWS).partition_columns] == [False, True]
    assert stream(partitions=ROWS, layout="in/{region}/{batch}").template.columns == ("region", "batch")
    assert stream(partitions=BOTH, layout="in").template.prefix({}) == "in/"
    schedule = stream(partitions=ROWS, schedule={"cron": "@daily", "lookback": 3}).schedule
    assert schedule is not None
    assert schedule.lookback == 3
    field = LakeConfig.model_json_schema()["$defs"]["PartitionField"]["properties"]["in"]
    assert (field["anyOf"][0]["enum"], field["default"]) == (["path", "rows"], "path")


def test_a_folder_of_a_web_server_is_a_source_and_no_lakes() -> None:
    assert stream(**WEB).source == WebStorage(url="https://host/in")
    error = refused(GOOD.replace("storage: data", "storage: https://host/lake"))
    assert "a web server can only be a stream's source" in error
    error = refused(GOOD.replace("storage: data", 'storage: "s3://lake/*"'))
    assert "lake.yaml:5:5: lakes.retail.storage: 's3://lake/*' is a glob" in error


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        # Globs
        ({"source": "s3://landing/x/r=*/*.p"}, r"write it as …/region=\*/date=\*/\*\.parquet, or write"),
        ({"source": "s3://landing/x/date=*/region=*/*.parquet"}, "other folders than the layout"),
        ({"source": "/data/x/region=[NS]W/date=*/*.parquet"}, "other folders than the layout"),
        ({"source": "/x/region=*/date=*/*.parquet", "layout": "{region}/{date}"}, "other folders"),
        ({"source": "/x/region=*/date=*/*.parquet", "files": "a*"}, r"files is 'a\*': remove one of them"),
        ({"source": "/x/region=*/date=*/*.parquet", "layout": "{region"}, "this bracket is not closed"),
        ({"source": "s3://*/x.parquet", "partitions": BOTH}, "has no folder before its first wildcard"),
        (
            {"source": "s3://landing/x/*.parquet", "partitions": BOTH, "files": "*.parquet"},
            r"source ends in '/\*.parquet' and files is '\*.parquet': remove one",
        ),
        # Web servers
        (WEB | {"source": "https://host/in?sig=secret"}, "not of the form https://host/path, without a query"),
        (WEB | {"source": "https://me:secret@host/in"}, "a URL has no user or password"),
        (WEB | {"partitions": {"region": {}, "date": DATE}}, "partitions.region needs its values"),
        # Layouts
        ({"layout": {"template": "{region}/{date"}}, "{region}/{date"),
        ({"layout": {"template": "{region}/{date}", "time_zone": "Europe/Bärlin"}}, "no time zone"),
        ({"layout": {"template": "{region}/{date}", "compat": "hive"}}, "olake"),
        ({"layout": BERLIN | {"compat": "olake"}}, "leave it out"),
        # Names of files
        ({"files": "s_{day}.p"}, r"files 's_\{day\}.p' names day, and the partition columns are region, date"),
        ({"files": "s_{date}{region}.parquet"}, "nothing separates these two values"),
        (
            {"files": "{date}-{region}.parquet"},
            r"would end at the first '-': write \{date,,YY\}-\{date,,MM\}-\{date,,DD\} in f",
        ),
        ({"files": "s_{date}.p", "layout": {"template": "{region}", "nested": True}}, "a value may make folders"),
        ({"files": "s_{date}_{region}.parquet", "landing": {}}, "matches no file that land writes"),
        # Columns that come from another one
        (
            {"partitions": {"date": OF_TS}, "layout": "{x}"},
            r"partitions.date.from is 'ts': .* has no column 'ts': it has x",
        ),
        (
            {"partitions": {"region": {}}, "layout": "region={store_region}"},
            "has no {region}.*: write region: {from: store_region}",
        ),
        (
            {"partitions": {"region": {}}, "layout": "{a}/{b}"},
            r"has no {region}.*: name a column of the layout with `from` \(a, b\)",
        ),
        (
            {"partitions": {"date": OF_TS}, "layout": "{ts,,YY}/{date}"},
            "partitions.date.from is 'ts': .* has two columns named 'date': take another name",
        ),
        (
            {"partitions": {"date": OF_TS, "day": {"from": "ts"}}, "layout": "{ts,,YY}-{ts,,MM}-{ts,,DD}"},
            "partitions.day.from is 'ts', which another column has already",
        ),
        (
            {"partitions": {"date": OF_TS | {"type": "month"}}, "layout": "{ts,,YY}"},
            "partitions.date.type is month, and the paths",
        ),
        # Columns in the rows
        (
            {"partitions": ROWS, "layout": "{region}/{date}"},
            "date is in: rows, and the layout .* has {date}: remove one of them",
        ),
        (
            {"partitions": BOTH, "automation": "@daily"},
            "region is in: rows, .* automation cannot find .*: use schedule",
        ),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        stream(**keys)

    assert "secret" not in str(raised.value)
    if keys.keys() <= {"layout", "source"}:
        assert str(raised.value).count("lake.yaml:") == 1
