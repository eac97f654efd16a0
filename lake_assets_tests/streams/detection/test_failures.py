"""Which failed partitions a schedule tries again; `report/test_state.py` has when."""

import datetime as dt
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from lake_assets.config.layout.partition import Partition
from lake_assets.streams.detection import requests
from lake_assets_tests.orchestration.ticks import Clock
from lake_assets_tests.world import World


def test_a_look_at_ten_thousand_failed_partitions_ends_in_time_and_the_next_begins_elsewhere(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, clock, now = local_world.stream, Clock(), dt.datetime(2026, 2, 12, tzinfo=dt.UTC)
    columns, date = stream.config.columns, "2026-02-11"
    due = [Partition.of(columns, {"region": f"R{number}", "date": date}) for number in range(10_000)]
    looked: set[Partition] = set()

    def look(_: object, partitions: Sequence[Partition]) -> dict[Partition, bool]:
        looked.update(partitions)
        clock.passes(1)
        return dict.fromkeys(partitions, True)

    monkeypatch.setattr(requests, "time", clock)
    monkeypatch.setattr(requests, "next_tries", lambda *_: dict.fromkeys(due, now))
    monkeypatch.setattr(type(stream.lake), "open_if_exists", lambda _: nullcontext(object()))
    monkeypatch.setattr(requests, "Calendar", lambda *_: SimpleNamespace(outside=lambda _: None))
    monkeypatch.setattr(requests, "failed_for_good", look)

    for minutes in range(3):
        begun, before = clock.now, len(looked)
        assert requests.due_again(stream, now + dt.timedelta(minutes=minutes), 10) == []
        assert clock.now - begun <= requests.BUDGET_SECONDS + 1
        assert len(looked) > before
    monkeypatch.setattr(requests, "failed_for_good", lambda _, partitions: dict.fromkeys(partitions, False))
    assert len(requests.due_again(stream, now, 10)) == 10
