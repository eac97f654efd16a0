"""The schedule and the retention rules of a lake's maintenance."""

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
        1, ge=0, le=36500, description="Days after which a file is deleted that only expired snapshots have."
    )
    orphans_older_than: float = Field(
        3,
        ge=0.5,
        le=36500,
        description="Days after which a file is deleted that no snapshot has; must exceed the longest run.",
    )
    ledger_retention: float | None = Field(
        None,
        ge=1,
        le=36500,
        description="Days after which rows of ledger and manifest are deleted, but not the newest of a partition; "
        "null: never.",
    )
    delta_retention: float | None = Field(
        None,
        ge=1,
        le=36500,
        description="Days after which exported files of streams with `deltas` are deleted; null: never.",
    )
    compact: int | None = Field(
        10, ge=2, le=1_000_000, description="Compact partitions with this many files or more; null: never."
    )
