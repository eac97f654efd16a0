"""The document of `check`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented
from lake_assets.cli.documents.ingest import Failure

if TYPE_CHECKING:
    from lake_assets.checks.result import CheckResult
    from lake_assets.layout.partition import Partition
    from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class CheckFinding(Documented):
    """The result of one check."""

    name: str
    """Of the check."""
    status: Literal["passed", "warning", "failed"]
    """A warning does not change the exit code."""
    description: str
    """What was found, and the fix, in a sentence; empty if the check has an error."""
    named: list[str]
    """The first partitions, files or rows that it found, 10 at most."""
    numbers: dict[str, int]
    """Numbers of rows, partitions, files or objects, by what they are."""
    error: Failure | None
    """Why the check could not be run."""

    @classmethod
    def of(cls, result: "CheckResult", *, failed: bool) -> "CheckFinding":
        """The result as the document has it; `failed` says whether one that did not pass is more than a warning."""
        status: Literal["passed", "warning", "failed"] = (
            "passed" if result.passed else "failed" if failed else "warning"
        )
        return cls(result.name, status, result.description, list(result.named), dict(result.numbers), None)

    @classmethod
    def of_error(cls, name: str, error: Exception) -> "CheckFinding":
        """A check that could not be run."""
        return cls(name, "failed", "", [], {}, Failure.of(error))


@dataclass(frozen=True, slots=True)
class CheckDocument(Documented):
    """The results of a stream's checks."""

    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    partitions: list[str] | None
    """The selected partitions, as paths; null for an audit of the whole table."""
    failed: int
    """The number of failed checks."""
    warnings: int
    """The number of checks with a warning."""
    checks: list[CheckFinding]
    """In the order in which they ran; empty if no partition was selected."""

    @classmethod
    def of(
        cls, stream: "OpenStream", partitions: "Sequence[Partition] | None", findings: list[CheckFinding]
    ) -> "CheckDocument":
        """The document of the findings; `partitions` is None for an audit."""
        statuses = [finding.status for finding in findings]
        paths = None if partitions is None else list(map(str, partitions))
        return cls(stream.name, str(stream.table), paths, statuses.count("failed"), statuses.count("warning"), findings)
