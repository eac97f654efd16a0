"""One run over partitions of a stream: their ingest, its log, and an event of each partition."""

import datetime as dt
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from lake_assets.base.errors import LakeAssetsError, LauncherError, is_interrupt
from lake_assets.base.retrying import Limit, pause_between, poll
from lake_assets.base.texts import count, visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import InProcess
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions, Outcome, error_text, expected_outcomes, reported_run
from lake_assets.ingest.run import passing_on_interrupts
from lake_assets.ingest.view import Viewer
from lake_assets.lake.ledger.read import rows_of_run
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.orchestration.commit_events import commits_of, known_to_dagster, outcome_of_commit
from lake_assets.orchestration.dagster_private import UserFailure, leave_backfill, plan_again, planned_keys
from lake_assets.orchestration.event_log import EventLog, StepContext, failure_or_retry
from lake_assets.orchestration.metadata import (
    Metadata,
    elsewhere_metadata,
    error_metadata,
    lines_by_text,
    materialization_metadata,
    newest_landing_scan,
    partition_metadata,
)
from lake_assets.orchestration.partition_keys import BACKFILL, StreamKeys, dimension_tags
from lake_assets.orchestration.queued_runs import unfinished_runs
from lake_assets.orchestration.resources import sessions
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.exports import lineage, telemetry

if TYPE_CHECKING:
    from lake_assets.wings.launch.pipes import Received

LOG_SECONDS = 1.0  # between two messages of progress: Dagster stores one in more time than a small commit takes
BACKFILL_WRITES = 5  # of which one is lost with the chance of one in about fifty
NAMED_FAILURES = 20  # errors of a range in the text of its failure; the log and the ledger have them all

CLOCKS = dt.timedelta(hours=1)  # by which those of a launcher and a driver may differ

_REQUESTERS = {
    "dagster/from_automation_condition": "automation",
    "dagster/schedule_name": "schedule",
    "dagster/sensor_name": "sensor",
    BACKFILL: "backfill",
}
"""Tags of a run that say what launched it, each with its name for people."""


_TRIES = ("dagster/parent_run_id", "dagster/root_run_id")  # tags of a re-executed run: its earlier tries

PartitionEvent = dg.AssetMaterialization | dg.AssetObservation


