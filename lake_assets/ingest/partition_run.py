"""One partition of a run: its state, its ledger row and its error, until it has an outcome."""

import dataclasses
import datetime as dt
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum

from lake_assets.base.errors import (
    EmptySourceError,
    LakeAssetsError,
    PartitionHeldError,
    PartitionMovedError,
    SchemaChangedError,
    SchemaDriftError,
    SourceChangedError,
    SourceError,
    StorageUnreachableError,
    is_interrupt,
)
from lake_assets.base.texts import first_lines, storable
from lake_assets.config.layout.partition import Partition
from lake_assets.config.modes import Mode
from lake_assets.config.sections import Move
from lake_assets.ingest.compare_objects import needs_rows
from lake_assets.ingest.outcome import IngestOptions, Outcome, about_partition, blank_row, report_outcome, report_step
from lake_assets.ingest.plan import PartitionPlan
from lake_assets.lake.commit.change import ExpectedManifest
from lake_assets.lake.commit.deltas import Delta
from lake_assets.lake.ledger.tables import HELD, LedgerRow, Values, manifest_values
from lake_assets.spark.task.job import JobResult
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import Listed, OpenStream

NAMED = 20  # errors of one partition, in the ledger
TRIES = 3  # reads of a partition whose objects, or whose table, change during the job


class RunState(Enum):
    """The state of a partition of a run."""

    OPEN = "it is not finished"
    DONE = "it is committed or skipped"
    FAILED = "it has an error"
    LEFT_OUT = "it has no objects and was never committed, or waits for a stream of which this is true"
    REPORTED = "the caller has its outcome"


