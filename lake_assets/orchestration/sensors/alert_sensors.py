"""Dagster's sensors of alerts: each receiver gets failed runs, and a stale stream lets a run fail.

The sensors are those of Dagster and of its integrations; what they say is said here.
"""

import datetime as dt
import html
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg

from lake_assets.base.errors import LakeAssetsError, MissingExtraError, install
from lake_assets.base.texts import count, several, visible, visible_name
from lake_assets.config.automation import Alerts, Email, Slack, Teams
from lake_assets.orchestration.assets.landing_asset import recent_partitions
from lake_assets.orchestration.partition_keys import PARTITION, RANGE_END, RANGE_START
from lake_assets.streams.detection.cursor import packed, time_of, unpacked
from lake_assets.streams.pending import Lag, lag_of
from lake_assets.streams.stream import OpenStream

AlertKind = Literal["stale", "not_refreshed", "unreadable"]
Context = dg.RunFailureSensorContext

FAILURE_TEXT = 2_000  # characters of a run's errors
TEAMS_SECONDS = 20.0  # until a request without an answer fails; a tick has a minute
NAMED = 5  # stale partitions in a text
BUDGET_SECONDS = 20.0  # of one tick; the next one goes on
_STREAM, _KIND = "lake_assets/stream", "lake_assets/alert"  # tags of a run that fails for a stream
_OP = "alert"


def alert_sensors(alerts: Alerts | None, streams: Sequence[OpenStream]) -> list[dg.SensorDefinition]:
    """Return the sensors of the config; none without `alerts`."""
    if alerts is None:
        return []
    sensors = [_stale_sensor(alerts, streams)]
    if not alerts.failed_runs:
        return sensors
    if alerts.slack is not None:
        sensors.append(_slack_sensor(alerts, alerts.slack))
    if alerts.email is not None:
        sensors.append(_mail_sensor(alerts, alerts.email))
    if alerts.teams is not None:
        sensors.append(_teams_sensor(alerts, alerts.teams))
    return sensors


# Failed runs


def _common(alerts: Alerts, receiver: str) -> dict[str, Any]:
    return {
        "name": f"{alerts.name}_failed_runs_to_{receiver}",
        "default_status": dg.DefaultSensorStatus(alerts.status.upper()),
    }


def _slack_sensor(alerts: Alerts, slack: Slack) -> dg.SensorDefinition:
    try:
        from dagster_slack import make_slack_on_run_failure_sensor  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("alerts.slack needs dagster-slack:", f"{install('slack')}.") from error

    def text(context: Context) -> str:
        failed = FailedRun.of(context)
        return f"*{_slack_text(visible_name(failed.title))}*\n{_slack_text(visible(failed.text))}"

    sensor: dg.SensorDefinition = make_slack_on_run_failure_sensor(
        slack.channel,
        slack.token.get_secret_value(),
        text_fn=text,
        blocks_fn=lambda context: [{"type": "section", "text": {"type": "mrkdwn", "text": text(context)}}],
        webserver_base_url=_base(alerts),
        **_common(alerts, "slack"),
    )
    return sensor


def _slack_text(text: str) -> str:
    """Return a text without marks of mentions and links, so that no text of others notifies a channel."""
    return html.escape(text, quote=False)


def _mail_sensor(alerts: Alerts, email: Email) -> dg.SensorDefinition:
    return dg.make_email_on_run_failure_sensor(
        email_from=email.sender,
        email_password=email.password.get_secret_value(),
        email_to=email.to,
        email_body_fn=lambda context: _mail_body(FailedRun.of(context)),
        email_subject_fn=lambda context: _mail_subject(FailedRun.of(context)),
        smtp_host=email.host,
        smtp_type=email.security.upper(),
        smtp_port=email.port,
        smtp_user=email.user,
        webserver_base_url=_base(alerts),
        **_common(alerts, "email"),
    )


def _mail_subject(failed: "FailedRun") -> str:
    return visible_name(failed.title).encode("ascii", "backslashreplace").decode()


