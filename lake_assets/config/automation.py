"""When Dagster refreshes a stream, and when its data counts as old."""

import datetime as dt
from typing import Annotated, Literal, Self

import pendulum
from croniter import CroniterBadDateError, CroniterError, croniter
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from lake_assets.config import editor_schema
from lake_assets.config.fields import TEMPLATE, Identifier, Model, short_for


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

FirstStatus = Literal["running", "stopped"]


class Schedule(Model):
    """Refreshes the newest partitions at fixed times. The cron text alone is its short form."""

    cron: Cron = Field(description="Five fields, such as `15 6 * * *`, or a word such as @hourly.")
    time_zone: TimeZone | None = Field(None, description="Time zone of `cron`; the stream's when absent.")
    lookback: int = Field(
        1, ge=0, le=10_000, description="Number of partitions before the current one that are refreshed too."
    )
    status: FirstStatus = Field(
        "running", description="State when Dagster first loads the schedule; the UI can change it."
    )


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
    status: FirstStatus = Field(
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


def _one_line(text: str) -> str:
    # It is a line of an HTTP request or of a mail's head.
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"{text!r} has a line break, or a character outside ASCII: remove it")
    return text


_Line = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
Url = Annotated[str, Field(pattern=r"^https?://[^/@]+(/.*)?$"), AfterValidator(_one_line)]


class Slack(Model):
    """Messages to a Slack channel, by a bot with the scope `chat:write`. It needs the extra `slack`."""

    channel: _Line = Field(description="Name or id of the channel, such as `#lake`.")
    token: SecretStr = Field(description="The bot's token.")


class Email(Model):
    """Mails by an SMTP server."""

    to: tuple[_Line, ...] = Field(min_length=1, description="Addresses of the receivers.")
    sender: _Line = Field(alias="from", description="Address of the sender.")
    host: _Line = Field(description="The SMTP server.")
    port: int | None = Field(
        None, ge=1, le=65535, description="Its port; when absent, 465 or 587, depending on `security`."
    )
    security: Literal["ssl", "starttls"] = Field("starttls", description="TLS from the start, or after STARTTLS.")
    user: _Line | None = Field(None, description="The user that logs in; the sender when absent.")
    password: SecretStr = Field(description="The user's password.")


class Teams(Model):
    """Messages to a channel of Microsoft Teams, by the webhook of a workflow. It needs the extra `teams`."""

    url: SecretStr = Field(description="URL of the webhook, which is a secret.")

    @field_validator("url")
    @classmethod
    def _is_of_a_web_server(cls, url: SecretStr) -> SecretStr:
        text = url.get_secret_value()
        if not text.startswith(("https://", "http://", TEMPLATE)):
            raise ValueError("is not the URL of a web server: begin it with https:// or http://")
        if not (text.isascii() and text.isprintable()):
            raise ValueError("has a line break, or a character outside ASCII: remove it")
        return url


class Alerts(Model):
    """Alarms of Dagster's runs and of the landing zones, and where they are sent."""

    stale_hours: Age = Field(
        6, description="Age of a landed object that is not in the lake, above which its stream counts as stale."
    )
    interval: int = Field(300, ge=30, le=86400, description="Seconds between two looks at the landing zones.")
    lookback: int | None = Field(
        None,
        ge=0,
        le=100_000,
        description="Number of partitions before the current one that are listed; all when absent.",
    )
    slack: Slack | None = Field(None, description="Sends them to a Slack channel.")
    email: Email | None = Field(None, description="Sends them by mail.")
    teams: Teams | None = Field(None, description="Sends them to a channel of Microsoft Teams.")
    failed_runs: bool = Field(
        True, description="Send failed runs, of all of the code location; false where another section `alerts` does it."
    )
    ui_url: Url | None = Field(None, description="URL of Dagster's web server, for links to runs.")
    name: Identifier = Field("alerts", description="First part of the names of the sensors in Dagster.")
    status: FirstStatus = Field(
        "running", description="State when Dagster first loads the sensors; the UI can change it."
    )

    @model_validator(mode="after")
    def _has_a_receiver(self) -> Self:
        if not (self.slack or self.email or self.teams):
            raise ValueError("alerts have no receiver: give slack, email or teams")
        return self
