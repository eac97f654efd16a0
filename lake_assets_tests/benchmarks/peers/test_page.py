"""The page of the benchmark beside peers: its figures and plots are those of the committed results."""

import datetime as dt
import re
from xml.etree import ElementTree as ET

import pytest

from dev.benchmarks.peers.__main__ import FIGURES, PAGE
from dev.benchmarks.peers.page import with_figures
from dev.benchmarks.peers.results import (
    Backfill,
    Failure,
    Machine,
    ManyFiles,
    Readers,
    Refresh,
    Results,
    Writers,
)
from docs.hooks.figures import with_figures as with_site_figures

SECTIONS = ("machine", "refresh", "better", "writers", "readers", "files", "backfill")
EMPTY = "\n".join(f"<!-- {name} -->\n<!-- end {name} -->" for name in SECTIONS)


def refreshed(seconds: float, memory: float = 500) -> Refresh:
    return Refresh(wall=[seconds * 2, seconds, seconds * 0.5], processor=[seconds] * 3, memory=memory)


@pytest.fixture
def results() -> Results:
    broken = Failure(error="ValueError: a | b\nc <d>")
    writers = {"writers": 8, "seconds": 2.0, "retries": 0, "refused": 0, "errors": {}, "difference": None}
    return Results(
        measured=dt.date(2026, 11, 22),
        quick=False,
        machine=Machine(processor="A CPU", cores=2, memory=24, system="Linux 6", python="3.11.7"),
        versions={"ours": {"lake-assets": "0.1.0"}, "duckdb": {"duckdb": "1.5.5"}},
        others=9,
        small_size="100 x 1,000 rows",
        big_size="10 x 1,000,000 rows",
        small={"ours": refreshed(0.4), "ours_copied": refreshed(0.1), "duckdb": refreshed(0.2, 600), "spark": broken},
        big={"ours": refreshed(4.0), "duckdb": refreshed(8.0, 400)},
        writers={
            "ours": Writers.model_validate(writers | {"committed": 64}),
            "duckdb": Writers.model_validate(
                writers | {"committed": 30, "retries": 9, "refused": 2, "errors": {"Conflict: x": 11}}
            ),
            "dlt": Writers.model_validate(writers | {"committed": 90, "difference": "fewer rows"}),
            "spark": broken,
        },
        readers={
            "ours": Readers(reads=90, refreshes=30, refused=0, counts={}, errors={}),
            "spark": Readers(reads=40, refreshes=9, refused=0, counts={"0": 4}, errors={"FileNotFound: x": 3}),
        },
        files={
            "ours": ManyFiles(files=30_000, few=refreshed(0.4), many=refreshed(0.4), fill=30),
            "duckdb": ManyFiles(files=30_000, few=refreshed(0.2), many=refreshed(1.4), fill=40),
            "dlt": broken,
        },
        backfill={
            "ours": Backfill(partitions=1095, each=1095, each_seconds=21.9, at_once=6.5),
            "duckdb": Backfill(partitions=1095, each=800, each_seconds=45.0, at_once=4.0),
        },
    )


def test_the_page_says_where_a_peer_is_better_and_only_there(results: Results) -> None:
    page = with_figures(EMPTY, results)
    better = page.partition("<!-- better -->")[2].partition("<!-- end better -->")[0]

    assert better.split("\n")[2:-2] == [
        "- 100 x 1,000 rows: less time than this package (0.40 s): DuckDB on DuckLake (0.20 s).",
        "- 100 x 1,000 rows: less processor time than this package (0.40 s): DuckDB on DuckLake (0.20 s).",
        "- 10 x 1,000,000 rows: less memory than this package (500 MB): DuckDB on DuckLake (400 MB).",
        # dlt has made more commits, and lost rows.
        ("- Backfill: less time for all together than this package (6.5 s): DuckDB on DuckLake (4.0 s)."),
    ]


def test_the_committed_page_has_the_committed_results() -> None:
    committed = Results.model_validate_json((FIGURES / "results.json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    plots = re.findall(r"!\[[^\]]+\]\(benchmarks/([^)]+)\)", page)

    assert with_site_figures("explanation/benchmarks.md", page) == with_figures(page, committed)
    assert all(f"<!-- {name} -->\n<!-- end {name} -->" in page for name in SECTIONS)
    assert set(plots) == {"refresh.svg", "writers.svg", "files.svg", "backfill.svg"}
    for plot in plots:
        text = (FIGURES / plot).read_text(encoding="utf-8")
        ET.fromstring(text)
        assert "<script" not in text
