"""Whether this process exports metrics and traces, by OpenTelemetry's own environment variables."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lake_assets.events import listening

if TYPE_CHECKING:
    from lake_assets.telemetry.exported import Exported
    from lake_assets.telemetry.gauges import Value

_LOG = logging.getLogger(__name__)
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)

_running: list["Exported"] = []


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names a receiver, and does not disable the export."""
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_disabled and any(environment.get(name) for name in _ENDPOINTS)


@contextmanager
def telemetry() -> Iterator[None]:
    """Export the metrics and traces of the block, if the environment says so; otherwise it costs nothing.

    All is exported when the block ends. Within another such block it does nothing.
    """
    if _running or not is_wanted():
        yield
        return
    try:
        from lake_assets.telemetry.exported import exported_by_otlp  # noqa: PLC0415 - an extra
    except ImportError:
        _LOG.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but not the extra: pip install 'lake-assets[otel]'")
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


def set_gauges(values: Iterable["Value"]) -> None:
    """Set gauges of this process' metrics; without an export, nothing happens."""
    for exported in _running:
        exported.set(values)