class StreamRun:
    """One run over partitions of a stream."""

    def __init__(
        self, specs: StreamSpecs, context: StepContext, config: LakeConfig | None, options: IngestOptions
    ) -> None:
        self.stream = specs.stream
        self.asset, self.landing = specs.table.key, specs.landing.key
        self._context = context
        self.log = EventLog(context.log, context.run.run_id)
        self._options = options
        self._config = config  # of a launcher; None for a driver in this process
        self.has_own_keys = StreamKeys(self.stream).are_partitions
        self.partitions: Mapping[Partition, str] = {}  # those that the run refreshes, each with its key
        # The outcome of each partition that is committed or unchanged, by its label: its key, or the partition where a
        # key has several
        self.done: dict[str, Outcome] = {}
        self.failed: dict[str, Exception] = {}  # the error of each partition that is not, by its label
        self.first_labels: dict[str, str] = {}  # the first label with an error, by the error's text
        self.absent: list[str] = []  # labels of partitions in which nothing has ever landed
        self._materialized: set[str] = set()
        self.not_selected = 0  # the number of partitions that the run's config leaves out
        self.number = 0  # of all partitions of the run; set by the caller
        self.progress: list[str] = []  # a line a partition, not logged yet
        self.logged_at = 0.0  # by the monotonic clock
        self._newest_scan = partial(newest_landing_scan, context.instance, specs.landing.key, specs.report.key)
        self.unmatched = self._newest_scan()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Collect the run's events for its log, and export them, within the block."""
        run = self._context.run
        with telemetry(), lineage(self.stream, (run.run_id, run.job_name)), self.log.open():
            yield

    def refreshed(self, partitions: Mapping[Partition, str]) -> Iterator[PartitionEvent]:
        """Ingest partitions, each with its key, and note their outcomes.

        If the run breaks off it yields the events of what has ended, else nothing. It raises what ended the run.
        """
        self.partitions = partitions
        try:
            self._refresh(partitions)
        except BaseException as error:
            yield from self.events()
            if is_interrupt(error):
                raise dg.DagsterExecutionInterruptedError from error
            raise

    def _refresh(self, partitions: Mapping[Partition, str]) -> None:
        if not partitions:
            return  # no driver is needed

        def note(outcome: Outcome) -> None:
            name = self._label(outcome.partition)
            position = len(self.done) + len(self.failed) + len(self.absent) + self.not_selected + 1
            self._note(name, f"{visible_name(name)} ({position} of {self.number})", outcome)

        try:
            if self._config is None or isinstance(self._config.runs, InProcess):
                self._ingest(list(partitions), note)
            else:
                self._ingest_by_driver(self._config, list(partitions), note)
        finally:
            self._log_progress()
        objects = sum(outcome.row.source_files or 0 for outcome in self.done.values())
        read: Metadata = {
            "partitions_read": dg.MetadataValue.int(len(partitions)),
            "objects_read": dg.MetadataValue.int(objects),
        }
        self.unmatched = self._newest_scan()  # the landing zone may have been scanned during the run
        self._context.log_event(dg.AssetObservation(self.landing, metadata=read | self.unmatched))

    def _ingest(self, partitions: Sequence[Partition], note: Callable[[Outcome], None]) -> None:
        """Refresh the partitions in this process."""
        viewer = Viewer(self.stream, self._context.log.warning)
        spark = sessions(self._context.resources.pyspark, self.stream.spark)
        outcomes = ingest_all(self.stream, partitions, spark, self._options)
        with passing_on_interrupts(outcomes):
            for outcome in outcomes:
                note(viewer.viewed(outcome))

    def _ingest_by_driver(
        self, config: LakeConfig, partitions: Sequence[Partition], note: Callable[[Outcome], None]
    ) -> None:
        """Refresh the partitions in a driver's process."""
        from lake_assets.wings.launch.pipes import Received  # noqa: PLC0415 - a wing

        stream, options = self.stream, self._options
        received = Received(expected_outcomes(stream, partitions, options), note, log=self._log_of_driver)
        with reported_run(options.run_id, stream.name, stream.config.mode, len(partitions)):
            try:
                self._launch(config, partitions, received)
            except BaseException as error:
                if is_interrupt(error):
                    self._take_unreported(received)
                raise

    def _launch(self, config: LakeConfig, partitions: Sequence[Partition], received: "Received") -> None:
        from lake_assets.wings.launch.launcher import launch  # noqa: PLC0415 - a wing
        from lake_assets.wings.launch.request import Request  # noqa: PLC0415

        try:
            request = Request.of(config, self.stream.name, partitions, self._options)
            ended = launch(config, request, received)
        except LakeAssetsError as error:
            received.fail(error if isinstance(error, LauncherError) else LauncherError(error.problem, error.hint))
            return
        received.finish(ended)

    def _log_of_driver(self, level: str | None, text: str) -> None:
        """Log a message of the driver; its own output is printed to that of this process, which Dagster keeps."""
        if level is None:
            sys.stderr.write(f"{text}\n")
        else:
            self._context.log.log(level, text)

    def _take_unreported(self, received: "Received") -> None:
        """Take the commits that the driver of a cancelled run did not report, by their ledger rows."""
        stream, options = self.stream, self._options
        try:
            with stream.lake.open_if_exists() as session:
                since = options.run_at - CLOCKS
                rows = [] if session is None else rows_of_run(session, stream.names, options.run_id, since)
        except LakeAssetsError as error:
            self._context.log.warning(f"The next sync shows commits that the driver did not report: {error}")
            return
        committed = sorted((row for row in rows if row.status == "committed"), key=lambda row: row.snapshot_id or 0)
        for path, row in {row.load_partition: row for row in committed}.items():
            if (outcome := received.pending.get(path)) is not None:
                received.take(outcome_of_commit(stream, outcome.partition, row))

    def _label(self, partition: Partition) -> str:
        return self.partitions[partition] if self.has_own_keys else partition.path

    def _key(self, label: str) -> str:
        """Return the key of a label, which is one if it names no partition of the run."""
        return self._keys.get(label, label)

    @cached_property
    def _keys(self) -> Mapping[str, str]:
        return {self._label(partition): key for partition, key in self.partitions.items()}

    def scope(self) -> Scope:
        """Return the scope of the run's checks, which list again if a driver did not send its listings."""
        results = {outcome.partition: outcome for outcome in self.done.values()}
        labels = {partition: self._label(partition) for partition in self.partitions}
        failed = {p: error_text(self.failed[label]) for p, label in labels.items() if label in self.failed}
        scope = Scope.of_results(self._context.run.run_id, results, failed)
        has_listings = all(outcome.has_listing for outcome in results.values())
        return scope if has_listings else replace(scope, results={})

    def _note(self, label: str, begin: str, outcome: Outcome) -> None:
        """Note the outcome of a partition, and log a line with this beginning."""
        error = outcome.error
        if outcome.is_done:
            self.done[label] = outcome
            self._log(f"{begin} {_figures(outcome)}")
        elif error is not None:
            if is_interrupt(error):
                raise error
            first = self.first_labels.setdefault(error_text(error), label)
            self.failed[label] = error
            if first != label:
                self._log(f"{begin} failed with the same error as {visible_name(first)}")
            elif isinstance(error, LakeAssetsError):
                self.log.error(f"{begin} failed: {error}")
            else:
                # A bug, but the next partitions may succeed.
                self.log.error(f"{begin} failed unexpectedly", exc_info=error)
        else:
            self.absent.append(label)
            where = f" at {visible_name(outcome.row.source_glob)}" if self.number == 1 else ""
            missing = f", and stays missing: nothing has landed yet{where}"
            self._log(f"{begin} left out{f': {outcome.note}' if outcome.waits else missing}")

    def _log(self, line: str) -> None:
        self.progress.append(line)
        if time.monotonic() > self.logged_at + LOG_SECONDS:
            self._log_progress()

    def _log_progress(self) -> None:
        if self.progress:
            self.log.info("\n".join(self.progress))
        self.progress = []
        self.logged_at = time.monotonic()

    @property
    def committed(self) -> int:
        """The number of partitions that the run has committed."""
        return sum(outcome.row.status == "committed" for outcome in self.done.values())

    def metadata(self) -> Iterator[tuple[str, Metadata]]:
        """Yield the key and the metadata of each partition that is committed."""
        for label, outcome in self.done.items():
            if outcome.row.status == "committed":
                self._materialized.add(key := self._key(label))
                metadata = materialization_metadata(outcome, self._lineage)
                yield key, self._named(outcome.partition) | metadata | self.unmatched

    def _named(self, partition: Partition) -> Metadata:
        return {} if self.has_own_keys else partition_metadata(partition)

    def events(self) -> Iterator[PartitionEvent]:
        """Yield an event of each partition that is done or failed.

        Of a partition that the run found unchanged, the event has the figures of its last commit. It is a
        materialization if Dagster does not have that commit, and an observation otherwise: nothing was refreshed. In a
        backfill it is a materialization too, because the assets downstream follow one; but not again in a retry.
        Where a key has several partitions, it is only of keys without another event, and of the newest commit.
        """
        committed = list(self.metadata())
        # Before them, and found before: of a key with several partitions, Dagster is asked for the newest event.
        yield from list(self._unchanged())
        for key, metadata in committed:
            yield dg.AssetMaterialization(self.asset, partition=key, metadata=metadata, tags=dimension_tags(key))
        of_labels = {self._label(partition): partition for partition in self.partitions}
        for label, error in self.failed.items():
            key, of_partition = self._key(label), of_labels.get(label)
            named = {} if of_partition is None else self._named(of_partition)
            facts: dict[str, Any] = {**named, **error_metadata(error)}
            yield dg.AssetObservation(self.asset, partition=key, metadata=facts, tags=dimension_tags(key))

    def _unchanged(self) -> Iterator[PartitionEvent]:
        instance, run = self._context.instance, self._context.run
        skipped = {o.partition: o for o in self.done.values() if o.row.status == "skipped"}
        if not skipped:
            return
        commits: dict[Partition, LedgerRow] = {}
        try:
            commits = commits_of(self.stream, list(skipped))
            is_read = True
        except LakeAssetsError as error:
            self._context.log.warning(f"The events of unchanged partitions lack the figures of their commits: {error}")
            is_read = False
        # In this order: a run that ends in between has reported its commits by then.
        running = unfinished_runs(instance) - {run.run_id}
        known = known_to_dagster(instance, self.asset, self.partitions, commits)
        tries = {run.run_id, *(run.tags[tag] for tag in _TRIES if tag in run.tags)}
        if not self.has_own_keys:  # in the order of their commits
            skipped = dict(sorted(skipped.items(), key=lambda item: _snapshot(commits.get(item[0]))))
        last = {self.partitions[partition]: partition for partition in skipped}
        for partition, outcome in skipped.items():
            row, key = commits.get(partition), self.partitions[partition]
            # Of a commit of a run that goes on, that run reports it at its end.
            is_reported = row is None or partition in known or row.run_id in running
            is_new = not is_reported
            if BACKFILL in run.tags and is_reported:
                is_new = not is_read or (partition in known and known[partition] not in tries)
            has_another = not self.has_own_keys and (key in self._materialized or partition != last[key])
            if is_reported and has_another:
                continue
            commit, elsewhere = outcome, None
            if row is not None:
                commit = replace(outcome_of_commit(self.stream, outcome.partition, row), view=outcome.view)
                elsewhere = elsewhere_metadata(row)
            metadata = materialization_metadata(commit, self._lineage, elsewhere)
            if is_reported:
                metadata["status"] = dg.MetadataValue.text(_figures(outcome))
            if is_new:
                self._materialized.add(key)
            event = dg.AssetMaterialization if is_new else dg.AssetObservation
            metadata = self._named(partition) | metadata | self.unmatched
            yield event(self.asset, partition=key, metadata=metadata, tags=dimension_tags(key))

    def settle_plans(self, keys: Sequence[str]) -> None:
        """Let Dagster show partitions with nothing to materialize as they are: missing, or as before the run."""
        instance, run = self._context.instance, self._context.run
        failed = set(map(self._key, self.failed))
        nothing = [key for key in keys if key not in self._materialized and key not in failed]
        if self.failed:
            planned = planned_keys(instance, self.asset, run.run_id)
            plan_again(instance, self.asset, [key for key in nothing if key in planned], None)
            plan_again(instance, self.asset, sorted(failed & self._materialized), run)
        has_left = poll(
            lambda: leave_backfill(self._context, self.asset, nothing),
            pause=pause_between(1, 2),
            limit=Limit(retries=BACKFILL_WRITES),
        )
        if not has_left:
            self.log.info("The backfill shows partitions as failed that have nothing to materialize.")

    @property
    def _lineage(self) -> dg.AssetKey | None:
        return None if self.stream.config.transform else self.landing

    def failure(self) -> dg.Failure:
        """Return the failure of the run, with the errors of its partitions.

        Its cause is the first error that is not one of this package's, so that the UI shows its traceback. Raises as
        `failure_or_retry`.
        """
        texts = {key: error_text(error) for key, error in self.failed.items()}
        if self.number == 1:
            lines = list(texts.values())
        else:
            unchanged = len(self.done) - self.committed
            others = {"committed": self.committed, "unchanged": unchanged, "never landed": len(self.absent)}
            numbers = [f"{number:,} {noun}" for noun, number in others.items() if number]
            failed = f"{len(texts):,} of {self.number:,} partitions failed"
            lines = [f"{'; '.join([failed, *([', '.join(numbers)] if numbers else [])])}."]
            lines += lines_by_text(texts, NAMED_FAILURES, "the log and the ledger name them all.")
        unforeseen = next((error for error in self.failed.values() if not isinstance(error, LakeAssetsError)), None)
        text = "\n".join(lines)
        failure = UserFailure(text) if unforeseen is None else dg.Failure(text, allow_retries=False)
        failure.__cause__ = unforeseen
        return failure_or_retry(self._context, failure, self.failed.values())


