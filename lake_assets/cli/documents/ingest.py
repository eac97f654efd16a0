"""The document of `ingest` and `apply`, and its parts that `index` has too."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lake_assets.cli.documents.base import Documented
from lake_assets.cli.failure import text_of

if TYPE_CHECKING:
    from lake_assets.ingest.partition_run import IngestResult, Outcome
    from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class Failure(Documented):
    """An error."""

    kind: str
    """Its class, such as `SchemaDriftError`, or `KeyboardInterrupt`."""
    message: str
    """What is wrong, where, and the fix; as on standard error."""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """The error as a document has it."""
        if not isinstance(error, Exception):
            return cls(type(error).__name__, "The command was interrupted.")
        return cls(type(error).__name__, text_of(error))


@dataclass(frozen=True, slots=True)
class LeftOutObject(Documented):
    """A landed object that was not read, with `on_bad_object: quarantine`."""

    object: str
    """Its path below the source."""
    why: str
    """What is wrong with it, and the fix."""


@dataclass(frozen=True, slots=True)
class DeadLetters(Documented):
    """A file of landed rows that are not in the lake."""

    object: str
    """Path or URI of the landed object."""
    uri: str
    """Path or URI of the file."""
    rows: int
    """Its rows."""
    bytes: int
    """Its size in bytes."""
    why: str
    """What is wrong with its first row."""


@dataclass(frozen=True, slots=True)
class ExportedFile(Documented):
    """A file of exported changes."""

    uri: str
    """Its path or URI."""
    rows_inserted: int
    """Rows that the commit inserted."""
    rows_deleted: int
    """Rows that the commit deleted."""
    bytes: int
    """Its size in bytes."""


@dataclass(frozen=True, slots=True)
class IngestedPartition(Documented):
    """The result of one partition. A number is null where nothing was read or written."""

    partition: str
    """As a path, such as `region=NW/date=2026-02-11`."""
    status: Literal["committed", "skipped", "failed"]
    """A skipped partition has no new objects. A failed one keeps its rows; `index` may have registered some objects."""
    snapshot: int | None = None
    """The number of the commit's snapshot."""
    rows: int | None = None
    """Rows that the commit wrote; in the modes append and index, those that it added."""
    rows_before: int | None = None
    """The partition's rows before the commit."""
    rows_after: int | None = None
    """The partition's rows after the commit."""
    objects: int | None = None
    """The number of landed objects."""
    object_bytes: int | None = None
    """Their size in bytes."""
    files: int | None = None
    """Data files that the commit added; null in a lake that MotherDuck manages."""
    files_copied: int | None = None
    """Of them, those that are copies of objects."""
    bytes: int | None = None
    """The size of the data files in bytes."""
    seconds: float | None = None
    """The sum of `steps` without `start`, the start of Spark."""
    steps: dict[str, float] = field(default_factory=dict)
    """Seconds by step. A job that partitions share counts for each of them in full."""
    columns: list[str] = field(default_factory=list)
    """What the partition changed in the table's columns, each in one clause."""
    left_out: list[LeftOutObject] = field(default_factory=list)
    """Landed objects that were not read."""
    dead_letters: list[DeadLetters] = field(default_factory=list)
    """Files of landed rows that are not in the lake."""
    exported: list[ExportedFile] | None = None
    """The exported changes of the commit; null if the stream exports none."""
    held: bool = False
    """Whether a restore keeps refreshes off the partition."""
    note: str = ""
    """Why the partition was skipped; otherwise empty."""
    error: Failure | None = None
    """Why it failed."""

    @classmethod
    def of(cls, outcome: "Outcome") -> "IngestedPartition":
        """The outcome as a document has it.

        Args:
            outcome: with a result, an error or both.
        """
        error = None if outcome.error is None else Failure.of(outcome.error)
        if (result := outcome.result) is None:
            return cls(str(outcome.partition), "failed", error=error)
        row = result.row
        is_committed = row.status == "committed"
        steps = {step: round(seconds, 3) for step, seconds in result.seconds.items()}
        exported = (ExportedFile(f.uri, f.rows_inserted, f.rows_deleted, f.size) for f in result.deltas or ())
        return cls(
            partition=row.load_partition,
            status="failed" if error else "committed" if is_committed else "skipped",
            snapshot=row.snapshot_id,
            rows=row.row_count,
            rows_before=row.rows_before,
            rows_after=row.rows_after,
            objects=row.source_files,
            object_bytes=row.source_bytes,
            files=row.files_written,
            files_copied=row.files_copied,
            bytes=row.bytes_written,
            seconds=seconds_of(result),
            steps=steps,
            columns=list(map(str, result.changes)),
            left_out=[LeftOutObject(key, why) for key, why in sorted(result.manifest.left_out.items())],
            dead_letters=[DeadLetters(f.landed, f.uri, f.rows, f.size, f.reason) for f in result.letters],
            exported=None if result.deltas is None else list(exported),
            held=row.hold == "held",
            note="" if is_committed else why_skipped(result),
            error=error,
        )


def seconds_of(result: "IngestResult") -> float:
    """The seconds of the result's steps, without Spark's start."""
    return round(sum(seconds for step, seconds in result.seconds.items() if step != "start"), 3)


def why_skipped(result: "IngestResult") -> str:
    """Why a partition was skipped."""
    row = result.row
    unchanged = "nothing new" if row.mode == "append" else "unchanged"
    why = f"no source rows, on_empty: {row.on_empty}" if row.on_empty else "" if row.hold else unchanged
    return "; ".join(filter(None, [why, result.note]))


@dataclass(frozen=True, slots=True)
class IngestDocument(Documented):
    """What a run did. It is printed after an interrupt too, with the partitions that have ended by then."""

    stream: str
    """Its name."""
    table: str
    """With its schema, such as `main.sales`."""
    run: str
    """The run's id, as in the ledger."""
    selected: int
    """The number of partitions that were selected."""
    committed: int
    """The number of committed partitions."""
    skipped: int
    """The number of skipped partitions."""
    failed: int
    """The number of failed partitions."""
    partitions: list[IngestedPartition]
    """In the order in which they ended."""
    error: Failure | None
    """What ended the run before all partitions had ended."""

    @classmethod
    def of(
        cls, stream: "OpenStream", run: str, selected: int, outcomes: "Sequence[Outcome]", error: BaseException | None
    ) -> "IngestDocument":
        """The document of a run.

        Args:
            stream: its stream.
            run: its id.
            selected: the number of partitions that were selected.
            outcomes: in the order in which the partitions ended.
            error: what ended the run; None if nothing did.
        """
        partitions = [IngestedPartition.of(outcome) for outcome in outcomes if outcome.result or outcome.error]
        status = Counter(partition.status for partition in partitions)
        return cls(
            stream=stream.name,
            table=str(stream.table),
            run=run,
            selected=selected,
            committed=status["committed"],
            skipped=status["skipped"],
            failed=status["failed"],
            partitions=partitions,
            error=None if error is None else Failure.of(error),
        )
