"""The events of a run: their figures are those of the ledger, and each partition has one outcome."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lake_assets.base.errors import EmptySourceError
from lake_assets.base.events import Event, listening, report
from lake_assets.ingest.outcome import counted_outcomes
from lake_assets.lake.commit import strategy
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.ingest.batches import ingest_texts
from lake_assets_tests.world import NW, SW, World, sales

EMPTY, SE = "region=NE,date=2026-02-11", "region=SE,date=2026-02-11"


@pytest.fixture
def seen() -> Iterator[list[Event]]:
    """All events of the test."""
    found: list[Event] = []
    with listening(found.append):
        yield found


def test_the_partitions_of_a_run_are_counted_without_those_of_other_streams_and_runs() -> None:
    ended = [
        ("r", "sales", "committed"),
        ("r", "other", "committed"),
        ("q", "sales", "failed"),
        ("r", "sales", "failed"),
    ]
    with counted_outcomes("r", "sales") as counts:
        for run, stream, status in ended:
            report("partition", run=run, stream=stream, status=status, rows=2 if status == "committed" else None)
    report("partition", run="r", stream="sales", status="committed", rows=2)

    assert counts == {"committed": 1, "failed": 1, "rows": 2}


def of(seen: list[Event], event: str) -> list[Event]:
    return [found for found in seen if found.event == event]


def test_a_commit_is_steps_and_an_outcome_with_the_figures_of_its_ledger_row(
    local_world: World, seen: list[Event]
) -> None:
    local_world.land(NW, sales(1, 2))

    ingest_texts(local_world, [NW], run_id="r")

    (row,) = local_world.ledger()
    steps = {event.step: event for event in of(seen, "step")}
    assert [step for step in steps if step != "start"] == ["list", "check", "job", "verify", "commit"]
    assert {(e.run, e.stream, e.partition) for e in steps.values()} == {("r", "sales", row.load_partition)}
    assert (steps["list"].objects, steps["list"].bytes) == (1, row.source_bytes)
    assert (steps["job"].rows, steps["job"].files, steps["job"].bytes) == (2, 1, row.bytes_written)
    assert (steps["commit"].rows, steps["commit"].snapshot) == (2, row.snapshot_id)
    (outcome,) = of(seen, "partition")
    assert (outcome.status, outcome.rows, outcome.rows_before, outcome.files) == ("committed", 2, 0, 1)
    assert (outcome.bytes, outcome.snapshot, outcome.mode) == (row.bytes_written, row.snapshot_id, "replace")
    (begin,), (end,) = of(seen, "run_started"), of(seen, "run")
    assert (begin.partitions, end.status, end.committed, end.skipped, end.failed) == (1, "committed", 1, 0, 0)
    assert [seen[0].event, seen[-1].event] == ["run_started", "run"]


def test_each_partition_has_one_outcome(local_world: World, seen: list[Event]) -> None:
    local_world.land(NW, sales(1))
    ingest_texts(local_world, [NW])
    local_world.land(SW, b"no parquet")
    local_world.land(SE, sales(1, 2, 3))
    seen.clear()

    ingest_texts(local_world, [NW, SW, EMPTY, SE])

    (job,) = (event for event in of(seen, "step") if event.step == "job")
    assert (job.partitions, job.partition, job.rows, job.objects) == (2, None, 3, 2)
    outcomes = {event.partition: event for event in of(seen, "partition")}
    assert {name: event.status for name, event in outcomes.items()} == {
        "region=NW/date=2026-02-11": "skipped",
        "region=SW/date=2026-02-11": "failed",
        "region=NE/date=2026-02-11": "failed",
        "region=SE/date=2026-02-11": "committed",
    }
    failed = outcomes["region=SW/date=2026-02-11"]
    assert (failed.level, failed.kind) == (logging.ERROR, "SourceError")
    assert "cannot be read as Parquet" in (failed.message or "")
    assert outcomes["region=NE/date=2026-02-11"].kind == EmptySourceError.__name__
    (end,) = of(seen, "run")
    assert (end.status, end.level, end.committed, end.skipped, end.failed) == ("failed", logging.ERROR, 1, 1, 2)


@pytest.mark.more
def test_mode_index_reports_its_registration(local_world: World, seen: list[Event]) -> None:
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1, 2))

    ingest_texts(local_world, [NW])

    steps = {event.step: event for event in of(seen, "step")}
    assert list(steps) == ["list", "register"]
    assert (steps["register"].files, steps["register"].rows) == (1, 2)
    (outcome,) = of(seen, "partition")
    assert (outcome.status, outcome.mode, outcome.rows) == ("committed", "index", 2)
    assert len(of(seen, "run")) == 1


def test_a_cancelled_run_says_what_became_of_its_partitions(local_world: World, seen: list[Event]) -> None:
    local_world.land(NW, sales(1))

    def press() -> None:
        if any(event.step == "check" for event in seen):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_texts(local_world, [NW], checkpoint=press)

    assert [event.status for event in of(seen, "partition")] == ["cancelled"]
    assert [(event.status, event.level) for event in of(seen, "run")] == [("cancelled", logging.WARNING)]


def test_a_conflict_is_an_event_of_its_partition(
    local_world: World, seen: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    replace = strategy._replace
    overtaken = iter([True, True])

    def conflicting(*arguments: Any) -> list[LedgerRow]:
        if next(overtaken, False):
            raise duckdb.TransactionException("Transaction conflict: another writer was faster than password=hunter2")
        return replace(*arguments)

    monkeypatch.setattr(strategy, "_replace", conflicting)
    ingest_texts(local_world, [NW])

    assert [(e.retry, e.kind, e.partition) for e in of(seen, "retry")] == [
        (1, "conflict", "region=NW/date=2026-02-11"),
        (2, "conflict", "region=NW/date=2026-02-11"),
    ]
    assert not any("hunter2" in str(event.fields) for event in seen)


def test_exports_restores_and_maintenance_are_steps(local_world: World, seen: list[Event], tmp_path: Path) -> None:
    local_world.options = {"deltas": {"to": str(tmp_path / "deltas")}}
    first = local_world.commit(NW, 1, 2).snapshot_id
    (export,) = (event for event in of(seen, "step") if event.step == "export")
    assert (export.rows, export.files, export.partition) == (2, 1, "region=NW/date=2026-02-11")
    local_world.commit(NW, 3)
    assert first is not None

    restored = Restoration(local_world.stream, local_world.partition(NW), first).run()
    local_world.tidy()

    steps = {event.step: event for event in of(seen, "step")}
    step = steps["restore"]
    assert restored.row is not None
    assert (step.rows, step.snapshot, step.partition) == (2, restored.row.snapshot_id, "region=NW/date=2026-02-11")
    step = steps["maintain"]
    assert (step.lake, step.snapshots, step.failed) == ("test", 0, 0)
