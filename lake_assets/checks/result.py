"""The scope and the result of a check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.catalog.table import Key
from lake_assets.layout.partition import Partition

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
