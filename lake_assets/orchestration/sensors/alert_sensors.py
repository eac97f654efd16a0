"""Dagster's sensors of alerts: one for each receiver sends failed runs, and one finds stale streams."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from lake_assets.config.alerts import Alerts
from lake_assets.detection.packing import packed, time_of, unpacked
from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.layout.texts import count, several
from lake_assets.orchestration.assets.landing_asset import recent_partitions
from lake_assets.orchestration.dagster_private import OWN_JOB, PARTITION, RANGE_END, RANGE_START
from lake_assets.orchestration.sensors.alert_receivers import Alert, NotSentError, receivers
from lake_assets.streams.pending import Lag, lag_of
from lake_assets.streams.stream import OpenStream

FAILURE_TEXT = 2_000  # characters of a run's errors
NAMED = 5  # stale partitions in a text

Send = Callable[[Alert], None]
"""Sends an alert to one receiver, or raises `NotSentError`."""


def alert_sensors(alerts: Alerts | None, streams: Sequence[OpenStream]) -> list[dg.SensorDefinition]:
    """Return the sensors of the config; none without `alerts`."""
    if alerts is None:
        return []
    senders = receivers(alerts)
    of_runs = senders.items() if alerts.failed_runs else ()
    return [*(_failure_sensor(alerts, name, send) for name, send in of_runs), _stale_sensor(alerts, senders, streams)]


def _failure_sensor(alerts: Alerts, receiver: str, send: Send) -> dg.SensorDefinition:
    places = {"slack": "channel", "email": "addresses", "webhook": "web server"}

    @dg.run_failure_sensor(
        name=f"{alerts.name}_failed_runs_to_{receiver}",
        description=f"Sends failed runs to the {places[receiver]} of `alerts.{receiver}`.",
        default_status=dg.DefaultSensorStatus(alerts.status.upper()),
    )
    def failed_runs(context: dg.RunFailureSensorContext) -> None:
        try:
            send(_failed_run(alerts, context))
        except NotSentError as error:
            raise error.with_traceback(None) from None

    sensor: dg.SensorDefinition = failed_runs
    return sensor


def _failed_run(alerts: Alerts, context: dg.RunFailureSensorContext) -> Alert:
    run = context.dagster_run
    assets = tuple(sorted("/".join(key.path) for key in run.asset_selection or ()))
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    partition = run.tags.get(PARTITION) or (f"{first}...{last}" if first else None)
    what = several(assets) if assets else f"the job {run.job_name}"
    texts = [_step_text(event) for event in context.get_step_failure_events()] or [context.failure_event.message or ""]
    shown = "\n".join(dict.fromkeys(texts))
    return Alert(
        kind="run_failed",
        title=f"A run of {what} failed{f' for {partition}' if partition else ''}",
        text=shown if len(shown) <= FAILURE_TEXT else f"{shown[:FAILURE_TEXT]}…",
        job=None if run.job_name == OWN_JOB else run.job_name,
        run=run.run_id,
        assets=assets,
        partition=partition,
        url=None if alerts.ui_url is None else f"{alerts.ui_url.rstrip('/')}/runs/{run.run_id}",
    )


def _step_text(event: dg.DagsterEvent) -> str:
    """Return the text of a step's failure: ours, or the last line of its error."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    return data.error.message.strip() if data.error is not None else event.message or ""


