"""The document of `ledger`: an array of runs."""

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.lake.ledger.tables import LedgerRow


@dataclass(frozen=True, slots=True)
class LedgerRun(Documented):
    """One run of one partition. The fields are the columns of the ledger, in their order."""

    run_id: str
    """The run's id."""
    run_at: dt.datetime
    """When the run began."""
    stream: str
    """Its stream."""
    source_glob: str
    """Path or URI of the partition's landed objects."""
    destination_table: str
    """With its schema, such as `main.sales`."""
    partition_columns: str
    """Their names, separated by commas."""
    load_partition: str
    """The partition as a path, such as `region=NW/date=2026-02-11`."""
    mode: str
    """`replace`, `append`, `index`, `repair`, `compact`, `restore` or `release`."""
    status: Literal["committed", "skipped", "failed", "cancelled"]
    """How it ended."""
    on_empty: str | None
    """The policy that was applied, if the partition had no objects."""
    row_count: int | None
    """Rows that the commit wrote; in the modes append and index, those that it added."""
    rows_before: int | None
    """The partition's rows before."""
    source_files: int | None
    """The number of landed objects."""
    source_bytes: int | None
    """Their size in bytes."""
    files_written: int | None
    """Data files that the commit added."""
    bytes_written: int | None
    """Their size in bytes."""
    source_fingerprint: str | None
    """Of the landed objects, in hexadecimal digits."""
    snapshot_id: int | None
    """The number of the commit's snapshot; null unless it is committed."""
    started_at: dt.datetime
    """When work on the partition began."""
    finished_at: dt.datetime | None
    """When it ended."""
    error: str | None
    """Why it failed."""
    files_copied: int | None
    """Of the files written, those that are copies of objects."""
    requested_by: str | None
    """The user, or what launched the run in Dagster."""
    hold: Literal["held", "released"] | None
    """Whether refreshes leave the partition alone since; null if they were never kept off."""
    files_quarantined: int | None
    """Landed objects that were left out; null if the stream never does that."""
    rows_dead_lettered: int | None
    """Rows that were left out; null if the stream never does that."""

    @classmethod
    def of(cls, row: "LedgerRow") -> "LedgerRun":
        """The row as the document has it."""
        return cls(**{field.name: getattr(row, field.name) for field in dataclasses.fields(row)})
