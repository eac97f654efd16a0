"""The document of `doctor`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.doctor import Finding


@dataclass(frozen=True, slots=True)
class DoctorFinding(Documented):
    """The result of one check."""

    subject: str
    """What was checked."""
    status: Literal["ok", "warning", "failed"]
    """A warning is about what only some configs need."""
    text: str
    """What was found."""
    hint: str
    """How to fix it, or empty."""


@dataclass(frozen=True, slots=True)
class DoctorDocument(Documented):
    """What `doctor` found."""

    failed: int
    """The number of failed checks."""
    findings: list[DoctorFinding]
    """In the order of the checks."""

    @classmethod
    def of(cls, findings: "Iterable[Finding]") -> "DoctorDocument":
        """The document of all findings."""
        found = [DoctorFinding(f.subject, f.status, f.text, f.hint) for f in findings]
        return cls(sum(finding.status == "failed" for finding in found), found)
