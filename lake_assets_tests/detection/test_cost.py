"""The cost of scans in a bucket of 100,000 objects, in requests and keys listed; `dev/benchmarks` has more."""

import datetime as dt
from collections.abc import Iterator

import pytest

from lake_assets.detection.cursor import Cursor
from lake_assets.detection.digests import MOST
from lake_assets_tests.detection.bucket import NOW, Bucket
from lake_assets_tests.detection.watch import Watch, stream_of

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
