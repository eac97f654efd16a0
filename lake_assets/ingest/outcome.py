"""What became of a partition of a run."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pyarrow as pa

from lake_assets.ingest.options import IngestOptions
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.schema.evolve import ColumnChange
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import LetterFile
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one partition of a run: its ledger row, its error, and what the ledger does not hold.

    A partition that was left out, because nothing of it has landed, has neither a result nor an error. In mode index,
    some objects of a failed partition may be registered; it has both.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"arbitrary_types_allowed": True}

    partition: Partition
    row: LedgerRow
    error: Exception | None = None
    manifest: Manifest = field(default_factory=lambda: Manifest(()))
    has_listing: bool = True  # the manifest has the objects; a driver does not send those of a large run
    destination: str = ""
    schema: pa.Schema | None = None  # of the table without its partition columns; None when Spark was not needed
    seconds: Mapping[str, float] = field(default_factory=dict)  # by step: list, check, job, verify, evolve, commit
    changes: tuple[ColumnChange, ...] = ()  # that this partition made to the table's columns
    note: str = ""  # for an unknown partition: the values that exist; for a held one: how to release it
    not_copied: Mapping[str, str] = field(default_factory=dict)  # why objects of a fitting size were encoded, by key
    letters: tuple[LetterFile, ...] = ()  # of rows that were left out
    deltas: Sequence[DeltaFile] | None = None  # the exported changes of the commit; None: the stream exports none
    view: PartitionView | None = None  # the partition after the run, for people; None: not read

    @property
    def result(self) -> "Outcome | None":
        """The outcome itself if the partition, or some of its objects, are committed or need no commit; else None."""
        return self if self.row.status in ("committed", "skipped") else None

    @property
    def status(self) -> Literal["committed", "skipped", "failed", "cancelled", "left_out"]:
        """The end of the partition in one word."""
        if self.row.status in ("committed", "skipped"):
            return "failed" if self.error is not None else self.row.status
        return "left_out" if self.error is None else self.row.status


IngestResult = Outcome  # a name that programs import


def blank_row(
    stream: OpenStream, partition: Partition, run_id: str, run_at: dt.datetime, requested_by: str | None = None
) -> LedgerRow:
    """Return the ledger row of a partition in a run of which nothing is known yet."""
    return LedgerRow(
        run_id=run_id,
        run_at=run_at,
        stream=stream.name,
        source_glob=stream.source_glob(partition),
        destination_table=str(stream.table),
        partition_columns=",".join(column.name for column in partition.columns),
        load_partition=partition.path,
        mode=stream.config.mode,
        status="failed",
        started_at=dt.datetime.now(dt.UTC),
        requested_by=requested_by,
    )


def pending(stream: OpenStream, partitions: Sequence[Partition], options: IngestOptions) -> list[Outcome]:
    """Return the outcome of each partition of a run before anything is known of it."""
    run_id, run_at, requested_by = options.run_id, options.run_at, options.requested_by
    return [
        Outcome(partition=partition, row=blank_row(stream, partition, run_id, run_at, requested_by))
        for partition in partitions
    ]
