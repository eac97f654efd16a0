"""Metrics and spans of events, read back from OpenTelemetry's exporters."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from dev.servers.inbox import Inbox, inbox
from dev.servers.otlp import DELTA, received
from lake_assets.base.events import about, listening, report, step
from lake_assets.cli import main
from lake_assets.ingest.outcome import reported_run
from lake_assets.upkeep.exports import telemetry, wants_lineage, wants_telemetry
from lake_assets.upkeep.report.metrics import INSTRUMENTS, MetricValue
from lake_assets.wings.telemetry.exported import Exported
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["inbox"]

ENDPOINT, LINEAGE_URL = "OTEL_EXPORTER_OTLP_ENDPOINT", "OPENLINEAGE_URL"


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def exported(reader: InMemoryMetricReader, spans: InMemorySpanExporter) -> Exported:
    return Exported([reader], [SimpleSpanProcessor(spans)])


def values(reader: InMemoryMetricReader) -> dict[tuple[str, tuple[tuple[str, Any], ...]], float]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): _number(point)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def _number(point: Any) -> float:
    return float(point.value if hasattr(point, "value") else point.count)


def a_run() -> None:
    with reported_run("r", "sales", "replace", 3):
        with about(run="r", stream="sales", partition="p"), step("commit"):
            report("retry", retry=1, kind="conflict")
        with about(run="r", stream="sales", mode="replace"):
            report("partition", status="committed", rows=5, bytes=7)
            report("partition", status="skipped")
            report("partition", status="failed", kind="SourceError")


def test_each_event_counts_where_its_metric_says(exported: Exported, reader: InMemoryMetricReader) -> None:
    with listening(exported.on_event):
        a_run()
    exported.set([MetricValue(metric="lake_assets.lag", stream="sales", value=12.5)])

    stream, mode = ("stream", "sales"), ("mode", "replace")
    assert values(reader) == {
        ("lake_assets.runs", (mode, ("status", "failed"), stream)): 1,
        ("lake_assets.partitions", (mode, ("status", "committed"), stream)): 1,
        ("lake_assets.partitions", (mode, ("status", "skipped"), stream)): 1,
        ("lake_assets.partitions", (mode, ("status", "failed"), stream)): 1,
        ("lake_assets.rows", (mode, stream)): 5,
        ("lake_assets.bytes", (mode, stream)): 7,
        ("lake_assets.failures", (("kind", "SourceError"), stream)): 1,
        ("lake_assets.retries", (("kind", "conflict"), stream)): 1,
        ("lake_assets.step.duration", (("status", "done"), ("step", "commit"), stream)): 1,
        ("lake_assets.lag", (stream,)): 12.5,
    }


def test_a_run_is_a_span_with_a_span_for_each_step(exported: Exported, spans: InMemorySpanExporter) -> None:
    with listening(exported.on_event):
        a_run()

    commit, run = spans.get_finished_spans()
    assert (commit.name, run.name) == ("commit", "ingest sales")
    assert commit.parent is not None
    assert commit.parent.span_id == run.context.span_id
    assert commit.attributes is not None
    assert commit.attributes["lake_assets.partition"] == "p"
    assert [event.name for event in run.events] == ["retry", "partition", "partition", "partition"]
    assert run.status.status_code is StatusCode.ERROR
    assert run.start_time is not None
    assert commit.start_time is not None
    assert run.start_time <= commit.start_time + 1_000_000


def test_the_tasks_of_a_job_are_spans_within_it(exported: Exported, spans: InMemorySpanExporter) -> None:
    with listening(exported.on_event), reported_run("r", "sales", "replace", 1), about(run="r", stream="sales"):
        with step("job"):
            report("task", host="node-7", seconds=2.5, rows=5)
            report("task", host="node-8", seconds=0.5, rows=7)
        with step("commit"):
            pass

    found = {span.context.span_id: span for span in spans.get_finished_spans()}
    tasks = [span for span in found.values() if span.name == "task"]
    assert {(span.attributes or {})["lake_assets.host"] for span in tasks} == {"node-7", "node-8"}
    assert {found[span.parent.span_id].name for span in tasks if span.parent is not None} == {"job"}
    assert {(span.end_time or 0) - (span.start_time or 0) for span in tasks} == {2_500_000_000, 500_000_000}


def test_the_metrics_have_no_attribute_without_a_bound() -> None:
    """A label of a partition or a run would make a series for each."""
    names = {name for instrument in INSTRUMENTS.values() for name in instrument.attributes}

    assert names == {"stream", "lake", "mode", "status", "kind", "step", "state"}


@pytest.mark.more
@pytest.mark.parametrize("launcher", ["in_process", *soak(["spark_submit"])])
def test_a_receiver_gets_the_figures_of_real_ingests(
    local_world: World, tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    monkeypatch.setenv(ENDPOINT, inbox.url)
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, b"no parquet")
    inbox.answer = b""

    for _ in range(2):
        CliRunner().invoke(
            main,
            [
                *("--config", str(local_world.config_file(tmp_path)), "ingest", "--launcher", launcher),
                *("--partition", NW, "--partition", SW),
            ],
        )

    found = received(inbox)
    (row,) = (row for row in local_world.ledger() if row.status == "committed")
    of_stream = {"stream": "sales", "mode": "replace"}
    assert found.value("lake_assets.rows", **of_stream) == 2
    assert found.value("lake_assets.bytes", **of_stream) == row.bytes_written
    assert found.value("lake_assets.partitions", **of_stream, status="committed") == 1
    assert found.value("lake_assets.partitions", **of_stream, status="skipped") == 1
    assert found.value("lake_assets.failures", stream="sales", kind="SourceError") == 2
    assert found.value("lake_assets.step.duration", stream="sales", step="commit", status="committed") == 1
    assert found.temporalities == {DELTA}
    assert all(resource["service.name"] == "lake-assets" for resource in found.resources)
    assert not any("service.instance.id" in resource for resource in found.resources)
    names = [(name, parent) for name, parent, _ in found.spans]
    assert names.count(("ingest sales", "")) == 2
    assert ("commit", "ingest sales") in names
    assert {parent for name, parent in names if name == "task"} == {"job"}


def test_the_command_metrics_sends_its_gauges(
    local_world: World, tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, inbox.url)
    local_world.land(NW, sales(1))

    result = CliRunner().invoke(main, ["--config", str(local_world.config_file(tmp_path)), "metrics"])

    assert result.exit_code == 0, result.output
    assert received(inbox).value("lake_assets.pending", stream="sales") == 1


@pytest.mark.more
def test_a_receiver_that_is_away_fails_no_command(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    local_world.land(NW, sales(1))

    assert CliRunner().invoke(main, ["--config", str(local_world.config_file(tmp_path)), "metrics"]).exit_code == 0


@pytest.mark.parametrize(
    ("environment", "has_telemetry", "has_lineage"),
    [
        ({}, False, False),
        ({ENDPOINT: "", LINEAGE_URL: ""}, False, False),
        ({ENDPOINT: "http://a", "OPENLINEAGE_NAMESPACE": "retail"}, True, False),
        ({LINEAGE_URL: "http://a", "OTEL_SDK_DISABLED": "true"}, False, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a", "OPENLINEAGE_CONFIG": "a.yml"}, True, True),
        ({ENDPOINT: "http://a", "OTEL_SDK_DISABLED": "true", "OPENLINEAGE__TRANSPORT__TYPE": "console"}, False, True),
        ({LINEAGE_URL: "http://a", "OPENLINEAGE_DISABLED": " True "}, False, False),
    ],
)
def test_the_environment_decides(environment: dict[str, str], *, has_telemetry: bool, has_lineage: bool) -> None:
    assert (wants_telemetry(environment), wants_lineage(environment)) == (has_telemetry, has_lineage)


def test_without_a_receiver_nothing_is_imported() -> None:
    """In a fresh interpreter, whose environment does not ask for it."""
    script = (
        "from lake_assets.upkeep.exports import lineage, telemetry\nwith telemetry(), lineage(None): pass\n"
        "import sys; sys.exit(any(name.startswith(('opentelemetry', 'openlineage')) for name in sys.modules))"
    )
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "OPENLINEAGE"))}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0


def test_without_the_extra_a_warning_names_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "lake_assets.wings.telemetry.exported", None)
    with telemetry():
        report("step", step="job", seconds=1)

    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith("OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra is not installed: ")
    assert message.endswith("run `pip install '.[otel]'` in the clone of lake-assets.")
