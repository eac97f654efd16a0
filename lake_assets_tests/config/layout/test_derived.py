"""A partition column's type against the layout: hours work throughout, and what could never work is refused."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.api import open_stream
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.detection.scan import ScanOptions, scan
from lake_assets.streams.stream import list_landed
from lake_assets_tests.streams.detection.bucket import Bucket

HOURS = "{hour,,YY}/{hour,,MM}/{hour,,DD}/{hour,,HH}"
LAYOUTS = [
    HOURS,
    {"template": HOURS.replace("YY", "YYYY"), "compat": "olake"},
    "hour={now(),,YY}-{now(),,MM}-{now(),,DD}T{now(),,HH}",
    "hour={hour}",
]


def stream(kind: str, layout: object, column: str = "hour", **options: Any) -> StreamConfig:
    times = {"start": "2020-01-01"} if kind in TIME_TYPES else {}
    given = {"source": "s3://bucket", "partitions": {column: {"type": kind} | times}, "layout": layout, "sensor": {}}
    return StreamConfig.model_validate(given | {"destination": {"table": "sales"}} | options)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_plan_report_and_sensor_find_the_objects_of_an_hour(layout: object, tmp_path: Path) -> None:
    hours = stream("hour", layout, source=str(tmp_path))
    time = dt.datetime(2026, 2, 11, 9, 30, tzinfo=dt.UTC)
    path = hours.template.render_row({"hour": "2026-02-11-09" if layout == "hour={hour}" else time}, now=time)
    (tmp_path / path).mkdir(parents=True)
    (tmp_path / path / "a.parquet").write_bytes(b"some bytes")
    lake = {"catalog": {"type": "sqlite", "path": str(tmp_path / "c")}, "storage": str(tmp_path / "lake")}
    opened = open_stream(LakeConfig.model_validate({"lakes": {"test": lake}, "streams": {"sales": hours}}), "sales")

    partition = hours.partition("hour=2026-02-11-09")
    by_prefix = opened.manifest(partition)
    by_partition, outside = list_landed(opened)

    assert [landed.key for landed in by_prefix.objects] == [f"{path}/a.parquet"]
    assert by_partition == {partition: by_prefix}
    assert outside.objects == ()

    scanned = scan(stream("hour", layout), Bucket.of([f"{path}/a.parquet"]), None, ScanOptions(now=time))
    assert (scanned.unmatched, [str(request.first) for request in scanned.targets]) == ((), ["hour=2026-02-11-09"])


@pytest.mark.parametrize(
    ("kind", "layout", "message"),
    [
        ("date", "{c,,YY}/{c,,MM}", "values such as 2026-02, not 2026-02-09: write month"),
        ("year", "{c,,MM}", "write string, or other parts"),
        ("date", "{c,,YY}/{c,,WW}", "hold values such as 2026-W07, not 2026-02-09: write week"),
        ("month", "{c,,YY}/{c,,HH}", "write string"),
        ("date", {"template": "{c,,YYYY}/{c,,MM}", "compat": "olake"}, "write month"),
        ("integer", "{c,,MM}", "hold values such as 02: write string"),
        ("hour", {"template": HOURS.replace("hour", "c"), "time_zone": "Europe/Berlin"}, "hours are those of UTC"),
    ],
)  # fmt: skip
def test_a_type_that_the_paths_cannot_hold_is_refused(kind: str, layout: object, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        stream(kind, layout, "c")


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("string", "{c,,YY}/{c,,WW}"),
        ("week", "{c,,YY}/W{c,,WW}"),
        ("integer", "{c,,YY}"),
        ("hour", {"template": "{c}", "time_zone": "Asia/Tokyo"}),
    ],
)
def test_a_type_that_they_hold_is_taken(kind: str, layout: object) -> None:
    assert stream(kind, layout, "c").partition_columns[0].type == kind
