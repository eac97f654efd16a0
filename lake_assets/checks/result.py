"""What a check looks at, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from lake_assets.layout.partition import Partition

Severity = Literal["error", "warn"]

NAMED = 10  # partitions, files or rows that a result names


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a table is looked at: the partitions of a run just done, or, without one, all there is.

    Attributes:
        run_id: of the run; None where no run says what is looked at.
        partitions: that the run committed or found unchanged; None: the whole table.
        failed: that the run tried and did not commit. The rows from before the run are still in the lake.
    """

    run_id: str | None = None
    partitions: tuple[Partition, ...] | None = None
    failed: tuple[Partition, ...] = ()

    @property
    def tried(self) -> tuple[Partition, ...] | None:
        """All partitions of the run, however they ended; None: the whole table."""
        return None if self.partitions is None else (*self.partitions, *self.failed)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

    Attributes:
        name: of the check.
        passed: whether all is well.
        description: one sentence of what was found, with how to fix it.
        severity: of a check that did not pass.
        numbers: figures by plain names, one meaning a name.
        named: the first of what is wrong.
    """

    name: str
    passed: bool
    description: str
    severity: Severity = "error"
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    named: Sequence[str] = ()
