"""A stream as a Dagster asset: a run ingests one partition, or each partition of a range."""

import warnings
from collections.abc import Callable, Iterator, Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lake_assets.config.models import LakeConfig
from lake_assets.errors import ConfigError, LakeAssetsError, PartitionError, is_interrupt
from lake_assets.escapes import visible_name
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.orchestration import handover
from lake_assets.orchestration.checks import (
    evaluations_of_cancelled_run,
    evaluations_of_failed_run,
    evaluations_of_idle_run,
)
from lake_assets.orchestration.dagster_private import OUTPUT_WITHOUT_EVENT
from lake_assets.orchestration.downstream import StreamIOManager
from lake_assets.orchestration.partitions import partition_of, partitions_def, summary_of
from lake_assets.orchestration.resources import sessions
from lake_assets.orchestration.stream_run import StreamRun
from lake_assets.orchestration.translator import StreamSpecs, asset_options, specs_of
from lake_assets.selection.select import Wanted, narrowed
from lake_assets.spark.session import Sessions
from lake_assets.streams.stream import OpenStream

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
    """Return the asset with the stream's partitions; without `specs` its attributes are those of the config.

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
    lake_config = config

    def materialize(context: dg.AssetExecutionContext, config: IngestConfig, pyspark: LazyPySparkResource) -> Events:
        yield from _AssetRun(stream, specs, context, config, sessions(pyspark, stream.spark), lake_config).events()

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill_policy and io_manager_def
            decorate: Callable[..., dg.AssetsDefinition] = dg.asset(
                **asset_options(spec),
                partitions_def=partitions_def(stream),
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


class _AssetRun(StreamRun):
    """One run over the partitions that it was launched for."""

    def __init__(
        self,
        stream: OpenStream,
        specs: StreamSpecs,
        context: dg.AssetExecutionContext,
        config: IngestConfig,
        spark: Sessions,
        lake_config: LakeConfig | None,
    ) -> None:
        super().__init__(stream, specs, context, spark, lake_config, force=config.force, landed_only=config.landed_only)
        self.context = context
        self.wanted = config.wanted

    def events(self) -> Events:
        with self.open():
            yield from self._events()

    def _events(self) -> Events:
        keys = self.context.partition_keys
        self.number = len(keys)
        partitions = self._selected(self._partitions(keys))
        if len(partitions) > 1:
            self.log.info(f"This run is {summary_of(list(partitions))}")
        try:
            self.refresh(partitions)
        except BaseException as error:
            yield from self.events_by_partition()
            if is_interrupt(error):
                yield from evaluations_of_cancelled_run(self.stream, self.context, self.done)
                raise dg.DagsterExecutionInterruptedError from error
            raise
        if self.failed:
            yield from self.events_by_partition()
            failure = self.failure()
            if (retry := self.retry()) is not None:
                raise retry from failure
            failed = tuple(partition for partition, key in partitions.items() if key in self.failed)
            yield from evaluations_of_failed_run(self.stream, self.context, self.scope(failed))
            raise failure from self.unforeseen
        handover.hand_on(self.stream.name, self.scope())
        if self.passed_over:
            yield from self.events_by_partition()
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

    def _partitions(self, keys: Sequence[str]) -> dict[Partition, str]:
        """Return the key of each partition; a key without a partition has failed."""
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
        if self.wanted.is_empty:
            return partitions
        try:
            kept = narrowed(self.stream, list(partitions), self.wanted)
        except LakeAssetsError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        self.passed_over = len(partitions) - len(kept)
        self.log.info(f"The run's config selects {count(len(kept), 'partition')} of {len(partitions):,}.")
        return {partition: partitions[partition] for partition in kept}