def _stale_sensor(alerts: Alerts, senders: Mapping[str, Send], streams: Sequence[OpenStream]) -> dg.SensorDefinition:
    """Return the sensor `<name>_stale_streams`: each receiver gets one alert of a stale stream, and one of its end.

    Its cursor has what each receiver got. A receiver that cannot be reached is tried again at the next tick.
    """

    @dg.sensor(
        name=f"{alerts.name}_stale_streams",
        minimum_interval_seconds=alerts.interval,
        default_status=dg.DefaultSensorStatus(alerts.status.upper()),
        description="Sends an alert when landed objects, or refreshes, are older than the config allows.",
    )
    def stale(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = _Cursor.of(context.cursor)
        by_stream = {stream.name: _alert(alerts, stream, context.instance, cursor) for stream in streams}
        problems = _send(senders, by_stream, cursor)
        for problem in problems:
            context.log.error(problem)
        wrong = [f"{name}: {alert.kind}" for name, alert in by_stream.items() if alert.kind != "recovered"]
        reason = f"{count(len(streams), 'stream')}; {', '.join(wrong) or 'all are on time'}"
        return dg.SensorResult(skip_reason="\n".join([reason, *problems]), cursor=cursor.text)

    return stale


class _Cursor:
    """What was sent to each receiver of each stream, and since when streams have pending partitions of unknown age."""

    def __init__(self, sent: dict[str, dict[str, str]], undated: dict[str, str]) -> None:
        self.sent = sent
        self.undated = undated

    @classmethod
    def of(cls, text: str | None) -> "_Cursor":
        """Return the cursor of a text; a new one if it cannot be read, so that each receiver gets its alerts again."""
        return unpacked(text, cls._read) or cls({}, {})

    @classmethod
    def _read(cls, state: Mapping[str, Any]) -> "_Cursor":
        # "told" is the name in the cursors of earlier versions.
        sent = {receiver: dict(kinds) for receiver, kinds in state["told"].items()}
        return cls(sent, {stream: first for stream, first in state["undated"].items() if time_of(first)})

    @property
    def text(self) -> str:
        return packed({"told": self.sent, "undated": self.undated})

    def since(self, lag: Lag) -> dt.datetime | None:
        """Since when the stream lags; of pending partitions without a date, since they were first seen."""
        if not lag.undated:
            self.undated.pop(lag.stream, None)
            return lag.since
        first = dt.datetime.fromisoformat(self.undated.setdefault(lag.stream, lag.read_at.isoformat()))
        return first if lag.since is None else min(first, lag.since)


def _alert(alerts: Alerts, stream: OpenStream, instance: dg.DagsterInstance, cursor: _Cursor) -> Alert:
    """Return what is wrong with a stream; `recovered` if nothing is."""
    name = stream.name
    try:
        lag = lag_of(stream, recent_partitions(stream, instance, alerts.lookback))
    except LakeAssetsError as error:
        title = f"The landing zone or the lake of {name} cannot be read"
        return Alert(kind="unreadable", title=title, text=str(error), stream=name)
    since = cursor.since(lag)
    hours = 0.0 if since is None else (lag.read_at - since).total_seconds() / 3600
    if hours > alerts.stale_hours:
        partitions = several([visible_name(str(partition)) for partition in lag.pending], NAMED)
        text = (
            f"{count(len(lag.pending), 'partition')} of {name} with landed objects that are not in the lake, the "
            f"oldest for {hours:.1f} hours: {partitions}.\n"
            f"Look at the runs of {name} and its schedule or sensor, or run `lake-assets report {name}`."
        )
        title = f"{name} is stale: landed objects have not been in the lake for {hours:.1f} hours"
        return Alert(kind="stale", title=title, text=text, stream=name)
    freshness, newest = stream.config.freshness, lag.newest_commit
    limit = None if freshness is None else freshness.fail_hours
    age = 0.0 if newest is None else (lag.read_at - newest).total_seconds() / 3600
    if limit is not None and age > limit:
        text = (
            f"The newest commit of {name} is {age:.1f} hours old, and freshness.fail_hours is "
            f"{limit:g}. All that has landed is in the lake: look at what writes the landing zone."
        )
        title = f"{name} has had nothing new for {age:.1f} hours"
        return Alert(kind="not_refreshed", title=title, text=text, stream=name)
    return Alert(kind="recovered", title=f"{name} is on time again", text="There is nothing to do.", stream=name)


def _send(senders: Mapping[str, Send], by_stream: Mapping[str, Alert], cursor: _Cursor) -> list[str]:
    """Send each alert that a receiver did not get yet; returns the errors."""
    problems: dict[str, str] = {}
    for receiver, send in senders.items():
        sent = cursor.sent.setdefault(receiver, {})
        for stream, alert in by_stream.items():
            kind = "" if alert.kind == "recovered" else alert.kind
            if sent.get(stream, "") == kind or receiver in problems:
                continue
            try:
                send(alert)
            except NotSentError as error:
                problems[receiver] = str(error)
            else:
                sent[stream] = kind
    return list(problems.values())
