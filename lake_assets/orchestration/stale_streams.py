"""Dagster's sensor of stale streams: objects that landed and are not ingested, and refreshes that do not come."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lake_assets.config.alerts import Alerts
from lake_assets.detection.packing import packed, time_of, unpacked
from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.layout.texts import count, several
from lake_assets.orchestration.alert_receivers import Alert, NotSentError, receivers
from lake_assets.orchestration.landing_zone import recent_partitions
from lake_assets.streams.pending import Lag, lag_of
from lake_assets.streams.stream import OpenStream

NAMED = 5  # partitions in a text

_Status = dg.DefaultSensorStatus


@dataclass(frozen=True, slots=True)
class _Finding:
    """What is wrong with a stream; `kind` is empty if nothing is."""

    kind: str
    alert: Alert


def stale_sensor(alerts: Alerts, streams: Sequence[OpenStream]) -> dg.SensorDefinition:
    """The sensor `<name>_stale_streams`: it tells each receiver once that a stream is stale, and once that it is over.

    Its cursor has what each receiver knows. A receiver that cannot be reached is tried again at the next tick.
    """
    sends = receivers(alerts)

    @dg.sensor(
        name=f"{alerts.name}_stale_streams",
        minimum_interval_seconds=alerts.interval,
        default_status=_Status.RUNNING if alerts.status == "running" else _Status.STOPPED,
        description="Tells when landed objects, or refreshes, are older than the config allows.",
    )
    def stale(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = _Cursor.of(context.cursor)
        findings = {stream.name: _finding(alerts, stream, context.instance, cursor) for stream in streams}
        problems = _tell(sends, findings, cursor)
        for problem in problems:
            context.log.error(problem)
        wrong = [f"{name}: {finding.kind}" for name, finding in findings.items() if finding.kind]
        reason = f"{count(len(streams), 'stream')}; {', '.join(wrong) or 'all are in time'}"
        return dg.SensorResult(skip_reason="\n".join([reason, *problems]), cursor=cursor.text)

    return stale


class _Cursor:
    """What each receiver knows of each stream, and since when streams have pending partitions of unknown age."""

    def __init__(self, told: dict[str, dict[str, str]], undated: dict[str, str]) -> None:
        self.told = told
        self.undated = undated

    @classmethod
    def of(cls, text: str | None) -> "_Cursor":
        """Return the cursor of a text; a new one if it cannot be read, so that each receiver gets its reports again."""
        return unpacked(text, cls._read) or cls({}, {})

    @classmethod
    def _read(cls, state: Mapping[str, Any]) -> "_Cursor":
        told = {receiver: dict(known) for receiver, known in state["told"].items()}
        return cls(told, {stream: first for stream, first in state["undated"].items() if time_of(first)})

    @property
    def text(self) -> str:
        return packed({"told": self.told, "undated": self.undated})

    def since(self, lag: Lag) -> dt.datetime | None:
        """Since when the stream lags; of pending partitions without a date, since they were first seen."""
        if not lag.undated:
            self.undated.pop(lag.stream, None)
            return lag.since
        first = dt.datetime.fromisoformat(self.undated.setdefault(lag.stream, lag.read_at.isoformat()))
        return first if lag.since is None else min(first, lag.since)


def _finding(alerts: Alerts, stream: OpenStream, instance: dg.DagsterInstance, cursor: _Cursor) -> _Finding:
    name = stream.name
    try:
        lag = lag_of(stream, recent_partitions(stream, instance, alerts.lookback))
    except LakeAssetsError as error:
        title = f"The landing zone or the lake of {name} cannot be read"
        return _Finding("unreadable", Alert(kind="unreadable", title=title, text=str(error), stream=name))
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
        return _Finding("stale", Alert(kind="stale", title=title, text=text, stream=name))
    freshness, newest = stream.config.freshness, lag.newest_commit
    if freshness is not None and newest is not None:
        age = (lag.read_at - newest).total_seconds() / 3600
        if age > freshness.fail_hours:
            text = (
                f"The newest commit of {name} is {age:.1f} hours old, and freshness.fail_hours is "
                f"{freshness.fail_hours:g}. All that has landed is in the lake: look at what writes the landing zone."
            )
            title = f"{name} has had nothing new for {age:.1f} hours"
            return _Finding("not_refreshed", Alert(kind="not_refreshed", title=title, text=text, stream=name))
    over = Alert(kind="recovered", title=f"{name} is in time again", text="Nothing is to be done.", stream=name)
    return _Finding("", over)


def _tell(sends: Mapping[str, Callable[[Alert], None]], findings: Mapping[str, _Finding], cursor: _Cursor) -> list[str]:
    """Send each finding that a receiver does not know yet; returns the errors."""
    problems: dict[str, str] = {}
    for receiver, send in sends.items():
        known = cursor.told.setdefault(receiver, {})
        for stream, finding in findings.items():
            if known.get(stream, "") == finding.kind or receiver in problems:
                continue
            try:
                send(finding.alert)
            except NotSentError as error:
                problems[receiver] = str(error)
            else:
                known[stream] = finding.kind
    return list(problems.values())
