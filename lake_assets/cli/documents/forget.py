"""The document of `forget`: an array of partitions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.ingest.forget import Forgotten


@dataclass(frozen=True, slots=True)
class ForgottenPartition(Documented):
    """A partition that was removed from the ledger; with `--dry-run`, that would be."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    ledger_rows: int
    """Its rows of the ledger."""

    @classmethod
    def of(cls, forgotten: "Forgotten") -> "ForgottenPartition":
        """The partition as the document has it."""
        return cls(str(forgotten.partition), forgotten.ledger_rows)
