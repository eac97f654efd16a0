"""Ingest of partitions: landed objects → manifest → Spark job → data files → one commit with its ledger row.

`ingest` takes one partition and `ingest_all` many: they are listed in parallel, share Spark jobs, and then commit or
fail one by one. The command line and Dagster both call these functions.
"""

import datetime as dt
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace

from lake_assets.errors import is_interrupt
from lake_assets.ingest.index.diff import plan_index
from lake_assets.ingest.index.run import index_all
from lake_assets.ingest.moved import moved_since
from lake_assets.ingest.partition_run import IngestResult, Outcome, PartitionRun, State
from lake_assets.ingest.partition_runs import chunks, record_failures
from lake_assets.ingest.replace.run import GROUP_PARTITIONS, ReplaceRun
from lake_assets.ingest.reported import reported_run
from lake_assets.layout.partition import Partition
from lake_assets.spark.session import Sessions
from lake_assets.storage.manifest import Manifest
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
    requested_by: str | None = None,
) -> IngestResult:
    """Refresh one partition of the lake from the landing zone. Readers see the old rows or the new ones.

    The arguments are those of `ingest_all`. The result of a partition that has not changed is `skipped`.

    Raises:
        OutsidePartitionError: the config does not have the partition; nothing was done.
        LakeAssetsError: the ingest failed. The old partition is unchanged, and the ledger has a `failed` row with the
            reason if the catalog could be reached.
    """
    (outcome,) = ingest_all(
        stream,
        [partition],
        sessions,
        force=force,
        outside=outside,
        run_id=run_id,
        run_at=run_at,
        requested_by=requested_by,
    )
    if outcome.error is not None:
        raise outcome.error
    assert outcome.result is not None  # noqa: S101 - an outcome has a result or an error
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
    requested_by: str | None = None,
    checkpoint: Callable[[], None] = lambda: None,
    planned: Mapping[Partition, str] | None = None,
) -> Generator[Outcome, None, None]:
    """Refresh many partitions of the lake from the landing zone, each in a commit of its own.

    In mode index, `index_all` registers the new objects instead, all in one transaction. It reads no object again, so
    `force` has no effect.

    Args:
        stream: the stream of the partitions.
        partitions: the partitions, each once.
        sessions: returns the Spark session.
        force: read the partitions even if their objects have not changed since the last commit.
        landed_only: leave out a partition that has no objects and was never committed, for any `on_empty`. The policy
            decides on a partition that was committed and has lost its objects. If a partition column is in the rows,
            a partition without rows, in the objects and in the lake, is left out.
        outside: also take partitions that the stream's config does not have.
        run_id: names the run in ledger and commit messages; a new one when None.
        run_at: when the run began, with time zone; now when None.
        requested_by: a person, or what launched the run, for the ledger.
        checkpoint: called between steps; an exception that it raises ends the run. If that is an interrupt, partitions
            that have begun are `cancelled` in the ledger, and the others have no row.
        planned: of a plan that is applied, the fingerprint of the landed objects of each partition. A partition with
            other objects now fails with a `PlanMovedError`, and has no row in the ledger.

    Yields:
        The outcome of each partition, in the order in which they end. A partition that fails does not stop the others.
        But if Spark does not start, or the catalog or a storage cannot be reached, the remaining partitions fail with
        the same error and are not tried.

    Raises:
        OutsidePartitionError: the config does not have some of the partitions; nothing was done with any of them.
    """
    partitions = list(partitions)
    if not outside:
        refuse_outside(stream.config, partitions)
    run_id, run_at = run_id or str(uuid.uuid4()), run_at or dt.datetime.now(dt.UTC)
    if stream.config.mode == "index":
        index_plan = None if planned is None else plan_index(stream, partitions)
        if planned is not None and index_plan is not None:
            moved = moved_since(
                stream, planned, {part.partition: Manifest(part.objects) for part in index_plan.partitions}
            )
            yield from (Outcome(partition, error=error) for partition, error in moved.items())
            kept = tuple(part for part in index_plan.partitions if part.partition not in moved)
            index_plan, partitions = replace(index_plan, partitions=kept), [part.partition for part in kept]
        outcomes = index_all(
            stream,
            partitions,
            plan=index_plan,
            landed_only=landed_only,
            outside=True,  # checked above
            run_id=run_id,
            run_at=run_at,
            requested_by=requested_by,
            checkpoint=checkpoint,
        )
        for outcome in outcomes:
            yield Outcome(outcome.partition, error=outcome.error) if outcome.error else outcome
        return
    replace_run = ReplaceRun(stream, sessions, checkpoint, force=force, landed_only=landed_only, planned=planned)
    runs = [PartitionRun(stream, partition, run_id, run_at, requested_by) for partition in partitions]
    with reported_run(run_id, stream.name, stream.config.mode, len(runs)):
        yield from _replace_all(stream, replace_run, runs)


def _replace_all(
    stream: OpenStream, replace_run: ReplaceRun, runs: Sequence[PartitionRun]
) -> Generator[Outcome, None, None]:
    """Refresh partitions in mode replace or append; see `ingest_all`."""
    try:
        for group in chunks(runs, GROUP_PARTITIONS):
            yield from replace_run.replace(group)
    except GeneratorExit:
        raise  # the caller has closed the generator
    except BaseException as error:
        cut_off = [run for run in runs if run.state in (State.OPEN, State.FAILED)]
        if is_interrupt(error):
            cut_off = [run for run in cut_off if run.has_begun]
        for run in cut_off:
            # An error that all partitions share is the effect of the interrupt on Spark or the catalog.
            if run.error is None or (is_interrupt(error) and run.error is replace_run.broken):
                run.fail(error)
        record_failures(stream, cut_off)
        for run in cut_off:
            run.report_event()
        yield from (run.report() for run in runs if run.state is State.DONE)
        raise
    finally:
        replace_run.writer.unstage()
