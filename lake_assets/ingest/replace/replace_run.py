"""A run of mode replace or append: it writes the partitions' files in Spark jobs, and commits them by keys.

A key has one partition. In a run of streams that are released together it has the same partition of each of them, and
they are committed in one transaction, or none is.
"""

import datetime as dt
import logging
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

from lake_assets.base.errors import (
    TRANSIENT,
    CatalogError,
    LakeAssetsError,
    NoLakeError,
    ObjectRefusedError,
    SchemaDriftError,
    StorageUnreachableError,
)
from lake_assets.base.events import checkpoint
from lake_assets.base.texts import several
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.compare_objects import note_new_versions
from lake_assets.ingest.outcome import IngestOptions, Outcome, about_partition, error_text
from lake_assets.ingest.partition_run import PartitionRun, RunState
from lake_assets.ingest.plan import Planner, held_back, waiting_text
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.ingest.run import Run, chunks, end_by_plans, fail_all, reported_step, skip, still_open
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.commit.change import Change, New, Requirements, Staged, UnknownCommitError, Written
from lake_assets.lake.commit.strategy import OF_ALL, UNDONE, commit
from lake_assets.lake.ledger.tables import LETTERS, MANIFEST, create_ledger, letter_values, record
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task.share_reader import SMALL_OBJECT
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

if TYPE_CHECKING:
    from lake_assets.spark.spark_session import Sessions

_LOG = logging.getLogger(__name__)


