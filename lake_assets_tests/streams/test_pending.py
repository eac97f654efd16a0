"""Which failed partitions a schedule tries again; `upkeep/report/test_state.py` has when."""

import datetime as dt
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest

from lake_assets.config.layout.partition import Partition
from lake_assets.streams import pending
from lake_assets_tests.orchestration.ticks import Clock
from lake_assets_tests.world import World


def test_a_look_at_ten_thousand_failed_partitions_ends_in_time_and_the_next_begins_elsewhere(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, clock, now = local_world.stream, Clock(), dt.datetime(2026, 2, 12, tzinfo=dt.UTC)
    columns, date = stream.config.partition_columns, "2026-02-11"
    due = [Partition.of(columns, {"region": f"R{number}", "date": date}) for number in range(10_000)]
    looked: set[Partition] = set()

    def look(_: object, partitions: Sequence[Partition], verdict: str = "blocked") -> SimpleNamespace:
        looked.update(partitions)
        clock.passes(1)
        return SimpleNamespace(pending=partitions, verdict=lambda _: verdict)

    monkeypatch.setattr(pending, "time", clock)
    monkeypatch.setattr(pending, "next_tries", lambda *_: dict.fromkeys(due, now))
    monkeypatch.setattr(type(stream.lake), "open_if_exists", lambda _: nullcontext(object()))
    monkeypatch.setattr(pending, "Calendar", lambda *_: SimpleNamespace(outside=lambda _: None))
    monkeypatch.setattr(pending, "scan_landing", look)

    for minutes in range(3):
        begun, before = clock.now, len(looked)
        assert pending.due_again(stream, now + dt.timedelta(minutes=minutes), 10) == []
        assert clock.now - begun <= pending.BUDGET_SECONDS + 1
        assert len(looked) > before
    monkeypatch.setattr(pending, "scan_landing", partial(look, verdict="failed"))
    assert len(pending.due_again(stream, now, 10)) == 10
