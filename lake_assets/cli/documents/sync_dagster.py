"""The document of `sync-dagster`: an array of streams."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.orchestration.sync import Synced


@dataclass(frozen=True, slots=True)
class SyncedStream(Documented):
    """What was reported to Dagster of one stream."""

    stream: str
    """Its name."""
    dry_run: bool
    """Whether nothing was reported, and the rest is what would be."""
    reported: list[str]
    """Dagster's keys of the partitions whose newest commits were reported, such as `2026-02-11|NW`."""
    known: int
    """The number of partitions whose newest commit Dagster had already."""
    outside: int
    """The number of committed partitions outside the config."""
    under_way: int
    """The number of partitions whose run in Dagster has not ended."""

    @classmethod
    def of(cls, stream: str, synced: "Synced", *, dry_run: bool) -> "SyncedStream":
        """The stream as the document has it."""
        return cls(stream, dry_run, list(synced.reported), synced.known, synced.outside, synced.under_way)
