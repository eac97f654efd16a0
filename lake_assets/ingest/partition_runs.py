"""Several partitions of a run: what is shared, divided, recorded, skipped and interrupted together."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from lake_assets.errors import CatalogLockedError, LakeAssetsError, ObjectRefusedError, is_interrupt
from lake_assets.events import about, step
from lake_assets.ingest.partition_run import PartitionRun, State
from lake_assets.lake.ledger.read import last_runs
from lake_assets.lake.ledger.tables import create_ledger, record
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream

Item = TypeVar("Item")
AnyRun = TypeVar("AnyRun", bound=PartitionRun)


@contextmanager
def passing_on_interrupts(outcomes: Generator[Item, None, None]) -> Iterator[Generator[Item, None, None]]:
    """Pass an interrupt in the body of the loop over the outcomes on to the run.

    Otherwise the run would see a closed generator only, and would not record the partitions that had begun.
    """
    try:
        yield outcomes
    except BaseException as error:
        if is_interrupt(error):
            try:
                outcomes.throw(error)
                for _ in outcomes:  # committed and not reported; the ledger has them
                    continue
            except BaseException as raised:
                if raised is not error:
                    raise
        raise


def still_open(runs: Iterable[PartitionRun]) -> list[PartitionRun]:
    """Return the partitions that are not finished."""
    return [run for run in runs if run.state is State.OPEN]


def fail_all(runs: Iterable[PartitionRun], error: BaseException) -> None:
    """Give all partitions the same error."""
    for run in runs:
        run.fail(error)


def share_refusal(runs: Sequence[PartitionRun]) -> None:
    """Give all partitions the same error if the storage refuses the objects of each: the whole bucket is refused."""
    refused = [run for run in runs if isinstance(run.error, ObjectRefusedError)]
    if len(refused) == len(runs):
        for run in refused:
            run.error = refused[0].error


def chunks(runs: Iterable[AnyRun], most: int, size: Callable[[AnyRun], int] = lambda _: 1) -> Iterator[list[AnyRun]]:
    """Split runs, in order, into lists whose sizes sum up to `most` or less; a larger run has a list of its own."""
    chunk: list[AnyRun] = []
    total = 0
    for run in runs:
        if chunk and total + size(run) > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(run)
        total += size(run)
    if chunk:
        yield chunk


def record_failures(stream: OpenStream, runs: Sequence[PartitionRun]) -> None:
    """Write a ledger row for each failed partition; if that fails too, add a note to the partition's error.

    An unknown partition gets no row, because the ledger says which partitions exist.
    """
    runs = [run for run in runs if run.is_recorded]
    if not runs:
        return
    try:
        of_run, timed = about(run=runs[0].row.run_id, stream=stream.name), step("ledger", partitions=len(runs))
        with of_run, timed, stream.lake.open(create=True) as lake:
            create_ledger(lake)
            # After a minute in which another process had locked the catalog, one more try is enough.
            was_locked = any(isinstance(run.error, CatalogLockedError) for run in runs)
            record(lake, [run.failed_row() for run in runs], retry_seconds=0 if was_locked else None)
    except LakeAssetsError as second:
        for run in runs:
            if run.error is None:
                continue
            reason = ", by the same error." if str(second) == str(run.error) else f": {second}"
            note = f"No ledger row could be written{reason}"
            # Several partitions may share one error.
            if note not in getattr(run.error, "__notes__", ()):
                run.error.add_note(note)


def record_skipped(lake: LakeSession, stream: OpenStream, runs: Sequence[PartitionRun]) -> None:
    """Write the ledger rows of skipped partitions, in one snapshot; none if there is no row to write.

    With `record_skipped: false`, a partition has no row if its newest row says the same: it committed these objects,
    or found nothing to do with them. After a failure it gets a row, because reports show the newest one.

    Raises:
        CatalogError: the catalog refuses, after some tries.
    """
    runs = [run for run in runs if run.is_recorded]
    if runs and not stream.config.record_skipped:
        last = last_runs(lake, stream.table, [run.partition for run in runs])
        known = {path for path, runs_of in last.items() if runs_of.status in ("committed", "skipped")}
        runs = [
            run
            for run in runs
            if run.partition.path not in known or last[run.partition.path].fingerprint != run.row.source_fingerprint
        ]
    if runs:
        with step("ledger", partitions=len(runs)):
            record(lake, [run.row for run in runs])
