"""The Grafana dashboard: each metric and label of its queries exists, and each metric is on it."""

import json
import re
from pathlib import Path
from typing import Any

from lake_assets.upkeep.report.metrics import INSTRUMENTS, Instrument

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "lake-assets.json"
METRIC = re.compile(r"\blake_assets_[a-z_]+")
GROUPED = re.compile(r"by \(([^)]*)\)")
COMPARED = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")


def instruments() -> dict[str, Instrument]:
    """The metric of each series' name in Prometheus."""
    of_histograms = ("_bucket", "_sum", "_count")
    return {
        f"{instrument.prometheus}{suffix}": instrument
        for instrument in INSTRUMENTS.values()
        for suffix in (of_histograms if instrument.type == "histogram" else ("",))
    }


def test_queries_and_legends_name_metrics_and_labels_that_exist_and_each_metric_is_shown() -> None:
    dashboard: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [variable["query"] for variable in dashboard["templating"]["list"]]
    queries = [target["expr"] for target in targets] + [v["query"] for v in variables if isinstance(v, dict)]
    known = instruments()

    for query in queries:
        (metric,) = METRIC.findall(query)
        labels = {name for names in GROUPED.findall(query) for name in names.replace(" ", "").split(",")}
        labels |= set(COMPARED.findall(query))
        assert labels - {"le", ""} <= set(known[metric].attributes), query
    for target in targets:
        grouped = GROUPED.search(target["expr"])
        (metric,) = METRIC.findall(target["expr"])
        kept = set(grouped[1].replace(" ", "").split(",")) if grouped else set(known[metric].attributes)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, target
    assert {known[metric].name for query in queries for metric in METRIC.findall(query)} == set(INSTRUMENTS)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
