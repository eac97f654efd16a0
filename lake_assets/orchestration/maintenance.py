"""A Dagster job for each lake, `maintain_<lake>`, and its schedule: the same maintenance as the command line's."""

from collections.abc import Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lake_assets.config.models import LakeConfig
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.texts import first_lines
from lake_assets.maintenance.run import Maintained, maintain
from lake_assets.orchestration.failures import lines_by_text
from lake_assets.orchestration.resources import sessions

NAMED = 20


class MaintainConfig(dg.Config):
    """What may be said of a run in the launchpad."""

    dry_run: bool = Field(False, description="Say what would be done, and change nothing.")


def maintenance_job(lakes: LakeConfig, lake: str) -> dg.JobDefinition:
    """The job of one lake. A partition that could not be compacted fails the run, so that it is seen."""

    @dg.op(name=f"maintain_{lake}_lake", description=f"Expires snapshots, deletes files and compacts in lake {lake}.")
    def tidy(context: dg.OpExecutionContext, config: MaintainConfig, pyspark: LazyPySparkResource) -> None:
        try:
            done = maintain(lakes, lake, sessions(pyspark), dry_run=config.dry_run)
        except LakeAssetsError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        figures = maintenance_figures(done)
        context.log.info(", ".join(f"{name} {number:,}" for name, number in figures.items()))
        for uri in [*done.cleaned.deleted, *(orphan.uri for orphan in done.orphans)]:
            context.log.debug(f"deleted {uri}")
        for uri in done.cleaned.unreachable:
            context.log.warning(f"{uri} waits to be deleted, and lies in no storage of the config")
        for one in done.cleaned.others:
            context.log.warning(f"{one.uri} is kept: {one.why}")
        context.add_output_metadata(figures | kept_objects(done))
        if done.left:
            texts = {f"{one.stream} {one.partition}": one.why or "" for one in done.left}
            lines = lines_by_text(texts, NAMED, "the command `lake-assets maintain` names them all.")
            raise dg.Failure(
                "\n".join([f"{len(done.left)} partitions could not be compacted.", *lines]), allow_retries=False
            )

    @dg.job(name=f"maintain_{lake}", description=f"Maintenance of lake {lake}.")
    def job() -> None:
        tidy()

    return job


def maintenance_figures(done: Maintained) -> dict[str, int]:
    """What was done, in numbers."""
    return {
        "snapshots_expired": len(done.expired),
        "files_deleted": len(done.cleaned.deleted) + len(done.orphans),
        "orphans_deleted": len(done.orphans),
        "bytes_deleted": done.bytes_deleted,
        "objects_kept": len(done.cleaned.others),
        "partitions_compacted": len(done.compacted) - len(done.left),
        "partitions_left": len(done.left),
        "ledger_rows_moved": done.flushed,
    }


def kept_objects(done: Maintained) -> dict[str, dg.MarkdownMetadataValue]:
    """The landed objects that were to be deleted, and are not what was registered."""
    others = done.cleaned.others
    if not others:
        return {}
    lines = [f"- `{one.uri}`: {one.why}" for one in others]
    shown = first_lines(lines, NAMED, "- and {more:,} more; the log names them all")
    return {"objects_kept_are": dg.MetadataValue.md("\n".join(shown))}


def maintenance(config: LakeConfig) -> tuple[Sequence[dg.JobDefinition], Sequence[dg.ScheduleDefinition]]:
    """A job for each lake, and a schedule for each whose config has `maintenance`."""
    jobs, schedules = [], []
    for name, lake in config.lakes.items():
        job = maintenance_job(config, name)
        jobs.append(job)
        if lake.maintenance is None:
            continue
        schedules.append(
            dg.ScheduleDefinition(
                name=f"maintain_{name}_schedule",
                job=job,
                cron_schedule=lake.maintenance.cron,
                execution_timezone=lake.maintenance.time_zone,
                default_status=dg.DefaultScheduleStatus.RUNNING,
            )
        )
    return jobs, schedules
