"""A stream as a Dagster asset: a run ingests one partition, or each partition of a range."""

import datetime as dt
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lake_assets.checks.result import Scope
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import InProcess
from lake_assets.errors import (
    CatalogUnreachableError,
    CommitConflictError,
    ConfigError,
    DriverLostError,
    LakeAssetsError,
    PartitionError,
    SparkUnreachableError,
    StorageUnreachableError,
    is_interrupt,
)
from lake_assets.escapes import visible_name
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.partition_run import IngestResult
from lake_assets.ingest.partition_runs import passing_on_interrupts
from lake_assets.ingest.reported import reported_run
from lake_assets.ingest.view import Viewer
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration import handover
from lake_assets.orchestration.checks import (
    evaluations_of_cancelled_run,
    evaluations_of_failed_run,
    evaluations_of_idle_run,
)
from lake_assets.orchestration.dagster_private import OUTPUT_WITHOUT_EVENT, requester
from lake_assets.orchestration.downstream import StreamIOManager
from lake_assets.orchestration.event_log import EventLog
from lake_assets.orchestration.failures import facts_of, lines_by_text, text_of
from lake_assets.orchestration.launchers import RemoteRun
from lake_assets.orchestration.metadata import Metadata, materialization_metadata
from lake_assets.orchestration.partitions import dimension_tags, partition_of, partitions_definition, summary_of
from lake_assets.orchestration.resources import sessions
from lake_assets.orchestration.translator import StreamSpecs, asset_options, specs_of
from lake_assets.orchestration.unmatched import newest_landing_scan
from lake_assets.remote.messages import Reported
from lake_assets.remote.request import RunOptions
from lake_assets.remote.told import report_outcome
from lake_assets.selection.select import Wanted, narrowed
from lake_assets.spark.session import Sessions
from lake_assets.streams.stream import OpenStream
from lake_assets.telemetry.lineage import lineage

LOG_SECONDS = 1.0  # between two messages of progress: Dagster stores one in more time than a small commit takes
NAMED_FAILURES = 20  # errors of a range in the text of its failure; the log and the ledger have them all

# Errors after which a retry may succeed.
PASSING = (
    StorageUnreachableError,
    CatalogUnreachableError,
    CommitConflictError,
    DriverLostError,
    SparkUnreachableError,
)
RETRIES = 2  # of a run without other errors
RETRY_SECONDS = 30  # before the first retry; twice as many before the second

Events = Iterator[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.MaterializeResult[None]]


class IngestConfig(dg.Config):
    """The options of a run in the launchpad."""

    force: bool = Field(False, description="Read a partition even if its objects are those of the last commit.")
    landed_only: bool = Field(
        False, description="Pass over a partition that has no objects and was never committed. Schedules set it."
    )
    partitions: list[str] = Field(
        default=[],
        description="Of the run's partitions, only those of these selections, such as region=NW|NE, date=2026-02, "
        "date=last:7 or date=2026-02-01..2026-02-28.",
    )
    waiting: bool = Field(
        False, description="Of the run's partitions, only those whose landed objects are not in the lake."
    )
    failed: bool = Field(False, description="Of the run's partitions, only those whose newest run failed.")
    max: int | None = Field(None, ge=1, description="At most so many of the run's partitions.")

    @property
    def wanted(self) -> Wanted:
        """What of the run's partitions is selected."""
        return Wanted(tuple(self.partitions), waiting=self.waiting, failed=self.failed, most=self.max)


def stream_asset(
    stream: OpenStream, specs: StreamSpecs | None = None, config: LakeConfig | None = None
) -> dg.AssetsDefinition:
    """The asset with the stream's partitions; without `specs` its attributes are those of the config.

    The driver of a run executes where `runs` of the config says; in process without a config.

    A backfill is one run, with one Spark session, for each range of keys (`BackfillPolicy.single_run`): a run takes
    seconds to start and a partition a fraction of one, and only this policy permits `--partition-range` in
    `dagster asset materialize`. With two dimensions Dagster makes a range for each value of the smaller dimension. The
    run commits partition by partition. A partition that fails does not stop the others. Each committed partition has
    its own materialization. The error of a failed one is an observation, which does not change its status in Dagster,
    and at its end the run fails with the list of them.

    Raises:
        ConfigError: Dagster does not take the stream's name, owners or kinds.
    """
    specs = specs or specs_of(stream)
    spec, landing = specs.table, specs.landing.key
    remote = None if config is None or isinstance(config.runs, InProcess) else RemoteRun(config, config.runs, stream)

    def materialize(context: dg.AssetExecutionContext, config: IngestConfig, pyspark: LazyPySparkResource) -> Events:
        yield from _Run(stream, specs, context, config, sessions(pyspark, stream.spark), remote).events()

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill_policy and io_manager_def
            decorate: Callable[..., dg.AssetsDefinition] = dg.asset(
                **asset_options(spec),
                partitions_def=partitions_definition(stream),
                io_manager_def=StreamIOManager(stream),  # for parameters of assets downstream
                backfill_policy=_backfill_policy(stream),
                deps=[landing, *spec.deps],
                # If all partitions are skipped there is nothing to check, and nothing new for assets downstream.
                output_required=False,
            )
            return decorate(materialize)
    except dg.DagsterInvalidDefinitionError as error:
        raise ConfigError(f"streams.{stream.name}: Dagster does not take it: {error}") from error


