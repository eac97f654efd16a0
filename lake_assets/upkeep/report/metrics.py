"""The table of all metrics, and the gauges of a config, such as the lag of each stream and the size of each catalog."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from lake_assets.base.events import counted
from lake_assets.base.json_dataclasses import Documented
from lake_assets.config.models import LakeConfig
from lake_assets.lake.catalog.files import snapshot_count, table_files
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.read import last_runs
from lake_assets.streams.pending import LandingScan, lag_by
from lake_assets.streams.stream import OpenStream, list_landed, open_streams
from lake_assets.upkeep.report.state import State, state_by

InstrumentType = Literal["counter", "histogram", "gauge"]

_UNITS = {"s": "seconds", "By": "bytes"}  # as Prometheus writes them; {…} is left out


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric."""

    name: str  # in OpenTelemetry
    type: InstrumentType  # counters and histograms are of runs, gauges of lakes and landing zones
    unit: str  # as OpenTelemetry writes it: `s`, `By`, or a word in braces
    attributes: tuple[str, ...]  # the names of its attributes, some of which a value may lack
    meaning: str  # one sentence

    @property
    def prometheus(self) -> str:
        """Its name in Prometheus, by the translation of OTLP: dots are underscores, and unit and `total` are added."""
        name, unit = self.name.replace(".", "_"), _UNITS.get(self.unit, "")
        suffixes = ([unit] if unit and not name.endswith(f"_{unit}") else []) + (["total"] * (self.type == "counter"))
        return "_".join([name, *suffixes])


_TABLE = (
    Instrument("lake_assets.runs", "counter", "{run}", ("stream", "mode", "status"), "Ingests that ended."),
    Instrument(
        "lake_assets.partitions", "counter", "{partition}", ("stream", "mode", "status"), "Partitions that ended."
    ),
    Instrument("lake_assets.rows", "counter", "{row}", ("stream", "mode"), "Rows that commits wrote."),
    Instrument("lake_assets.bytes", "counter", "By", ("stream", "mode"), "Bytes of files that commits wrote."),
    Instrument(
        "lake_assets.failures", "counter", "{partition}", ("stream", "kind"), "Failed partitions, by the error's class."
    ),
    Instrument(
        "lake_assets.retries",
        "counter",
        "{retry}",
        ("stream", "kind"),
        "Repeated writes, Spark jobs and tasks, by kind: conflict, locked, task, or the error's class.",
    ),
    Instrument(
        "lake_assets.step.duration", "histogram", "s", ("stream", "lake", "step", "status"), "Seconds of each step."
    ),
    Instrument(
        "lake_assets.lag",
        "gauge",
        "s",
        ("stream",),
        "Age of the oldest object that landed after the last commit of its partition; 0 if there is none.",
    ),
    Instrument(
        "lake_assets.pending",
        "gauge",
        "{partition}",
        ("stream",),
        "Partitions with landed objects that are not in the lake.",
    ),
    Instrument("lake_assets.states", "gauge", "{partition}", ("stream", "state"), "Partitions in each state."),
    Instrument("lake_assets.unmatched", "gauge", "{object}", ("stream",), "Landed objects that are in no partition."),
    Instrument("lake_assets.files", "gauge", "{file}", ("stream",), "Data files of the table."),
    Instrument(
        "lake_assets.partition.files", "gauge", "{file}", ("stream",), "Data files of the partition that has most."
    ),
    Instrument("lake_assets.snapshots", "gauge", "{snapshot}", ("lake",), "Snapshots that have not expired."),
    Instrument("lake_assets.catalog.size", "gauge", "By", ("lake",), "Bytes of the catalog in its database."),
)

INSTRUMENTS: Mapping[str, Instrument] = MappingProxyType({instrument.name: instrument for instrument in _TABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue(Documented):
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
        kinds = {"stream": self.stream, "lake": self.lake, "state": self.state}
        return {name: text for name, text in kinds.items() if text is not None}


def gauges(config: LakeConfig, now: dt.datetime | None = None) -> Iterator[MetricValue]:
    """Yield all gauges, by one listing of each landing zone and one query of each ledger.

    Ages are counted from `now`, with a time zone; the present when None.
    """
    now = now or dt.datetime.now(dt.UTC)
    streams = open_streams(config).values()
    for stream in counted(streams, "metrics", "streams", len(streams)):
        yield from _gauges_of_stream(stream, now)
    for name, lake in counted(config.lakes.items(), "metrics", "lakes", len(config.lakes)):
        if lake.is_managed:
            continue  # MotherDuck's own
        with DuckLake(lake).open_if_exists() as session:
            if session is not None:
                yield MetricValue(metric="lake_assets.snapshots", lake=name, value=snapshot_count(session))
                if (size := session.backend.size()) is not None:
                    yield MetricValue(metric="lake_assets.catalog.size", lake=name, value=size)


def _gauges_of_stream(stream: OpenStream, now: dt.datetime) -> Iterator[MetricValue]:
    value = partial(MetricValue, stream=stream.name)
    with stream.lake.open_if_exists() as lake:
        runs = {} if lake is None else last_runs(lake, stream.table)
        if lake is not None and not stream.lake_config.is_managed:
            figures = table_files(lake, stream.table, len(stream.config.partition_columns))
            yield value(metric="lake_assets.files", value=figures.files)
            yield value(metric="lake_assets.partition.files", value=figures.most)
    ledger = stream.config.by_partition(runs)
    landed, left_out = list_landed(stream, ledger, now)
    scan = LandingScan(stream, landed, runs, left_out)
    lag = lag_by(scan, now)
    yield value(metric="lake_assets.lag", value=lag.seconds)
    yield value(metric="lake_assets.pending", value=len(lag.pending))
    yield value(metric="lake_assets.unmatched", value=len(left_out.unmatched))
    for state, number in state_by(scan, now).counts.items():
        yield value(metric="lake_assets.states", state=state, value=number)


def prometheus_text(values: Iterable[MetricValue]) -> str:
    """Return the values in Prometheus' text format, as the node exporter's textfile collector reads it."""
    by_metric: dict[str, list[MetricValue]] = {}
    for value in values:
        by_metric.setdefault(value.metric, []).append(value)
    lines = []
    for metric, of_metric in by_metric.items():
        instrument = INSTRUMENTS[metric]
        lines.append(f"# HELP {instrument.prometheus} {instrument.meaning}")
        lines.append(f"# TYPE {instrument.prometheus} {instrument.type}")
        for value in of_metric:
            # Names of streams, lakes and states are identifiers.
            labels = ",".join(f'{name}="{text}"' for name, text in value.attributes.items())
            lines.append(f"{instrument.prometheus}{{{labels}}} {value.value!r}")
    return "".join(f"{line}\n" for line in lines)