def _mail_body(failed: "FailedRun") -> str:
    """Return the body as HTML: ASCII, with references for all other characters."""
    shown = f"<p>{html.escape(visible_name(failed.title))}</p><pre>{html.escape(visible(failed.text))}</pre>"
    return shown.encode("ascii", "xmlcharrefreplace").decode()


def _teams_sensor(alerts: Alerts, teams: Teams) -> dg.SensorDefinition:
    try:
        from dagster_msteams import make_teams_on_run_failure_sensor  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("alerts.teams needs dagster-msteams:", f"{install('teams')}.") from error

    def text(context: Context) -> str:
        failed = FailedRun.of(context)
        return _teams_text(f"**{visible_name(failed.title)}**\n{visible(failed.text)}")

    sensor: dg.SensorDefinition = make_teams_on_run_failure_sensor(
        teams.url.get_secret_value(),
        message_fn=text,
        timeout=TEAMS_SECONDS,
        webserver_base_url=_base(alerts),
        **_common(alerts, "teams"),
    )
    return sensor


def _teams_text(text: str) -> str:
    """Return a text in Markdown that keeps its lines, and of whose words Teams makes no links."""
    return text.replace("](", "] (").replace("\n", "\n\n")


def _base(alerts: Alerts) -> str | None:
    return None if alerts.ui_url is None else alerts.ui_url.rstrip("/")


@dataclass(frozen=True, slots=True)
class FailedRun:
    """What an alert says of a failed run: a line, and what is wrong and what to do."""

    title: str
    text: str

    @classmethod
    def of(cls, context: Context) -> "FailedRun":
        """Return it for the run of a sensor of failed runs."""
        run = context.dagster_run
        texts = [_step_text(event) for event in context.get_step_failure_events()] or [
            context.failure_event.message or ""
        ]
        text = "\n".join(dict.fromkeys(texts))
        text = text if len(text) <= FAILURE_TEXT else f"{text[:FAILURE_TEXT]}…"
        if _KIND in run.tags:
            title, _, text = text.partition("\n")
            return cls(title, text)
        first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
        partition = run.tags.get(PARTITION) or (f"{first}...{last}" if first else None)
        assets = sorted("/".join(key.path) for key in run.asset_selection or ())
        subject = several(assets) if assets else f"the job {run.job_name}"
        return cls(f"A run of {subject} failed{f' for {partition}' if partition else ''}", text)


