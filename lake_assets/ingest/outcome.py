"""What became of the partitions of a run, and the events that report it: begin, end, steps, partitions."""

import datetime as dt
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pyarrow as pa

from lake_assets.base.errors import LakeAssetsError, is_interrupt
from lake_assets.base.events import Event, about, failure, listening, pass_on, report
from lake_assets.base.json_dataclasses import AsFailure, AsText, Documented, NotInJson, in_json
from lake_assets.base.texts import visible
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.table_setup import ColumnChange
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.left_out import LeftOut, NotRegistered
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """The options of a run."""

    # Read the partitions even if their objects have not changed since the last commit, which mode index never does. If
    # another client has renamed the table, begin a new one.
    force: bool = False
    # Leave out a partition that has no objects and was never committed, for any `on_empty`. The policy decides on a
    # partition that was committed and has lost its objects. If a partition column is in the rows, a partition without
    # rows, in the objects and in the lake, is left out.
    landed_only: bool = False
    outside: bool = False  # also take partitions that the stream's config does not have
    # Of a plan that is applied, the fingerprints of the landed objects by the partitions' paths. A partition with other
    # objects now fails with a `PlanMovedError`, and has no row in the ledger.
    planned: Mapping[str, str] | None = None
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))  # names the run in ledger and commit messages
    run_at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))  # when the run began, with time zone
    requested_by: str | None = None  # a person, or what launched the run, for the ledger


@dataclass(slots=True, kw_only=True)
class Outcome(Documented):
    """What became of one partition of a run: its ledger row, its error, and what the ledger does not hold.

    The run fills it in until it reports it; then nobody changes it.

    A partition that was left out, because nothing of it has landed, is neither done nor has it an error. In mode index,
    some objects of a failed partition may be registered.
    """

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    row: LedgerRow
    """The row of the ledger; of a partition that failed, what is known of it."""
    error: Annotated[Exception, AsFailure] | None = None
    """Why it failed. It keeps its rows; `index` may have registered some objects."""
    manifest: Annotated[Manifest, NotInJson] = field(default_factory=lambda: Manifest(()))
    # Whether the manifest has the objects; a driver does not send those of a large run
    has_listing: Annotated[bool, NotInJson] = True
    destination: Annotated[str, NotInJson] = ""
    # The table's, without its partition columns; None when Spark was not needed
    schema: Annotated[pa.Schema | None, NotInJson] = None
    seconds: dict[str, float] = field(default_factory=dict)
    """By step: `list`, `check`, `job`, `verify`, `evolve`, `commit`. What partitions share counts for each in full."""
    changes: tuple[Annotated[ColumnChange, AsText], ...] = ()
    """What the partition changed in the table's columns, each in one clause."""
    note: str = ""
    """Of an unknown partition: the values that exist; of a held one: how to release it; or why it waits."""
    not_copied: Mapping[str, str] = field(default_factory=dict)
    """Why objects of a fitting size were encoded, by their paths below the source."""
    letters: tuple[LetterFile, ...] = ()
    """Files of landed rows that are not in the lake."""
    deltas: Sequence[DeltaFile] | None = None
    """The exported changes of the commit; null if the stream exports none."""
    # The partition after the run, for people; None: not read
    view: Annotated[PartitionView | None, NotInJson] = None

    @property
    def is_done(self) -> bool:
        """Whether the partition, or some of its objects, are committed or need no commit."""
        return self.row.status in ("committed", "skipped")

    @property
    def waits(self) -> bool:
        """Whether the partition was left out because it waits for another stream of its release group."""
        return self.status == "left_out" and bool(self.note)

    @in_json
    def left_out(self) -> Mapping[str, str]:
        """Why landed objects were not read, by their paths below the source; with `on_bad_object: quarantine`."""
        return self.manifest.left_out

    @in_json
    def why_skipped(self) -> str:
        """Why the partition was skipped; empty if it was not."""
        if self.row.status != "skipped":
            return ""
        unchanged = "nothing new" if self.row.reads_new else "unchanged"
        why = f"no source rows, on_empty: {self.row.on_empty}" if self.row.on_empty else ""
        return "; ".join(filter(None, [why or ("" if self.row.hold else unchanged), self.note]))

    @in_json
    def status(self) -> Literal["committed", "skipped", "failed", "cancelled", "left_out"]:
        """The end of the partition in one word; `left_out`: nothing of it has landed, or it waits, as `note` says."""
        if self.row.status in ("committed", "skipped"):
            return "failed" if self.error is not None else self.row.status
        return "left_out" if self.error is None else self.row.status


