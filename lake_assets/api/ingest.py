"""Ingest and plan partitions.

A function that needs Spark starts a session with the settings of the config, unless it gets one, and stops it at the
end.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from pyspark.sql import SparkSession

from lake_assets.api.partitions import PartitionLike, partition_like
from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.api import ingest, ingest_all
from lake_assets.ingest.dry_run import Plan, plan
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.partition_run import IngestResult, Outcome
from lake_assets.ingest.partition_runs import passing_on_interrupts
from lake_assets.layout.texts import count, first_lines
from lake_assets.spark.session import Sessions, own_session
from lake_assets.streams.calendar import refuse_outside
from lake_assets.streams.stream import OpenStream

NAMED_FAILURES = 20  # in the text of one error; `outcomes` has them all


class PartitionsFailedError(LakeAssetsError):
    """Some partitions of a run failed; the others are committed.

    Args:
        problem: as of `LakeAssetsError`.
        hint: as of `LakeAssetsError`.
        outcomes: the outcome of each partition of the run, the committed ones too.
    """

    def __init__(self, problem: str, hint: str = "", outcomes: Sequence[Outcome] = ()) -> None:
        super().__init__(problem, hint)
        self.outcomes = list(outcomes)


def ingest_partition(
    stream: OpenStream,
    partition: PartitionLike,
    *,
    spark: SparkSession | None = None,
    force: bool = False,
    outside: bool = False,
) -> IngestResult:
    """Refresh a partition of the lake from the landing zone, in one transaction.

    Args:
        stream: the stream, from `open_stream`.
        partition: which partition, in any form of `PartitionLike`.
        spark: the Spark session. When None, one is started if there is work for it, and stopped at the end. A session
            that already runs in this process is used and left running.
        force: read the partition even if its objects have not changed since the last commit.
        outside: also take a partition that the stream's config does not have.

    Returns:
        What was done: `result.row` is the ledger row. Its `status` is `committed`, or `skipped` if nothing has changed.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns, or the config does not have it.
        LakeAssetsError: the ingest failed. The lake's rows are unchanged, and the ledger has a `failed` row if the
            catalog could be reached.
    """
    wanted = partition_like(stream, partition)
    with _sessions(stream, spark) as sessions:
        return ingest(stream, wanted, sessions, IngestOptions(force=force, outside=outside))


def ingest_partitions(
    stream: OpenStream,
    partitions: Iterable[PartitionLike],
    *,
    spark: SparkSession | None = None,
    force: bool = False,
    landed_only: bool = False,
    outside: bool = False,
    check: bool = True,
) -> list[Outcome]:
    """Refresh many partitions of the lake from the landing zone, each in a transaction of its own.

    They are listed together and share Spark jobs. A partition that fails does not stop the others.

    Args:
        stream: the stream, from `open_stream`.
        partitions: which partitions, each in any form of `PartitionLike`; one that is named twice is ingested once.
        spark: the Spark session, as of `ingest_partition`.
        force: read the partitions even if their objects have not changed since the last commit.
        landed_only: leave out partitions that have no objects and were never committed.
        outside: also take partitions that the stream's config does not have.
        check: raise an error at the end if any partition failed. When False, look at the outcomes' `error`.

    Returns:
        One outcome for each partition, in the order in which they ended, with its `partition` and either its `result`
        or its `error`; both are None if it was left out.

    Raises:
        PartitionError: a partition does not fit the stream's partition columns, or the config does not have it.
            Nothing was done.
        PartitionsFailedError: some partitions failed, and `check` is set. The others are committed.
    """
    wanted = list(dict.fromkeys(partition_like(stream, partition) for partition in partitions))
    outcomes: list[Outcome] = []
    with _sessions(stream, spark) as sessions:
        running = ingest_all(
            stream, wanted, sessions, IngestOptions(force=force, landed_only=landed_only, outside=outside)
        )
        with passing_on_interrupts(running):
            outcomes.extend(running)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed and check:
        raise _failure(failed, outcomes) from failed[0].error
    return outcomes


def plan_partition(stream: OpenStream, partition: PartitionLike, *, force: bool = False, outside: bool = False) -> Plan:
    """Say what `ingest_partition` would do now. Nothing is written, and no Spark session is started.

    Args:
        stream: the stream, from `open_stream`.
        partition: which partition, in any form of `PartitionLike`.
        force: as of `ingest_partition`.
        outside: as of `ingest_partition`.

    Returns:
        The plan: `action` in one sentence, the objects that would be read, and the statements of the commit.

    Raises:
        PartitionError: the partition does not fit the stream's partition columns, or the config does not have it.
        LakeAssetsError: the landing zone or the lake cannot be read.
    """
    wanted = partition_like(stream, partition)
    if not outside:
        refuse_outside(stream.config, [wanted])
    return plan(stream, wanted, force=force)


def _sessions(stream: OpenStream, spark: SparkSession | None) -> AbstractContextManager[Sessions]:
    """Yields a function that returns the caller's session, or one that it starts, which is stopped."""
    if spark is not None:
        return nullcontext(lambda: spark)
    return own_session(stream.spark.settings, transforms=stream.config.transform is not None)


def _failure(failed: Sequence[Outcome], outcomes: Sequence[Outcome]) -> PartitionsFailedError:
    lines = [f"{outcome.partition}: {outcome.error}" for outcome in failed]
    shown = first_lines(lines, NAMED_FAILURES, "and {more:,} more: see the ledger.")
    summary = f"{len(failed):,} of {count(len(outcomes), 'partition')} failed:"
    return PartitionsFailedError("\n".join([summary, *shown]), outcomes=outcomes)
