"""What this process exports: metrics and traces by OpenTelemetry, lineage by OpenLineage, as their own variables say.

The exports are a wing, `telemetry`. It is imported only if the environment names a receiver, so nothing here needs it.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lake_assets.base.errors import MissingExtraError, install
from lake_assets.base.events import listening

if TYPE_CHECKING:
    from lake_assets.streams.stream import OpenStream
    from lake_assets.upkeep.report.metrics import MetricValue
    from lake_assets.wings.telemetry.exported import Exported

_LOG = logging.getLogger(__name__)
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)

_running: list["Exported"] = []


def wants_telemetry(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names a receiver of OpenTelemetry, and does not disable the export."""
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_disabled and any(environment.get(name) for name in _ENDPOINTS)


def wants_lineage(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names OpenLineage's receiver or config, and does not disable its client."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = any(environment.get(name) for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"))
    return named or any(name.startswith("OPENLINEAGE__") for name in environment)


@contextmanager
def telemetry() -> Iterator[None]:
    """Export the metrics and traces of the block, if the environment says so; otherwise it costs nothing.

    All is exported when the block ends. Within another such block it does nothing.
    """
    if _running or not wants_telemetry():
        yield
        return
    try:
        from lake_assets.wings.telemetry.exported import exported_by_otlp  # noqa: PLC0415 - a wing
    except ImportError:
        _LOG.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra is not installed: %s.", install("otel"))
        yield
        return
    exported = exported_by_otlp()
    _running.append(exported)
    try:
        with listening(exported.on_event):
            yield
    finally:
        _running.remove(exported)
        exported.stop()


def set_gauges(values: Iterable["MetricValue"]) -> None:
    """Set gauges of this process' metrics; without an export, nothing happens."""
    for exported in _running:
        exported.set(values)


@contextmanager
def lineage(stream: "OpenStream", run: tuple[str, str] | None = None) -> Iterator[None]:
    """Send the lineage of the stream's partitions that end within the block, if the environment says so.

    The driver of a launched run sends none: its launcher has the same events. `run` is the id of Dagster's run and the
    name of its job; None outside Dagster.
    """
    if not wants_lineage():
        yield
        return
    try:
        from lake_assets.wings.telemetry.lineage import sent_lineage  # noqa: PLC0415 - a wing
    except ImportError as error:
        raise MissingExtraError(
            "the environment configures OpenLineage, but its package is not installed:",
            f"{install('openlineage')}, or set OPENLINEAGE_DISABLED=true.",
        ) from error
    with sent_lineage(stream, run):
        yield
