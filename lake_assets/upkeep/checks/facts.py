"""What the checks of one scope share: each fact of the lake and each listing is read once, when a check needs it."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Self

from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.catalog.past_partitions import LIVE, PastTable, past_table
from lake_assets.lake.catalog.table import Key
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import last_runs
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.left_out import LeftOut
from lake_assets.streams.pending import LandingScan
from lake_assets.streams.stream import OpenStream, list_landed, list_landed_in
from lake_assets.upkeep.report.state import StreamState, reasons_of_landed, state_by

NAMED = 10  # partitions, files or rows that a result names at most


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a table to check: the partitions of a run, or the whole table."""

    run_id: str | None = None  # of the run; None without a run
    # Those that the run committed or found unchanged; None: the whole table
    partitions: tuple[Partition, ...] | None = None
    # Those that the run did not commit, each with the reason. Their rows from before the run are still in the lake.
    failed: Mapping[Partition, str] = field(default_factory=lambda: MappingProxyType({}))
    # The snapshot of the run's first commit of the table; None if it made none, or without a run
    first_commit: int | None = None
    # Of the run's ingest, with its listings, if it ran in this process. What they have is not read again.
    results: Mapping[Partition, Outcome] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @classmethod
    def of_results(cls, run_id: str, results: Mapping[Partition, Outcome], failed: Mapping[Partition, str]) -> Self:
        """Return the scope of a run that ended in this process."""
        snapshots = [result.row.snapshot_id for result in results.values() if result.row.snapshot_id is not None]
        return cls(run_id, tuple(results), failed, min(snapshots, default=None), results)

    @property
    def tried(self) -> tuple[Partition, ...] | None:
        """All partitions of the run, with every result; None: the whole table."""
        return None if self.partitions is None else (*self.partitions, *self.failed)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check."""

    name: str
    passed: bool
    description: str  # one sentence that says what is wrong and how to fix it
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))  # figures by name
    named: Sequence[str] = ()  # the first findings
    # The partitions with findings; None if they are unknown. Only for checks without a result by partition.
    failing: frozenset[Key] | None = None

    @classmethod
    def of_findings(
        cls,
        name: str,
        findings: Sequence[str],
        *,
        failure: str,
        success: str,
        numbers: Mapping[str, int],
        failing: frozenset[Key] | None = None,
    ) -> Self:
        """Return the result of a check that passes if there are no findings."""
        text = failure if findings else success
        return cls(name, not findings, text, numbers, findings[:NAMED], failing)


@dataclass(frozen=True, slots=True)
class PreparedCheck:
    """A check that has read the lake. Its results may still ask the storages, but not the lake."""

    whole: Callable[[], CheckResult]  # returns the result of the scope
    # Returns the result of each partition; None if the check has no such results
    by_partition: Callable[[], Mapping[Partition, CheckResult]] | None = None


class LandedListing:
    """The listings of one scope. A prefix that the run's ingest has listed is not listed again."""

    def __init__(self, stream: OpenStream, scope: Scope) -> None:
        self._stream = stream
        self._listed = {partition: result.manifest for partition, result in scope.results.items()}
        self._handed_on = set(self._listed)
        self._all: tuple[dict[Partition, Manifest], LeftOut] | None = None

    def of(self, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
        """Return the objects of some partitions."""
        wanted = list(partitions)
        if missing := [partition for partition in wanted if partition not in self._listed]:
            self._listed |= list_landed_in(self._stream, missing)
        return {partition: self._listed[partition] for partition in wanted}

    def list_again(self, partitions: Iterable[Partition]) -> bool:
        """List those of the partitions again that the ingest has listed, before they are wrong; False if none."""
        outdated = [partition for partition in partitions if partition in self._handed_on]
        self._handed_on.difference_update(outdated)
        self._listed |= list_landed_in(self._stream, outdated)
        return bool(outdated)

    def all(self, known: Iterable[Partition]) -> tuple[dict[Partition, Manifest], LeftOut]:
        """Return the whole landing zone, as `list_landed` returns it; the first call lists it."""
        if self._all is None:
            self._all = list_landed(self._stream, known)
            self._listed |= dict.fromkeys(known, Manifest(())) | self._all[0]
        return self._all


class Facts:
    """The facts of one scope, while the lake is open."""

    def __init__(self, stream: OpenStream, scope: Scope, session: LakeSession | None, *, by_partition: bool) -> None:
        self.by_partition = by_partition  # whether the results of single partitions are wanted too
        self.stream = stream
        self.scope = scope
        self.landed = LandedListing(stream, scope)
        self._session = session  # the open lake; None if there is none yet
        self._past: dict[int, PastTable] = {}

    @property
    def lake(self) -> LakeSession:
        """The open lake; only for checks of a table that exists."""
        assert self._session is not None  # noqa: S101 - has_table is checked before
        return self._session

    @cached_property
    def has_table(self) -> bool:
        """Whether the lake has the stream's table."""
        return self._session is not None and self._session.exists(self.stream.table)

    @cached_property
    def runs(self) -> dict[Partition, LastRuns]:
        """The last runs of the scope's partitions."""
        if self._session is None:
            return {}
        return self.stream.config.by_partition(last_runs(self._session, self.stream.table, self.scope.tried))

    def scan(self, listed: Mapping[Partition, Manifest], left_out: LeftOut | None = None) -> LandingScan:
        """Return a listing beside the last runs."""
        return LandingScan(self.stream, listed, {p.path: runs for p, runs in self.runs.items()}, left_out)

    @cached_property
    def left_out(self) -> dict[Partition, dict[str, str]]:
        """Why the last commits of the scope's partitions left objects out, by their URIs.

        In mode append the objects may have vanished since; see `still_landed`.
        """
        return self.stream.quarantined(self._session if self.has_table else None, self.scope.tried)

    def still_landed(self) -> dict[Partition, dict[str, str]]:
        """Return what `left_out` returns, without objects that have vanished since, which mode append does not note.

        It may list the landing zone, but does not ask the lake.
        """
        if not self.left_out or not self.stream.config.mode.reads_new:
            return self.left_out
        landed = self.landed.all(self.runs)[0] if self.scope.tried is None else self.landed.of(self.left_out)
        of_landed = {p: reasons_of_landed(reasons, landed.get(p)) for p, reasons in self.left_out.items()}
        return {partition: reasons for partition, reasons in of_landed.items() if reasons}

    @cached_property
    def dead_letters(self) -> dict[Partition, list[LetterFile]]:
        """The files of rows that the scope's partitions lack in the lake."""
        return self.stream.dead_letters(self._session, self.scope.tried)

    def past(self, since: int = LIVE) -> PastTable:
        """Return the files of the scope's partitions, live and ended; `since` is as of `past_table`."""
        if since not in self._past:
            self._past[since] = past_table(self.lake, self.stream.partitioned_table, self.scope.tried, since)
        return self._past[since]


def state_of_all(facts: Facts) -> StreamState:
    """Return the state of every partition of the stream, by the facts of the whole table."""
    listed, left_out = facts.landed.all(facts.runs)
    return state_by(facts.scan(listed, left_out), dt.datetime.now(dt.UTC))
