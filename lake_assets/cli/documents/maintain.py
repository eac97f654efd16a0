"""The document of `maintain`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.maintenance.compaction import Compacted
    from lake_assets.maintenance.run import Maintained

KEPT = "in a landing zone, or in use again"  # why a file that no snapshot needs was not deleted


@dataclass(frozen=True, slots=True)
class KeptFile(Documented):
    """A file that was not deleted."""

    uri: str
    """Its path or URI."""
    why: str
    """The reason."""


@dataclass(frozen=True, slots=True)
class CompactedPartition(Documented):
    """A partition that was compacted, or left as it is."""

    stream: str
    """Its stream."""
    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    files_before: int
    """Data files before the compaction."""
    bytes_before: int
    """Their size in bytes."""
    files_after: int | None
    """Data files after it; null after a dry run, or if the partition was left."""
    bytes_after: int | None
    """Their size in bytes."""
    left: str | None
    """Why the partition was left as it is."""

    @classmethod
    def of(cls, item: "Compacted") -> "CompactedPartition":
        """The partition as the document has it."""
        return cls(
            stream=item.stream,
            partition=str(item.partition),
            files_before=item.files_before,
            bytes_before=item.bytes_before,
            files_after=item.files_after,
            bytes_after=item.bytes_after,
            left=item.why,
        )


@dataclass(frozen=True, slots=True)
class MaintainedLake(Documented):
    """The maintenance of one lake."""

    lake: str
    """Its name."""
    dry_run: bool
    """Whether nothing was changed, and the rest is what would be done."""
    expired: list[int]
    """Numbers of expired snapshots."""
    deleted: list[str]
    """URIs of data files that no snapshot needs."""
    orphans: list[str]
    """URIs of deleted files that the catalog did not have."""
    bytes_deleted: int
    """The size of all deleted data files and orphans, in bytes."""
    kept: list[KeptFile]
    """Files that could have been deleted, and were not."""
    waiting: list[str]
    """URIs of files in no storage of the config, which were not deleted."""
    ledger_rows_moved: int
    """Rows of ledger and manifest that were moved from the catalog into files."""
    ledger_rows_deleted: int
    """Rows of the ledger that were old enough to delete."""
    deltas_deleted: list[str]
    """URIs of deleted files of exported changes."""
    dead_letters_deleted: list[str]
    """URIs of deleted files of dead letters."""
    compacted: list[CompactedPartition]
    """The partitions with many small files."""
    corrected: list[str]
    """Columns with their tables, whose least and greatest values in the catalog were not those of the files."""

    @classmethod
    def of(cls, result: "Maintained", *, dry_run: bool) -> "MaintainedLake":
        """The lake as the document has it."""
        cleaned = result.cleaned
        return cls(
            lake=result.lake,
            dry_run=dry_run,
            expired=list(result.expired),
            deleted=list(cleaned.deleted),
            orphans=[orphan.uri for orphan in result.orphans],
            bytes_deleted=result.bytes_deleted,
            kept=[
                *(KeptFile(uri, KEPT) for uri in cleaned.kept),
                *(KeptFile(file.uri, file.why) for file in cleaned.others),
            ],
            waiting=list(cleaned.unreachable),
            ledger_rows_moved=result.flushed,
            ledger_rows_deleted=result.forgotten,
            deltas_deleted=[delta.uri for delta in result.deltas],
            dead_letters_deleted=[letter.uri for letter in result.letters],
            compacted=list(map(CompactedPartition.of, result.compacted)),
            corrected=list(result.corrected),
        )
