"""Parts of written pages that are generated: tables of the code, of its tests, and of the benchmarks' results."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dev.benchmarks.peers import page as peers_page
from dev.benchmarks.peers import results as peers_results
from dev.benchmarks.scale import page as scale_page
from dev.benchmarks.scale import results as scale_results
from dev.benchmarks.tpch import page as tpch_page
from dev.benchmarks.tpch import results as tpch_results
from dev.simulate import with_figures as limits
from lake_assets.upkeep.report.metrics import INSTRUMENTS
from lake_assets_tests.config.layout.olake_cells import olake_table
from lake_assets_tests.values import schema_changes

DOCS = Path(__file__).parents[1]


def metrics_table() -> str:
    """Return the table of all metrics, in Markdown."""
    suffixes = {"histogram": "`, `".join(("_bucket", "_sum", "_count"))}
    rows = (
        f"| `{m.name}` | `{m.prometheus}{suffixes.get(m.type, '')}` | {m.type}, {m.unit.strip('{}')} "
        f"| {', '.join(f'`{name}`' for name in m.attributes)} | {m.meaning} |\n"
        for m in INSTRUMENTS.values()
    )
    head = "| metric | in Prometheus | type, unit | attributes | meaning |\n|---|---|---|---|---|\n"
    return head + "".join(rows)


def _changes_table() -> str:
    return "\n".join(schema_changes.table())


def _peers(markdown: str) -> str:
    text = (DOCS / "explanation" / "benchmarks" / "results.json").read_text(encoding="utf-8")
    return peers_page.with_figures(markdown, peers_results.Results.model_validate_json(text))


def _scale(markdown: str) -> str:
    text = (DOCS / "explanation" / "scale" / "results.json").read_text(encoding="utf-8")
    return scale_page.with_figures(markdown, scale_results.Results.model_validate_json(text))


def _tpch(markdown: str) -> str:
    folder = DOCS / "explanation" / "tpch"
    found = {
        path.parent.name: tpch_results.Results.model_validate_json(path.read_text(encoding="utf-8"))
        for path in (folder / "results.json", *folder.glob("*/results.json"))
    }
    return tpch_page.with_figures(markdown, found.pop(folder.name), found)


_TABLES: Mapping[str, Callable[[], str]] = {
    "<!-- metrics -->": metrics_table,
    "<!-- changes -->": _changes_table,
    "<!-- olake -->": olake_table,
}
_PAGES: Mapping[str, Callable[[str], str]] = {
    "explanation/benchmarks.md": _peers,
    "explanation/scale.md": _scale,
    "explanation/tpch.md": _tpch,
    "explanation/limits.md": limits,
}


def with_figures(path: str, markdown: str) -> str:
    """Return a page with the parts that are generated in place of its comments.

    Args:
        path: of the page, below docs/.
        markdown: as it is written.

    Raises:
        ValueError: a page of a benchmark lacks a marker.
    """
    for comment, table in _TABLES.items():
        if comment in markdown:
            markdown = markdown.replace(comment, table())
    return _PAGES[path](markdown) if path in _PAGES else markdown
