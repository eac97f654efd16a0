"""The active partitions of each kind of layout; a scan finds every object in all of them."""

import datetime as dt
from typing import Any

import pytest

from lake_assets.streams.detection.prefixes import TimePrefix
from lake_assets_tests.streams.detection.bucket import NOW, Bucket
from lake_assets_tests.streams.detection.watch import Watch, stream_of
from lake_assets_tests.tiers import more

DATE = {"type": "date", "start": "2020-01-01"}
HIVE: dict[str, Any] = {"region": {}, "date": DATE}


@pytest.mark.parametrize(
    ("layout", "partitions", "active_from"),
    [
        (None, HIVE, "date=2026-02-09"),
        (None, {"date": DATE, "region": {}}, "date=2026-02-09"),
        (None, {"region": {}, "month": DATE | {"type": "month"}}, "month=2026-02"),
        ("{week,,YYYY}/W{week,,WW}/{region}", {"region": {}, "week": DATE | {"type": "week"}}, "2026/W07"),
        (None, {"region": {}, "hour": DATE | {"type": "hour"}}, "hour=2026-02-09-12"),
        (None, {"year": DATE | {"type": "year"}, "month": DATE | {"type": "month"}}, "year=2026/month=2026-02"),
        ("in/{region}/y{date,,YYYY}/m{date,,MM}/d{date,,DD}", HIVE, "y2026/m02/d09"),
        ("{date,,YYYY}/{region}/{date,,MM}-{date,,DD}", HIVE, "2026"),
        ("{date,,DD}.{date,,MM}.{date,,YYYY}/{region}", HIVE, None),
        ("{region}-{date}", HIVE, None),
        (None, {"region": {}, "kind": {}}, None),
        ({"template": "region={region}/date={date}", "nested": True}, HIVE, None),
        ({"template": "{region,,}/{date,,}", "compat": "olake"}, HIVE, None),
        (None, {"date": DATE | {"end": "2025-12-31"}}, "date=2025-12-29"),
    ],
)
def test_a_layout_has_active_partitions_as_far_as_its_names_sort_as_times_do(
    layout: object, partitions: dict[str, Any], active_from: str | None
) -> None:
    stream = stream_of(layout=layout, partitions=partitions)

    assert TimePrefix.of(stream, NOW).active_from == active_from


OLAKE = {"template": "{region,,}/{date,,}", "compat": "olake"}
# A layout, the names of files, and whether the store lists folder by folder.
LAYOUTS = [
    (None, "*.parquet", False),
    ("{date,,YYYY}/{region}/{date,,MM}-{date,,DD}", "*.parquet", False),
    ("{date,,DD}.{date,,MM}.{date,,YYYY}/{region}", "*.parquet", False),
    pytest.param({"template": "region={region}/date={date}", "nested": True}, "*.parquet", False, id="nested"),
    pytest.param(OLAKE, "*.parquet", False, id="olake"),
    ("region={region}/{kind}/date={date}", "*.parquet", False),  # a partition has several folders
    (None, "sales_{date}_{region}_*.parquet", False),
    ("{date,,YYYY}/{date,,MM}", "{region}_{date}_*.parquet", True),
    (None, "*-{region}_{date,,YYYY}{date,,MM}{date,,DD}.parquet", True),
    ("{date,,YYYY}/{date,,MM}", "{date,,DD}{date,,MM}{date,,YYYY}_{region}-*", False),
    *more(
        [
            ("{date,,YYYY}/{date,,MM}/{date,,DD}/{region}", "*.parquet", False),
            ("in/{region}/y{date,,YYYY}/m{date,,MM}/d{date,,DD}", "*.parquet", False),
            ("{region}-{date}", "*.parquet", False),
        ]
    ),
]


@pytest.mark.parametrize("days_ago", [0, 3, *more([2, 400])])
@pytest.mark.parametrize(("layout", "files", "tree"), LAYOUTS)
def test_in_any_layout_a_new_a_changed_and_a_removed_object_request_their_partition_only(
    layout: object, files: str, days_ago: int, *, tree: bool
) -> None:
    stream = stream_of(files=files, layout=layout)
    date = (NOW - dt.timedelta(days_ago)).date()

    def key(region: str, day: object, name: str) -> str:
        path = stream.template.render_row({"region": region, "date": str(day), "kind": name})
        return path.replace("*", name) if stream.template.file_parts else f"{path}/{name}.parquet"

    days = [(NOW - dt.timedelta(ago)).date() for ago in (0, 1, 2, 3, 4, 400)]
    keys = [key(region, day, name) for region in ("NW", "N", "SW") for day in days for name in "ab"]
    bucket = Bucket(tree=tree)
    for name in (*keys, *(["other.parquet", "zoo/a.parquet"] if stream.template.file_parts else [])):
        bucket.put(name)
    seen = Watch(stream, bucket)
    assert len(seen.tick_until_quiet(3)) == 18

    # What lies in a first folder of OLake's is looked at as one there.
    is_exact = layout is not OLAKE
    for region, name, etag in (("SW", "c", "a"), ("N", "a", "changed")):
        bucket.put(key(region, date, name), etag)
        requested = seen.tick()
        assert requested == [f"{region} {date}"] if is_exact else f"{region} {date}" in requested
    for name in "ab":
        bucket.delete(key("NW", date, name))
    is_active = TimePrefix.of(stream, NOW).is_active(key("NW", date, "a"))
    requested = seen.tick()
    assert not is_exact or requested == ([f"NW {date}"] if is_active else [])
    assert seen.tick_until_quiet(2) == []


@pytest.mark.more
def test_a_flat_folder_is_listed_from_the_first_active_date_to_the_last_name_of_the_table() -> None:
    days = [(NOW - dt.timedelta(ago)).date() for ago in range(2000)]
    keys = [f"{table}_{day}_NW.parquet" for table in ("returns", "sales", "stock") for day in days]
    stream = stream_of(files="sales_{date}_{region}.parquet", scan=1000)
    seen = Watch(stream, Bucket.of(keys))
    assert len(set(seen.tick_until_quiet(10))) == len(days)
    for _ in range(8):  # a round
        seen.bucket.listed = 0

        assert seen.tick() == []

        assert seen.bucket.listed <= 3 + 2000  # the active dates, and a slice of two pages at most


def test_folders_below_a_partitions_own_belong_to_it() -> None:
    seen = Watch(stream_of(), Bucket.of([f"region=NW/date=2026-02-11/{hour:02}/a.parquet" for hour in range(24)]))
    assert seen.tick() == ["NW 2026-02-11"]
    seen.bucket.put("region=NW/date=2026-02-11/07/b.parquet")
    assert seen.tick() == ["NW 2026-02-11"]