@dataclass(kw_only=True)
class Refreshed(Documented):
    """What a run did so far; also after an interrupt, with the partitions that have ended by then."""

    stream: str
    """The stream's name."""
    table: str
    """With its schema, such as `main.sales`."""
    run: str
    """The run's id, as in the ledger."""
    selected: int
    """The number of partitions that were selected."""
    partitions: list[Outcome] = field(default_factory=list)
    """In the order in which they ended."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """The landed objects that no refresh reads; none if only the folders of the selection were listed."""
    not_registered: Sequence[NotRegistered] = ()
    """Partitions outside the config, which `index` leaves alone unless `--outside` is given."""
    error: Annotated[BaseException, AsFailure] | None = None
    """What ended the run before all partitions had ended."""

    @in_json
    def committed(self) -> int:
        """The number of partitions with a commit."""
        return sum(outcome.is_done and outcome.row.snapshot_id is not None for outcome in self.partitions)

    @in_json
    def skipped(self) -> int:
        """The number of skipped partitions."""
        return sum(outcome.status == "skipped" for outcome in self.partitions)

    @in_json
    def failed(self) -> int:
        """The number of failed partitions."""
        return sum(outcome.status in ("failed", "cancelled") for outcome in self.partitions)

    @in_json
    def files(self) -> int:
        """Data files that the commits added."""
        return sum(outcome.row.files_written or 0 for outcome in self.partitions if outcome.is_done)

    @in_json
    def rows(self) -> int:
        """Rows that the commits wrote; in the modes append and index, those that they added."""
        return sum(outcome.row.row_count or 0 for outcome in self.partitions if outcome.is_done)


def blank_row(stream: OpenStream, partition: Partition, options: IngestOptions) -> LedgerRow:
    """Return the ledger row of a partition in a run of which nothing is known yet."""
    return LedgerRow(
        run_id=options.run_id,
        run_at=options.run_at,
        stream=stream.name,
        source_glob=stream.source_glob(partition),
        destination_table=str(stream.table),
        partition_columns=",".join(column.name for column in partition.columns),
        load_partition=partition.path,
        mode=stream.config.mode.value,
        status="failed",
        started_at=dt.datetime.now(dt.UTC),
        requested_by=options.requested_by,
    )


def expected_outcomes(stream: OpenStream, partitions: Sequence[Partition], options: IngestOptions) -> list[Outcome]:
    """Return the outcome of each partition of a run before anything is known of it."""
    return [Outcome(partition=partition, row=blank_row(stream, partition, options)) for partition in partitions]


# Steps of several partitions together, which the run reports with the sums of their figures.
SHARED = frozenset({"check", "job", "evolve"})


@contextmanager
def about_partition(row: LedgerRow) -> Iterator[None]:
    """Give the run, the stream and the partition to the events of the block."""
    with about(run=row.run_id, stream=row.stream, partition=row.load_partition):
        yield


def report_step(row: LedgerRow, name: str, seconds: float, error: BaseException | None) -> None:
    """Report a step of one partition, with the figures that the step has found."""
    if name in SHARED:
        return
    figures: dict[str, Any] = {}
    if error is not None:
        figures = failure(error)
    elif name == "list":
        figures = {"objects": row.source_files, "bytes": row.source_bytes}
    elif name == "commit":
        figures = {"rows": row.row_count, "bytes": row.bytes_written, "files": row.files_written}
        figures |= {"snapshot": row.snapshot_id, "status": row.status}
    report("step", step=name, seconds=seconds, **figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnded(Event):
    """The end of a partition of a run, with its outcome."""

    outcome: Outcome


def report_outcome(outcome: Outcome) -> None:
    """Report what became of a partition."""
    row, error = outcome.row, outcome.error
    fields: dict[str, Any] = {"run": row.run_id, "stream": row.stream, "partition": row.load_partition}
    fields |= {"status": outcome.status, "mode": row.mode, "objects": row.source_files}
    if error is not None:
        fields |= {"level": logging.WARNING if is_interrupt(error) else logging.ERROR}
        fields |= {"kind": type(error).__name__, "message": error_text(error)}
    elif outcome.status == "committed":
        fields |= {"files": row.files_written, "rows": row.row_count, "rows_before": row.rows_before}
        fields |= {"bytes": row.bytes_written, "snapshot": row.snapshot_id}
    pass_on(PartitionEnded(event="partition", seconds=sum(outcome.seconds.values()), outcome=outcome, **fields))


def error_text(error: BaseException) -> str:
    """Return the text of an error; of an error from elsewhere, its type too."""
    return str(error) if isinstance(error, LakeAssetsError) else visible(f"{type(error).__name__}: {error}")


@contextmanager
def counted_outcomes(run_id: str, stream: str) -> Iterator[Counter[str]]:
    """Count the partitions of a run that end in the block, by their status, and as `rows` the rows of their commits."""
    counts: Counter[str] = Counter()

    def count(event: Event) -> None:
        if event.event == "partition" and event.run == run_id and event.stream == stream:
            counts.update({event.status or "": 1, "rows": event.rows or 0})

    with listening(count):
        yield counts


@contextmanager
def reported_run(run_id: str, stream: str, mode: str, partitions: int | None) -> Iterator[None]:
    """Report the begin and the end of a run, with the number of partitions of each outcome."""
    fields: dict[str, Any] = {"run": run_id, "stream": stream, "mode": mode, "partitions": partitions}
    report("run_started", **fields)
    start, ended_by = time.perf_counter(), None
    with counted_outcomes(run_id, stream) as outcomes:
        try:
            yield
        except BaseException as error:
            ended_by = error
            raise
        finally:
            fields |= {name: outcomes[name] for name in ("committed", "skipped", "failed")}
            report("run", seconds=time.perf_counter() - start, **fields, **_end(outcomes, ended_by))


def _end(outcomes: Mapping[str, int], error: BaseException | None) -> dict[str, Any]:
    if error is not None and is_interrupt(error):
        return {"level": logging.WARNING, "status": "cancelled", "kind": type(error).__name__}
    if error is not None:
        return {"level": logging.ERROR, "status": "failed", "kind": type(error).__name__}
    if outcomes["failed"]:
        return {"level": logging.ERROR, "status": "failed"}
    return {"status": "committed" if outcomes["committed"] else "skipped"}
