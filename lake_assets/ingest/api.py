"""Ingest of partitions: landed objects → manifest → Spark job → data files → one commit with its ledger row.

`ingest` takes one partition and `ingest_all` many: they are listed in parallel, share Spark jobs, and then commit or
fail one by one. The command line and Dagster both call these functions.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace

from lake_assets.errors import is_interrupt
from lake_assets.ingest.index.run import index_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import Outcome, reported_run
from lake_assets.ingest.partition_run import PartitionRun, State, chunks, record_failures
from lake_assets.ingest.replace.run import GROUP_PARTITIONS, ReplaceRun
from lake_assets.layout.partition import Partition
from lake_assets.spark.session import Sessions
from lake_assets.streams.calendar import refuse_outside
from lake_assets.streams.stream import OpenStream


def ingest(
    stream: OpenStream, partition: Partition, sessions: Sessions, options: IngestOptions | None = None
) -> Outcome:
    """Refresh one partition of the lake from the landing zone. Readers see the old rows or the new ones.

    The arguments are those of `ingest_all`. The status of a partition that has not changed is `skipped`.

    Raises:
        OutsidePartitionError: the config does not have the partition; nothing was done.
        LakeAssetsError: the ingest failed. The old partition is unchanged, and the ledger has a `failed` row with the
            reason if the catalog could be reached.
    """
    (outcome,) = ingest_all(stream, [partition], sessions, options)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def ingest_all(
    stream: OpenStream,
    partitions: Iterable[Partition],
    sessions: Sessions,
    options: IngestOptions | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Generator[Outcome, None, None]:
    """Refresh many partitions of the lake from the landing zone, each in a commit of its own.

    In mode index, `index_all` registers the new objects instead, all in one transaction.

    Args:
        stream: the stream of the partitions.
        partitions: the partitions, each once.
        sessions: returns the Spark session.
        options: of the run; the defaults when None.
        checkpoint: called between steps; an exception that it raises ends the run. If that is an interrupt, partitions
            that have begun are `cancelled` in the ledger, and the others have no row.

    Yields:
        The outcome of each partition, in the order in which they end. A partition that fails does not stop the others.
        But if Spark does not start, or the catalog or a storage cannot be reached, the remaining partitions fail with
        the same error and are not tried.

    Raises:
        OutsidePartitionError: the config does not have some of the partitions; nothing was done with any of them.
    """
    partitions, options = list(partitions), options or IngestOptions()
    if not options.outside:
        refuse_outside(stream.config, partitions)
    if stream.config.mode == "index":
        for outcome in index_all(stream, partitions, None, replace(options, outside=True), checkpoint):  # checked above
            yield replace(outcome, row=replace(outcome.row, status="failed")) if outcome.error else outcome
        return
    replace_run = ReplaceRun(stream, sessions, options, checkpoint)
    runs = [PartitionRun(stream, partition, options) for partition in partitions]
    with reported_run(options.run_id, stream.name, stream.config.mode, len(runs)):
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
            run.report()
        yield from (run.report() for run in runs if run.state is State.DONE)
        raise
    finally:
        replace_run.writer.unstage()
