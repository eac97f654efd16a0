"""The cost of scans in a bucket of 200,000 objects, in requests and keys listed; `dev/benchmarks` has more."""

import datetime as dt
from collections.abc import Iterator

import pytest

from lake_assets.detection.cursor import Cursor
from lake_assets.detection.digests import MOST
from lake_assets_tests.detection.bucket import NOW, Bucket
from lake_assets_tests.detection.watch import Watch, stream_of

pytestmark = pytest.mark.long

REGIONS = ("MW", "NE", "NW", "SE", "SW")
DAYS = 1000
A_DAY = 40  # objects of a region's day
TOTAL = len(REGIONS) * DAYS * A_DAY
LONG_AGO = NOW - dt.timedelta(days=100)


def keys() -> Iterator[str]:
    for region in REGIONS:
        for day in range(DAYS):
            date = NOW.date() - dt.timedelta(day)
            yield from (f"region={region}/date={date}/batch_{n:04}.parquet" for n in range(A_DAY))


@pytest.fixture(scope="module")
def read_once() -> tuple[Watch, list[int], list[float], list[str]]:
    """A sensor that has read all objects, with the listings and the duration of each tick."""
    seen = Watch(stream_of(budget=4), Bucket.of(keys(), LONG_AGO))
    seen.bucket.seconds = 0.1  # what a request of a thousand keys takes where it takes long
    listed, seconds, started = [], [], []
    while not seen.cursor or Cursor.load(seen.cursor, seen.stream).first:
        before, begun = seen.bucket.listed, seen.bucket.time
        started += seen.tick()
        listed.append(seen.bucket.listed - before)
        seconds.append(seen.bucket.time - begun)
    return seen, listed, seconds, started


@pytest.fixture
def seen(read_once: tuple[Watch, list[int], list[float], list[str]]) -> Watch:
    watch = read_once[0]
    return Watch(watch.stream, watch.bucket, watch.now, watch.cursor, set(watch.run_keys))


def test_the_first_reading_takes_several_ticks_each_within_its_budget(
    read_once: tuple[Watch, list[int], list[float], list[str]],
) -> None:
    _, listed, seconds, started = read_once

    assert 5 <= len(listed) <= 8
    assert max(seconds) <= 4 + 1
    assert sum(listed) < 1.1 * TOTAL  # nothing is read twice but the active partitions
    assert len(started) == len(set(started)) == len(REGIONS) * DAYS


def test_a_steady_tick_lists_the_active_partitions_and_a_slice_of_the_others(seen: Watch) -> None:
    before, requests = seen.bucket.listed, seen.bucket.requests

    assert seen.tick() == []

    active = len(REGIONS) * 3 * A_DAY
    assert seen.bucket.listed - before <= active + 5000 + 2000  # a slice ends with a range and with a page
    # One for the regions, one for each region, and one for each thousand keys of the slice.
    assert seen.bucket.requests - requests <= 1 + len(REGIONS) + 7
    assert seen.cursor is not None
    assert len(seen.cursor) < 17_000


def test_a_sweep_takes_one_tick_for_each_slice(seen: Watch) -> None:
    late = "region=NE/date=2024-02-29/late.parquet"
    seen.bucket.put(late, at=NOW)
    ticks = 0
    started: list[str] = []
    while not started:
        started = seen.tick()
        ticks += 1
        assert ticks <= TOTAL / 5000

    assert started == ["NE 2024-02-29"]  # though its range has several days
    assert seen.tick() == []
    seen.bucket.delete(late)


def test_a_cursor_does_not_grow_with_the_partitions(seen: Watch) -> None:
    ranges = Cursor.load(seen.cursor, seen.stream).ranges
    assert len(ranges) <= MOST
    assert sum(range_.folders for range_ in ranges) == len(REGIONS) * (DAYS - 3)
    assert sum(range_.digest.objects for range_ in ranges) == len(REGIONS) * (DAYS - 3) * A_DAY


def test_a_partition_that_no_tick_can_read_whole_is_read_over_several() -> None:
    seen = Watch(stream_of(budget=1), Bucket.of(f"region=NW/date=2025-01-01/{n:05}.parquet" for n in range(25_000)))
    seen.bucket.seconds = 0.1

    assert seen.tick() == []

    assert seen.tick_until_quiet(5) == ["NW 2025-01-01"]


def test_an_active_partition_that_no_tick_can_read_whole_is_read_over_several() -> None:
    seen = Watch(stream_of(budget=1), Bucket.of(f"region=NW/date=2026-02-11/{n:05}.parquet" for n in range(25_000)))
    seen.bucket.seconds = 0.1

    started = seen.tick_until_quiet(12)

    assert started == ["NW 2026-02-11"]
