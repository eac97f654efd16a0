"""A real OTLP receiver: it takes metrics and spans by HTTP, as a collector does, and decodes them."""

import gzip
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dev.servers.inbox import Inbox

DELTA = 1  # AGGREGATION_TEMPORALITY_DELTA


@dataclass
class Received:
    """What the receiver got.

    Attributes:
        values: sums, gauges, and the numbers of a histogram's records, by metric and attributes, added up.
        temporalities: of sums and histograms.
        spans: name, name of the parent (empty for a root), and attributes.
        resources: attributes of the senders.
    """

    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)
    temporalities: set[int] = field(default_factory=set)
    spans: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    def value(self, metric: str, **attributes: str) -> float | None:
        return self.values.get((metric, frozenset(attributes.items())))


def received(inbox: Inbox) -> Received:
    """All requests of an inbox, decoded."""
    found = Received()
    parsed = []
    for letter in inbox.letters:
        body = gzip.decompress(letter.body) if letter.headers.get("content-encoding") == "gzip" else letter.body
        if letter.path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(body)
            for resource in metrics.resource_metrics:
                found.resources.append(_attributes(resource.resource.attributes))
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        _add(found, metric)
        else:
            for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                parsed += [span for scope in spans.scope_spans for span in scope.spans]
    names = {span.span_id: span.name for span in parsed}
    found.spans = [(s.name, names.get(s.parent_span_id, ""), _attributes(s.attributes)) for s in parsed]
    return found


def _add(found: Received, metric: Any) -> None:
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    if kind != "gauge":
        found.temporalities.add(data.aggregation_temporality)
    for point in data.data_points:
        number = point.count if kind == "histogram" else point.as_int + point.as_double
        key = (metric.name, frozenset(_attributes(point.attributes).items()))
        found.values[key] = found.values.get(key, 0) + number


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
