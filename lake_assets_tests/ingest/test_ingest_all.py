"""Many partitions share one Spark job, and each commits or fails on its own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, NoReturn
from unittest.mock import Mock

import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogLockedError, EmptySourceError, SourceError, SparkUnavailableError
from lake_assets.base.events import Event, listening
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.replace.replace_run import KEYS_AT_ONCE, ReplaceRun
from lake_assets.ingest.run import passing_on_interrupts
from lake_assets.lake.commit.strategy import commit
from lake_assets.spark import spark_jobs
from lake_assets.spark.spark_jobs import pass_through
from lake_assets.spark.task.job import Job, JobResult
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.batches import ingest_texts
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.world import NW, SW, World, sales

NE = "region=NE,date=2026-02-11"
TEXTS = [f"region=R{number},date=2026-02-1{day}" for number in range(6) for day in range(3)]


def land(world: World, *texts: str) -> None:
    for text in texts:
        world.land(text, sales(1))


def statuses(world: World) -> dict[str, str]:
    """The newest status of each partition, by its text."""
    return {row.load_partition.replace("/", ","): row.status for row in world.ledger()[::-1]}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of partitions of each Spark job."""
    seen: list[int] = []

    def counted(spark: Any, job: Job) -> list[JobResult]:
        seen.append(len(job.partitions))
        return pass_through(spark, job)

    monkeypatch.setattr(spark_jobs, "pass_through", counted)
    return seen


def test_all_partitions_share_one_job_and_a_second_run_reads_changed_ones_only(
    local_world: World, jobs: list[int]
) -> None:
    for number, text in enumerate(TEXTS):
        local_world.land(text, sales(number, number + 0.5))

    outcomes = ingest_texts(local_world, TEXTS)

    assert jobs == [18]
    assert len({outcome.row.snapshot_id for outcome in outcomes.values()}) == 1
    assert len({row.run_id for row in local_world.ledger()}) == 1
    rows = local_world.query("SELECT region, date::VARCHAR, list(total ORDER BY total) FROM lake.sales GROUP BY ALL")
    assert {f"region={region},date={date}": totals for region, date, totals in rows} == {
        text: [number, number + 0.5] for number, text in enumerate(TEXTS)
    }

    for number in (5, 9):
        local_world.land(TEXTS[number], sales(100 + number))
    again = ingest_texts(local_world, TEXTS)
    assert jobs == [18, 2]
    assert [text for text in TEXTS if again[text].row.status == "committed"] == [TEXTS[5], TEXTS[9]]
    assert local_world.totals()[-2:] == [105, 109]


def test_bad_partitions_fail_alone_and_the_first_good_one_makes_the_table(local_world: World, jobs: list[int]) -> None:
    for text in (NW, TEXTS[0]):
        local_world.land(text, b"no Parquet")
    land(local_world, SW, TEXTS[1])

    outcomes = ingest_texts(local_world, [NW, SW, *TEXTS[:2], NE])

    assert jobs == [3]  # without the one that was to make the table
    assert {type(outcomes[text].error) for text in (NW, TEXTS[0])} == {SourceError}
    assert isinstance(outcomes[NE].error, EmptySourceError)
    assert local_world.totals() == [1, 1]
    assert statuses(local_world) == {NW: "failed", SW: "committed", TEXTS[0]: "failed", TEXTS[1]: "committed"}


