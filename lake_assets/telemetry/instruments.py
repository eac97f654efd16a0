"""The table of all metrics: their names, units, attributes and meanings."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Type = Literal["counter", "histogram", "gauge"]

_UNITS = {"s": "seconds", "By": "bytes"}  # as Prometheus writes them; {…} is left out


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric.

    Attributes:
        name: in OpenTelemetry.
        type: counters and histograms are of runs, gauges of lakes and landing zones.
        unit: as OpenTelemetry writes it: `s`, `By`, or a word in braces.
        attributes: the names of its attributes, some of which a value may lack.
        meaning: one sentence.
    """

    name: str
    type: Type
    unit: str
    attributes: tuple[str, ...]
    meaning: str

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
