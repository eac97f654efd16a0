"""The section `alerts` of the config: the receivers of failed runs, and of objects that are not ingested."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from lake_assets.config.fields import TEMPLATE, Identifier
from lake_assets.config.model import Model
from lake_assets.config.schedules import Age, Status


def _one_line(text: str) -> str:
    # It is a line of an HTTP request or of a mail's head.
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"{text!r} has a line break, or a character outside ASCII: remove it")
    return text


Line = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
Url = Annotated[str, Field(pattern=r"^https?://[^/@]+(/.*)?$"), AfterValidator(_one_line)]


class Slack(Model):
    """Messages to a Slack channel, by a bot with the scope `chat:write`. It needs the extra `slack`."""

    channel: Line = Field(description="Name or id of the channel, such as `#lake`.")
    token: SecretStr = Field(description="The bot's token.")


class Email(Model):
    """Mails by an SMTP server."""

    to: tuple[Line, ...] = Field(min_length=1, description="Addresses of the receivers.")
    sender: Line = Field(alias="from", description="Address of the sender.")
    host: Line = Field(description="The SMTP server.")
    port: int | None = Field(
        None, ge=1, le=65535, description="Its port; when absent, 465 or 587, depending on `security`."
    )
    security: Literal["ssl", "starttls"] = Field("starttls", description="TLS from the start, or after STARTTLS.")
    user: Line | None = Field(None, description="The user that logs in; the sender when absent.")
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
        True,
        description="Send failed runs, of all of the code location; false where another section `alerts` does it.",
    )
    ui_url: Url | None = Field(None, description="URL of Dagster's web server, for links to runs.")
    name: Identifier = Field("alerts", description="First part of the names of the sensors in Dagster.")
    status: Status = Field("running", description="State when Dagster first loads the sensors; the UI can change it.")

    @model_validator(mode="after")
    def _has_a_receiver(self) -> Self:
        if not (self.slack or self.email or self.teams):
            raise ValueError("alerts have no receiver: give slack, email or teams")
        return self
