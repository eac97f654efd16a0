"""A Dagster job for each lake, `audit_<lake>`, and its schedule: the checks of all its streams, of the whole tables."""

from collections.abc import Mapping, Sequence

import dagster as dg

from lake_assets.checks.run import checks_of
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.queued_runs import unless_queued
from lake_assets.streams.stream import OpenStream

Keyed = tuple[OpenStream, dg.AssetKey]  # a stream, and the key of its asset


def audits(config: LakeConfig, streams: Mapping[str, Sequence[Keyed]]) -> dg.Definitions:
    """A job for each lake that has checks, and a schedule for each of these whose config has `audit`.

    The results are those of checks that are executed on their own: of each partition that fails or failed before, and
    of the whole table.

    Args:
        config: of the lakes.
        streams: those of each lake, by the lake's name.
    """
    jobs, schedules = [], []
    for name, of_lake in streams.items():
        keys = [dg.AssetCheckKey(asset, check) for stream, asset in of_lake for check in checks_of(stream)]
        if not keys:
            continue
        job = dg.define_asset_job(
            f"audit_{name}",
            selection=dg.AssetSelection.checks(*keys),
            description=(
                f"All checks of lake {name}, each of its whole table."
                " Launch it from the tab *Launchpad*, without a partition."
            ),
        )
        jobs.append(job)
        audit = config.lakes[name].audit
        if audit is not None:
            schedule = f"audit_{name}_schedule"
            schedules.append(
                dg.ScheduleDefinition(
                    name=schedule,
                    execution_fn=unless_queued(schedule),
                    job=job,
                    cron_schedule=audit.cron,
                    execution_timezone=audit.time_zone,
                    default_status=dg.DefaultScheduleStatus.RUNNING,
                )
            )
    return dg.Definitions(jobs=jobs, schedules=schedules)