def _step_text(event: dg.DagsterEvent) -> str:
    """Return the text of a step's failure: ours, or the last line of its error."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    return data.error.message.strip() if data.error is not None else event.message or ""


# Stale streams


@dg.op(name=_OP, config_schema={"text": str})
def _alert_op(context: dg.OpExecutionContext) -> None:
    raise dg.Failure(context.op_config["text"], allow_retries=False)


def _stale_sensor(alerts: Alerts, streams: Sequence[OpenStream]) -> dg.SensorDefinition:
    """Return the sensor `<name>_stale_streams`, whose job of that name fails once when a stream begins to be stale.

    So all receivers of failed runs get it. The cursor has what is wrong with each stream.
    """
    name = f"{alerts.name}_stale_streams"

    @dg.job(name=name, description="Fails for a stream that is stale, so that the receivers of failed runs get it.")
    def job() -> None:
        _alert_op()

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=alerts.interval,
        default_status=dg.DefaultSensorStatus(alerts.status.upper()),
        description="Sends an alert when landed objects, or refreshes, are older than the config allows.",
    )
    def stale(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor, runs, until = _Cursor.of(context.cursor), list[dg.RunRequest](), time.monotonic() + BUDGET_SECONDS
        for stream in cursor.in_turn(streams):
            if time.monotonic() > until:
                cursor.next = stream.name
                break
            kind, text = _problem(alerts, stream, context.instance, cursor) or (None, "")
            before = cursor.wrong.pop(stream.name, None)
            if kind is None:
                continue
            cursor.wrong[stream.name] = kind
            if before != kind:
                tags = {_STREAM: stream.name, _KIND: kind, "dagster/max_retries": "0"}
                config: dict[str, object] = {"ops": {_OP: {"config": {"text": text}}}}
                runs.append(dg.RunRequest(run_config=config, tags=tags))
        cursor.wrong = {stream.name: cursor.wrong[stream.name] for stream in streams if stream.name in cursor.wrong}
        listed = ", ".join(f"{stream}: {kind}" for stream, kind in cursor.wrong.items())
        context.log.info(reason := f"{count(len(streams), 'stream')}; {listed or 'all are on time'}")
        return dg.SensorResult(run_requests=runs, skip_reason=None if runs else reason, cursor=cursor.text)

    return stale


class _Cursor:
    """What is wrong with each stream, and since when streams have pending partitions of unknown age.

    `next` is the stream that the next tick begins with, where the time of this one ended.
    """

    def __init__(self, wrong: dict[str, str], undated: dict[str, str], begin: str = "") -> None:
        self.wrong = wrong
        self.undated = undated
        self._begin, self.next = begin, ""

    def in_turn(self, streams: Sequence[OpenStream]) -> Sequence[OpenStream]:
        """Return the streams, from the one on that the tick before had no time for."""
        begin = next((number for number, stream in enumerate(streams) if stream.name == self._begin), 0)
        return [*streams[begin:], *streams[:begin]]

    @classmethod
    def of(cls, text: str | None) -> "_Cursor":
        """Return the cursor of a text; a new one if it cannot be read, so that each alert is sent again."""
        return unpacked(text, cls._read) or cls({}, {})

    @classmethod
    def _read(cls, state: Mapping[str, Any]) -> "_Cursor":
        return cls(
            dict(state["wrong"]),
            {stream: first for stream, first in state["undated"].items() if time_of(first)},
            state.get("next", ""),
        )

    @property
    def text(self) -> str:
        return packed({"wrong": self.wrong, "undated": self.undated, "next": self.next})

    def since(self, lag: Lag) -> dt.datetime | None:
        """Since when the stream lags; of pending partitions without a date, since they were first seen."""
        if not lag.undated:
            self.undated.pop(lag.stream, None)
            return lag.since
        first = dt.datetime.fromisoformat(self.undated.setdefault(lag.stream, lag.read_at.isoformat()))
        return first if lag.since is None else min(first, lag.since)


def _problem(
    alerts: Alerts, stream: OpenStream, instance: dg.DagsterInstance, cursor: _Cursor
) -> tuple[AlertKind, str] | None:
    """Return what is wrong with a stream, with a text whose first line is a title; None if nothing is."""
    name = stream.name
    try:
        lag = lag_of(stream, recent_partitions(stream, instance, alerts.lookback))
    except LakeAssetsError as error:
        return "unreadable", f"The landing zone or the lake of {name} cannot be read\n{error}"
    since = cursor.since(lag)
    hours = 0.0 if since is None else (lag.read_at - since).total_seconds() / 3600
    if hours > alerts.stale_hours:
        partitions = several([visible_name(str(partition)) for partition in lag.pending], NAMED)
        return "stale", (
            f"{name} is stale: landed objects have not been in the lake for {hours:.1f} hours\n"
            f"{count(len(lag.pending), 'partition')} of {name} with landed objects that are not in the lake, the "
            f"oldest for {hours:.1f} hours: {partitions}.\n"
            f"Look at the runs of {name} and its schedule or sensor, or run `lake-assets report {name}`."
        )
    freshness, newest = stream.config.freshness, lag.newest_commit
    limit = None if freshness is None else freshness.fail_hours
    age = 0.0 if newest is None else (lag.read_at - newest).total_seconds() / 3600
    if limit is not None and age > limit:
        return "not_refreshed", (
            f"{name} has had nothing new for {age:.1f} hours\n"
            f"The newest commit of {name} is {age:.1f} hours old, and freshness.fail_hours is "
            f"{limit:g}. All that has landed is in the lake: look at what writes the landing zone."
        )
    return None
