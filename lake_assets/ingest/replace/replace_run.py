"""A run of mode replace or append: it writes the partitions' files in Spark jobs, and commits them by keys.

A key has one partition. In a run of streams that are released together it has the same partition of each of them, and
they are committed in one transaction, or none is.
"""

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import chain

from lake_assets.base.errors import TRANSIENT, CatalogError, LakeAssetsError
from lake_assets.base.progress import checkpoint
from lake_assets.base.texts import several
from lake_assets.ingest.outcome import Outcome, about_partition, error_text
from lake_assets.ingest.partition_run import PartitionRun, RunState
from lake_assets.ingest.plan import held_back, waiting_text
from lake_assets.ingest.replace.stream_steps import StreamSteps
from lake_assets.ingest.run import Run, chunks, fail_all, still_open
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.commit.change import Change, UnknownCommitError
from lake_assets.lake.commit.strategy import OF_ALL, UNDONE, commit
from lake_assets.lake.session import LakeSession

_LOG = logging.getLogger(__name__)

# The limits of one Spark job, in partitions and in bytes of landed objects. Each job takes 0.2 s to schedule, and
# nothing is committed before it ends. `commit_batch` of a stream is at most the partitions of a job.
GROUP_PARTITIONS = 200
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
        """Commit what needs no Spark; write the files of the others, in jobs of each stream, and commit them too."""
        at_once = max(KEYS_AT_ONCE // self._batch, 1) * self._batch  # whole batches
        keys = _keys(still_open(runs))
        with_job = [key for key in keys if any(run.reads.read for run in key)]
        others = [key for key in keys if not any(run.reads.read for run in key)]
        for group in (others, *chunks(with_job, BYTES_AT_ONCE, lambda key: sum(run.reads.size for run in key))):
            group_runs = _flat(group)
            for member, of_member in self._runs_by_member(group_runs):
                if self.broken is None:
                    member.write(of_member)
                    self.broken = member.broken
            if self.broken is not None:
                self._break_off(self.broken, group_runs)
            for chunk in chunks(group, at_once):
                opened = still_open(_flat(chunk))
                self._commit_or_break(chunk)
                yield [run for run in opened if run.held_by is None]  # another one may be tried again
            for member, of_member in self._runs_by_member(group_runs):
                if self.broken is None:
                    member.evolve(of_member)
                    member.quarantine(of_member)
                member.writer.unstage()

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
