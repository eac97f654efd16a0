"""The way of a partition: landed objects → manifest → Spark job → data files → one commit with its ledger row.

`ingest` goes it with one partition, `ingest_all` with many: they are listed side by side, go through Spark in one job,
and then each commits, or fails, by itself. Both are called by the command line and by Dagster alike.
"""

import datetime as dt
import uuid
from collections.abc import Callable, Generator, Iterable

from lake_assets.ingest.index.run import index_all
from lake_assets.ingest.partition_run import (
    IngestResult,
    Outcome,
    PartitionRun,
    State,
    chunks,
    is_interrupt,
    record_failures,
)
from lake_assets.ingest.replace.run import GROUP_PARTITIONS, ReplaceRun
from lake_assets.layout.partition import Partition
from lake_assets.spark.session import Sessions
from lake_assets.streams.calendar import refuse_outside
from lake_assets.streams.stream import OpenStream


def ingest(
    stream: OpenStream,
    partition: Partition,
    sessions: Sessions,
    *,
    force: bool = False,
    outside: bool = False,
    run_id: str | None = None,
    run_at: dt.datetime | None = None,
) -> IngestResult:
    """Make the lake's partition what the landing zone's is; readers see the old rows or the new ones.

    Args:
        stream: whose partition it is.
        partition: which.
        sessions: gives the Spark session.
        force: read it even if its objects are those of the last commit.
        outside: also if the stream's config does not have the partition.
        run_id: names the run in ledger and commit message; a new one when None.
        run_at: when the run began, with time zone; now when None.

    Returns:
        What was done. A partition that has not changed is `skipped`.

    Raises:
        OutsidePartitionError: the config does not have the partition; nothing was done.
        LakeAssetsError: it failed; the old partition is unchanged, and a `failed` ledger row says why if the catalog
            could still be reached.
    """
    (outcome,) = ingest_all(stream, [partition], sessions, force=force, outside=outside, run_id=run_id, run_at=run_at)
    if outcome.error is not None:
        raise outcome.error
    assert outcome.result is not None  # noqa: S101 - an outcome is one of both
    return outcome.result


def ingest_all(  # noqa: PLR0913 - the options of a run
    stream: OpenStream,
    partitions: Iterable[Partition],
    sessions: Sessions,
    *,
    force: bool = False,
    landed_only: bool = False,
    outside: bool = False,
    run_id: str | None = None,
    run_at: dt.datetime | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Generator[Outcome, None, None]:
    """Make many of the lake's partitions what the landing zone's are, each by a commit of its own.

    Args:
        stream: whose partitions they are.
        partitions: which, each once.
        sessions: gives the Spark session.
        force: read them even if their objects are those of the last commit.
        landed_only: leave out a partition that has no objects and was never committed, for any `on_empty`; of
            one that was committed and has lost its objects the policy decides. Where the rows say of which partition
            they are, one that has no rows, neither there nor in the lake, is left out.
        outside: take partitions that the stream's config does not have too.
        run_id: names the run in ledger and commit messages; a new one when None.
        run_at: when the run began, with time zone; now when None.
        checkpoint: called between steps; what it raises ends the run. If that is an interrupt, partitions that have
            begun are `cancelled` in the ledger, and those that have not have no row.

    A stream in mode index has its new objects registered instead, all in one transaction, by `index_all`; nothing is
    read again there, so `force` means nothing.

    Yields:
        What became of each, in the order in which it is known. One that fails leaves the others alone; but if Spark
        does not start, or the catalog or a storage cannot be reached, those that are left fail by the same error,
        untried.

    Raises:
        OutsidePartitionError: the config does not have some of the partitions; nothing was done with any of them.
    """
    partitions = list(partitions)
    if not outside:
        refuse_outside(stream.config, partitions)
    run_id, run_at = run_id or str(uuid.uuid4()), run_at or dt.datetime.now(dt.UTC)
    if stream.config.mode == "index":
        outcomes = index_all(
            stream,
            partitions,
            landed_only=landed_only,
            outside=True,  # they have been looked at
            run_id=run_id,
            run_at=run_at,
            checkpoint=checkpoint,
        )
        yield from (Outcome(o.partition, error=o.error) if o.error else o for o in outcomes)
        return
    replace_run = ReplaceRun(stream, sessions, checkpoint, force=force, landed_only=landed_only)
    runs = [PartitionRun(stream, partition, run_id, run_at) for partition in partitions]
    try:
        for group in chunks(runs, GROUP_PARTITIONS):
            yield from replace_run.replace(group)
    except GeneratorExit:
        raise  # the caller wants no more outcomes
    except BaseException as error:
        cut_off = [run for run in runs if run.state in (State.OPEN, State.FAILED)]
        if is_interrupt(error):
            cut_off = [run for run in cut_off if run.has_begun]
        for run in cut_off:
            # An error that all have in common is what the interrupt did to Spark or to the catalog.
            if run.error is None or (is_interrupt(error) and run.error is replace_run.broken):
                run.fail(error)
        record_failures(stream, cut_off)
        yield from (run.report() for run in runs if run.state is State.DONE)
        raise
    finally:
        replace_run.writer.unstage()
