"""One run over partitions of a stream: their ingest, its log, and an event of each partition."""

import datetime as dt
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from lake_assets.checks.result import Scope
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import InProcess
from lake_assets.errors import (
    CatalogUnreachableError,
    CommitConflictError,
    DriverLostError,
    LakeAssetsError,
    LauncherError,
    SparkUnreachableError,
    StorageUnreachableError,
    is_interrupt,
)
from lake_assets.escapes import visible_name
from lake_assets.exports import lineage
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import Outcome, error_text, pending, reported_run
from lake_assets.ingest.run import passing_on_interrupts
from lake_assets.ingest.view import Viewer
from lake_assets.lake.ledger.read import rows_of_run
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration.dagster_private import StepContext
from lake_assets.orchestration.event_log import EventLog
from lake_assets.orchestration.failures import facts_of, lines_by_text
from lake_assets.orchestration.metadata import Metadata, materialization_metadata
from lake_assets.orchestration.partitions import dimension_tags
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.orchestration.unmatched import newest_landing_scan
from lake_assets.remote.request import Request
from lake_assets.spark.session import Sessions
from lake_assets.streams.stream import OpenStream

if TYPE_CHECKING:
    from lake_assets.launch.received import Received

LOG_SECONDS = 1.0  # between two messages of progress: Dagster stores one in more time than a small commit takes
NAMED_FAILURES = 20  # errors of a range in the text of its failure; the log and the ledger have them all

# Errors after which a retry may succeed.
TRANSIENT = (
    StorageUnreachableError,
    CatalogUnreachableError,
    CommitConflictError,
    DriverLostError,
    SparkUnreachableError,
)
CLOCKS = dt.timedelta(hours=1)  # by which those of a launcher and a driver may differ
RETRIES = 2  # of a run without other errors
RETRY_SECONDS = 30  # before the first retry; twice as many before the second

_REQUESTERS = {
    "dagster/from_automation_condition": "automation",
    "dagster/schedule_name": "schedule",
    "dagster/sensor_name": "sensor",
    "dagster/backfill": "backfill",
}
"""Tags of a run that say what launched it, each with its name for people."""


