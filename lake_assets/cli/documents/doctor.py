"""The document of `doctor`."""

from dataclasses import dataclass
from typing import Literal

from lake_assets.cli.documents.base import Documented


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
