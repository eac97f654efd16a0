"""Many partitions share one Spark job, and each commits or fails on its own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from lake_assets.errors import (
    CatalogLockedError,
    EmptySourceError,
    LakeAssetsError,
    OutsidePartitionError,
    SourceError,
    SparkUnavailableError,
)
from lake_assets.events import listening
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import Outcome
from lake_assets.ingest.replace import write_step as writing
from lake_assets.ingest.replace.replace_run import COMMITS, ReplaceRun
from lake_assets.ingest.run import passing_on_interrupts
from lake_assets.lake.commit.strategy import commit
from lake_assets.parquet.job import Job, JobResult
from lake_assets.report.state import read_state
from lake_assets.spark.pass_through import pass_through
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.world import NW, SW, World, sales

DATE = {"type": "date", "start": "2026-02-01"}
NE = "region=NE,date=2026-02-11"
TEXTS = [f"region=R{number},date=2026-02-1{day}" for number in range(6) for day in range(3)]


def ingested(
    world: World, *texts: str, checkpoint: Callable[[], None] = lambda: None, **options: Any
) -> dict[str, Outcome]:
    """The outcomes by the partition's text."""
    by_partition = {world.partition(text): text for text in texts}
    return {
        by_partition[outcome.partition]: outcome
        for outcome in ingest_all(world.stream, by_partition, world.sessions, IngestOptions(**options), checkpoint)
    }


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of partitions of each Spark job."""
    seen: list[int] = []

    def counted(spark: Any, job: Job) -> list[JobResult]:
        seen.append(len(job.partitions))
        return pass_through(spark, job)

    monkeypatch.setattr(writing, "pass_through", counted)
    return seen


@pytest.mark.parametrize("mode", ["replace", "index"])
def test_a_partition_outside_the_config_is_refused_with_all_others(local_world: World, mode: str) -> None:
    local_world.options = {"mode": mode, "partitions": {"region": {"values": ["NW", "SW"]}, "date": DATE}}
    local_world.land(NW, sales(1))
    partitions = [local_world.partition(text) for text in (NW, NE)]

    with pytest.raises(OutsidePartitionError, match="region=NE is not in `values`"):
        list(ingest_all(local_world.stream, partitions, local_world.sessions))
    with pytest.raises(OutsidePartitionError, match="region=NE is not in `values`"):
        list(index_all(local_world.stream, partitions, options=IngestOptions(run_id="x")))

    assert not Path(local_world.catalog["path"]).exists()


@pytest.mark.parametrize(("options", "commits"), [({}, 1), ({"commit_batch": 1}, 18)], ids=["default", "one by one"])
def test_all_partitions_share_one_job_and_by_default_one_commit(
    local_world: World, jobs: list[int], options: dict[str, int], commits: int
) -> None:
    local_world.options = dict(options)
    for number, text in enumerate(TEXTS):
        local_world.land(text, sales(number, number + 0.5))

    outcomes = ingested(local_world, *TEXTS)

    assert jobs == [18]
    snapshots = {outcome.result.row.snapshot_id for outcome in outcomes.values() if outcome.result}
    assert len(snapshots) == commits
    for number, text in enumerate(TEXTS):
        assert local_world.totals(text) == [number, number + 0.5]
    assert {row.run_id for row in local_world.ledger()} == {local_world.ledger()[0].run_id}


def test_a_second_run_reads_changed_partitions_only(local_world: World, jobs: list[int]) -> None:
    for text in TEXTS:
        local_world.land(text, sales(1))
    ingested(local_world, *TEXTS)
    local_world.land(TEXTS[5], sales(7))
    local_world.land(TEXTS[9], sales(9))

    outcomes = ingested(local_world, *TEXTS)

    assert jobs == [18, 2]
    done = [text for text, o in outcomes.items() if o.result and o.result.row.status == "committed"]
    assert sorted(done) == sorted([TEXTS[5], TEXTS[9]])
    assert local_world.totals() == [1] * 16 + [7, 9]


def test_a_bad_partition_fails_alone(local_world: World, jobs: list[int]) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, b"no Parquet")
    local_world.land(TEXTS[0], sales(2))

    outcomes = ingested(local_world, NW, SW, TEXTS[0], NE)

    assert jobs == [3]
    assert isinstance(outcomes[SW].error, SourceError)
    assert isinstance(outcomes[NE].error, EmptySourceError)
    assert local_world.totals() == [1, 2]
    assert {row.load_partition: row.status for row in local_world.ledger()} == {
        local_world.partition(NW).path: "committed",
        local_world.partition(SW).path: "failed",
        local_world.partition(TEXTS[0]).path: "committed",
    }


def test_the_first_object_that_can_be_read_makes_the_table(local_world: World) -> None:
    local_world.land(NW, b"no Parquet")
    local_world.land(SW, sales(2))

    outcomes = ingested(local_world, NW, SW)

    assert outcomes[NW].error is not None
    assert local_world.totals() == [2]


def test_if_a_job_fails_each_partition_is_retried_on_its_own(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    bad = local_world.partition(SW)

    def brought_down(spark: Any, job: Job) -> list[JobResult]:
        if bad in [partition.partition for partition in job.partitions]:
            raise SourceError("an executor was lost.")
        return pass_through(spark, job)

    monkeypatch.setattr(writing, "pass_through", brought_down)

    outcomes = ingested(local_world, NW, SW)

    assert str(outcomes[SW].error) == "an executor was lost."
    assert local_world.totals() == [1]


def test_without_spark_no_partition_is_tried_and_all_are_in_the_ledger(local_world: World) -> None:
    texts = [f"region=R{number},date=2026-02-11" for number in range(3)]
    for text in texts:
        local_world.land(text, sales(1))
    starts = []

    def no_java() -> Any:
        starts.append(1)
        raise SparkUnavailableError("there is no Java.")

    local_world.sessions = no_java
    ingest_groups_of(1, lambda: ingested(local_world, *texts))

    assert len(starts) == 1
    assert [row.error for row in local_world.ledger()] == ["SparkUnavailableError: there is no Java."] * 3


def test_a_partition_without_objects_is_cleared_though_spark_is_not_there(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.unland(NW)
    local_world.land(SW, sales(2))

    def no_java() -> Any:
        raise SparkUnavailableError("there is no Java.")

    local_world.sessions = no_java
    outcomes = ingested(local_world, SW, NW)

    assert isinstance(outcomes[SW].error, SparkUnavailableError)
    assert (outcomes[NW].error, outcomes[NW].row.status) == (None, "committed")
    assert local_world.totals() == []


def test_a_partition_that_lands_again_before_it_is_cleared_is_read(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    local_world.commit(NW, 1)
    local_world.unland(NW)

    with before("verify", lambda _: local_world.land(NW, sales(2))):
        row = local_world.ingest(NW).row

    assert (row.row_count, row.source_files) == (1, 1)
    assert local_world.totals() == [2]


def test_after_an_error_of_all_no_partition_is_cleared_or_written(local_world: World, jobs: list[int]) -> None:
    local_world.options["on_empty"] = "clear"
    cleared = [f"region=R{number},date=2026-02-11" for number in range(COMMITS + 1)]  # two openings of the lake
    for text in cleared:
        local_world.land(text, sales(1))
    ingested(local_world, *cleared)
    for text in cleared:
        local_world.unland(text)
    local_world.land(NW, sales(2))
    jobs.clear()

    def lock(_: object) -> None:
        raise CatalogLockedError("another process has locked the catalog:", "run it again.")

    with before("commit", lock):
        outcomes = ingested(local_world, *cleared, NW)

    (error,) = {outcome.error for outcome in outcomes.values()}
    assert isinstance(error, CatalogLockedError)
    assert local_world.totals() == [1] * len(cleared)
    assert jobs == []


def test_an_unreachable_catalog_ends_the_run_at_once(local_world: World) -> None:
    texts = [f"region=R{number},date=2026-02-11" for number in range(3)]
    for text in texts:
        local_world.land(text, sales(1))
    local_world.catalog = {"type": "sqlite", "path": "/proc/no/such/catalog.sqlite"}

    outcomes = ingest_groups_of(1, lambda: ingested(local_world, *texts))

    assert len({id(outcome.error) for outcome in outcomes.values()}) == 1
    error = outcomes[texts[0]].error
    assert error is not None
    assert len(error.__notes__) == 1  # that no ledger row could be written, told once


def test_an_interrupt_of_a_checkpoint_cancels_only_partitions_that_have_begun(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (NW, SW, NE):
        local_world.land(text, sales(1))
    monkeypatch.setattr(ReplaceRun, "group", 2)
    calls = []

    def after_the_listing() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingested(local_world, NW, SW, NE, checkpoint=after_the_listing)

    rows = {row.load_partition: (row.status, row.error) for row in local_world.ledger()}
    assert rows == {local_world.partition(text).path: ("cancelled", None) for text in (NW, SW)}


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
    monkeypatch.setattr(stream.lake, "_turn", Turn())

    with pytest.raises(KeyboardInterrupt):
        list(ingest_all(stream, [local_world.partition(NW)], local_world.sessions))

    assert [row.status for row in local_world.ledger()] == ["cancelled"]


class Turn:
    """A lock that fails after 5 seconds if another block holds it, where a real one blocks for ever."""

    def __init__(self) -> None:
        self.lock = Lock()

    def __enter__(self) -> None:
        assert self.lock.acquire(timeout=5), "another block holds the lock"

    def __exit__(self, *error: object) -> None:
        self.lock.release()


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

    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    monkeypatch.setattr(f"lake_assets.ingest.{run}.commit", interrupted)
    events: list[tuple[str | None, str | None]] = []
    with (
        listening(lambda event: events.append((event.partition, event.status)) if event.event == "partition" else None),
        pytest.raises(KeyboardInterrupt),
    ):
        ingested(local_world, NW, SW)

    other = "cancelled" if mode == "replace" else "committed"  # mode index commits them together
    expected = {local_world.partition(NW).path: "committed", local_world.partition(SW).path: other}
    assert sorted((row.load_partition, row.status) for row in local_world.ledger()) == sorted(expected.items())
    assert sorted(events) == sorted(expected.items())


def test_an_error_that_an_interrupt_made_is_none_of_the_partition_s(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends Spark too; the partition with a damaged object has failed before."""
    pressed = []

    def away() -> Any:
        pressed.append(1)
        raise SparkUnavailableError("Spark has ended:", "start it again.")

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    local_world.land(NW, sales(1))
    local_world.land(SW, b"")
    monkeypatch.setattr(local_world, "sessions", away)

    with pytest.raises(KeyboardInterrupt):
        ingested(local_world, NW, SW, checkpoint=check)

    rows = {row.load_partition: row.status for row in local_world.ledger()}
    assert rows == {local_world.partition(NW).path: "cancelled", local_world.partition(SW).path: "failed"}


