"""A stream as a Dagster asset: a run ingests one partition, or each partition of a range."""

import warnings
from collections.abc import Callable, Iterator

import dagster as dg
from pydantic import Field

from lake_assets.base.errors import ConfigError, LakeAssetsError, PartitionError
from lake_assets.base.texts import count, visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.assets.downstream import StreamIOManager
from lake_assets.orchestration.dagster_private import OUTPUT_WITHOUT_EVENT, UserFailure
from lake_assets.orchestration.event_log import failure_or_retry
from lake_assets.orchestration.partition_keys import StreamKeys, summary_of
from lake_assets.orchestration.resources import PYSPARK
from lake_assets.orchestration.stream_checks import Checked, checked
from lake_assets.orchestration.stream_run import StreamRun, options_of
from lake_assets.orchestration.translator import StreamSpecs, asset_options
from lake_assets.streams.select import Wanted, narrowed
from lake_assets.streams.stream import OpenStream

AssetEvents = Iterator[
    dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.MaterializeResult[None]
]


class IngestConfig(dg.Config):
    """The options of a run in the launchpad."""

    force: bool = Field(False, description="Read partitions again even if their objects have not changed.")
    landed_only: bool = Field(
        True, description="Leave out partitions in which nothing has ever landed; if false, `on_empty` decides on them."
    )
    partitions: list[str] = Field(
        default=[],
        description="Only these of the run's partitions, such as region=NW|NE, date=2026-02, "
        "date=last:7 or date=2026-02-01..2026-02-28.",
    )
    waiting: bool = Field(
        False, description="Only those of the run's partitions with landed objects that are not in the lake."
    )
    failed: bool = Field(False, description="Only those of the run's partitions whose newest run failed.")
    max: int | None = Field(None, ge=1, description="At most this many of the run's partitions.")

    @property
    def wanted(self) -> Wanted:
        """What of the run's partitions is selected."""
        return Wanted(tuple(self.partitions), waiting=self.waiting, failed=self.failed, most=self.max)


_SCHEMA = IngestConfig.to_config_schema().as_field()  # Dagster would make it for each stream


def stream_asset(specs: StreamSpecs, config: LakeConfig | None = None) -> dg.AssetsDefinition:
    """Return the asset with the stream's partitions.

    The driver of a run executes where `runs` of the config says; in process without a config.

    A backfill is one run, with one Spark session, for each range of keys (`BackfillPolicy.single_run`): a run takes
    seconds to start and a partition a fraction of one, and only this policy permits `--partition-range` in
    `dagster asset materialize`. With two dimensions Dagster makes a range for each value of the smaller dimension. The
    run commits partition by partition. A partition that fails does not stop the others. Each committed partition has
    its own materialization. The error of a failed one is an observation, which does not change its status in Dagster,
    and at its end the run fails with the list of them. The checks of what it has committed are made in the same step.
    """
    stream, spec, lake_config = specs.stream, specs.table, config

    def materialize(context: dg.AssetExecutionContext) -> AssetEvents:
        config = IngestConfig(**context.op_execution_context.op_config)
        options = options_of(context, force=config.force, landed_only=config.landed_only)
        run = StreamRun(specs, context, lake_config, options)
        with run.open():
            yield from _events(run, context, config.wanted)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill_policy and io_manager_def
            decorate: Callable[..., dg.AssetsDefinition] = dg.asset(
                **asset_options(spec),
                config_schema=_SCHEMA,
                required_resource_keys={PYSPARK},
                partitions_def=StreamKeys(stream).definition,
                io_manager_def=StreamIOManager.definition(stream),  # for parameters of assets downstream
                backfill_policy=_backfill_policy(stream),
                deps=[specs.landing.key, *spec.deps],
                # If all partitions are skipped there is nothing to check, and nothing new for assets downstream.
                output_required=False,
            )
            return decorate(materialize)
    except dg.DagsterInvalidDefinitionError as error:
        raise ConfigError(f"streams.{stream.name}: Dagster does not take it: {error}") from error


def _backfill_policy(stream: OpenStream) -> dg.BackfillPolicy:
    limit = stream.config.max_partitions_per_run
    return dg.BackfillPolicy.multi_run(limit) if limit else dg.BackfillPolicy.single_run()


def _events(run: StreamRun, context: dg.AssetExecutionContext, wanted: Wanted) -> AssetEvents:
    """Refresh the partitions that a run was launched for."""
    stream, keys = run.stream, context.partition_keys
    of_run = _partitions(run, context)
    run.number = len(of_run) + len(run.failed)
    partitions = _selected(run, context, of_run, wanted)
    if len(partitions) > 1:
        run.log.info(f"This run is {summary_of(list(partitions))}")
    yield from run.refreshed(partitions)
    yield from run.events()
    failure = run.failure() if run.failed else None  # a run that is to be retried ends here, without checks
    run.settle_plans(keys)
    made, scope = Checked(), run.scope()
    done = set(scope.partitions or ())
    also = [partition for partition in of_run if partition not in done]
    yield from checked(stream, context.asset_key, context, scope, made, also=also)
    if failure is not None:
        raise failure
    if made.errors:
        failure_or_retry(context, made.failure(), made.errors.values())
    if made.blocking:
        raise made.block()
    if run.done:
        # For assets downstream. The materializations that Dagster makes of other outputs would be of all the run's
        # partitions, and come after the checks.
        yield dg.MaterializeResult(metadata=OUTPUT_WITHOUT_EVENT)


def _partitions(run: StreamRun, context: dg.AssetExecutionContext) -> dict[Partition, str]:
    """Return the key of each partition; a key that names none has failed."""
    partitions: dict[Partition, str] = {}
    keys = StreamKeys(run.stream)
    for key in context.partition_keys:
        try:
            partitions |= dict.fromkeys(keys.partitions(key), key)
        except PartitionError as error:
            run.failed[key] = error
            context.log.error(f"{visible_name(key)} failed: {error}")  # noqa: TRY400 - its text says it all
    return partitions


def _selected(
    run: StreamRun, context: dg.AssetExecutionContext, partitions: dict[Partition, str], wanted: Wanted
) -> dict[Partition, str]:
    """Of the run's partitions, those that its config selects; the others get no event.

    It ends a run by dagster.Failure if that is not possible.
    """
    if wanted.is_empty:
        return partitions
    try:
        kept = narrowed(run.stream, list(partitions), wanted)
    except LakeAssetsError as error:
        raise failure_or_retry(context, UserFailure(str(error)), [error]) from None
    run.not_selected = len(partitions) - len(kept)
    run.log.info(f"The run's config selects {count(len(kept), 'partition')} of {len(partitions):,}.")
    return {partition: partitions[partition] for partition in kept}
