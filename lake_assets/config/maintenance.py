"""When a lake is tidied up, and how long what is no longer needed is kept."""

from pydantic import Field

from lake_assets.config.model import Model
from lake_assets.config.schedules import Cron, TimeZone


class Maintenance(Model):
    """The rules of a lake's maintenance. Ages are in days."""

    cron: Cron = Field("30 3 * * *", description="When Dagster runs it.")
    time_zone: TimeZone = Field("UTC", description="Time zone of `cron`.")
    expire_older_than: float = Field(
        7, gt=0, le=36500, description="Days after which a snapshot expires; the newest never does."
    )
    delete_older_than: float = Field(
        1, ge=0, le=36500, description="Days from a file's last snapshot's expiry to the file's deletion."
    )
    orphans_older_than: float = Field(
        3, ge=0.5, le=36500, description="Age of files that no snapshot names, in days; longer than any run takes."
    )
    compact: int | None = Field(
        10, ge=2, le=1_000_000, description="Number of files from which a partition is rewritten as fewer; null: never."
    )