class StreamSteps:
    """What a run does with partitions of one stream, whose files Spark's tasks write."""

    def __init__(self, stream: OpenStream, options: IngestOptions, sessions: "Sessions") -> None:
        self.stream = stream
        self.options = options
        self.planner = Planner(stream, options)
        self.broken: Exception | None = None  # an error that every other partition would have too
        self.sessions = sessions
        self.writer = Writer(stream)
        self._has_session = False

    def plan(self, runs: Sequence[PartitionRun]) -> None:
        """List the objects of the partitions, and decide what becomes of each."""
        self._list(runs)
        if not (runs := still_open(runs)):
            return
        with self._together("check", runs), ExitStack() as stack:
            lake: LakeSession | None = None
            with suppress(NoLakeError):
                lake = stack.enter_context(self.stream.lake.open())
            self._decide(lake, runs)
            if lake is None and still_open(runs):
                create_ledger(stack.enter_context(self.stream.lake.open(create=True)))
        checkpoint()

    def _decide(self, lake: LakeSession | None, runs: Sequence[PartitionRun]) -> None:
        plans = self.planner.plan(lake, {run.partition: run.outcome.manifest for run in runs})
        for run, plan in zip(runs, plans, strict=True):
            run.set_plan(plan)
        skipped = end_by_plans(runs)
        if lake is not None and (skipped or still_open(runs)):
            create_ledger(lake)
            note_new_versions(
                lake, self.stream, {p.partition: p.compared for p in plans if p.decision.action != "replace"}
            )
            if plans[0].table_exists:
                self.writer.prepare(lake)
                for run in still_open(runs)[:1]:
                    self.writer.add_file_columns(lake, run)
        for run in runs:
            run.outcome.schema = self.writer.schema
        skip(lake, self.stream, skipped)

    def _list(self, runs: Sequence[PartitionRun]) -> None:
        path_parts: dict[Partition, list[PartitionRun]] = {}
        for run in runs:
            path_parts.setdefault(run.partition.path_part, []).append(run)

        listed, probing = self.stream.listed_together(path_parts), Lock()

        def list_path_part(sharing: list[PartitionRun]) -> None:
            first, *others = sharing
            with first.step("list"):
                if self.broken is not None:
                    raise self.broken
                landed = self.stream.landed_at(first.partition, listed)
                held = self.stream.holding(landed, [run.partition for run in sharing])
                first.set_manifest(held[first.partition])
            if isinstance(first.error, StorageUnreachableError):
                with probing:
                    if self.broken is None and not Store(self.stream.config.source).is_reachable():
                        self.broken = first.error
                first.fail(self.broken or first.error)
            for run in others:
                with run.step("list"):
                    if first.error is not None:
                        raise first.error
                    run.set_manifest(held[run.partition])

        list(requested(self.stream.source.storage, list_path_part, path_parts.values()))
        checkpoint()

    def write(self, runs: Sequence[PartitionRun]) -> None:
        """Write data files that no reader sees yet, in one Spark job."""
        if self.broken is not None:
            fail_all(runs, self.broken)
            return
        runs = [run for run in runs if run.reads.read]  # others have no object that can be read, and no rows
        if not runs:
            return
        from lake_assets.spark.cluster import kept_session  # noqa: PLC0415 - a run with nothing new needs no Spark

        try:
            sessions = kept_session(self.sessions)
            with reported_step(self.stream, self.options, None if self._has_session else "start", runs):
                sessions()
            self._has_session = True
            with reported_step(self.stream, self.options, "job", runs) as figures:
                self.writer.write(sessions, runs)
                figures.update(_written(runs))
        except LakeAssetsError as error:
            self._break(error, still_open(runs))
        else:
            refused = [run.error for run in runs if isinstance(run.error, ObjectRefusedError)]
            if len(refused) == len(runs):  # the whole bucket is refused
                fail_all(runs, refused[0])

    def _break(self, error: LakeAssetsError, runs: Sequence[PartitionRun]) -> None:
        """Fail these partitions, of which nothing is committed, and all that follow with the same error."""
        self.broken = error
        fail_all(runs, error)
        self.writer.discard(runs)

    def evolve(self, runs: Sequence[PartitionRun]) -> None:
        """Change the table to the columns that these partitions were found to have; they are then read again."""
        drifted = [run for run in runs if isinstance(run.error, SchemaDriftError)]
        if not drifted:
            return
        with self._together("evolve", drifted), self.stream.lake.open() as lake:
            self.writer.evolve(lake, drifted)
        checkpoint()

    def quarantine(self, runs: Sequence[PartitionRun]) -> None:
        """Find the bad objects of failed partitions, which are then read again without them."""
        for run in runs:
            if self.broken is None and run.may_examine:
                with run.step("examine"):
                    run.quarantine(self.writer.bad_objects(self.sessions(), run))
                checkpoint()

    def verify(self, runs: Sequence[PartitionRun]) -> None:
        """Compare the objects of the partitions with those that were read; the files of a changed one are removed."""
        listed = self.stream.listed_together([run.partition for run in runs] if self.stream.commit_batch > 1 else [])

        def compare(run: PartitionRun) -> None:
            with run.step("verify"):
                run.refuse_moved_source(listed)
                if run.adds:
                    run.written.digests |= self._checksums(run)

        if self.stream.commit_batch == 1:
            for run in runs:
                compare(run)
        else:  # one after the other, the listings of a bucket would take longer than the commit
            list(requested(self.stream.source.storage, compare, runs))
        self.writer.discard([run for run in runs if run.error is not None])

    def _checksums(self, run: PartitionRun) -> dict[str, str]:
        """Return what the store keeps of the content of large objects, of which no task has read all bytes; by key."""
        objects = [obj for obj in run.reads.read if obj.size > SMALL_OBJECT and obj.key not in run.written.digests]
        return {o.key: text for o in objects if (text := self.stream.source.checksum(o.key, o.etag))}

    def change(self, lake: LakeSession, run: PartitionRun) -> Change | None:
        """Return what to commit of a partition whose rows are written; None if nothing is."""
        rows = sum(file.rows for file in run.written.files)
        left_out = sum(letter.rows for letter in run.written.letters)
        # A partition all of whose rows are left out has rows in its objects, so `on_empty` does not decide.
        read = rows + left_out
        # The commit of another partition may have created the table.
        has_table = read > 0 or lake.exists(self.stream.table)
        decision = self.planner.decide(replace(run.plan, rows=read, table_exists=has_table), lake)
        if decision.action not in ("replace", "append"):
            run.set_plan(replace(run.plan, decision=decision))
        match decision.action:
            case "replace" | "append":
                run.update(
                    row_count=rows,
                    # If the rows are staged, only the commit knows what is written.
                    files_written=None if self.writer.staging else len(run.written.files),
                    bytes_written=None if self.writer.staging else sum(file.size for file in run.written.files),
                    files_copied=sum(file.is_copy for file in run.written.files),
                    rows_dead_lettered=left_out if self.stream.letters is not None else None,
                )
            case "clear":
                run.written.files, run.written.letters = [], []
                run.update(row_count=0, files_written=0, bytes_written=0, files_copied=0)
            case "fail":
                raise decision.errors[0]
            case "leave_out":
                # Its objects were read for nothing. By this row it is not pending again until they change.
                record(lake, [replace(run.row, status="skipped", finished_at=dt.datetime.now(dt.UTC))])
                run.leave_out()
                return None
            case _:
                skip(lake, self.stream, end_by_plans([run]))
                return None
        run.update(status="committed")
        columns = run.outcome.schema.names if run.outcome.schema and run.written.files else ()
        new: New = Written(run.written.files, columns)
        if self.writer.staging is not None and run.written.files:
            new = Staged.of(run.written.files, self.writer.staging.key, columns, self.stream.config.target_file_size)
        return Change(
            self.stream.table,
            run.partition,
            run.row,
            new,
            adds=run.adds,
            appends={MANIFEST: run.noted, LETTERS: letter_values(run.written.letters)},
            requires=Requirements(
                objects=run.expected,
                schema=run.outcome.schema if self.writer.is_first else None,
                may_be_held=run.plan.is_held,
                was_committed=run.plan.last is not None,
                planned=None if run.expected else run.plan.planned,
            ),
            export=self.stream.export,
        )

    @contextmanager
    def _together(self, name: str, runs: Sequence[PartitionRun]) -> Iterator[None]:
        """Time a step of several partitions, in equal shares; an error of the step fails all of them."""
        start = time.perf_counter()
        try:
            with reported_step(self.stream, self.options, name, runs):
                yield
        except LakeAssetsError as error:
            self.broken = error
            fail_all(still_open(runs), error)
        finally:
            for run in runs:
                run.add_seconds(name, (time.perf_counter() - start) / len(runs))


