"""When Dagster refreshes a stream, and when its data counts as old."""

import datetime as dt
from typing import Annotated, Literal, Self

import pendulum
from croniter import CroniterBadDateError, CroniterError, croniter
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lake_assets.config import editor_schema
from lake_assets.config.fields import short_for
from lake_assets.config.model import Model


def _check_cron(text: str) -> str:
    hint = "write minute, hour, day of month, month and day of week, such as `15 6 * * *` for 6:15 every day"
    if len(text) > 1000 or (not text.startswith("@") and len(text.split()) != 5):
        raise ValueError(f"{text!r} is not a cron schedule of five fields: {hint}")
    if not text.startswith("@") and "W" in text.split()[2].upper():
        raise ValueError(f"{text!r} has the nearest weekday (W), which Dagster does not support: {hint}")
    try:
        croniter(text, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)).get_next()
    except CroniterBadDateError as error:
        raise ValueError(f"{text!r} names a day that does not exist: {hint}") from error
    except CroniterError as error:
        raise ValueError(f"{text!r} is not a cron schedule ({error}): {hint}") from error
    return text


def check_time_zone(name: str) -> str:
    """Return the name, if it is a time zone's; raises ValueError otherwise."""
    try:
        pendulum.timezone(name)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}: write it as Europe/Berlin or UTC") from error
    return name


Cron = Annotated[str, AfterValidator(_check_cron)]
"""A cron schedule of five fields, or a word such as `@daily`."""

TimeZone = Annotated[str, AfterValidator(check_time_zone), Field(json_schema_extra=editor_schema.TIME_ZONE)]
"""The IANA name of a time zone."""

Status = Literal["running", "stopped"]


class Schedule(Model):
    """Refreshes the newest partitions at fixed times. The cron text alone is its short form."""

    cron: Cron = Field(description="Five fields, such as `15 6 * * *`, or a word such as @hourly.")
    time_zone: TimeZone | None = Field(None, description="Time zone of `cron`; the stream's when absent.")
    lookback: int = Field(
        1, ge=0, le=10_000, description="Number of partitions before the current one that are refreshed too."
    )
    status: Status = Field("running", description="State when Dagster first loads the schedule; the UI can change it.")


class Automation(Model):
    """Refreshes each partition that has changed in the landing zone, of any age. The cron text is its short form."""

    cron: Cron = Field(description="When the landing zone is listed.")
    time_zone: TimeZone | None = Field(None, description="Time zone of `cron`; the stream's when absent.")
    lookback: int | None = Field(
        None,
        ge=0,
        le=100_000,
        description="Number of partitions before the current one that are listed; all when absent.",
    )
    status: Status = Field(
        "running",
        description="State of its schedule and its sensor when Dagster first loads them; the UI can change it.",
    )


ScheduleOrCron = Annotated[Schedule, BeforeValidator(short_for("cron"), json_schema_input_type=str | Schedule)]
AutomationOrCron = Annotated[Automation, BeforeValidator(short_for("cron"), json_schema_input_type=str | Automation)]


def _check_age(hours: float) -> float:
    # Dagster's window is a minute at least, and Python's calendar ends in the year 9999.
    if not 1 / 60 <= hours <= 876_000:
        raise ValueError(f"{hours:g} hours is outside 0.017 (one minute) to 876000 (a century)")
    return hours


Age = Annotated[float, AfterValidator(_check_age)]


class Freshness(Model):
    """The allowed age of the newest refresh, and of the newest partition."""

    fail_hours: Age | None = Field(
        None, description="Age of the newest refresh above which the asset counts as failed."
    )
    warn_hours: Age | None = Field(None, description="Age of the newest refresh above which Dagster warns.")
    newest_partition_hours: Age | None = Field(
        None,
        description="Hours since the newest partition with rows has ended, for each value of the other columns, above "
        "which the check `freshness` fails.",
    )

    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        if self.fail_hours is None and (self.warn_hours is not None or self.newest_partition_hours is None):
            raise ValueError("freshness has no limit from which it fails: set fail_hours, or remove it")
        if self.fail_hours is not None and self.warn_hours is not None and self.warn_hours >= self.fail_hours:
            raise ValueError(
                f"warn_hours {self.warn_hours:g} must be less than fail_hours {self.fail_hours:g}: write fewer"
            )
        return self
