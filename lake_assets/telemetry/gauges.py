"""The gauges of a config: lag and partitions of each stream, files of its table, size of each catalog."""

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from lake_assets.config.models import LakeConfig
from lake_assets.documented import Documented
from lake_assets.lake.catalog.figures import catalog_size, snapshots, table_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.read import last_runs
from lake_assets.progress import counted
from lake_assets.report.state import State, state_by
from lake_assets.streams.landing_zone import list_landed
from lake_assets.streams.pending import lag_by
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets.telemetry.instruments import INSTRUMENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Documented):
    """One value of a metric."""

    metric: str
    """Its name in OpenTelemetry, such as `lake_assets.lag`."""
    stream: str | None = None
    """The stream that it describes; null for a value of a lake."""
    lake: str | None = None
    """The lake that it describes; null for a value of a stream."""
    state: State | None = None
    """Of the counted partitions, in `lake_assets.states`; otherwise null."""
    value: float
    """In the metric's unit: seconds, bytes, or a number of things."""

    @property
    def attributes(self) -> dict[str, str]:
        """What it describes, by kind."""
        found = {"stream": self.stream, "lake": self.lake, "state": self.state}
        return {name: text for name, text in found.items() if text is not None}


def gauges(config: LakeConfig, now: dt.datetime | None = None) -> Iterator[Value]:
    """Yield all gauges, by one listing of each landing zone and one query of each ledger.

    Args:
        config: of the lakes and streams.
        now: the moment from which ages are counted, with a time zone; the present when None.

    Raises:
        LakeAssetsError: a landing zone cannot be listed, or a lake cannot be read.
    """
    now = now or dt.datetime.now(dt.UTC)
    streams = open_streams(config).values()
    for stream in counted(streams, "metrics", "streams", len(streams)):
        yield from _of_stream(stream, now)
    for name, lake in counted(config.lakes.items(), "metrics", "lakes", len(config.lakes)):
        if lake.is_managed:
            continue  # MotherDuck's own
        with DuckLake(lake).open_if_exists() as session:
            if session is not None:
                yield Value(metric="lake_assets.snapshots", lake=name, value=snapshots(session))
                if (size := catalog_size(session)) is not None:
                    yield Value(metric="lake_assets.catalog.size", lake=name, value=size)


def _of_stream(stream: OpenStream, now: dt.datetime) -> Iterator[Value]:
    value = partial(Value, stream=stream.name)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table)
        if lake is not None and not stream.lake_config.is_managed:
            found = table_files(lake, stream.table, len(stream.config.columns))
            yield value(metric="lake_assets.files", value=found.files)
            yield value(metric="lake_assets.partition.files", value=found.most)
    ledger = stream.config.by_partition(runs)
    landed, left_out = list_landed(stream, ledger, now)
    lag = lag_by(stream, landed, runs, now)
    yield value(metric="lake_assets.lag", value=lag.seconds)
    yield value(metric="lake_assets.pending", value=len(lag.pending))
    yield value(metric="lake_assets.unmatched", value=len(left_out.unmatched))
    for state, number in state_by(stream, ledger, landed, left_out, now).counts.items():
        yield value(metric="lake_assets.states", state=state, value=number)


def prometheus_text(values: Iterable[Value]) -> str:
    """Return the values in Prometheus' text format, as the node exporter's textfile collector reads it."""
    by_metric: dict[str, list[Value]] = {}
    for value in values:
        by_metric.setdefault(value.metric, []).append(value)
    lines = []
    for metric, found in by_metric.items():
        instrument = INSTRUMENTS[metric]
        lines.append(f"# HELP {instrument.prometheus} {instrument.meaning}")
        lines.append(f"# TYPE {instrument.prometheus} {instrument.type}")
        for value in found:
            # Names of streams, lakes and states are identifiers.
            labels = ",".join(f'{name}="{text}"' for name, text in value.attributes.items())
            lines.append(f"{instrument.prometheus}{{{labels}}} {value.value!r}")
    return "".join(f"{line}\n" for line in lines)
