"""The Grafana dashboard: each metric and label of its queries exists, and each metric is on it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lake_assets.report.metrics import INSTRUMENTS, Instrument

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "lake-assets.json"
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
METRIC = re.compile(r"\blake_assets_[a-z_]+")
LABELS = re.compile(r"by \(([^)]*)\)|([a-z_]+)\s*(?:=~|!~|!=|=)")


def dashboard() -> dict[str, Any]:
    found = json.loads(FILE.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def targets() -> Iterator[dict[str, str]]:
    for panel in dashboard()["panels"]:
        yield from panel["targets"]


def queries() -> Iterator[str]:
    yield from (target["expr"] for target in targets())
    for variable in dashboard()["templating"]["list"]:
        if isinstance(variable["query"], dict):
            yield variable["query"]["query"]


def names() -> dict[str, Instrument]:
    """The metric of each series' name in Prometheus."""
    found: dict[str, Instrument] = {}
    for instrument in INSTRUMENTS.values():
        suffixes = OF_HISTOGRAMS if instrument.type == "histogram" else ("",)
        found |= {f"{instrument.prometheus}{suffix}": instrument for suffix in suffixes}
    return found


def labels(query: str) -> set[str]:
    found = (name for both in LABELS.findall(query) for text in both for name in text.replace(" ", "").split(","))
    return {name for name in found if name} - {"le"}


def test_every_query_names_one_metric_that_exists_and_labels_that_it_has() -> None:
    known = names()
    for query in queries():
        (metric,) = METRIC.findall(query)
        assert metric in known, query
        assert labels(query) <= set(known[metric].attributes), query


def test_every_legend_names_labels_that_its_query_keeps() -> None:
    for target in targets():
        grouped = re.search(r"by \(([^)]*)\)", target["expr"])
        (metric,) = METRIC.findall(target["expr"])
        kept = set(grouped[1].replace(" ", "").split(",")) if grouped else set(names()[metric].attributes)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, target


def test_every_metric_is_on_the_dashboard() -> None:
    known = names()

    assert {known[metric].name for query in queries() for metric in METRIC.findall(query)} == set(INSTRUMENTS)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
