"""Numbers with their units, for people."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lake_assets.layout.texts import count

if TYPE_CHECKING:
    from lake_assets.lake.commit.deltas import DeltaFile


def size(number: int) -> str:
    """Bytes in decimal units: `12.7 kB`."""
    from rich.filesize import decimal

    return decimal(number)


def exported_text(deltas: "Sequence[DeltaFile]") -> str:
    """How many changes a commit exported, and in how many files."""
    if not deltas:
        return "no row changed, so none was exported"
    inserted, deleted = sum(file.rows_inserted for file in deltas), sum(file.rows_deleted for file in deltas)
    return f"exported {count(inserted, 'insert')} and {count(deleted, 'delete')} in {count(len(deltas), 'file')}"