def cancel(world: World, text: str) -> None:
    """A run of the partition that is cancelled after its listing."""
    calls: list[int] = []

    def second() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingested(world, text, force=True, checkpoint=second)


def test_a_cancelled_run_does_not_hide_the_failure_before_it(local_world: World) -> None:
    local_world.land(NW, b"no Parquet")
    with pytest.raises(SourceError):
        local_world.ingest(NW)
    (failed,) = (partition for partition in read_state(local_world.stream).partitions if partition.objects)

    cancel(local_world, NW)

    (after,) = (item for item in read_state(local_world.stream).partitions if item.objects)
    assert [row.status for row in local_world.ledger()] == ["cancelled", "failed"]
    assert (after.state, after.error, after.finished_at) == ("failed", failed.error, failed.finished_at)
    assert after.error is not None


def test_a_cancelled_run_does_not_change_the_state_of_partitions(local_world: World) -> None:
    local_world.land(NW, sales(1))
    cancel(local_world, NW)
    never = read_state(local_world.stream).partitions
    local_world.ingest(NW)
    cancel(local_world, NW)
    after = read_state(local_world.stream).partitions

    stand = (
        {item.partition: item.state for item in never if item.objects},
        {value.partition: value.state for value in after if value.objects},
    )
    assert stand == ({local_world.partition(NW): "missing"}, {local_world.partition(NW): "committed"})
    assert [row.status for row in local_world.ledger()] == ["cancelled", "committed", "cancelled"]


def ingest_groups_of(size: int, work: Callable[[], dict[str, Outcome]]) -> dict[str, Outcome]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReplaceRun, "group", size)
        return work()


def test_large_partitions_get_a_job_each(local_world: World, jobs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.GROUP_BYTES", 1)
    for text in (NW, SW):
        local_world.land(text, sales(1))

    outcomes = ingested(local_world, NW, SW)

    assert jobs == [1, 1]
    assert not any(isinstance(outcome.error, LakeAssetsError) for outcome in outcomes.values())


def test_an_interrupt_in_the_callers_loop_cancels_partitions_that_have_begun(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.COMMITS", 1)
    local_world.options = {"commit_batch": 1}
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    partitions = [local_world.partition(NW), local_world.partition(SW)]

    outcomes = ingest_all(local_world.stream, partitions, local_world.sessions)

    def ask() -> None:
        with passing_on_interrupts(outcomes):
            for _ in outcomes:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask()

    assert sorted((row.load_partition, row.status) for row in local_world.ledger()) == [
        (partitions[0].path, "committed"),
        (partitions[1].path, "cancelled"),
    ]
