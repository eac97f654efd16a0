"""The events of runs as metrics and spans of OpenTelemetry. Importing it needs the extra `otel`."""

import datetime as dt
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from lake_assets.base.events import Event
from lake_assets.upkeep.report.metrics import INSTRUMENTS, Instrument, MetricValue
from lake_assets.version import VERSION

SCOPE = "lake_assets"
FLUSH_SECONDS = 5.0  # the longest that the end of a command takes, if the receiver does not answer
_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)  # seconds of a step


class Exported:
    """Turns events into metrics and spans. It is a listener of events, by `on_event`."""

    def __init__(self, readers: Sequence[MetricReader], processors: Sequence[SpanProcessor] = ()) -> None:
        resource = _resource()
        self._meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            self._tracers.add_span_processor(processor)
        meter = self._meters.get_meter(SCOPE)
        self._tracer = self._tracers.get_tracer(SCOPE)
        create = {"counter": meter.create_counter, "gauge": meter.create_gauge}
        self._instruments: dict[str, Any] = {
            name: meter.create_histogram(name, i.unit, i.meaning, explicit_bucket_boundaries_advisory=_BOUNDS)
            if i.type == "histogram"
            else create[i.type](name, i.unit, i.meaning)
            for name, i in INSTRUMENTS.items()
        }
        self._runs: dict[str, trace.Span] = {}
        self._tasks: list[Event] = []  # of steps that have not ended
        self._lock = threading.Lock()

    def on_event(self, event: Event) -> None:
        """Count the event, and make a span of it."""
        self._measure(event)
        with self._lock:
            self._trace(event)

    def set(self, values: Iterable[MetricValue]) -> None:
        """Set gauges."""
        for value in values:
            self._instruments[value.metric].set(value.value, dict(value.attributes))

    def stop(self) -> None:
        """Export what is not exported yet; a receiver that does not answer delays it by some seconds."""
        with self._lock:
            for span in self._runs.values():
                span.end()
            self._runs.clear()
        self._meters.shutdown(timeout_millis=FLUSH_SECONDS * 1000)
        self._tracers.force_flush(int(FLUSH_SECONDS * 1000))
        self._tracers.shutdown()

    def _measure(self, event: Event) -> None:
        match event.event:
            case "run":
                self._add("lake_assets.runs", 1, event)
            case "step" if event.seconds is not None:
                instrument = INSTRUMENTS["lake_assets.step.duration"]
                self._instruments[instrument.name].record(event.seconds, _attributes(instrument, event))
            case "retry":
                self._add("lake_assets.retries", 1, event)
            case "partition":
                self._add("lake_assets.partitions", 1, event)
                if event.status == "failed":
                    self._add("lake_assets.failures", 1, event)
                if event.status == "committed":
                    self._add("lake_assets.rows", event.rows or 0, event)
                    self._add("lake_assets.bytes", event.bytes or 0, event)

    def _add(self, name: str, number: int, event: Event) -> None:
        self._instruments[name].add(number, _attributes(INSTRUMENTS[name], event))

    def _trace(self, event: Event) -> None:
        run = self._runs.get(event.run or "")
        if event.event == "run_started" and event.run is not None:
            started = self._tracer.start_span(f"ingest {event.stream}", start_time=_nanoseconds(event.time))
            self._runs[event.run] = started
        elif event.event == "run" and run is not None:
            self._trace_tasks(event, run)
            _finish(self._runs.pop(event.run or ""), event)
        elif event.event == "task":
            self._tasks.append(event)
        elif event.event == "step" and event.seconds is not None:
            span = self._spanned(event.step or "", event, run)
            if event.step == "job":
                self._trace_tasks(event, span)
        elif event.event in ("retry", "partition") and run is not None:
            run.add_event(event.event, _span_attributes(event), _nanoseconds(event.time))

    def _trace_tasks(self, event: Event, parent: trace.Span) -> None:
        """Make spans of the tasks of an event's run that have been reported, within the span of their job."""
        tasks = [task for task in self._tasks if task.run == event.run]
        self._tasks = [task for task in self._tasks if task.run != event.run]
        for task in tasks:
            self._spanned("task", task, parent)

    def _spanned(self, name: str, event: Event, within: trace.Span | None) -> trace.Span:
        began = event.time - dt.timedelta(seconds=event.seconds or 0)
        parent = None if within is None else trace.set_span_in_context(within)
        span = self._tracer.start_span(name, parent, start_time=_nanoseconds(began))
        _finish(span, event)
        return span


def exported_by_otlp() -> Exported:
    """Send metrics and spans to the OTLP receiver of OpenTelemetry's own environment variables.

    Metrics are deltas, because each run is a process of its own: totals since the start of a process would begin at
    zero each time.
    """
    deltas: dict[type, AggregationTemporality] = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
    exporter = OTLPMetricExporter(preferred_temporality=None if os.environ.get(_TEMPORALITY) else deltas)
    return Exported([PeriodicExportingMetricReader(exporter)], [BatchSpanProcessor(OTLPSpanExporter())])


def _resource() -> Resource:
    """Return the environment's resource, by default `lake-assets`, without a process id: runs are one series."""
    written = OTELResourceDetector().detect().attributes
    own = {SERVICE_NAME: "lake-assets", SERVICE_VERSION: VERSION}
    return Resource({**own, **written})


def _attributes(instrument: Instrument, event: Event) -> dict[str, str]:
    values = {name: getattr(event, name) for name in instrument.attributes}
    if "status" in values and values["status"] is None:
        values["status"] = "done"
    return {name: str(value) for name, value in values.items() if value is not None}


def _span_attributes(event: Event) -> Mapping[str, str | int | float]:
    others = ("time", "level", "event", "seconds")
    return {
        f"{SCOPE}.{name}": value
        for name, value in event.fields.items()
        if name not in others and isinstance(value, str | int | float)
    }


def _finish(span: trace.Span, event: Event) -> None:
    span.set_attributes(_span_attributes(event))
    if event.level >= logging.ERROR or event.status == "failed":
        span.set_status(trace.StatusCode.ERROR, event.kind)
    span.end(_nanoseconds(event.time))


def _nanoseconds(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