def _backfill_policy(stream: OpenStream) -> dg.BackfillPolicy:
    limit = stream.config.max_partitions_per_run
    return dg.BackfillPolicy.multi_run(limit) if limit else dg.BackfillPolicy.single_run()


class _Run:
    """One run over the partitions that it was launched for."""

    def __init__(
        self,
        stream: OpenStream,
        specs: StreamSpecs,
        context: dg.AssetExecutionContext,
        config: IngestConfig,
        spark: Sessions,
        remote: RemoteRun | None,
    ) -> None:
        self.stream = stream
        self.landing = specs.landing.key
        self.context = context
        self.log = EventLog(context.log, context.run.run_id)
        self.config = config
        self.spark = spark
        self.remote = remote
        self.run_at = dt.datetime.now(dt.UTC)
        self.done: dict[str, Metadata] = {}
        self.results: dict[Partition, IngestResult] = {}
        self.has_listings = True  # in all results
        self.failed: dict[str, Exception] = {}
        self.first_keys: dict[str, str] = {}  # the first key with an error, by the error's text
        self.passed_over = 0
        self.progress: list[str] = []  # a line a partition, not logged yet
        self.logged_at = 0.0  # by the monotonic clock
        self.unmatched = newest_landing_scan(context.instance, specs.landing.key, specs.report.key)

    def events(self) -> Events:
        run = self.context.run
        with self.log.open(), lineage(self.stream, (run.run_id, run.job_name)) as self.trace:
            yield from self._events()

    def _events(self) -> Events:
        keys = self.context.partition_keys
        partitions = self._selected(self._partitions(keys))
        if len(partitions) > 1:
            self.log.info(f"This run is {summary_of(list(partitions))}")

        def note(reported: Reported) -> None:
            key = partitions[reported.outcome.partition]
            position = len(self.done) + len(self.failed) + self.passed_over + 1
            self._note(key, f"{visible_name(key)} ({position} of {len(keys)})", reported)

        try:
            if not partitions:
                pass  # nothing of the run is selected, so no driver is needed
            elif self.remote is None:
                self._ingest(list(partitions), note)
            else:
                self._ingest_by_driver(self.remote, list(partitions), note)
        except BaseException as error:
            self._log_progress()
            yield from self._events_by_partition()
            if is_interrupt(error):
                yield from evaluations_of_cancelled_run(self.stream, self.context, self.done)
                raise dg.DagsterExecutionInterruptedError from error
            raise
        self._log_progress()
        if self.failed:
            yield from self._events_by_partition()
            failure, retry = self._failure(len(keys)), self.context.retry_number
            # With a retry policy Dagster would also retry a run that somebody has cancelled.
            if retry < RETRIES and all(isinstance(error, PASSING) for error in self.failed.values()):
                raise dg.RetryRequested(RETRIES, RETRY_SECONDS * 2**retry) from failure
            failed = tuple(partition for partition, key in partitions.items() if key in self.failed)
            scope = self._scope(failed)
            yield from evaluations_of_failed_run(self.stream, self.context, scope)
            unforeseen = [error for error in self.failed.values() if not isinstance(error, LakeAssetsError)]
            # For an error that is not ours the UI shows the traceback.
            raise failure from (unforeseen[0] if unforeseen else None)
        handover.hand_on(self.stream.name, self._scope())
        if self.passed_over:
            yield from self._events_by_partition()
            if self.done:
                # The step's output, so that checks and assets downstream follow. The materializations that Dagster
                # makes of other outputs would be of all the run's partitions.
                yield dg.MaterializeResult(metadata=OUTPUT_WITHOUT_EVENT)
            else:
                yield from evaluations_of_idle_run(self.stream, self.context)
            return
        # Dagster itself makes the events of a run that succeeds, one for each partition.
        for key, metadata in self.done.items():
            self.context.add_asset_metadata(metadata, partition_key=key)
        yield dg.MaterializeResult()

    def _ingest(self, partitions: Sequence[Partition], note: Callable[[Reported], None]) -> None:
        """Refresh the partitions in this process."""
        viewer = Viewer(self.stream, self.context.log.warning)
        outcomes = ingest_all(self.stream, partitions, self.spark, **self._options())
        with passing_on_interrupts(outcomes):
            for outcome in outcomes:
                result = outcome.result
                note(Reported(outcome, None if result is None else viewer.view(result, outcome.partition)))

    def _ingest_by_driver(
        self, remote: RemoteRun, partitions: Sequence[Partition], note: Callable[[Reported], None]
    ) -> None:
        """Refresh the partitions in a driver's process."""
        run_id, stream = self.context.run.run_id, self.stream

        def tell(reported: Reported) -> None:
            report_outcome(run_id, stream.name, reported.outcome)
            note(reported)

        with reported_run(run_id, stream.name, stream.config.mode, len(partitions)):
            remote.ingest(self.context, partitions, tell, **self._options())

    def _options(self) -> RunOptions:
        return {
            "force": self.config.force,
            "landed_only": self.config.landed_only,
            "outside": False,
            "run_id": self.context.run.run_id,
            "run_at": self.run_at,
            "requested_by": requester(self.context.run.tags),
        }

    def _scope(self, failed: tuple[Partition, ...] = ()) -> Scope:
        """The scope of the run's checks, which list again if a driver did not send its listings."""
        scope = Scope.of_results(self.context.run.run_id, self.results, failed)
        return scope if self.has_listings else replace(scope, results={})

    def _partitions(self, keys: Sequence[str]) -> dict[Partition, str]:
        """The key of each partition; a key without a partition has failed."""
        partitions = {}
        for key in keys:
            try:
                partitions[partition_of(self.stream.config.columns, key)] = key
            except PartitionError as error:
                self.failed[key] = error
                self.context.log.error(f"{visible_name(key)} failed: {error}")  # noqa: TRY400 - its text says it all
        return partitions

    def _selected(self, partitions: dict[Partition, str]) -> dict[Partition, str]:
        """Of the run's partitions, those that its config selects; the others get no event.

        Raises:
            dagster.Failure: the config is not of the selection grammar, or the landing zone or the lake cannot be read.
        """
        if self.config.wanted.is_empty:
            return partitions
        try:
            kept = narrowed(self.stream, list(partitions), self.config.wanted)
        except LakeAssetsError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        self.passed_over = len(partitions) - len(kept)
        self.log.info(f"The run's config selects {count(len(kept), 'partition')} of {len(partitions):,}.")
        return {partition: partitions[partition] for partition in kept}

    def _note(self, key: str, label: str, reported: Reported) -> None:
        outcome, error = reported.outcome, reported.outcome.error
        self.trace(outcome)
        if outcome.result is not None:
            self.results[outcome.partition] = outcome.result
            self.has_listings = self.has_listings and reported.has_listing
            landing = None if self.stream.config.transform else self.landing
            metadata = materialization_metadata(outcome.result, reported.view, outcome.partition, landing)
            self.done[key] = metadata | self.unmatched
            self._log(f"{label} {_figures(outcome.result)}")
        elif error is not None:
            if is_interrupt(error):
                raise error
            first = self.first_keys.setdefault(text_of(error), key)
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

    def _events_by_partition(self) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
        """The events of a run in which not all partitions succeeded, for which Dagster makes none."""
        asset = self.context.asset_key
        for key, metadata in self.done.items():
            yield dg.AssetMaterialization(asset, partition=key, metadata=metadata, tags=dimension_tags(key))
        for key, error in self.failed.items():
            yield dg.AssetObservation(asset, partition=key, metadata=facts_of(error), tags=dimension_tags(key))

    def _failure(self, partitions: int) -> dg.Failure:
        """One failure for the run."""
        texts = {key: text_of(error) for key, error in self.failed.items()}
        if partitions == 1:
            (text,) = texts.values()
            return dg.Failure(text, allow_retries=False)
        lines = lines_by_text(texts, NAMED_FAILURES, "the log and the ledger name them all.")
        summary = f"{len(texts)} of {partitions} partitions failed, {len(self.done)} are done."
        return dg.Failure("\n".join([summary, *lines]), allow_retries=False)


def _figures(result: IngestResult) -> str:
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
