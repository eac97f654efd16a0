"""The documents of `history`, `diff` and `restore`."""

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented
from lake_assets.cli.documents.ingest import Failure

if TYPE_CHECKING:
    from lake_assets.history.diff import Difference
    from lake_assets.history.read import HistoryEntry
    from lake_assets.history.restore import Restored
    from lake_assets.lake.ledger.tables import LedgerRow
    from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class HistorySnapshot(Documented):
    """A snapshot that changed a partition, or the table itself."""

    snapshot: int
    """Its number."""
    time: dt.datetime | None
    """When it was committed; null if unknown."""
    partition: str | None
    """As a path, such as `region=NW/date=2026-02-11`; null if the snapshot changed the table, such as its columns."""
    run_id: str | None
    """The run's id; null for other clients."""
    mode: str
    """Of the run, as in the ledger; for other clients, DuckLake's words for the change."""
    rows_before: int | None
    """The partition's rows before; null if unknown."""
    rows: int | None
    """Its rows after; null if unknown."""
    requested_by: str | None
    """Who or what requested the run; for other clients the author of the snapshot, if it has one."""
    hold: Literal["held", "released"] | None
    """Whether refreshes leave the partition alone since; null if they were never kept off."""
    kept: int | None
    """A snapshot that still exists with these rows, for `restore --snapshot`; null if it has expired."""

    @classmethod
    def of(cls, entry: "HistoryEntry") -> "HistorySnapshot":
        """The entry as the document has it."""
        return cls(**{field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)})


@dataclass(frozen=True, slots=True)
class DiffColumn(Documented):
    """A column whose values differ."""

    name: str
    """Its name."""
    rows: int | None
    """The number of rows of equal keys with other values; null without `--key`."""


@dataclass(frozen=True, slots=True)
class DiffRow(Documented):
    """A row that differs. Values are texts of 1,000 characters at most; NULL is null."""

    kind: Literal["insert", "delete", "update"]
    """Whether the row is in the later snapshot only, in the earlier only, or in both with other values."""
    values: dict[str, str | None]
    """By column. Of an update, the keys, and the columns that differ, as they are in the later snapshot."""
    before: dict[str, str | None] | None
    """Of an update, the columns that differ, as they are in the earlier snapshot."""


@dataclass(frozen=True, slots=True)
class DiffDocument(Documented):
    """What differs between a partition's rows in two snapshots."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    first: int
    """The number of the earlier snapshot."""
    second: int
    """The number of the later snapshot."""
    rows_before: int
    """The partition's rows in the earlier one."""
    rows: int
    """Its rows in the later one."""
    inserted: int
    """Rows of the later one that the earlier one does not have; with `--key`, whose key it does not have."""
    deleted: int
    """The reverse."""
    updated: int | None
    """Rows of equal keys with other values; null without `--key`."""
    table: list[str]
    """Differences of the table's columns, each in one clause."""
    columns: list[DiffColumn]
    """Those of both snapshots whose values differ."""
    sample: list[DiffRow]
    """Some rows of each kind, as many as `--sample` says."""

    @classmethod
    def of(cls, found: "Difference") -> "DiffDocument":
        """The difference as the document has it."""
        return cls(
            partition=found.partition.path,
            first=found.first,
            second=found.second,
            rows_before=found.rows_before,
            rows=found.rows,
            inserted=found.inserted,
            deleted=found.deleted,
            updated=found.updated,
            table=list(found.table),
            columns=[DiffColumn(column.name, column.rows) for column in found.columns],
            sample=[
                DiffRow(row.kind, dict(row.values), None if row.before is None else dict(row.before))
                for row in found.sample
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition(Documented):
    """What was done with one partition, or would be done."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    snapshot: int | None
    """The number of the snapshot whose rows are restored; null with `--release`."""
    dry_run: bool
    """Whether nothing was changed, and the rest is what would be done."""
    rows: int | None = None
    """The snapshot's rows of the partition; null with `--release`, or if the partition failed."""
    rows_before: int | None = None
    """The rows that they replace; null as `rows` is."""
    files_copied: int | None = None
    """Copied data files; null if DuckLake writes the rows instead."""
    differences: list[str] = dataclasses.field(default_factory=list)
    """How the table's columns differ from those of the snapshot, each in one clause."""
    unchanged: bool = False
    """Whether the partition has these rows already, so nothing was done."""
    held: bool = False
    """Whether refreshes leave the partition alone from now on."""
    released: bool = False
    """Whether a hold was ended, by `--release`."""
    commit: int | None = None
    """The number of the new snapshot; null if nothing was committed."""
    next: str | None = None
    """What the next refresh does with the partition; null with `--release`, or if the partition failed."""
    error: Failure | None = None
    """Why nothing was done."""

    @classmethod
    def of(cls, restored: "Restored", *, dry_run: bool) -> "RestoredPartition":
        """A restored partition."""
        return cls(
            partition=restored.partition.path,
            snapshot=restored.snapshot,
            dry_run=dry_run,
            rows=restored.rows,
            rows_before=restored.rows_before,
            files_copied=restored.files,
            differences=list(restored.differences),
            unchanged=restored.is_unchanged,
            held=restored.is_held,
            commit=restored.row.snapshot_id if restored.row else None,
            next=restored.next,
        )

    @classmethod
    def of_release(cls, row: "LedgerRow") -> "RestoredPartition":
        """A partition whose hold has ended, by the ledger's row of that."""
        return cls(partition=row.load_partition, snapshot=None, dry_run=False, released=True, commit=row.snapshot_id)

    @classmethod
    def of_error(
        cls, partition: "Partition", snapshot: int | None, error: Exception, *, dry_run: bool
    ) -> "RestoredPartition":
        """A partition that stays as it is."""
        return cls(partition=partition.path, snapshot=snapshot, dry_run=dry_run, error=Failure.of(error))
