"""One partition on its way from the landing zone into the lake: what is known of it so far, and how it ended."""

import dataclasses
import datetime as dt
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import TypeVar

import pyarrow as pa

from lake_assets.errors import (
    LakeAssetsError,
    ObjectRefusedError,
    SchemaChangedError,
    SchemaDriftError,
    SourceChangedError,
)
from lake_assets.ingest.decide import Decision
from lake_assets.lake.ledger.tables import LedgerRow, create_ledger, record
from lake_assets.lake.schema.evolve import ColumnChange
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import storable
from lake_assets.parquet.job import DataFile
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream

TRIES = 3  # how often a partition is read whose objects, or whose table, change under the job


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What an ingest of a partition did: its ledger row, and what the ledger does not hold."""

    row: LedgerRow
    manifest: Manifest
    destination: str
    schema: pa.Schema | None  # of the table without its partition columns; None when Spark was not needed
    seconds: dict[str, float] = field(default_factory=dict)  # by step: list, check, job, verify, evolve, commit
    changes: tuple[ColumnChange, ...] = ()  # of the table's columns, that this partition made
    note: str = ""  # of a partition of which nothing is known, which values there are


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition of a run: its result, or its error; neither if it was left out.

    In mode index some objects of a partition that failed may be registered.
    """

    partition: Partition
    result: IngestResult | None = None
    error: Exception | None = None


class State(Enum):
    """How far a partition of a run is."""

    OPEN = "there is more to do"
    DONE = "it is committed or skipped, and has a result"
    FAILED = "it has an error"
    LEFT_OUT = "nothing of it has landed, ever"
    REPORTED = "the caller has its outcome"


