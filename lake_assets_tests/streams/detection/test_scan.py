"""The changes that a scan of the landing zone finds by its cursor, and the cost."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pytest

from lake_assets.config.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.detection.cursor import Cursor, packed, unpacked
from lake_assets.streams.detection.reading import MOST
from lake_assets.streams.detection.scan import MOST_REMEMBERED
from lake_assets_tests.streams.detection.bucket import NOW, PAGE, Bucket
from lake_assets_tests.streams.detection.watch import Watch, stream_of
from lake_assets_tests.tiers import more

TODAY = "region=NW/date=2026-02-11"
OLD = "region=NW/date=2025-03-01"
OF_SW = "region=SW/date=2026-02-11"


def watch(*keys: str, **sensor: Any) -> Watch:
    return Watch(stream_of(**sensor), Bucket.of(keys))


Change = Callable[[Bucket], object]
NOTHING: tuple[Change, ...] = ()


def put(key: str, etag: str = "a", days_ago: float = 0) -> Change:
    return lambda bucket: bucket.put(key, etag, NOW - dt.timedelta(days=days_ago))


def delete(key: str) -> Change:
    return lambda bucket: bucket.delete(key)


TODAYS, OLDS, BOTH = ["NW 2026-02-11"], ["NW 2025-03-01"], ["NW 2025-03-01", "NW 2026-02-11"]
# Changes of a bucket with an object of today and an old one, and the partitions that a tick after them requests.
STORIES: dict[str, list[tuple[Sequence[Change], list[str]]]] = {
    "a new object": [
        ([put(f"{TODAY}/b.parquet")], TODAYS),
        (NOTHING, []),
        ([put(f"{OLD}/b.parquet")], OLDS),
        (NOTHING, []),
    ],
    # A multipart upload has the time of its beginning, and a moved file keeps its old time.
    "an old time": [([put(f"{folder}/b.parquet", days_ago=400) for folder in (TODAY, OLD)], BOTH), (NOTHING, [])],
    "rewritten": [
        ([put(f"{folder}/a.parquet", "new") for folder in (TODAY, OLD)], BOTH),
        ([put(f"{TODAY}/a.parquet", "new", -0.05)], []),  # with the same bytes
    ],
    "an active one is emptied": [
        ([delete(f"{TODAY}/a.parquet")], TODAYS),
        ([put(f"{OF_SW}/a.parquet")], ["SW 2026-02-11"]),
        ([delete(f"{OF_SW}/a.parquet")], ["SW 2026-02-11"]),  # its whole region is gone with it
        (NOTHING, []),
    ],
    "an old object expires": [
        ([put(f"{OLD}/b.parquet", days_ago=300)], OLDS),
        ([delete(f"{OLD}/a.parquet")], []),
        ([delete(f"{OLD}/b.parquet")], []),
        ([put(f"{OLD}/c.parquet")], OLDS),
    ],
    "a state returns": [([change(f"{TODAY}/b.parquet")], TODAYS) for _ in range(3) for change in (put, delete)],
}


@pytest.mark.parametrize("story", STORIES)
def test_each_state_of_a_partition_is_requested_once(story: str) -> None:
    seen = watch(f"{TODAY}/a.parquet", f"{OLD}/a.parquet")
    assert seen.tick() == BOTH
    for changes, requested in STORIES[story]:
        for change in changes:
            change(seen.bucket)
        assert seen.tick_until_quiet(3) == requested


def test_a_day_that_is_over_is_not_sent_again() -> None:
    seen = watch(f"{TODAY}/a.parquet")
    assert seen.tick() == TODAYS
    for _ in range(6):
        seen.now += dt.timedelta(days=1)
        assert seen.tick() == []
    seen.bucket.put(f"{TODAY}/late.parquet", at=seen.now)
    assert seen.tick() == TODAYS


@pytest.mark.parametrize("folder", [TODAY, OLD])
@pytest.mark.parametrize(("kept", "seconds"), [(PAGE, 0), (100 * PAGE, 11), *more([(2 * PAGE, 0), (100 * PAGE, 6)])])
def test_a_partition_of_which_a_part_is_in_the_lake_is_requested(
    folder: str, kept: int, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part that one reading has is just what was committed, because of a limit of objects or of time."""
    monkeypatch.setattr("lake_assets.streams.detection.reading.MOST_KEPT", kept)
    seen = watch(*(f"{folder}/{number:04}.parquet" for number in range(3 * PAGE)), budget=10)
    seen.bucket.seconds = seconds
    seen.in_lake = lambda landed: [p for p, manifest in landed.items() if len(manifest.objects) < 3 * PAGE]

    assert seen.tick_until_quiet(6) == [folder.replace("region=", "").replace("/date=", " ")]


