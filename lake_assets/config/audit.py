"""The schedule of a lake's audit."""

from pydantic import Field

from lake_assets.config.model import Model
from lake_assets.config.schedules import Cron, TimeZone


class Audit(Model):
    """When Dagster checks the whole tables of a lake. After a run, checks look at the run's partitions only."""

    cron: Cron = Field("30 4 * * *", description="When Dagster runs it.")
    time_zone: TimeZone = Field("UTC", description="Time zone of `cron`.")