class PartitionRun:
    """One partition of a run: its ledger row while it is filled in, its state, and its result or error."""

    def __init__(self, stream: OpenStream, partition: Partition, run_id: str, run_at: dt.datetime) -> None:
        self.stream = stream
        self.partition = partition
        self.manifest = Manifest(())
        self.files: list[DataFile] = []
        self.schema: pa.Schema | None = None
        self.seconds: dict[str, float] = {}
        self.changes: list[ColumnChange] = []
        self.note = ""
        self.result: IngestResult | None = None
        self.error: BaseException | None = None
        self.state = State.OPEN
        self.is_recorded = True  # in the ledger; a partition of which nothing was ever known is not
        self._tries = 1
        self.row = LedgerRow(
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
        )

    @property
    def has_ended(self) -> bool:
        """Whether the outcome is final, and not reported yet; objects or columns that change are read again first."""
        return self.state in (State.DONE, State.FAILED, State.LEFT_OUT) and not self._may_try_again

    @property
    def _may_try_again(self) -> bool:
        passing = (SourceChangedError, SchemaChangedError, SchemaDriftError)
        return self.state is State.FAILED and isinstance(self.error, passing) and self._tries < TRIES

    def try_again(self) -> bool:
        """Whether the partition failed because its objects or columns changed, and is open again."""
        if not self._may_try_again:
            return False
        self._tries += 1
        self.error = None
        self.state = State.OPEN
        return True

    def fail(self, error: BaseException) -> None:
        """The partition has this error, and nothing of it is committed."""
        self.error = error
        self.state = State.FAILED

    def leave_out(self) -> None:
        """Nothing of the partition has landed: there is no result, and no ledger row."""
        self.state = State.LEFT_OUT

    def report(self) -> Outcome:
        """The outcome, for the caller."""
        self.state = State.REPORTED
        assert self.error is None or isinstance(self.error, Exception)  # noqa: S101 - others end the run
        return Outcome(self.partition, self.result, self.error)

    def decided(self, decision: Decision) -> None:
        """Note why there is nothing to load, in the ledger row and for the result."""
        if decision.on_empty is not None:
            self.update(on_empty=decision.on_empty)
        self.is_recorded, self.note = decision.is_recorded, decision.note

    def listed(self, manifest: Manifest) -> None:
        """Note what is there.

        Raises:
            SourceError: an object cannot be Parquet.
        """
        self.manifest = manifest
        self.update(
            source_files=len(manifest.objects),
            source_bytes=manifest.size,
            source_fingerprint=self.stream.fingerprint(manifest),
        )
        manifest.check()

    def refuse_moved_source(self) -> None:
        """The rows that were read are those of the manifest only if the objects are still the same.

        Raises:
            SourceChangedError: they are not.
        """
        now = self.stream.fingerprint(self.stream.manifest(self.partition))
        if now != self.row.source_fingerprint:
            raise SourceChangedError(
                f"the objects of {self.row.source_glob} changed {TRIES} times while they were being read:",
                "run it again when their writer has finished.",
            )

    def update(self, **columns: object) -> None:
        """Fill in columns of the ledger row."""
        self.row = dataclasses.replace(self.row, **columns)  # type: ignore[arg-type]

    def done(self, row: LedgerRow) -> None:
        """The partition is committed or skipped, and this is its ledger row."""
        self.row = row
        destination = self.stream.destination_uri(self.partition)
        self.state = State.DONE
        self.result = IngestResult(
            row, self.manifest, destination, self.schema, self.seconds, tuple(self.changes), self.note
        )

    @property
    def has_begun(self) -> bool:
        """Whether anything was done for the partition."""
        return bool(self.seconds)

    def failed_row(self) -> LedgerRow:
        """The ledger row of a partition that failed, or whose run was cancelled."""
        now = dt.datetime.now(dt.UTC)
        if is_interrupt(self.error):
            return dataclasses.replace(self.row, status="cancelled", finished_at=now)
        error = storable(f"{type(self.error).__name__}: {self.error}")  # it may name a file whose name is no text
        return dataclasses.replace(self.row, status="failed", error=error, finished_at=now)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step, and keep its error as the partition's own: the others go on."""
        start = time.perf_counter()
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept, and raised or reported by whoever asked for the partition
            self.fail(error)
        finally:
            self.add_seconds(name, time.perf_counter() - start)

    def add_seconds(self, name: str, seconds: float) -> None:
        """Add to the time of a step."""
        self.seconds[name] = self.seconds.get(name, 0) + seconds


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error means that the run is being cancelled: Ctrl-C, or Dagster's *Terminate*.

    These are no `Exception`. DuckDB makes an error of its own of one that reaches it, and names it as the cause.
    """
    while error is not None:
        if not isinstance(error, Exception):
            return True
        error = error.__cause__ or error.__context__
    return False


Item = TypeVar("Item")


@contextmanager
def passing_on_interrupts(outcomes: Generator[Item, None, None]) -> Iterator[Generator[Item, None, None]]:
    """Loop over the outcomes of a run inside: an interrupt that meets the loop's own body ends the run as one too.

    Otherwise the run would only see that nobody asks it for more, and note nothing of what had begun.
    """
    try:
        yield outcomes
    except BaseException as error:
        if is_interrupt(error):
            try:
                outcomes.throw(error)
                for _ in outcomes:  # committed, and not told: the ledger has them
                    continue
            except BaseException as again:
                if again is not error:
                    raise
        raise


def still_open(runs: Iterable[PartitionRun]) -> list[PartitionRun]:
    """Those of which there is more to do."""
    return [run for run in runs if run.state is State.OPEN]


def share_refusal(runs: Sequence[PartitionRun]) -> None:
    """Give all of these one error, if none of their objects can be read: the right is missing for the whole bucket."""
    refused = [run for run in runs if isinstance(run.error, ObjectRefusedError)]
    if len(refused) == len(runs):
        for run in refused:
            run.error = refused[0].error


def chunks(runs: Iterable[PartitionRun], size: int) -> Iterator[list[PartitionRun]]:
    """The runs, so many at a time."""
    some = iter(runs)
    while chunk := list(islice(some, size)):
        yield chunk


def record_failures(stream: OpenStream, runs: Sequence[PartitionRun]) -> None:
    """A ledger row for each, if the catalog can be reached; the error itself is what matters.

    A partition that is a typo, as far as anybody knows, gets none: the ledger is what says which partitions there are.
    """
    runs = [run for run in runs if run.is_recorded]
    if not runs:
        return
    try:
        with stream.lake.open(create=True) as lake:
            create_ledger(lake)
            record(lake, [run.failed_row() for run in runs])
    except LakeAssetsError as second:
        for run in runs:
            if run.error is None:
                continue
            told = ", by the same error." if str(second) == str(run.error) else f": {second}"
            note = f"No ledger row could be written{told}"
            # Several may have one error in common.
            if note not in getattr(run.error, "__notes__", ()):
                run.error.add_note(note)