def _written(runs: Sequence[PartitionRun]) -> dict[str, int | None]:
    """Return what a job has read and written, over all its partitions, and how many of them failed."""
    files = [file for run in runs for file in run.written.files]
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    failed = sum(run.error is not None for run in runs) or None
    objects = sum(len(run.reads.read) for run in runs)
    return {"objects": objects, "files": len(files), "rows": rows, "bytes": size, "failed": failed}


# The limits of what is planned together and of one Spark job, in partitions and in bytes of landed objects. Nothing of
# a job is committed before it ends. A job has a batch of the streams' `commit_batch` at least.
GROUP_PARTITIONS = 400
JOB_PARTITIONS = 100
BYTES_AT_ONCE = 2**30
KEYS_AT_ONCE = 25  # of keys, for each time the lake is opened; another process may need a DuckDB-file catalog too

_KeyRuns = Sequence[PartitionRun]
"""The partitions of one key, of each stream one at most."""


class ReplaceRun(Run):
    """A run that replaces partitions, or adds the rows of their new objects, by files that Spark's tasks write.

    Its members are the steps of each stream, of the same options but for what the streams themselves say.
    """

    group = GROUP_PARTITIONS

    def __init__(self, members: Sequence[StreamSteps]) -> None:
        first = members[0]
        super().__init__(first.stream, first.options)
        self._members = {member.stream.name: member for member in members}
        self._batch = min(member.stream.commit_batch for member in members)

    def groups(self, runs: Sequence[PartitionRun]) -> Iterator[Sequence[PartitionRun]]:
        """Return the partitions that are planned together: whole keys."""
        return (_flat(keys) for keys in chunks(_keys(runs), max(self.group // len(self._members), 1)))

    def outcomes(self, runs: Sequence[PartitionRun]) -> Generator[Outcome, None, None]:
        """Refresh the partitions of all streams; staged files that a killed step has left are removed last."""
        try:
            yield from super().outcomes(runs)
        finally:
            for member in self._members.values():
                member.writer.unstage()

    def plan(self, runs: Sequence[PartitionRun]) -> None:
        """List and decide, stream by stream; then hold back what is not ready as a whole."""
        for member, of_member in self._runs_by_member(runs):
            if self.broken is None:
                member.plan(of_member)
                self.broken = member.broken
        if self.broken is not None:
            fail_all(still_open(runs), self.broken)
            return
        for key in _keys(runs):
            self._hold_back(key)
            if missing := [run.stream.name for run in key if run.state is RunState.LEFT_OUT]:
                for run in still_open(key):
                    run.leave_out(waiting_text(missing))

    def execute(self, runs: Sequence[PartitionRun]) -> Generator[Sequence[PartitionRun], None, None]:
        """Commit what needs no Spark; write the files of the others, in jobs of each stream, and commit them too.

        Many partitions are committed while Spark writes those of the next job.
        """
        keys = _keys(still_open(runs))
        others = [key for key in keys if not any(run.reads.read for run in key)]
        yield from self._committed(others)
        with ThreadPoolExecutor(1, "commits") as pool:
            behind: Future[list[Sequence[PartitionRun]]] | None = None
            jobs = list(self._jobs(key for key in keys if any(run.reads.read for run in key)))
            for number, group in enumerate(jobs, 1):
                group_runs, broken = _flat(group), self.broken
                for member, of_member in self._runs_by_member(group_runs):
                    if broken is None:
                        member.write(of_member)
                        broken = member.broken
                if behind is not None:
                    yield from behind.result()
                    behind = None
                self.broken = self.broken or broken
                if self.broken is not None:
                    self._break_off(self.broken, group_runs)
                if number < len(jobs) and self._may_wait(group_runs):
                    behind = pool.submit(copy_context().run, partial(list, self._committed(group)))
                    continue
                yield from self._committed(group)
                for member, of_member in self._runs_by_member(group_runs):
                    if self.broken is None:
                        member.evolve(of_member)
                        member.quarantine(of_member)
                    member.writer.unstage()

    def _jobs(self, keys: Iterable[_KeyRuns]) -> Iterator[Sequence[_KeyRuns]]:
        """Return the keys whose partitions are written by one job."""
        for group in chunks(keys, BYTES_AT_ONCE, lambda key: sum(run.reads.size for run in key)):
            yield from chunks(group, max(JOB_PARTITIONS // len(self._members), self._batch))

    def _may_wait(self, runs: Sequence[PartitionRun]) -> bool:
        """Return whether the next job may begin before these are committed: they need nothing else, and are many.

        Of few, a job takes much longer than the commits, whose outcomes would be late.
        """
        is_staged = any(member.writer.staging is not None for member in self._members.values())
        return len(runs) >= KEYS_AT_ONCE and not is_staged and len(still_open(runs)) == len(runs)

    def _committed(self, keys: Sequence[_KeyRuns]) -> Generator[Sequence[PartitionRun], None, None]:
        """Commit keys, unless the run is broken; yields the partitions that may have ended."""
        for chunk in chunks(keys, max(KEYS_AT_ONCE // self._batch, 1) * self._batch):  # whole batches
            opened = still_open(_flat(chunk))
            self._commit_or_break(chunk)
            yield [run for run in opened if run.held_by is None]  # another one may be tried again

    def _hold_back(self, key: _KeyRuns) -> None:
        """Fail the open partitions of a key of which one has failed; if that is tried again, so are they."""
        cause = next((run for run in key if run.state is RunState.FAILED and run.held_by is None), None)
        if cause is None or cause.error is None:
            return
        held = still_open(key)
        is_of_all = isinstance(cause.error, (*OF_ALL, *TRANSIENT))  # a run of either stream is tried again
        for run in held:
            run.fail(
                cause.error if is_of_all else held_back(run.partition, cause.stream.name, error_text(cause.error)),
                cause,
            )
        self._discard(held)

    def _commit_or_break(self, keys: Sequence[_KeyRuns]) -> None:
        """Verify and commit keys, unless an error that all partitions have has ended the run."""
        runs = _flat(keys)
        try:
            if self.broken is not None:
                raise self.broken
            for member, of_member in self._runs_by_member(still_open(runs)):
                member.verify(of_member)
            for key in keys:
                self._hold_back(key)
            self.commit(still_open(runs))
        except LakeAssetsError as error:
            self._break_off(error, runs)

    def commit(self, runs: Sequence[PartitionRun]) -> None:
        """Commit partitions by keys, as many together as the streams' `commit_batch` says.

        An error would be that of the remaining partitions, which are open, too.
        """
        start = time.perf_counter()
        with self.stream.lake.open() as lake:
            opening = (time.perf_counter() - start) / max(len(runs), 1)
            for run in runs:
                run.add_seconds("commit", opening)
            for batch in chunks(_keys(runs), self._batch):
                self._commit(lake, batch)

    def _commit(self, lake: LakeSession, keys: Sequence[_KeyRuns]) -> None:
        """Commit keys in one transaction, or else each in one of its own."""
        start, runs = time.perf_counter(), _flat(keys)
        ready: list[list[tuple[PartitionRun, Change]]] = []
        try:
            for key in keys:
                changes = []
                for run in key:
                    with run.keeping_error():
                        if (change := self._members[run.stream.name].change(lake, run)) is not None:
                            changes.append((run, change))
                self._hold_back(key)
                if changes and changes[0][0].state is RunState.OPEN:
                    ready.append(changes)
            if len(ready) > 1:
                with suppress(_ApartError):
                    self._commit_together(lake, list(chain.from_iterable(ready)), len(ready))
                    ready = []
            for changes in ready:
                self._commit_together(lake, changes, 1)
                self._end_if_broken([run for run, _ in changes])
        finally:
            seconds = (time.perf_counter() - start) / len(runs)
            for run in runs:
                run.add_seconds("commit", seconds)
                run.report_step("commit", seconds)
        self._end_if_broken(runs)

    def _commit_together(self, lake: LakeSession, ready: Sequence[tuple[PartitionRun, Change]], keys: int) -> None:
        """Commit changes of some keys in one transaction; after _ApartError each is to be committed by itself."""
        runs = [run for run, _ in ready]
        try:
            with about_partition(runs[0].row) if len(runs) == 1 else nullcontext():
                committed = commit(lake, [change for _, change in ready])
        except (*OF_ALL, UnknownCommitError) as error:
            fail_all(runs, error)
        except Exception as error:
            if keys > 1:
                level = logging.INFO if isinstance(error, UNDONE) else logging.WARNING
                _LOG.log(level, "%d partitions are committed one by one: %s", keys, error)
                raise _ApartError from error
            if isinstance(error, UNDONE):
                self._discard(runs)
            fail_all(runs, self._explained(error, runs))
        else:
            for run, done in zip(runs, committed, strict=True):
                run.finish(done.row, done.delta)

    def _end_if_broken(self, runs: Sequence[PartitionRun]) -> None:
        """End the run if it is to end, or if every other partition would have an error of these too."""
        checkpoint()
        for run in runs:
            if isinstance(run.error, OF_ALL):
                raise run.error

    def _explained(self, error: Exception, runs: Sequence[PartitionRun]) -> Exception:
        if not isinstance(error, NotDirectError) or len(runs) == 1:
            return error
        names = several([run.stream.name for run in runs])
        return CatalogError(f"{names} cannot be committed in one snapshot: {error}:", "remove their release group.")

    def _break_off(self, error: Exception, runs: Sequence[PartitionRun]) -> None:
        """End the run with an error that all streams have, and remove the files of what is still open."""
        self.broken, remaining = error, still_open(runs)
        fail_all(remaining, error)
        self._discard(remaining)

    def _discard(self, runs: Sequence[PartitionRun]) -> None:
        for member, of_member in self._runs_by_member(runs):
            member.writer.discard(of_member)

    def _runs_by_member(self, runs: Iterable[PartitionRun]) -> Iterator[tuple[StreamSteps, list[PartitionRun]]]:
        of_streams: dict[str, list[PartitionRun]] = {name: [] for name in self._members}
        for run in runs:
            of_streams[run.stream.name].append(run)
        return ((self._members[name], of_stream) for name, of_stream in of_streams.items() if of_stream)


class _ApartError(Exception):
    """The keys of a batch are to be committed one by one."""


def _keys(runs: Iterable[PartitionRun]) -> list[_KeyRuns]:
    keys: dict[str, list[PartitionRun]] = {}
    for run in runs:
        keys.setdefault(run.partition.path, []).append(run)
    return list(keys.values())


def _flat(keys: Iterable[_KeyRuns]) -> list[PartitionRun]:
    return list(chain.from_iterable(keys))
