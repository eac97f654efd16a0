"""When a lake is tidied up, and how long what is no longer needed is kept."""

from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from lake_assets.config.model import Model


class Maintenance(Model):
    """The rules of a lake's maintenance. Ages are in days."""

    cron: str = Field("30 3 * * *", min_length=1, description="When Dagster runs it.")
    time_zone: str = Field("UTC", description="IANA name of the zone of `cron`.")
    expire_older_than: float = Field(7, gt=0, le=36500, description="Older snapshots can no longer be queried.")
    delete_older_than: float = Field(
        1, ge=0, le=36500, description="Files are deleted so long after their last snapshot has expired."
    )
    orphans_older_than: float = Field(
        3, ge=0.5, le=36500, description="Age of files that no snapshot names; must be longer than any run takes."
    )
    compact: int | None = Field(
        10, ge=2, description="From so many files on, a partition is written anew as fewer; null: never."
    )

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ValueError, KeyError, OSError) as error:
            raise ValueError(f"there is no time zone {name!r}: write it as Europe/Berlin or UTC") from error
        return name