@pytest.mark.parametrize(
    ("layout", "seconds"),
    [
        (None, 0),
        ("region={region}/{hour}/date={date}", 6),
        *more(
            [
                (None, 4),
                (None, 11),
                ("region={region}/date={date}/{hour}", 0),
                ("region={region}/{hour}/date={date}", 11),
            ]
        ),
    ],
)
def test_a_partition_is_compared_with_the_lake_by_all_of_its_folders_or_not_at_all(
    layout: str | None, seconds: int
) -> None:
    hours = [{"hour": str(hour), "region": "a b"} for hour in range(5)]
    days = [{"date": str((NOW - dt.timedelta(ago)).date())} for ago in (0, 1, 300, 301)]
    stream = stream_of(layout=layout, budget=10)
    folders = {stream.template.render_row(row | day): None for row in hours for day in days}
    folders |= {folder.replace("a b", "a%20b"): None for folder in folders}
    seen = Watch(stream, Bucket.of(f"{folder}/{n}.parquet" for folder in folders for n in range(150)))
    seen.bucket.seconds = seconds
    compared: list[int] = []

    def in_lake(landed: Mapping[Partition, Manifest]) -> list[Partition]:
        compared.extend(len(manifest.objects) for manifest in landed.values())
        return [*landed]

    seen.in_lake = in_lake
    seen.tick_until_quiet(20)

    each = len(folders) * 150 // len(days)
    assert set(compared) <= {each}
    assert bool(compared) or seconds > 0


def test_a_longer_lookback_requests_nothing_again() -> None:
    seen = watch(f"{TODAY}/a.parquet", "region=NW/date=2026-02-01/a.parquet")
    seen.tick()
    seen.stream = stream_of(lookback=30)
    assert seen.tick_until_quiet(3) == []
    seen.stream = stream_of(lookback=0)
    assert seen.tick_until_quiet(3) == []


def test_a_new_region_brings_its_past_with_it() -> None:
    days = [f"region=SW/date={dt.date(2025, 1, 1) + dt.timedelta(n)}/a.parquet" for n in range(300)]
    seen = watch(*(f"region=NW/date=2025-{month:02}-01/{n}.parquet" for month in range(1, 13) for n in range(1000)))
    seen.stream = stream_of(scan=1000)
    seen.tick()
    assert seen.tick_until_quiet(3) == []

    for day in days:
        seen.bucket.put(day)

    assert len(seen.tick()) == 300


def test_a_region_that_returns_is_found_beside_one_with_which_its_digest_was_joined() -> None:
    seen = watch(f"{OLD}/a.parquet", f"{OLD.replace('NW', 'SW')}/a.parquet")
    seen.tick()
    cursor = Cursor.load(seen.cursor, seen.stream)
    cursor.ranges.shrink(1)
    cursor.prefixes.discard("region=NW/")
    seen.cursor = cursor.dump()

    seen.bucket.put(f"{OLD}/b.parquet")
    assert seen.tick_until_quiet(3) == ["NW 2025-03-01", "SW 2025-03-01"]


