"""The lag of a stream: since when landed objects are not in the lake."""

import datetime as dt
import os

import pytest

from lake_assets.streams.pending import Lag, lag_of
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["sessions"]


def land(world: World, text: str, name: str, hours_ago: float) -> None:
    uri = world.land(text, sales(1), name)
    seconds = (dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours_ago)).timestamp()
    os.utime(uri, (seconds, seconds))


def lag(world: World, hours: float = 0, *texts: str) -> Lag:
    partitions = [world.partition(text) for text in texts] if texts else None
    return lag_of(world.stream, partitions, dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours))


def test_a_lake_that_does_not_exist_lags_since_the_oldest_object(local_world: World) -> None:
    land(local_world, NW, "a.parquet", 5)
    land(local_world, SW, "b.parquet", 2)

    found = lag(local_world)

    assert [partition.path for partition in found.pending] == ["region=NW/date=2026-02-11", "region=SW/date=2026-02-11"]
    assert found.seconds == pytest.approx(5 * 3600, abs=600)
    assert (found.undated, found.newest_commit) == (0, None)


def test_nothing_lags_after_a_commit_and_the_next_object_does(local_world: World) -> None:
    land(local_world, NW, "a.parquet", 5)
    local_world.ingest(NW)
    after = lag(local_world)
    land(local_world, NW, "b.parquet", -1)

    assert (after.pending, after.since, after.seconds) == ((), None, 0)
    assert after.newest_commit is not None
    assert lag(local_world, 4).seconds == pytest.approx(3 * 3600, abs=600)


def test_only_the_named_partitions_that_the_config_has_lag(local_world: World) -> None:
    for text in (NW, SW, "region=NW,date=2025-12-31"):
        land(local_world, text, "a.parquet", 5)

    assert [partition.path for partition in lag(local_world, 0, SW).pending] == ["region=SW/date=2026-02-11"]
    assert len(lag(local_world).pending) == 2