def test_if_a_job_fails_each_partition_is_retried_on_its_own(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    bad = local_world.partition(SW)

    def brought_down(spark: Any, job: Job) -> list[JobResult]:
        if bad in {partition.partition for partition in job.partitions}:
            raise SourceError("an executor was lost.")
        return pass_through(spark, job)

    monkeypatch.setattr(spark_jobs, "pass_through", brought_down)

    outcomes = ingest_texts(local_world, [NW, SW])

    assert str(outcomes[SW].error) == "an executor was lost."
    assert local_world.totals() == [1]


def no_java() -> NoReturn:
    raise SparkUnavailableError("there is no Java.")


def test_without_spark_no_partition_is_tried_and_those_without_objects_are_cleared(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.options["on_empty"] = "clear"
    local_world.commit(NW, 1)
    local_world.unland(NW)
    land(local_world, *TEXTS[:3])
    local_world.sessions = starts = Mock(side_effect=no_java)
    monkeypatch.setattr(ReplaceRun, "group", 2)

    outcomes = ingest_texts(local_world, [TEXTS[0], NW, *TEXTS[1:3]])

    assert starts.call_count == 1
    assert (outcomes[NW].error, outcomes[NW].row.status) == (None, "committed")
    failed = [row.error for row in local_world.ledger() if row.status == "failed"]
    assert failed == ["SparkUnavailableError: there is no Java."] * 3
    assert local_world.totals() == []


def test_a_partition_that_lands_again_before_it_is_cleared_is_read(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    local_world.commit(NW, 1)
    local_world.unland(NW)

    with before("verify", lambda _: local_world.land(NW, sales(2))):
        row = local_world.ingest(NW).row

    assert (row.row_count, row.source_files) == (1, 1)
    assert local_world.totals() == [2]


@pytest.mark.more
def test_after_an_error_of_all_no_partition_is_cleared_or_written(local_world: World, jobs: list[int]) -> None:
    local_world.options["on_empty"] = "clear"
    cleared = [f"region=R{number},date=2026-02-11" for number in range(KEYS_AT_ONCE + 1)]  # two openings of the lake
    land(local_world, *cleared)
    ingest_texts(local_world, cleared)
    for text in cleared:
        local_world.unland(text)
    local_world.land(NW, sales(2))
    jobs.clear()

    def lock(_: object) -> None:
        raise CatalogLockedError("another process has locked the catalog:", "run it again.")

    with before("commit", lock):
        outcomes = ingest_texts(local_world, [*cleared, NW])

    (error,) = {outcome.error for outcome in outcomes.values()}
    assert isinstance(error, CatalogLockedError)
    assert local_world.totals() == [1] * len(cleared)
    assert jobs == []


def test_an_unreachable_catalog_ends_the_run_at_once(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    land(local_world, *TEXTS[:3])
    local_world.catalog = {"type": "sqlite", "path": "/proc/no/such/catalog.sqlite"}
    monkeypatch.setattr(ReplaceRun, "group", 1)

    (error,) = {outcome.error for outcome in ingest_texts(local_world, TEXTS[:3]).values()}

    assert error is not None
    assert len(error.__notes__) == 1  # that no ledger row could be written, told once


def at_call(number: int) -> Callable[[], None]:
    """Return a checkpoint that is interrupted at this call; the second is after the listing."""
    calls = count(1)

    def check() -> None:
        if next(calls) == number:
            raise KeyboardInterrupt

    return check


def test_an_interrupt_of_a_checkpoint_cancels_only_partitions_that_have_begun(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(local_world, NW, SW, NE)
    monkeypatch.setattr(ReplaceRun, "group", 2)

    with pytest.raises(KeyboardInterrupt):
        ingest_texts(local_world, [NW, SW, NE], checkpoint=at_call(2))

    assert statuses(local_world) == {NW: "cancelled", SW: "cancelled"}
    assert {row.error for row in local_world.ledger()} == {None}


def test_an_interrupt_while_the_lake_is_opened_for_commits_leaves_its_lock(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that comes when the lock is taken and the `with` has not begun: only the traceback holds the lock."""

    class Interrupted:
        def __init__(self, opened: AbstractContextManager[Any]) -> None:
            self.opened = opened

        def __enter__(self) -> None:
            self.opened.__enter__()
            raise KeyboardInterrupt

        def __exit__(self, *error: object) -> None:
            raise AssertionError("the block has not begun")

    local_world.land(NW, sales(1))
    stream = local_world.stream
    opened, calls = stream.lake.open, []

    def third(**options: Any) -> Any:
        calls.append(1)
        return Interrupted(opened(**options)) if len(calls) == 3 else opened(**options)

    monkeypatch.setattr(stream.lake, "open", third)

    with pytest.raises(KeyboardInterrupt):
        list(ingest_all(stream, [local_world.partition(NW)], local_world.sessions))

    assert [row.status for row in local_world.ledger()] == ["cancelled"]


@pytest.mark.parametrize("mode", ["replace", "index"])
def test_a_partition_whose_commit_went_through_before_an_interrupt_is_committed(
    local_world: World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    local_world.options = {"mode": mode} | ({"commit_batch": 1} if mode == "replace" else {})
    run = "replace.replace_run" if mode == "replace" else "index.register"

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.undo()
        commit(*arguments)
        raise KeyboardInterrupt

    land(local_world, NW, SW)
    monkeypatch.setattr(f"lake_assets.ingest.{run}.commit", interrupted)
    events: list[Event] = []
    with listening(events.append), pytest.raises(KeyboardInterrupt):
        ingest_texts(local_world, [NW, SW])

    other = "cancelled" if mode == "replace" else "committed"  # mode index commits them together
    assert statuses(local_world) == {NW: "committed", SW: other}
    told = {event.partition: event.status for event in events if event.event == "partition"}
    assert told == {local_world.partition(NW).path: "committed", local_world.partition(SW).path: other}


def test_an_error_that_an_interrupt_made_is_none_of_the_partition_s(local_world: World) -> None:
    """Ctrl-C ends Spark too; the partition with a damaged object has failed before."""
    local_world.land(NW, sales(1))
    local_world.land(SW, b"")
    local_world.sessions = away = Mock(side_effect=no_java)

    def check() -> None:
        if away.called:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_texts(local_world, [NW, SW], checkpoint=check)

    assert statuses(local_world) == {NW: "cancelled", SW: "failed"}


@pytest.mark.parametrize(
    ("landed", "status", "state"),
    [(b"no Parquet", "failed", "failed"), (sales(1), "committed", "committed"), (sales(1), None, "missing")],
)
def test_a_cancelled_run_does_not_change_the_state_of_a_partition(
    local_world: World, landed: pa.Table | bytes, status: str | None, state: str
) -> None:
    local_world.land(NW, landed)
    if status:
        ingest_texts(local_world, [NW])
    (earlier,) = (item for item in read_stream_state(local_world.stream).partitions if item.objects)

    with pytest.raises(KeyboardInterrupt):
        ingest_texts(local_world, [NW], force=True, checkpoint=at_call(2))

    (after,) = (item for item in read_stream_state(local_world.stream).partitions if item.objects)
    assert [row.status for row in local_world.ledger()] == ["cancelled", *([status] if status else [])]
    assert (after.state, after.error, after.finished_at) == (state, earlier.error, earlier.finished_at)
    assert (after.error is not None) == (state == "failed")


def test_large_partitions_get_a_job_each(local_world: World, jobs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.BYTES_AT_ONCE", 1)
    land(local_world, NW, SW)

    outcomes = ingest_texts(local_world, [NW, SW])

    assert jobs == [1, 1]
    assert {outcome.error for outcome in outcomes.values()} == {None}


def test_an_interrupt_in_the_callers_loop_cancels_partitions_that_have_begun(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.KEYS_AT_ONCE", 1)
    local_world.options = {"commit_batch": 1}
    land(local_world, NW, SW)
    partitions = [local_world.partition(NW), local_world.partition(SW)]

    outcomes = ingest_all(local_world.stream, partitions, local_world.sessions)

    def ask() -> None:
        with passing_on_interrupts(outcomes):
            for _ in outcomes:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask()

    assert statuses(local_world) == {NW: "committed", SW: "cancelled"}
