"""Numbers with their units, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lake_assets.layout.texts import count, size

__all__ = ["exported_text", "size"]

if TYPE_CHECKING:
    from lake_assets.lake.commit.deltas import DeltaFile


def exported_text(deltas: "Sequence[DeltaFile]") -> str:
    """How many changes a commit exported, and in how many files."""
    if not deltas:
        return "no row changed, so none was exported"
    inserted, deleted = sum(file.rows_inserted for file in deltas), sum(file.rows_deleted for file in deltas)
    return f"exported {count(inserted, 'insert')} and {count(deleted, 'delete')} in {count(len(deltas), 'file')}"
