"""The one way of the partitions of a run: plan them, end those that need no commit, and execute the other plans.

At its end comes `after_load` of the streams: a run takes each landed object that its commit has read, under the ETag of
that moment, and no object that it left out. What it did not get to, because it was killed or the store refused,
maintenance does: it looks for landed objects that are those of their partition's rows.
"""

import datetime as dt
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lake_assets.base.errors import (
    CatalogLockedError,
    LakeAssetsError,
    SourceChangedError,
    StorageError,
    is_interrupt,
    release_frames,
)
from lake_assets.base.events import about, checkpoint, step
from lake_assets.base.json_dataclasses import Documented
from lake_assets.base.texts import count
from lake_assets.config.sections import AfterLoad, Move
from lake_assets.config.storages import AnyStorage
from lake_assets.ingest.compare_objects import compare_partition, read_noted
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.ingest.partition_run import PartitionRun, RunState
from lake_assets.lake.ledger.read import last_runs, rows_of_run
from lake_assets.lake.ledger.tables import create_ledger, record
from lake_assets.lake.session import LakeSession
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream, list_landed

_LOG = logging.getLogger(__name__)

_DONE = {"tag": "tagged", "delete": "deleted"}
_TAG = ("lake_assets", "loaded")
_TAGGED_LATER = dt.timedelta(days=7)  # after its commit: each object costs a request


@dataclass(frozen=True, slots=True)
class LoadedObject(Documented):
    """A landed object whose rows are in the lake, and what became of it by `after_load`."""

    uri: str
    """Its path or URI in the landing zone."""
    becomes: str
    """`tagged`, `deleted` or `moved`; or, if it was left, why."""


def after_load(stream: OpenStream, objects: Sequence[LandedObject]) -> list[LoadedObject]:
    """Tag, delete or move landed objects that the lake has the rows of; an object that has changed since is left.

    Objects that the store refuses are left too, with one warning for all: their rows are in the lake.
    """
    policy = stream.config.after_load
    if policy == "keep" or not objects:
        return []
    source, done = Store(stream.config.source), "moved" if isinstance(policy, Move) else _DONE[policy]

    def act(landed: LandedObject) -> str | StorageError:
        try:
            is_same = _take_away(source, landed, policy)
        except SourceChangedError:
            is_same = False
        except StorageError as error:
            return error
        return done if is_same else "changed since it was read"

    ends = list(requested(source.storage, act, objects))
    if errors := [end for end in ends if isinstance(end, StorageError)]:
        left = f"{stream.name}: after_load left {count(len(errors), 'loaded object')}"
        _LOG.warning("%s, which `lake-assets maintain` tries again: %s", left, errors[0])
    return [LoadedObject(landed.uri, str(end)) for landed, end in zip(objects, ends, strict=True)]


def _take_away(source: Store, landed: LandedObject, policy: AfterLoad) -> bool:
    """Return whether it was done; False if the object has changed."""
    if policy == "tag":
        return source.tag_unchanged(landed, *_TAG)
    if isinstance(policy, Move):
        _copy(source, landed, policy.move)
    return source.delete_unchanged(landed)


def _copy(source: Store, landed: LandedObject, archive: AnyStorage) -> None:
    """Copy an object to its key in the archive, unless a run has that was killed before it deleted the object."""
    if archive.is_local:
        Path(archive.root, landed.key).parent.mkdir(parents=True, exist_ok=True)
    target = Store(archive)
    copied = target.find(landed.key)
    if copied is None:
        target.copy(source.storage, landed, landed.key)
    elif copied.size != landed.size or source.get(landed.key, landed.etag) != target.get(landed.key, copied.etag):
        raise StorageError(f"{copied.uri} is another object than {landed.uri}:", "rename the one in the archive.")


def left_behind(stream: OpenStream, now: dt.datetime) -> list[LandedObject]:
    """Return the landed objects that the rows of their partitions were made of, and that `after_load` is to take.

    Partitions that a restore holds, or whose newest commit is one, are left out: their rows may be of other objects.
    """
    if stream.config.after_load == "keep":
        return []
    landed, _ = list_landed(stream)
    with stream.lake.open_if_exists() as session:
        noted = read_noted(session, stream, None)
        runs = {} if session is None else last_runs(session, stream.table)
    left: list[LandedObject] = []
    for partition, manifest in landed.items():
        last = runs.get(partition.path)
        if last is None or last.commit is None or last.is_held or last.commit.mode == "restore":
            continue
        is_old = last.committed_at is not None and last.committed_at < now - _TAGGED_LATER
        if stream.config.after_load == "tag" and is_old:
            continue
        left += compare_partition(stream, noted.get(partition.path, {}), manifest, quarantines=True).same
    return left