class StreamRun:
    """One run over partitions of a stream.

    Args:
        stream: of the partitions.
        specs: of the stream's assets.
        context: of the run's step.
        force: whether unchanged partitions are read too.
        landed_only: whether partitions of which nothing has landed are left out.
        spark: gives the Spark session.
        config: of a launcher; None for a driver in this process.

    Attributes:
        done: the metadata of each partition that is committed or unchanged, by its key.
        failed: the error of each other partition, by its key.
        passed_over: the number of partitions without an event.
        number: of all partitions of the run; set by the caller.
    """

    def __init__(
        self,
        stream: OpenStream,
        specs: StreamSpecs,
        context: StepContext,
        spark: Sessions,
        config: LakeConfig | None,
        *,
        force: bool,
        landed_only: bool,
    ) -> None:
        self.stream = stream
        self.asset, self.landing = specs.table.key, specs.landing.key
        self._context = context
        self.log = EventLog(context.log, context.run.run_id)
        self._options = IngestOptions(
            force=force, landed_only=landed_only, run_id=context.run.run_id, requested_by=requester(context.run.tags)
        )
        self.spark = spark
        self._config = config
        self.done: dict[str, Metadata] = {}
        self.results: dict[Partition, Outcome] = {}
        self.failed: dict[str, Exception] = {}
        self.first_keys: dict[str, str] = {}  # the first key with an error, by the error's text
        self.passed_over = 0
        self.number = 0
        self.progress: list[str] = []  # a line a partition, not logged yet
        self.logged_at = 0.0  # by the monotonic clock
        self.unmatched = newest_landing_scan(context.instance, specs.landing.key, specs.report.key)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Collect the run's events for its log, and send its lineage, within the block."""
        run = self._context.run
        with self.log.open(), lineage(self.stream, (run.run_id, run.job_name)):
            yield

    def refresh(self, partitions: Mapping[Partition, str]) -> None:
        """Ingest partitions, each with its key, and note their outcomes.

        Raises:
            BaseException: what ended the run; partitions that have ended are noted.
        """
        if not partitions:
            return  # no driver is needed

        def note(outcome: Outcome) -> None:
            key = partitions[outcome.partition]
            position = len(self.done) + len(self.failed) + self.passed_over + 1
            self._note(key, f"{visible_name(key)} ({position} of {self.number})", outcome)

        try:
            if self._config is None or isinstance(self._config.runs, InProcess):
                self._ingest(list(partitions), note)
            else:
                self._ingest_by_driver(self._config, list(partitions), note)
        finally:
            self._log_progress()

    def _ingest(self, partitions: Sequence[Partition], note: Callable[[Outcome], None]) -> None:
        """Refresh the partitions in this process."""
        viewer = Viewer(self.stream, self._context.log.warning)
        outcomes = ingest_all(self.stream, partitions, self.spark, self._options)
        with passing_on_interrupts(outcomes):
            for outcome in outcomes:
                note(viewer.viewed(outcome))

    def _ingest_by_driver(
        self, config: LakeConfig, partitions: Sequence[Partition], note: Callable[[Outcome], None]
    ) -> None:
        """Refresh the partitions in a driver's process."""
        from lake_assets.launch.received import Received  # noqa: PLC0415 - a wing

        stream, options = self.stream, self._options
        received = Received(pending(stream, partitions, options), note, log=self._context.log.log)
        with reported_run(options.run_id, stream.name, stream.config.mode, len(partitions)):
            try:
                self._launch(config, partitions, received)
            except BaseException as error:
                if is_interrupt(error):
                    self._take_unreported(received)
                raise

    def _launch(self, config: LakeConfig, partitions: Sequence[Partition], received: "Received") -> None:
        from lake_assets.launch.launcher import driver_of, launch  # noqa: PLC0415 - a wing

        runs = config.runs
        assert not isinstance(runs, InProcess)  # noqa: S101 - the caller runs it itself
        try:
            request = Request.of(config, runs, self.stream.name, partitions, self._options)
            ended = launch(driver_of(config, runs, request, received, _print), request, received)
        except LakeAssetsError as error:
            received.fail(error if isinstance(error, LauncherError) else LauncherError(error.problem, error.hint))
            return
        received.finish(ended)

    def _take_unreported(self, received: "Received") -> None:
        """Take the commits that the driver of a cancelled run did not report, by their ledger rows."""
        stream, options = self.stream, self._options
        try:
            with stream.lake.open_if_exists() as session:
                since = options.run_at - CLOCKS
                rows = [] if session is None else rows_of_run(session, stream.name, options.run_id, since)
        except LakeAssetsError as error:
            self._context.log.warning(f"Commits that the driver did not report appear by the sync: {error}")
            return
        committed = sorted((row for row in rows if row.status == "committed"), key=lambda row: row.snapshot_id or 0)
        for path, row in {row.load_partition: row for row in committed}.items():
            if (outcome := received.pending.get(path)) is not None:
                seconds = (row.finished_at - row.started_at).total_seconds() if row.finished_at is not None else 0.0
                destination = stream.destination_uri(outcome.partition)
                received.take(
                    replace(outcome, row=row, destination=destination, seconds={"run": seconds}, has_listing=False)
                )

    def scope(self, failed: tuple[Partition, ...] = ()) -> Scope:
        """Return the scope of the run's checks, which list again if a driver did not send its listings."""
        scope = Scope.of_results(self._context.run.run_id, self.results, failed)
        has_listings = all(outcome.has_listing for outcome in self.results.values())
        return scope if has_listings else replace(scope, results={})

    def _note(self, key: str, label: str, outcome: Outcome) -> None:
        error = outcome.error
        if outcome.result is not None:
            self.results[outcome.partition] = outcome
            landing = None if self.stream.config.transform else self.landing
            self.done[key] = materialization_metadata(outcome, landing) | self.unmatched
            self._log(f"{label} {_figures(outcome)}")
        elif error is not None:
            if is_interrupt(error):
                raise error
            first = self.first_keys.setdefault(error_text(error), key)
            self.failed[key] = error
            if first != key:
                self._log(f"{label} failed by the same error as {visible_name(first)}")
            elif isinstance(error, LakeAssetsError):
                self.log.error(f"{label} failed: {error}")
            else:
                # A bug, but the next partitions may succeed.
                self.log.error(f"{label} failed unexpectedly", exc_info=error)
        else:
            self.passed_over += 1
            self._log(f"{label} left out: nothing has landed yet")

    def _log(self, line: str) -> None:
        self.progress.append(line)
        if time.monotonic() > self.logged_at + LOG_SECONDS:
            self._log_progress()

    def _log_progress(self) -> None:
        if self.progress:
            self.log.info("\n".join(self.progress))
        self.progress = []
        self.logged_at = time.monotonic()

    def events_by_partition(self) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
        """Yield an event of each partition that is done or failed."""
        for key, metadata in self.done.items():
            yield dg.AssetMaterialization(self.asset, partition=key, metadata=metadata, tags=dimension_tags(key))
        for key, error in self.failed.items():
            yield dg.AssetObservation(self.asset, partition=key, metadata=facts_of(error), tags=dimension_tags(key))

    def retry(self) -> dg.RetryRequested | None:
        """Return the retry that may succeed; None if an error is not a passing one, or after the last retry.

        It is no retry policy: with one, Dagster would also retry a run that somebody has cancelled.
        """
        retry = self._context.retry_number
        if retry < RETRIES and all(isinstance(error, TRANSIENT) for error in self.failed.values()):
            return dg.RetryRequested(RETRIES, RETRY_SECONDS * 2**retry)
        return None

    def failure(self) -> dg.Failure:
        """Return the failure of the run, with the errors of its partitions."""
        texts = {key: error_text(error) for key, error in self.failed.items()}
        if self.number == 1:
            (text,) = texts.values()
            return dg.Failure(text, allow_retries=False)
        lines = lines_by_text(texts, NAMED_FAILURES, "the log and the ledger name them all.")
        summary = f"{len(texts)} of {self.number} partitions failed, {len(self.done)} are done."
        return dg.Failure("\n".join([summary, *lines]), allow_retries=False)

    @property
    def unforeseen(self) -> Exception | None:
        """The first error that is not one of this package's; as the failure's cause, the UI shows its traceback."""
        return next((error for error in self.failed.values() if not isinstance(error, LakeAssetsError)), None)