def test_unmatched_objects_are_reported_once_also_beyond_those_that_are_remembered() -> None:
    no_data = (f"{TODAY}/_SUCCESS", f"{TODAY}/notes.txt")
    seen = watch(*(f"stray{n:03}.parquet" for n in range(700)), f"{TODAY}/a.parquet", *no_data)
    first = seen.scan()
    assert (len(first.unmatched), first.unremembered) == (MOST_REMEMBERED, 200)
    for _ in range(3):  # each of them a whole round
        again = seen.scan()
        assert (again.unmatched, again.unremembered) == ((), 0)
        assert "702 objects left out: 700 in no partition, 1 not data files, 1 hidden by their names" in again.summary
    seen.bucket.put("stray.parquet")
    assert seen.scan().unremembered == 201

    for n in range(MOST_REMEMBERED, 700):
        seen.bucket.delete(f"stray{n:03}.parquet")
    seen.bucket.delete("stray.parquet")
    for n in range(10):  # those that vanished make room for others
        seen.bucket.delete(f"stray{n:03}.parquet")
    seen.tick_until_quiet(2)
    for n in range(10):
        seen.bucket.put(f"other{n}.parquet")
    assert sorted(item.key for item in seen.scan().unmatched) == [f"other{n}.parquet" for n in range(10)]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("region=NW/date=2026-02-31/a.parquet", "is not of type date"),
        ("region=NW/date=2019-12-31/a.parquet", "is before start 2020-01-01: move `start` back."),
        ("region=NW/date=__HIVE_DEFAULT_PARTITION__/a.parquet", "date is NULL"),
        ("region=XX/date=2026-02-11/a.parquet", "region=XX is not in `values`"),
        ("region=N%FFW/date=2026-02-11/a.parquet", "not in UTF-8"),
        ("region=N%57/date=2026-02-11/a.parquet", "region=NW/date=2026-02-11/: move the object there"),
    ],
)
def test_an_object_of_no_partition_is_reported_with_the_hint(key: str, says: str) -> None:
    partitions = {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2020-01-01"}}
    seen = Watch(stream_of(partitions=partitions), Bucket.of([key]))

    (item,) = seen.scan().unmatched

    assert says in item.reason
    assert seen.scan().targets == ()


def test_a_future_partition_is_requested_on_its_day() -> None:
    seen = watch("region=NW/date=2026-02-13/a.parquet")

    (item,) = seen.scan().unmatched
    assert item.reason.endswith("date=2026-02-13 is in the future. It is ingested when its time has come.")
    seen.now += dt.timedelta(days=2)
    assert seen.tick() == ["NW 2026-02-13"]


def test_a_value_that_is_added_to_the_config_is_found() -> None:
    partitions = {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2020-01-01"}}
    seen = Watch(stream_of(partitions=partitions), Bucket.of(["region=SW/date=2025-01-01/a.parquet"]))
    seen.tick_until_quiet(3)
    partitions["region"] = {"values": ["NW", "SW"]}
    seen.stream = stream_of(partitions=partitions)

    assert seen.tick_until_quiet(3) == ["SW 2025-01-01"]


def test_partitions_beyond_those_that_may_wait_follow_at_the_next_scan() -> None:
    regions = [f"R{n:02}" for n in range(10)]
    seen = watch(*(f"region={r}/date={day}/a.parquet" for r in regions for day in ("2025-01-01", "2026-02-11")))
    seen.most = 3

    ticks = [seen.tick() for _ in range(8)]

    assert max(map(len, ticks)) == 3
    assert sorted(chain(*ticks)) == sorted(f"{r} {day}" for r in regions for day in ("2025-01-01", "2026-02-11"))


def test_partitions_without_a_time_are_requested_one_by_one() -> None:
    seen = Watch(
        stream_of(partitions={"region": {}}), Bucket.of(f"region=R{n:02}/a.parquet" for n in range(10)), most=3
    )

    ticks = [[str(target.first) for target in seen.scan().targets] for _ in range(5)]

    assert [len(tick) for tick in ticks] == [3, 3, 3, 1, 0]
    assert list(chain(*ticks)) == [f"region=R{n:02}" for n in range(10)]


def test_a_store_that_lists_folder_by_folder_is_noticed() -> None:
    seen = watch("region=NW/date=2025-01-01/a.parquet", "region=NX/date=2025-01-01/a.parquet")
    seen.bucket.tree = True
    assert seen.tick() == ["NW 2025-01-01", "NX 2025-01-01"]

    seen.bucket.put("region=NW-2/date=2025-01-01/a.parquet")  # now the two orders differ

    assert seen.tick_until_quiet(3) == ["NW-2 2025-01-01"]
    seen.bucket.put("region=NW/date=2025-01-01/b.parquet")
    assert seen.tick_until_quiet(3) == ["NW 2025-01-01"]


UNREADABLE = ["", "no JSON", '{"version": 0}', '{"version": 2, "state": "!"}', "[]", packed({"tree": False})]


@pytest.mark.parametrize("text", [*(pytest.param(text, id=f"text {n}") for n, text in enumerate(UNREADABLE)), None])
def test_an_unreadable_cursor_and_one_without_a_field_of_this_version_start_again(text: str | None) -> None:
    seen = watch(f"{TODAY}/a.parquet")
    seen.tick()
    state = unpacked(seen.cursor or "", dict) or {}
    del state["untold"]
    again = watch(f"{TODAY}/a.parquet")
    again.cursor = packed(state) if text is None else text

    assert again.tick() == TODAYS


def test_another_layout_starts_again() -> None:
    seen = watch(f"{TODAY}/a.parquet")
    before = seen.scan().targets
    seen.stream = stream_of(layout="region={region}/date={date}/")

    (after,) = seen.scan().targets

    assert after.first == before[0].first


def test_an_object_behind_the_end_of_a_slice_is_sent_once() -> None:
    days = ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-04"]
    names = [f"region=NW/date={day}/{number:04}.parquet" for day in days for number in range(600)]
    seen = Watch(stream_of(scan=1000), Bucket.of(names))
    seen.tick()  # all, for the first time
    assert seen.tick() == []  # the first two days

    seen.bucket.put("region=NW/date=2025-01-02/zzz.parquet")

    assert [seen.tick() for _ in range(5)] == [[], ["NW 2025-01-02"], [], [], []]


REGIONS = ("MW", "NE", "NW", "SE", "SW")
DAYS = 1000
A_DAY = 20  # objects of a region's day
TOTAL = len(REGIONS) * DAYS * A_DAY
LONG_AGO = NOW - dt.timedelta(days=100)


def keys() -> Iterator[str]:
    for region in REGIONS:
        for day in range(DAYS):
            date = NOW.date() - dt.timedelta(day)
            yield from (f"region={region}/date={date}/batch_{n:04}.parquet" for n in range(A_DAY))


@pytest.mark.soak
def test_the_first_reading_and_each_tick_after_it_cost_what_they_are_to_cost() -> None:
    seen = Watch(stream_of(budget=4), Bucket.of(keys(), LONG_AGO))
    seen.bucket.seconds = 0.2  # what a request of a thousand keys takes where it takes long
    listed, seconds, started = [], [], list[str]()
    while not seen.cursor or Cursor.load(seen.cursor, seen.stream).first:
        before, begun = seen.bucket.listed, seen.bucket.time
        started += seen.tick()
        listed.append(seen.bucket.listed - before)
        seconds.append(seen.bucket.time - begun)
    assert 5 <= len(listed) <= 8
    assert max(seconds) <= 4 + 1
    assert sum(listed) < 1.1 * TOTAL  # nothing is read twice but the active partitions
    assert len(started) == len(set(started)) == len(REGIONS) * DAYS
    ranges = Cursor.load(seen.cursor, seen.stream).ranges  # which do not grow with the partitions
    assert len(ranges) <= MOST
    assert sum(range_.folders for range_ in ranges) == len(REGIONS) * (DAYS - 3)
    assert sum(range_.digest.objects for range_ in ranges) == len(REGIONS) * (DAYS - 3) * A_DAY

    before, requests = seen.bucket.listed, seen.bucket.requests
    assert seen.tick() == []
    active = len(REGIONS) * 3 * A_DAY
    assert seen.bucket.listed - before <= active + 5000 + 2000  # a slice ends with a range and with a page
    # One for the regions, one for each region, and one for each thousand keys of the slice.
    assert seen.bucket.requests - requests <= 1 + len(REGIONS) + 7
    assert seen.cursor is not None
    assert len(seen.cursor) < 17_000

    seen.bucket.put("region=NE/date=2024-02-29/late.parquet", at=NOW)
    started = []
    for _ in range(TOTAL // 5000):  # a sweep takes one tick for each slice
        started += seen.tick()
    assert started == ["NE 2024-02-29"]  # though its range has several days


@pytest.mark.more
@pytest.mark.parametrize("day", ["2025-01-01", "2026-02-11"])
def test_a_partition_that_no_tick_can_read_whole_is_read_over_several(day: str) -> None:
    seen = Watch(stream_of(budget=1), Bucket.of(f"region=NW/date={day}/{n:05}.parquet" for n in range(25_000)))
    seen.bucket.seconds = 0.1

    assert seen.tick() == []
    assert seen.tick_until_quiet(12) == [f"NW {day}"]
