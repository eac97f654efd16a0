"""Two Dagster jobs for each lake, `maintain_<lake>` and `audit_<lake>`, and their schedules."""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lake_assets.checks.check_run import checks_of
from lake_assets.checks.result import Scope
from lake_assets.config.models import LakeConfig
from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.exports import telemetry
from lake_assets.layout.partition import Partition
from lake_assets.maintenance.maintenance_run import Maintained, maintain
from lake_assets.orchestration.checks.stream_checks import Checked, checked
from lake_assets.orchestration.dagster_private import UserFailure
from lake_assets.orchestration.failed_step import tried_again
from lake_assets.orchestration.metadata import lines_by_text, markdown_list
from lake_assets.orchestration.queued_runs import job_schedule
from lake_assets.orchestration.resources import sessions
from lake_assets.orchestration.translator import StreamSpecs

NAMED = 20


class MaintainConfig(dg.Config):
    """The options of a run in the launchpad."""

    dry_run: bool = Field(False, description="Show what would be done, and change nothing.")


def maintenance_job(lakes: LakeConfig, lake: str) -> dg.JobDefinition:
    """Return the job of one lake. A run fails if a partition could not be compacted."""

    @dg.op(name=f"maintain_{lake}_lake", description=f"Expires snapshots, deletes files and compacts in lake {lake}.")
    def run_maintenance(context: dg.OpExecutionContext, config: MaintainConfig, pyspark: LazyPySparkResource) -> None:
        try:
            with telemetry():
                maintained = maintain(lakes, lake, sessions(pyspark, lakes.spark), dry_run=config.dry_run)
        except LakeAssetsError as error:
            raise tried_again(context, UserFailure(str(error)), [error]) from None
        figures = maintenance_figures(maintained)
        context.log.info(", ".join(f"{name} {number:,}" for name, number in figures.items()))
        for uri in [*maintained.cleaned.deleted, *(orphan.uri for orphan in maintained.orphans)]:
            context.log.debug(f"deleted {visible_name(uri)}")
        for uri in maintained.cleaned.unreachable:
            context.log.warning(f"{visible_name(uri)} is to be deleted, but is in no storage of the config")
        for kept in maintained.cleaned.others:
            context.log.warning(f"{visible_name(kept.uri)} is kept: {kept.why}")
        context.add_output_metadata(figures | kept_objects(maintained))
        if maintained.left:
            texts = {f"{left.stream} {left.partition}": left.why or "" for left in maintained.left}
            lines = lines_by_text(texts, NAMED, "the command `lake-assets maintain` names them all.")
            raise UserFailure("\n".join([f"{len(maintained.left)} partitions could not be compacted.", *lines]))

    @dg.job(
        name=f"maintain_{lake}",
        description=f"Expire snapshots, delete unused files and compact partitions of lake {lake}.",
    )
    def job() -> None:
        run_maintenance()

    return job


def maintenance_figures(maintained: Maintained) -> dict[str, int]:
    """Return the counts of a maintenance run."""
    return {
        "snapshots_expired": len(maintained.expired),
        "files_deleted": len(maintained.cleaned.deleted) + len(maintained.orphans),
        "orphans_deleted": len(maintained.orphans),
        "bytes_deleted": maintained.bytes_deleted,
        "objects_kept": len(maintained.cleaned.others),
        "partitions_compacted": len(maintained.compacted) - len(maintained.left),
        "partitions_left": len(maintained.left),
        "ledger_rows_moved": maintained.flushed,
        "ledger_rows_deleted": maintained.forgotten,
        "deltas_deleted": len(maintained.deltas),
        "dead_letters_deleted": len(maintained.letters),
        "columns_corrected": len(maintained.corrected),
    }


def kept_objects(maintained: Maintained) -> dict[str, dg.MarkdownMetadataValue]:
    """Return the landed objects that were to be deleted, but have changed since they were registered."""
    others = maintained.cleaned.others
    if not others:
        return {}
    lines = [f"{kept.uri}: {kept.why}" for kept in others]
    return {"objects_kept_are": markdown_list(lines, "- and {more:,} more; the log names them all")}


def maintenance(config: LakeConfig) -> dg.Definitions:
    """Return a job for each lake, and a schedule for each whose config has `maintenance`."""
    jobs = {name: maintenance_job(config, name) for name in config.lakes}
    times = {name: lake.maintenance for name, lake in config.lakes.items() if lake.maintenance is not None}
    return dg.Definitions(
        jobs=[*jobs.values()], schedules=[job_schedule(jobs[name], at.cron, at.time_zone) for name, at in times.items()]
    )


Results = Iterator[dg.AssetCheckEvaluation | dg.Output[None]]


class AuditConfig(dg.Config):
    """The options of a run in the launchpad."""

    partitions: dict[str, list[str]] = Field(
        default={},
        description="By stream, the partitions to check, such as region=NW/date=2026-02-11; if empty, the whole table "
        "of each stream.",
    )


def audit_job(lake: str, streams: Sequence[StreamSpecs]) -> dg.JobDefinition:
    """Return the job that checks the tables of a lake, or some of their partitions. A failed check does not fail it.

    Of a whole table there is a result of each partition that fails or failed before, and one of the table.
    """

    @dg.op(name=_audit_step(lake), description=f"Checks the tables of lake {lake}.")
    def run_audit(
        context: dg.OpExecutionContext, config: AuditConfig
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        made = Checked()
        for stream, asset in ((each.stream, each.table.key) for each in streams):
            scope = Scope()
            if config.partitions:
                paths = config.partitions.get(stream.name, [])
                scope = Scope(None, tuple(p for path in paths if (p := stream.config.partition_at(path)) is not None))
            yield from checked(stream, asset, context, scope, made)
        if made.errors:
            raise tried_again(context, made.failure(), made.errors.values())
        yield dg.Output(None)

    @dg.job(name=audit_name(lake), description=f"All checks of lake {lake}, each of its whole table.")
    def job() -> None:
        run_audit()

    return job


def audit_name(lake: str) -> str:
    """Return the name of a lake's audit job."""
    return f"audit_{lake}"


def _audit_step(lake: str) -> str:
    return f"{audit_name(lake)}_lake"


def audit_request(lake: str, partitions: Mapping[str, Sequence[Partition]]) -> dg.RunRequest:
    """Return the run of a lake's audit for partitions by stream."""
    paths = {stream: [partition.path for partition in of_stream] for stream, of_stream in partitions.items()}
    return dg.RunRequest(
        job_name=audit_name(lake), run_config={"ops": {_audit_step(lake): {"config": {"partitions": paths}}}}
    )


def audits(config: LakeConfig, streams: Mapping[str, Sequence[StreamSpecs]]) -> dg.Definitions:
    """Return a job for each lake that has checks, and a schedule for each of these whose config has `audit`."""
    jobs, schedules = [], []
    for name, of_lake in streams.items():
        if not any(checks_of(each.stream) for each in of_lake):
            continue
        jobs.append(job := audit_job(name, of_lake))
        if (audit := config.lakes[name].audit) is not None:
            schedules.append(job_schedule(job, audit.cron, audit.time_zone))
    return dg.Definitions(jobs=jobs, schedules=schedules)
