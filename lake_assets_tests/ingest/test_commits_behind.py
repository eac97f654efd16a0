"""Many partitions are committed while Spark writes the next job's, and no error of one side reaches the other."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from lake_assets.base.errors import CatalogUnreachableError, SparkUnavailableError
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.replace import replace_run
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.lake.commit.strategy import commit
from lake_assets_tests.ingest.batches import BATCH, TEXTS, filled, ingest_texts
from lake_assets_tests.world import World

__all__ = ["filled"]

FIRST, LATER = TEXTS[:2], TEXTS[2:]


@pytest.fixture
def in_jobs(filled: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Jobs of two partitions, which are committed behind the next job."""
    assert len(TEXTS) == BATCH["commit_batch"]
    filled.options = {"commit_batch": 2}
    monkeypatch.setattr(replace_run, "JOB_PARTITIONS", 2)
    monkeypatch.setattr(replace_run, "KEYS_AT_ONCE", 2)
    return filled


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """Let the first commit and the second job wait for each other; then the job raises the item of the list, if any."""
    barrier, write = threading.Barrier(2, timeout=60), Writer.write
    jobs, errors = list[Any](), list[Any]()

    def late_write(writer: Writer, sessions: Any, runs: Sequence[PartitionRun]) -> None:
        jobs.append(runs)
        if len(jobs) == 2:
            barrier.wait()
            for error in errors:
                raise error
        write(writer, sessions, runs)

    def late_commit(*arguments: Any) -> Any:
        if not barrier.broken and len(jobs) <= 2:
            barrier.wait()
        return commit(*arguments)

    monkeypatch.setattr(Writer, "write", late_write)
    monkeypatch.setattr(replace_run, "commit", late_commit)
    return errors


def totals(first: float, later: float) -> list[float]:
    return sorted(
        start + number + part
        for start, texts in ((first, FIRST), (later, LATER))
        for number in map(TEXTS.index, texts)
        for part in (0, 0.5)
    )


def test_the_next_job_begins_before_partitions_are_committed(in_jobs: World, both: list[Exception]) -> None:
    assert both == []
    outcomes = ingest_texts(in_jobs)

    assert {outcome.error for outcome in outcomes.values()} == {None}
    assert list(outcomes) == TEXTS
    assert in_jobs.totals() == totals(20, 20)


def test_partitions_are_committed_though_the_next_job_fails(in_jobs: World, both: list[Exception]) -> None:
    both.append(SparkUnavailableError("Spark is away:", "start it."))
    outcomes = ingest_texts(in_jobs)

    assert [text for text, outcome in outcomes.items() if outcome.error is None] == FIRST
    assert {str(outcomes[text].error) for text in LATER} == {"Spark is away: start it."}
    assert in_jobs.totals() == totals(20, 10)


def test_an_interrupt_of_a_job_leaves_the_commits_before_it(in_jobs: World, both: list[BaseException]) -> None:
    both.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ingest_texts(in_jobs)

    newest = {row.load_partition: row.status for row in reversed(in_jobs.ledger())}
    of = {text: newest[in_jobs.partition(text).path] for text in TEXTS}
    assert {of[text] for text in FIRST} == {"committed"}
    assert {of[text] for text in TEXTS[2:4]} == {"cancelled"}
    assert in_jobs.totals() == totals(20, 10)


def test_a_catalog_that_is_lost_at_a_commit_leaves_no_file_of_the_next_job(
    in_jobs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = in_jobs.data_files()

    def lost(*_: object) -> None:
        raise CatalogUnreachableError("the server is away:", "try again.")

    monkeypatch.setattr(replace_run, "commit", lost)
    outcomes = ingest_texts(in_jobs)

    assert {str(outcome.error) for outcome in outcomes.values()} == {"the server is away: try again."}
    assert len(in_jobs.data_files() - files) <= len(FIRST)  # of an unknown commit
    assert in_jobs.totals() == totals(10, 10)