def requester(tags: Mapping[str, str]) -> str:
    """Return what launched a run with these tags: its schedule, sensor or backfill; else a user of Dagster."""
    found = ((kind, tags[tag]) for tag, kind in _REQUESTERS.items() if tag in tags)
    kind, name = next(found, ("Dagster", ""))
    return kind if name in {"", "true"} else f"{kind} {name}"


def _print(line: str) -> None:
    """Print a line to the output of this process, which Dagster keeps with the run."""
    sys.stderr.write(f"{line}\n")


def _figures(result: Outcome) -> str:
    row = result.row
    if row.status == "skipped" and row.hold:
        return f"skipped: {result.note}"
    if row.status == "skipped":
        unchanged = "no new objects" if row.mode == "append" else "its objects are those of the last commit"
        return f"skipped: {unchanged}" if not row.on_empty else "skipped: no rows landed"
    added = " added" if row.mode == "append" else ""
    return (
        f"{row.status}: {count(row.row_count or 0, 'row')}{added} (before: {row.rows_before:,}) of "
        f"{count(row.source_files or 0, 'object')}, snapshot {row.snapshot_id}, {sum(result.seconds.values()):.2f} s"
        + "".join(f"; {change}" for change in result.changes)
        + ("; it was held, and the hold remains until it is released" if row.hold else "")
    )
