"""Ingest of partitions: landed objects → manifest → Spark job → data files → one commit with its ledger row.

`ingest` takes one partition and `ingest_all` many: they are listed in parallel, share Spark jobs, and then commit or
fail one by one. The command line and Dagster both call these functions.
"""

from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.outcome import IngestOptions, Outcome, reported_run
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.plan import options_of_companion, takes_part
from lake_assets.ingest.replace.replace_run import ReplaceRun, StreamSteps
from lake_assets.ingest.run import passing_on_interrupts
from lake_assets.streams.select import refuse_outside
from lake_assets.streams.stream import OpenStream

if TYPE_CHECKING:
    from lake_assets.spark.spark_session import Sessions


def ingest(
    stream: OpenStream, partition: Partition, sessions: "Sessions", options: IngestOptions | None = None
) -> Outcome:
    """Refresh one partition of the lake from the landing zone. Readers see the old rows or the new ones.

    Raises what `ingest_all` raises, and the error of the partition if it failed: its rows are unchanged then, and the
    ledger has a `failed` row if the catalog could be reached.
    """
    (outcome,) = ingest_all(stream, [partition], sessions, options)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def ingest_all(
    stream: OpenStream, partitions: Iterable[Partition], sessions: "Sessions", options: IngestOptions | None = None
) -> Generator[Outcome, None, None]:
    """Refresh many partitions of the lake from the landing zone; a partition that fails does not stop the others.

    In mode index, `index_all` registers the new objects instead, all in one transaction. A stream of a release group
    takes the same partitions of the other streams along. Yields the outcomes in the order in which partitions end. If
    Spark does not start, or the catalog or a storage cannot be reached, the remaining partitions fail with the same
    error and are not tried. Raises OutsidePartitionError if the config does not have some of the partitions; nothing
    was done.

    A checkpoint between steps may end the run. If it is interrupted, partitions that have begun are `cancelled` in the
    ledger, and the others have no row.
    """
    partitions, options = list(partitions), options or IngestOptions()
    if not options.outside:
        refuse_outside(stream, partitions)
    if stream.config.mode.registers:
        for outcome in index_all(stream, partitions, None, replace(options, outside=True)):  # checked above
            yield replace(outcome, row=replace(outcome.row, status="failed")) if outcome.error else outcome
        return
    of_streams = [
        (stream, options),
        *((companion, options_of_companion(companion, options)) for companion in stream.companions),
    ]
    members = [StreamSteps(member, of_member, sessions) for member, of_member in of_streams]
    runs = [
        PartitionRun(member.stream, Partition(member.stream.config.partition_columns, partition.values), member.options)
        for partition in partitions
        for member in members
        if member.stream is stream or takes_part(member.stream, partition)
    ]
    with ExitStack() as stack:
        for member in members:
            of_member = sum(run.stream is member.stream for run in runs)
            stack.enter_context(reported_run(options.run_id, member.stream.name, member.stream.config.mode, of_member))
        outcomes = stack.enter_context(closing(ReplaceRun(members).outcomes(runs)))
        with passing_on_interrupts(outcomes):
            for outcome in outcomes:
                if outcome.row.stream == stream.name:  # those of others are events, and in the ledger
                    yield outcome