class PartitionRun:
    """One partition of a run: its state, its ledger row while it is filled in, and its error."""

    def __init__(self, stream: OpenStream, partition: Partition, options: IngestOptions) -> None:
        self.stream = stream
        self.partition = partition
        self.outcome = Outcome(
            partition=partition,
            row=blank_row(stream, partition, options),
            destination=stream.destination_uri(partition),
        )
        self.reads = self.outcome.manifest  # the objects to read: all, or in mode append the new ones
        self.plan = PartitionPlan(partition)  # of this try
        self.written = JobResult()  # data files and dead letters that no commit has yet
        self._final: LedgerRow | None = None  # as it was committed, or skipped
        self.error: BaseException | None = None
        self.held_by: PartitionRun | None = None  # whose failure holds this one back
        self.state = RunState.OPEN
        self.is_recorded = True  # in the ledger; an unknown partition, such as a typo, is not
        self._tries = 1
        self._bad: dict[tuple[str, str], str] = {}  # why objects are left out, by key and ETag
        self._examinations = 0
        self.refuses_drift = False  # the table could not take the columns of the partition's objects
        self._without_more = False  # the last try has found objects that the next one leaves out

    @property
    def row(self) -> LedgerRow:
        """The ledger row, as far as it is filled in."""
        return self.outcome.row

    @property
    def has_ended(self) -> bool:
        """Whether the outcome is final and not reported yet. A partition that may be tried again has not ended."""
        return self.state in (RunState.DONE, RunState.FAILED, RunState.LEFT_OUT) and not self.may_try_again

    @property
    def may_try_again(self) -> bool:
        """Whether it failed because its objects or columns changed, or those of the one that holds it back."""
        if self.held_by is not None:
            return self.held_by.may_try_again
        temporary = (SourceChangedError, SchemaChangedError, SchemaDriftError, PartitionHeldError, PartitionMovedError)
        if self.state is not RunState.FAILED or self.stream.config.mode.registers:
            return False
        return self._without_more or (isinstance(self.error, temporary) and self._tries < TRIES)

    def reopen(self) -> None:
        """Let the partition be tried again."""
        self._tries += not self._without_more
        self._without_more = False
        self.held_by = self.error = None
        self.state = RunState.OPEN

    def fail(self, error: BaseException, held_by: "PartitionRun | None" = None) -> None:
        """Set the error of the partition, or of another one that holds it back. Nothing of it is committed."""
        self.error, self.held_by = error, held_by
        self.state = RunState.FAILED

    def fail_with(self, of_objects: Sequence[LakeAssetsError] = ()) -> None:
        """Fail the partition with one error, which joins those of its new objects and those of its plan.

        It may have others than the new objects `of_objects`.
        """
        planned = self.plan.decision.errors
        if planned:
            objects = f"{len(of_objects) + len(planned)} of {len(self.outcome.manifest.objects)} objects"
            problem = f"the rows of {objects} of {self.partition} are not in the lake:"
        else:
            problem = f"{len(of_objects)} of {len(self.plan.new)} new objects of {self.partition} were not registered:"
        self.fail(_joined([*of_objects, *planned], problem))

    def leave_out(self, why: str = "") -> None:
        """Leave the partition out, because nothing of it has landed, or for another reason."""
        self.outcome.note = why or self.outcome.note
        self.state = RunState.LEFT_OUT

    @property
    def is_committed(self) -> bool:
        """Whether this run has committed it."""
        return self._final is not None and self._final.status == "committed"

    def report(self) -> Outcome:
        """Report the partition's end to logs, metrics and lineage, and return its outcome."""
        self.outcome.row = self._final or (self.row if self.error is None else self.failed_row())
        self.outcome.error = self.error  # type: ignore[assignment] # of an interrupt, only the event is read
        self.outcome.not_copied = self.written.refused
        self.outcome.letters = tuple(self.written.letters) if self.is_committed else ()
        report_outcome(self.outcome)
        self.state = RunState.REPORTED
        return self.outcome

    def set_plan(self, plan: PartitionPlan) -> None:
        """Set the plan, and what it reads: all objects, or in mode append the new ones, whose rows are added.

        A run that leaves a held partition alone has the fingerprint of the rows in the lake.
        """
        decision = plan.decision
        self.plan, self.is_recorded, self.outcome.note = plan, decision.is_recorded, decision.note
        if plan.is_held:
            self.update(hold=HELD)
        if decision.is_hold:
            self.outcome.note = decision.why
            self.update(source_fingerprint=plan.last.source_fingerprint if plan.last else None)
        if decision.on_empty is not None:
            self.update(on_empty=decision.on_empty)
        if decision.action == "append":
            self.reads = plan.compared.new
            self.outcome.manifest = dataclasses.replace(self.outcome.manifest, left_out=self.reads.left_out)
            self.update(source_files=len(self.reads.objects), source_bytes=self.reads.size)
            if self.quarantines:
                self.update(files_quarantined=len(self.reads.left_out))
        elif decision.action == "replace":
            self.update(mode=Mode.REPLACE.value)

    @property
    def expected(self) -> ExpectedManifest | None:
        """The known objects that the commit requires, in mode append."""
        action = self.plan.decision.action
        if not self.stream.config.mode.reads_new or action not in ("append", "replace"):
            return None
        return self.plan.compared.expected(self.stream.names, adds=action == "append")

    @property
    def noted(self) -> list[Values]:
        """The values of `MANIFEST` of the objects that it has read, or left out."""
        digests = self.written.digests
        objects = tuple(dataclasses.replace(obj, digest=digests.get(obj.key, "")) for obj in self.reads.objects)
        policy = self.stream.config.after_load
        takes = "move" if isinstance(policy, Move) else "delete" if policy == "delete" else None
        return manifest_values(dataclasses.replace(self.reads, objects=objects), self.written.rows, takes)

    def set_manifest(self, manifest: Manifest) -> None:
        """Set the objects of the partition."""
        if self.quarantines:
            keys = ((landed.key, landed.etag) for landed in manifest.objects)
            bad = {key: self._bad[key, etag] for key, etag in keys if (key, etag) in self._bad}
            manifest = self.stream.without_empty(dataclasses.replace(manifest, left_out=bad))
            self.update(files_quarantined=len(manifest.left_out))
        self.outcome.manifest = self.reads = manifest
        self.update(
            mode=self.stream.config.mode.value,
            source_files=len(manifest.objects),
            source_bytes=manifest.size,
            source_fingerprint=self.stream.fingerprint(manifest),
        )

    @property
    def quarantines(self) -> bool:
        """Whether objects that are damaged or do not fit are left out."""
        return self.stream.config.on_bad_object == "quarantine"

    @property
    def may_examine(self) -> bool:
        """Whether the partition failed by something that one of its objects may have caused."""
        if not self.quarantines or self.state is not RunState.FAILED or self._examinations >= TRIES:
            return False
        others = (SourceChangedError, SchemaChangedError, EmptySourceError)
        is_of_source = isinstance(self.error, SourceError) and not isinstance(self.error, others)
        return is_of_source and not (isinstance(self.error, SchemaDriftError) and self.may_try_again)

    def quarantine(self, reasons: Mapping[str, str]) -> None:
        """Let the next try leave these objects out, unless none would be left and the stream says `on_empty: fail`.

        `reasons` are by key; without one the error stays.
        """
        self._examinations += 1
        read = {landed.key: landed for landed in self.reads.read}
        bad = {key: reason for key, reason in reasons.items() if key in read}
        adds_to = self.plan.compared if self.adds else None
        if not bad or (len(bad) == len(read) and needs_rows(self.stream, adds_to)):
            return
        self._bad |= {(key, read[key].etag): storable(reason) for key, reason in bad.items()}
        self._without_more = True

    @property
    def adds(self) -> bool:
        """Whether the rows of new objects are added to those of the partition."""
        return self.row.reads_new

    def refuse_moved_source(self, listed: Listed) -> None:
        """Refuse rows that were read from objects that have changed or vanished since the listing.

        Objects that have landed since then do no harm: the next run reads them. But a partition is not emptied beside
        them. `listed` is as of `landed_at`. Raises SourceChangedError.
        """
        now = self.stream.manifest(self.partition, listed).objects
        there, read = ({(obj.key, obj.version, obj.size) for obj in objects} for objects in (now, self.reads.objects))
        if not read <= there or (now and not read):
            raise SourceChangedError(
                f"the objects of {self.row.source_glob} changed {TRIES} times while they were being read:",
                "run it again when their writer has finished.",
            )

    @property
    def _worked(self) -> float:
        return round(sum(self.outcome.seconds.values()), 3)

    def update(self, **columns: object) -> None:
        """Set columns of the ledger row, and its seconds so far."""
        self.outcome.row = dataclasses.replace(self.row, seconds=self._worked, **columns)  # type: ignore[arg-type]

    def finish(self, row: LedgerRow, delta: Delta | None = None) -> None:
        """Set the ledger row of a committed or skipped partition, and its exported changes."""
        self.outcome.row = self._final = row
        self.outcome.deltas = None if delta is None else delta.files
        self.state = RunState.DONE

    @property
    def has_begun(self) -> bool:
        """Whether a step of the partition has run."""
        return bool(self.outcome.seconds)

    def failed_row(self) -> LedgerRow:
        """Return the ledger row of a failed or cancelled partition."""
        row = dataclasses.replace(
            self.row, status="cancelled", finished_at=dt.datetime.now(dt.UTC), seconds=self._worked
        )
        if is_interrupt(self.error):
            return row
        error = storable(f"{type(self.error).__name__}: {self.error}")  # a file name in it may not be UTF-8
        return dataclasses.replace(row, status="failed", error=error)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step, and keep its error as the error of this partition only."""
        start, failed = time.perf_counter(), None
        with about_partition(self.row):
            try:
                yield
            except Exception as error:  # noqa: BLE001 - reported as the outcome
                self.fail(error)
                failed = error
            finally:
                seconds = time.perf_counter() - start
                self.add_seconds(name, seconds)
                report_step(self.row, name, seconds, failed)

    @contextmanager
    def keeping_error(self) -> Iterator[None]:
        """Keep an error as the error of this partition only, in a part of a step that several share."""
        with about_partition(self.row):
            try:
                yield
            except Exception as error:  # noqa: BLE001 - reported as the outcome
                self.fail(error)

    def report_step(self, name: str, seconds: float) -> None:
        """Report the partition's share of a step that several share, with its error if it has one."""
        with about_partition(self.row):
            report_step(self.row, name, seconds, self.error)

    def add_seconds(self, name: str, seconds: float) -> None:
        """Add to the duration of a step."""
        self.outcome.seconds[name] = self.outcome.seconds.get(name, 0) + seconds


def _joined(errors: Sequence[LakeAssetsError], problem: str) -> LakeAssetsError:
    """Return several errors as one, listed below the problem; a single error as it is."""
    unlike = list({id(error): error for error in errors}.values())
    if len(unlike) == 1:
        return unlike[0]
    texts = first_lines([f"- {error}" for error in unlike], NAMED)
    is_temporary = all(isinstance(error, StorageUnreachableError) for error in unlike)
    return (StorageUnreachableError if is_temporary else SourceError)("\n".join([problem, *texts]))