Chunked = TypeVar("Chunked")


class Run(ABC):
    """A run over partitions of a stream, without what differs between the modes: how it plans and executes."""

    group: int | None = None  # partitions that are planned together, at most; all when None

    def __init__(self, stream: OpenStream, options: IngestOptions) -> None:
        self.stream = stream
        self.options = options
        self.broken: Exception | None = None  # an error that every other partition would have too

    @abstractmethod
    def plan(self, runs: Sequence[PartitionRun]) -> None:
        """Set the plan of each partition, or its error; end those of which nothing is read, registered or cleared."""

    @abstractmethod
    def execute(self, runs: Sequence[PartitionRun]) -> Generator[Sequence[PartitionRun], None, None]:
        """Do what the plans of those partitions say that are still open; yields partitions that may have ended."""

    def groups(self, runs: Sequence[PartitionRun]) -> Iterator[Sequence[PartitionRun]]:
        """Return the partitions that are planned together."""
        return chunks(runs, self.group or len(runs))

    def outcomes(self, runs: Sequence[PartitionRun]) -> Generator[Outcome, None, None]:
        """Refresh the partitions, each until it has ended, and yield their outcomes; see `ingest_all`."""
        try:
            for group in self.groups(runs):
                yield from self._outcomes_of(group)
        except GeneratorExit:
            raise  # the caller has closed the generator
        except BaseException as error:
            release_frames(error)  # the lake's lock may be among what they hold
            cut_off = [run for run in runs if run.state in (RunState.OPEN, RunState.FAILED)]
            if is_interrupt(error):
                cut_off = [run for run in cut_off if run.has_begun]
            for run in cut_off:
                # An error that all partitions share is the effect of the interrupt on Spark or the catalog.
                if run.error is None or (is_interrupt(error) and run.error is self.broken):
                    run.fail(error)
            record_failures(cut_off)
            for run in cut_off:
                if run.error is not None:
                    run.report()
            yield from (run.report() for run in runs if run.state is RunState.DONE)
            raise

    def _outcomes_of(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """Plan and execute, and again for those partitions whose objects change during the run."""
        remaining = runs
        while remaining:
            if self.broken is None:
                self.plan(remaining)
            else:
                fail_all(remaining, self.broken)
            with closing(self.execute(remaining)) as executing:
                for group in executing:
                    yield from self._ended(group)
            yield from self._ended(remaining)
            remaining = [run for run in remaining if run.may_try_again]
            for run in remaining:
                run.reopen()

    def _ended(self, runs: Sequence[PartitionRun]) -> Iterator[Outcome]:
        """Yield the outcomes of the partitions that have ended since the last call."""
        ended = [run for run in runs if run.has_ended]
        failed = [run for run in ended if run.error is not None]
        if failed:
            checkpoint()  # an interrupt ends the run; its errors are not those of the partitions
        record_failures(failed)
        committed = [run for run in ended if run.is_committed]
        for stream in {run.stream.name: run.stream for run in committed}.values():
            of_stream = [run for run in committed if run.stream.name == stream.name]
            # What is left if this fails is for maintenance.
            after_load(stream, [landed for run in of_stream for landed in run.reads.read])
        for run in ended:
            yield run.report()


@contextmanager
def reported_step(
    stream: OpenStream, options: IngestOptions, name: str | None, runs: Sequence[PartitionRun] = ()
) -> Iterator[dict[str, Any]]:
    """Report a step of several partitions as one event; without a name, report nothing."""
    fields: dict[str, Any] = {}
    if runs:
        fields = {"partition": runs[0].row.load_partition} if len(runs) == 1 else {"partitions": len(runs)}
    with about(run=options.run_id, stream=stream.name):
        if name is None:
            yield {}
        else:
            with step(name, **fields) as figures:
                yield figures


def end_by_plans(runs: Iterable[PartitionRun]) -> list[PartitionRun]:
    """Fail or leave out the partitions of which the plans say so; returns those that are to be skipped."""
    skipped = []
    for run in runs:
        decision = run.plan.decision
        match decision.action:
            case "leave_out":
                run.leave_out()
            case "fail":
                run.fail_with()
            case "skip" | "keep":
                skipped.append(run)
                if decision.on_empty is None:
                    run.update(files_quarantined=None)  # this run reads none
                elif run.outcome.manifest.left_out:
                    run.update(source_fingerprint=None)  # reports say that the objects are not in the lake
    return skipped


@contextmanager
def passing_on_interrupts(outcomes: Generator[Chunked, None, None]) -> Iterator[Generator[Chunked, None, None]]:
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
    return [run for run in runs if run.state is RunState.OPEN]


def fail_all(runs: Iterable[PartitionRun], error: BaseException) -> None:
    """Give all partitions the same error."""
    for run in runs:
        run.fail(error)


def chunks(runs: Iterable[Chunked], most: int, size: Callable[[Chunked], int] = lambda _: 1) -> Iterator[list[Chunked]]:
    """Split runs, in order, into lists whose sizes sum up to `most` or less; a larger run has a list of its own."""
    chunk: list[Chunked] = []
    total = 0
    for run in runs:
        if chunk and total + size(run) > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(run)
        total += size(run)
    if chunk:
        yield chunk


def record_failures(runs: Sequence[PartitionRun]) -> None:
    """Write a ledger row for each failed partition; if that fails too, add a note to the partition's error.

    An unknown partition gets no row, because the ledger says which partitions exist. A partition whose commit went
    through before the interrupt is finished.
    """
    runs = [run for run in runs if run.is_recorded]
    if not runs:
        return
    stream = runs[0].stream
    try:
        of_run, timed = about(run=runs[0].row.run_id, stream=stream.name), step("ledger", partitions=len(runs))
        with of_run, timed, stream.lake.open(create=True) as lake:
            create_ledger(lake)
            _finish_committed(lake, [run for run in runs if is_interrupt(run.error)])
            # After a minute in which another process had locked the catalog, one more try is enough.
            was_locked = any(isinstance(run.error, CatalogLockedError) for run in runs)
            record(
                lake,
                [run.failed_row() for run in runs if run.error is not None],
                retry_seconds=0 if was_locked else None,
            )
    except LakeAssetsError as second:
        for run in runs:
            if run.error is None:
                continue
            reason = ", with the same error." if str(second) == str(run.error) else f": {second}"
            note = f"No ledger row could be written{reason}"
            # Several partitions may share one error.
            if note not in getattr(run.error, "__notes__", ()):
                run.error.add_note(note)


def _finish_committed(lake: LakeSession, runs: Sequence[PartitionRun]) -> None:
    """Finish the interrupted partitions all of whose objects the ledger has as committed by this run."""
    if not runs:
        return
    since = min(run.row.started_at for run in runs)
    for names in {run.stream.names for run in runs}:
        of_stream = [run for run in runs if run.stream.names == names]
        rows = rows_of_run(lake, names, of_stream[0].row.run_id, since)
        committed = {(row.load_partition, row.source_files): row for row in rows if row.status == "committed"}
        for run in of_stream:
            if (row := committed.get((run.row.load_partition, run.row.source_files))) is not None:
                run.error = None
                run.finish(row)


def skip(lake: LakeSession | None, stream: OpenStream, runs: Sequence[PartitionRun]) -> None:
    """End partitions of which nothing is committed, and write their ledger rows in one snapshot.

    With `record_skipped: false`, a partition has no row if its newest row says the same: it committed these objects, or
    found nothing to do with them. After a failure it gets a row, because reports show the newest one.
    """
    for run in runs:
        run.update(status="skipped", finished_at=dt.datetime.now(dt.UTC))
    recorded = [run for run in runs if run.is_recorded]
    if lake is not None and recorded and not stream.config.record_skipped:
        last = last_runs(lake, stream.table, [run.partition for run in recorded])
        known = {path: newest.fingerprint for path, newest in last.items() if newest.status in ("committed", "skipped")}
        recorded = [
            run
            for run in recorded
            if run.partition.path not in known or known[run.partition.path] != run.row.source_fingerprint
        ]
    if lake is not None and recorded:
        with step("ledger", partitions=len(recorded)):
            record(lake, [run.row for run in recorded])
    for run in runs:
        run.finish(run.row)
