"""The document of `metrics`: an array of values."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lake_assets.cli.documents.base import Documented

if TYPE_CHECKING:
    from lake_assets.telemetry.gauges import Value


@dataclass(frozen=True, slots=True)
class MetricValue(Documented):
    """One value of a metric."""

    metric: str
    """Its name in OpenTelemetry, such as `lake_assets.lag`."""
    stream: str | None
    """The stream that it describes; null for a value of a lake."""
    lake: str | None
    """The lake that it describes; null for a value of a stream."""
    state: Literal["committed", "held", "stale", "failed", "missing", "absent", "outside"] | None
    """Of the counted partitions, in `lake_assets.states`; otherwise null."""
    value: float
    """In the metric's unit: seconds, bytes, or a number of things."""

    @classmethod
    def of(cls, value: "Value") -> "MetricValue":
        """The value as the document has it."""
        unset: dict[str, Any] = {"stream": None, "lake": None, "state": None}
        return cls(metric=value.metric, value=value.value, **(unset | dict(value.attributes)))
