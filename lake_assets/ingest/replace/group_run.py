"""A run over streams that are released together: it commits the partitions of a key in one transaction, or none."""

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from lake_assets.errors import CatalogError, LakeAssetsError
from lake_assets.ingest.outcome import Outcome, error_text
from lake_assets.ingest.partition_run import PartitionRun, State
from lake_assets.ingest.plan import held_back, waiting_text
from lake_assets.ingest.replace.replace_run import COMMITS, GROUP_BYTES, GROUP_PARTITIONS, ReplaceRun
from lake_assets.ingest.run import Run, chunks, fail_all, still_open
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.commit.change import Change, UnknownCommitError
from lake_assets.lake.commit.strategy import OF_ALL, UNDONE, commit
from lake_assets.lake.session import LakeSession
from lake_assets.layout.texts import several

_LOG = logging.getLogger(__name__)

Key = Sequence[PartitionRun]
"""The partitions of one key, of each stream one at most."""


class GroupRun(Run):
    """A run over partitions of streams that are released together.

    Args:
        members: a run of each stream, of the same options but for what the streams themselves say.
    """

    def __init__(self, members: Sequence[ReplaceRun]) -> None:
        first = members[0]
        super().__init__(first.stream, first.options, first.checkpoint)
        self._members = {member.stream.name: member for member in members}
        self._batch = min(member.stream.commit_batch for member in members)

    def groups(self, runs: Sequence[PartitionRun]) -> Iterator[Sequence[PartitionRun]]:
        """Return the partitions that are planned together: whole keys."""
        return (_flat(keys) for keys in chunks(_keys(runs), max(GROUP_PARTITIONS // len(self._members), 1)))

    def outcomes(self, runs: Sequence[PartitionRun]) -> Generator[Outcome, None, None]:
        """Refresh the partitions of all streams; staged files that a killed step has left are removed last."""
        try:
            yield from super().outcomes(runs)
        finally:
            for member in self._members.values():
                member.writer.unstage()

    def plan(self, runs: Sequence[PartitionRun]) -> None:
        """List and decide, stream by stream; then hold back what is not ready as a whole."""
        for member, some in self._by_member(runs):
            if self.broken is None:
                member.plan(some)
                self.broken = member.broken
        if self.broken is not None:
            fail_all(still_open(runs), self.broken)
            return
        for key in _keys(runs):
            self._hold_back(key)
            if missing := [run.stream.name for run in key if run.state is State.LEFT_OUT]:
                for run in still_open(key):
                    run.leave_out(waiting_text(missing))

    def execute(self, runs: Sequence[PartitionRun]) -> Generator[Sequence[PartitionRun], None, None]:
        """Write the files of all streams, each in Spark jobs of its own, and commit whole keys."""
        at_once = max(COMMITS // self._batch, 1) * self._batch
        for group in chunks(_keys(still_open(runs)), GROUP_BYTES, lambda key: sum(run.reads.size for run in key)):
            some = _flat(group)
            for member, of_member in self._by_member(some):
                member.write(of_member)
                if member.broken is not None:
                    self._break_off(member.broken, some)
            for keys in chunks(group, at_once):
                self._commit_or_break(keys)
                yield [run for run in _flat(keys) if run.state is State.DONE]
            for member, of_member in self._by_member(some):
                member.evolve(of_member)
                member.quarantine(of_member)
                member.writer.unstage()

    def _hold_back(self, key: Key) -> None:
        """Fail the open partitions of a key of which one has failed; if that is tried again, so are they."""
        cause = next((run for run in key if run.state is State.FAILED and run.held_by is None), None)
        if cause is None or cause.error is None:
            return
        held = still_open(key)
        is_of_all = isinstance(cause.error, OF_ALL)
        for run in held:
            run.fail(
                cause.error if is_of_all else held_back(run.partition, cause.stream.name, error_text(cause.error)),
                cause,
            )
        self._discard(held)

    def _commit_or_break(self, keys: Sequence[Key]) -> None:
        runs = _flat(keys)
        try:
            if self.broken is not None:
                raise self.broken
            for member, some in self._by_member(still_open(runs)):
                member.verify(some)
            with self.stream.lake.open() as lake:
                for batch in chunks(keys, self._batch):
                    self._commit(lake, batch)
        except LakeAssetsError as error:
            self._break_off(error, runs)

    def _commit(self, lake: LakeSession, keys: Sequence[Key]) -> None:
        """Commit keys in one transaction, or else each in one of its own."""
        start, begun = time.perf_counter(), still_open(_flat(keys))
        ready: list[list[tuple[PartitionRun, Change]]] = []
        for key in keys:
            self._hold_back(key)
            changes = []
            for run in still_open(key):
                with run.keeping_error():
                    if (change := self._members[run.stream.name].change(lake, run)) is not None:
                        changes.append((run, change))
            self._hold_back(key)
            if changes and changes[0][0].state is State.OPEN:
                ready.append(changes)
        if len(ready) > 1:
            with suppress(*UNDONE, _ApartError):
                self._commit_changes(lake, list(chain.from_iterable(ready)), are_keys=True)
                ready = []
        for changes in ready:
            self._commit_changes(lake, changes, are_keys=False)
        for run in begun:
            seconds = (time.perf_counter() - start) / len(begun)
            run.add_seconds("commit", seconds)
            run.report_step("commit", seconds)
        self.checkpoint()
        for run in begun:
            if isinstance(run.error, OF_ALL):
                raise run.error

    def _commit_changes(
        self, lake: LakeSession, ready: Sequence[tuple[PartitionRun, Change]], *, are_keys: bool
    ) -> None:
        """Commit changes in one transaction.

        Args:
            lake: an open lake.
            ready: the partitions with their changes.
            are_keys: there are several keys, each of which can be committed by itself.

        Raises:
            _ApartError: nothing was committed, and the keys are to be committed one by one.
        """
        runs = [run for run, _ in ready]
        try:
            committed = commit(lake, [change for _, change in ready])
        except (*OF_ALL, UnknownCommitError) as error:
            fail_all(runs, error)
        except Exception as error:
            if are_keys:
                level = logging.INFO if isinstance(error, UNDONE) else logging.WARNING
                _LOG.log(level, "%d keys are committed one by one: %s", len(_keys(runs)), error)
                raise _ApartError from error
            if isinstance(error, UNDONE):
                self._discard(runs)
            fail_all(runs, self._explained(error, runs))
        else:
            for run, one in zip(runs, committed, strict=True):
                run.finish(one.row, one.delta)

    def _explained(self, error: Exception, runs: Sequence[PartitionRun]) -> Exception:
        if not isinstance(error, NotDirectError):
            return error
        names = several([run.stream.name for run in runs])
        return CatalogError(
            f"{names} cannot be committed in one snapshot: {error}:",
            "remove their release group, or what the direct strategy does not support.",
        )

    def _break_off(self, error: Exception, runs: Sequence[PartitionRun]) -> None:
        """End the run with an error that all streams have, and remove the files of what is still open."""
        self.broken, rest = error, still_open(runs)
        fail_all(rest, error)
        self._discard(rest)

    def _discard(self, runs: Sequence[PartitionRun]) -> None:
        for member, some in self._by_member(runs):
            member.writer.discard(some)

    def _by_member(self, runs: Iterable[PartitionRun]) -> Iterator[tuple[ReplaceRun, list[PartitionRun]]]:
        of_streams: dict[str, list[PartitionRun]] = {name: [] for name in self._members}
        for run in runs:
            of_streams[run.stream.name].append(run)
        return ((self._members[name], some) for name, some in of_streams.items() if some)


class _ApartError(Exception):
    """The keys of a batch are to be committed one by one."""


def _keys(runs: Iterable[PartitionRun]) -> list[Key]:
    keys: dict[str, list[PartitionRun]] = {}
    for run in runs:
        keys.setdefault(run.partition.path, []).append(run)
    return list(keys.values())


def _flat(keys: Iterable[Key]) -> list[PartitionRun]:
    return list(chain.from_iterable(keys))