def options_of(context: StepContext, *, force: bool, landed_only: bool = False) -> IngestOptions:
    """Return the options of a run, which the ledger names as Dagster does."""
    run = context.run
    return IngestOptions(force=force, landed_only=landed_only, run_id=run.run_id, requested_by=requester(run.tags))


def requester(tags: Mapping[str, str]) -> str:
    """Return what launched a run with these tags: its schedule, sensor or backfill; else a user of Dagster."""
    kinds = ((kind, tags[tag]) for tag, kind in _REQUESTERS.items() if tag in tags)
    kind, name = next(kinds, ("Dagster", ""))
    return kind if name in {"", "true"} else f"{kind} {name}"


def _snapshot(row: LedgerRow | None) -> int:
    return 0 if row is None else row.snapshot_id or 0


def _figures(result: Outcome) -> str:
    row = result.row
    if row.status == "skipped" and row.hold:
        return f"skipped: {result.note}"
    if row.status == "skipped":
        unchanged = "no new objects" if row.reads_new else "its objects are those of the last commit"
        return f"skipped: {unchanged}" if not row.on_empty else "skipped: no rows landed"
    added = " added" if row.reads_new else ""
    return (
        f"{row.status}: {count(row.row_count or 0, 'row')}{added} (before: {row.rows_before:,}) of "
        f"{count(row.source_files or 0, 'object')}, snapshot {row.snapshot_id}, {sum(result.seconds.values()):.2f} s"
        + "".join(f"; {change}" for change in result.changes)
        + ("; it was held, and the hold remains until it is released" if row.hold else "")
    )
