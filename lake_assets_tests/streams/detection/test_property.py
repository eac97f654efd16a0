"""For any changes of a bucket, each state of a partition is requested once, and none is lost."""

import datetime as dt
import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from lake_assets.streams.detection.cursor import Cursor
from lake_assets_tests.streams.detection.bucket import Bucket
from lake_assets_tests.streams.detection.watch import Watch, stream_of
from lake_assets_tests.tiers import more

DAYS = ["2025-01-01", "2025-01-02", "2025-06-01", "2026-02-09", "2026-02-10", "2026-02-11"]
REGIONS = ["NW", "NW-2", "SW"]
folders = st.builds("region={}/date={}".format, st.sampled_from(REGIONS), st.sampled_from(DAYS))
names = st.sampled_from(["a", "b", "c"]).map("{}.parquet".format)
keys = st.builds("{}/{}".format, folders, names)
# Of the bucket's clock; a multipart upload has the time of its beginning, and a moved file keeps its old time.
skews = st.sampled_from([0, 0, 0, 1, 1800, 400 * 86_400]).map(lambda seconds: dt.timedelta(seconds=seconds))


class Landing(RuleBasedStateMachine):
    """Writers put, rewrite and delete objects while a sensor scans; some ticks are lost before they were recorded."""

    begin_at_once = True  # the runs that a tick requests

    @initialize(most=st.sampled_from([1, 2, 25]), lookback=st.sampled_from([0, 2]), tree=st.booleans())
    def begin(self, most: int, lookback: int, tree: bool) -> None:
        self.watch = Watch(stream_of(lookback=lookback), Bucket(tree=tree), most=most)
        self.watch.queue = None if self.begin_at_once else set()
        self.etags = 0
        self.sent: dict[str, Any] = {}  # the objects of each partition when a run last started

    def state(self, partition: str) -> dict[str, str]:
        region, date = partition.split()
        return {
            key: etag
            for key, (etag, _, _) in self.watch.bucket.objects.items()
            if key.startswith(f"region={region}/date={date}/")
        }

    def run(self, started: list[str]) -> None:
        for partition in started:
            self.sent[partition] = self.state(partition)

    @rule(key=keys, skew=skews)
    def put(self, key: str, skew: dt.timedelta) -> None:
        self.etags += 1
        self.watch.bucket.put(key, f"{self.etags:x}", self.watch.now - skew)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.watch.bucket.keys:
            self.watch.bucket.delete(data.draw(st.sampled_from(self.watch.bucket.keys)))

    @rule()
    def tick(self) -> None:
        self.run(self.watch.tick())

    @rule()
    def lost_tick(self) -> None:
        before = self.watch.cursor
        self.watch.scan()
        self.watch.cursor = before

    @rule()
    def a_day_passes(self) -> None:
        self.watch.now += dt.timedelta(days=1)

    @rule()
    def nothing_is_lost(self) -> None:
        self.run(self.watch.tick_until_quiet(12))
        for partition in {f"{r} {d}" for r in REGIONS for d in DAYS}:
            now, sent = self.state(partition), self.sent.get(partition, {})
            # Old partitions may keep what the landing zone has forgotten.
            assert now.items() <= sent.items(), partition
        assert self.watch.tick_until_quiet(3) == []


class QueuedLanding(Landing):
    """The same with runs that begin later: a partition never has two that have not begun."""

    begin_at_once = False

    def run(self, started: list[str]) -> None:
        """Nothing begins yet."""

    @rule(data=st.data())
    def begin_run(self, data: st.DataObject) -> None:
        if self.watch.queue:
            partition = data.draw(st.sampled_from(sorted(self.watch.queue)))
            self.watch.queue.remove(partition)
            super().run([partition])

    @rule()
    def nothing_is_lost(self) -> None:
        self.watch.tick_until_quiet(12)
        assert self.watch.queue is not None
        super().run(sorted(self.watch.queue))
        self.watch.queue.clear()
        super().nothing_is_lost()


class JoinedLanding(Landing):
    """The same with a cursor that holds two ranges only."""

    @rule()
    def join(self) -> None:
        cursor = Cursor.load(self.watch.cursor, self.watch.stream)
        cursor.ranges.shrink(2)
        self.watch.cursor = cursor.dump()


@pytest.mark.parametrize("machine", [Landing, *more([QueuedLanding, JoinedLanding])])
def test_each_state_of_a_partition_is_requested_once_and_none_is_lost(machine: type[Landing]) -> None:
    same = settings(max_examples=10, stateful_step_count=30, deadline=None, derandomize=True, database=None)
    run_state_machine_as_test(machine, settings=same)


@pytest.mark.soak
@pytest.mark.parametrize("machine", [Landing, QueuedLanding, JoinedLanding])
def test_so_it_is_under_random_changes(machine: type[Landing]) -> None:
    examples = int(os.environ.get("LAKE_ASSETS_EXAMPLES", "100"))
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None))
