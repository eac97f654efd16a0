"""A Dagster job for each stream, `ingest_<stream>`: it ingests the partitions that its run config selects."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from lake_assets.config.models import LakeConfig
from lake_assets.errors import LakeAssetsError
from lake_assets.orchestration.checks.stream_checks import Checked, checked
from lake_assets.orchestration.dagster_private import UserFailure
from lake_assets.orchestration.failed_step import tried_again
from lake_assets.orchestration.metadata import Metadata
from lake_assets.orchestration.partition_keys import keys_of
from lake_assets.orchestration.resources import PYSPARK, sessions
from lake_assets.orchestration.stream_run import StreamRun, options_of
from lake_assets.orchestration.translator import StreamSpecs
from lake_assets.selection.select import Selection, Wanted, select

Events = Iterator[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[None]]


class SelectionConfig(dg.Config):
    """The options of a run in the launchpad."""

    partitions: list[str] = Field(
        default=[],
        description="These partitions, such as region=NW|NE, date=2026-02, date=last:7 or date=2026-02-01..2026-02-28.",
    )
    waiting: bool | None = Field(
        None,
        description="Only partitions with landed objects that are not in the lake. When absent, true if nothing "
        "else is selected.",
    )
    failed: bool = Field(False, description="Only partitions whose newest run failed.")
    all: bool = Field(False, description="Every partition that has landed or is in the lake.")
    max: int | None = Field(None, ge=1, description="At most this many partitions.")
    force: bool = Field(False, description="Read partitions again even if their objects have not changed.")

    @property
    def wanted(self) -> Wanted:
        """What is selected; the waiting partitions if nothing else is."""
        is_open = not (self.partitions or self.failed or self.all)
        waiting = is_open if self.waiting is None else self.waiting
        return Wanted(tuple(self.partitions), waiting=waiting, failed=self.failed, every=self.all, most=self.max)


# Dagster would make it for each stream, of a parameter of the class. The same goes for the type of a resource.
_SCHEMA = SelectionConfig.to_config_schema().as_field()


def ingest_name(stream: str) -> str:
    """Return the name of a stream's job."""
    return f"ingest_{stream}"


def ingest_step(stream: str) -> str:
    """Return the name of the job's step."""
    return f"ingest_partitions_of_{stream}"


def ingest_job(specs: StreamSpecs, config: LakeConfig) -> dg.JobDefinition:
    """Return the job of one stream, whose run needs no partition of Dagster's.

    Each partition has an event and results of checks of its own, as in a run of the asset.
    """
    stream, lake_config = specs.stream, config

    @dg.op(
        name=ingest_step(stream.name),
        description=f"Ingests the selected partitions of {stream.name}.",
        config_schema=_SCHEMA,
        required_resource_keys={PYSPARK},
    )
    def run_ingest(context: dg.OpExecutionContext) -> Events:
        config = SelectionConfig(**context.op_config)
        options = options_of(context, force=config.force)
        run = StreamRun(specs, context, sessions(context.resources.pyspark, stream.spark), lake_config, options)
        try:
            selection = select(stream, config.wanted)
        except LakeAssetsError as error:
            raise tried_again(context, UserFailure(str(error)), [error]) from None
        run.log.info(f"{stream.name}: {selection}")
        of_stream = keys_of(stream)
        cells = map(of_stream.cell_of, selection.partitions)
        for name, keys in of_stream.missing(context.instance, cells).items():
            context.instance.add_dynamic_partitions(name, keys)
        run.number = len(selection.partitions)
        with run.open():
            yield from run.refreshed({partition: of_stream.of(partition) for partition in selection.partitions})
            yield from run.events()
            failure = run.failure() if run.failed else None  # a run that is to be retried ends here, without checks
            yield from checked(stream, run.asset, context, run.scope(), Checked())
        if failure is not None:
            raise failure
        yield dg.Output(None, metadata=_figures(run, selection))

    @dg.job(
        name=ingest_name(stream.name),
        description=f"Ingest what has landed in the partitions of {stream.name} that the run config selects. If it "
        "selects nothing, it ingests all partitions whose landed objects are not in the lake.",
    )
    def job() -> None:
        run_ingest()

    return job


def _figures(run: StreamRun, selection: Selection) -> Metadata:
    return {
        "selection": dg.MetadataValue.text(str(selection)),
        "committed": dg.MetadataValue.int(run.committed),
        "skipped": dg.MetadataValue.int(len(run.done) - run.committed),
    }
