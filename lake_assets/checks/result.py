"""The scope and the result of a check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Self

from lake_assets.layout.partition import Partition

Severity = Literal["error", "warn"]

NAMED = 10  # partitions, files or rows that a result names at most


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a table to check: the partitions of a run, or the whole table.

    Attributes:
        run_id: of the run; None without a run.
        partitions: those that the run committed or found unchanged; None: the whole table.
        failed: those that the run did not commit. Their rows from before the run are still in the lake.
    """

    run_id: str | None = None
    partitions: tuple[Partition, ...] | None = None
    failed: tuple[Partition, ...] = ()

    @property
    def tried(self) -> tuple[Partition, ...] | None:
        """All partitions of the run, with every result; None: the whole table."""
        return None if self.partitions is None else (*self.partitions, *self.failed)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        name: of the check.
        passed: whether the check passed.
        description: one sentence that says what is wrong and how to fix it.
        severity: of a check that did not pass.
        numbers: figures by name.
        named: the first findings.
    """

    name: str
    passed: bool
    description: str
    severity: Severity = "error"
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    named: Sequence[str] = ()

    @classmethod
    def of_findings(
        cls,
        name: str,
        findings: Sequence[str],
        *,
        failure: str,
        success: str,
        numbers: Mapping[str, int],
        severity: Severity = "error",
    ) -> Self:
        """The result of a check that passes if there are no findings."""
        return cls(name, not findings, failure if findings else success, severity, numbers, findings[:NAMED])
