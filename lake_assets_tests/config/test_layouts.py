import datetime as dt
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.sections import LayoutOptions
from lake_assets.config.streams import Stream
from lake_assets.detection.scan import scan
from lake_assets_tests.detection.bucket import Bucket
from lake_assets_tests.world import STREAM

BERLIN = {"template": "{region}/{date,,YYYY}/{date,,MM}/{date,,DD}", "time_zone": "Europe/Berlin"}


def stream(layout: object) -> Stream:
    return Stream.model_validate(STREAM | {"source": "landing", "layout": layout})


def test_a_text_is_short_for_the_mapping_and_its_time_zone_files_instants() -> None:
    text = "r={region}/d={date}"
    assert stream(text) == stream({"template": text})
    assert stream(text).template.text == text
    assert stream(None).template.text == "region={region}/date={date}"

    late = dt.datetime(2026, 2, 11, 23, 30, tzinfo=dt.UTC)
    assert stream(BERLIN).template.render_row({"region": "NW", "date": late}) == "NW/2026/02/12"


def test_today_is_that_of_the_layouts_time_zone_too_unless_the_stream_has_its_own() -> None:
    assert stream(BERLIN).time_zone == "Europe/Berlin"
    assert stream(LayoutOptions.model_validate(BERLIN)).time_zone == "Europe/Berlin"
    assert Stream.model_validate(stream(BERLIN).model_dump(by_alias=True)) == stream(BERLIN)
    assert stream("{region}/{date}").time_zone == "UTC"
    own = STREAM | {"source": "landing", "layout": BERLIN, "time_zone": "Asia/Tokyo"}
    assert Stream.model_validate(own).time_zone == "Asia/Tokyo"


def test_an_object_of_today_by_the_layouts_clock_is_not_of_the_future() -> None:
    tokyo = BERLIN | {"time_zone": "Asia/Tokyo"}
    data = STREAM | {"source": "s3://landing", "layout": tokyo, "sensor": {}}
    now = dt.datetime(2026, 2, 11, 20, tzinfo=dt.UTC)

    result = scan(Stream.model_validate(data), Bucket.of(["NW/2026/02/12/a.parquet"]), None, now=now)

    assert [str(request.first) for request in result.targets] == ["region=NW/date=2026-02-12"]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"template": "{region}/{date"}, "{region}/{date"),
        ({"template": "{region}/{date}", "time_zone": "Europe/Bärlin"}, "no time zone"),
        ({"template": "{region}/{date}", "compat": "hive"}, "olake"),
        ({"template": "{region}/{date}", "compat": "olake", "time_zone": "Europe/Berlin"}, "leave it out"),
        ({"time_zone": "UTC"}, "template"),
    ],
)
def test_a_bad_layout_is_refused(layout: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        stream(layout)
    assert message in str(refused.value)
    assert refused.value.error_count() == 1


DATE = {"type": "date", "start": "2026-01-01"}


def with_files(files: str, **keys: Any) -> Stream:
    return Stream.model_validate(STREAM | {"source": "landing", "files": files} | keys)


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
    stream = with_files(files, **keys)

    assert stream.template.text == text
    assert {column.name for column in stream.columns if not column.in_rows} <= set(stream.template.columns)


@pytest.mark.parametrize(
    ("files", "keys", "message"),
    [
        ("s_{day}.parquet", {}, r"files 's_\{day\}.parquet' names day, and the partition columns are region, date"),
        ("s_{date}{region}.parquet", {}, "nothing separates these two values"),
        (
            "{date}-{region}.parquet",
            {},
            r"would end at the first '-': write \{date,,YY\}-\{date,,MM\}-\{date,,DD\} in f",
        ),
        ("s_{date}.parquet", {"layout": {"template": "{region}", "nested": True}}, "a value may make folders"),
        ("s_{date}_{region}.parquet", {"landing": {}}, "matches no file that land writes"),
        ("s_{date}_{date,,YY}.parquet", {"source": "https://example.com/x"}, "partitions.region needs its values"),
    ],
)
def test_names_of_files_that_do_not_fit_are_refused(files: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        with_files(files, **keys)
