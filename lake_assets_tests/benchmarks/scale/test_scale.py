"""The benchmark of scale: its figures and plots are on its page, its large table is one that the package can use."""

import datetime as dt
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dev.benchmarks.peers.results import Machine
from dev.benchmarks.plotted import draw_all
from dev.benchmarks.scale.__main__ import FIGURES, PAGE, PARTS
from dev.benchmarks.scale.lake import Files, catalog_on, commit_all, make_table, numbered, stream_on
from dev.benchmarks.scale.page import shown, with_figures
from dev.benchmarks.scale.plots import drawings
from dev.benchmarks.scale.results import Grown, Rate, Results
from dev.benchmarks.scale.table import fill
from dev.plain_client import plain_client
from dev.servers.postgres import PostgresServer
from lake_assets.lake.ledger.lookup import commits_by_files

SVG = "{http://www.w3.org/2000/svg}"
SECTIONS = ("machine", "writers", "table", "ledger", "objects")
EMPTY = "\n".join(f"<!-- {name} -->\n<!-- end {name} -->" for name in SECTIONS)


@pytest.fixture
def results() -> Results:
    grown = [Grown(size=size, seconds={"look": size / 1e6, "commit": 12.0}) for size in (1_000, 1_000_000)]
    rates = [
        Rate(writers=writers, lakes=lakes, batch=batch, commits=100, seconds=10.0, median=0.0457)
        for writers, lakes, batch in ((8, 1, 1), (8, 1, 50), (8, 4, 1))
    ]
    return Results(
        quick=False,
        measured=dict.fromkeys(PARTS, dt.date(2026, 11, 23)),
        machine=Machine(processor="A CPU", cores=2, memory=24, system="Linux 6", python="3.11.7"),
        writers=rates,
        table=grown,
        indexed=grown,
        ledger=grown,
        objects=grown,
    )


def test_the_figures_are_tables_of_all_parts(results: Results) -> None:
    page = with_figures(f"# Title\n{EMPTY}\nThe end.", results)

    assert (
        "2 cores of A CPU, 24 GB, Linux 6, Python 3.11.7. Measured: writers, table, ledger, objects on 2026-11-23."
        in page
    )
    assert "| 8 | 1 | 50 | 10.0 | 500 | 46 ms |" in page
    assert page.count("| 1,000,000 | 1.0 s | 12 s |") == 4
    assert "| partitions, with the index | look | commit |" in page


def test_small_sizes_are_named_as_such(results: Results) -> None:
    assert "These are the figures of `--quick`" in with_figures(EMPTY, results.model_copy(update={"quick": True}))


@pytest.mark.parametrize(("seconds", "text"), [(0.0004, "0 ms"), (0.0123, "12 ms"), (1.25, "1.2 s"), (60.4, "60 s")])
def test_seconds_have_the_digits_that_matter(seconds: float, text: str) -> None:
    assert shown(seconds) == text


def test_the_plots_have_a_line_for_each_work_and_each_batch(results: Results, tmp_path: Path) -> None:
    files = {file.stem: ET.parse(file) for file in draw_all(drawings(results), tmp_path)}

    assert set(files) == {"writers", "table", "ledger", "objects"}
    texts = {name: [text.text for text in tree.iter(f"{SVG}text")] for name, tree in files.items()}
    assert "commit_batch: 50" in texts["writers"]
    assert texts["table"].count("look") == 2
    assert "ledger rows" in texts["ledger"]


def test_the_page_has_the_figures_and_the_plots_of_the_committed_results(tmp_path: Path) -> None:
    results = Results.model_validate_json((FIGURES / "results.json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")

    assert not results.quick
    assert set(results.measured) == set(PARTS)
    assert with_figures(page, results) == page
    drawn = draw_all(drawings(results), tmp_path)
    assert {file.name for file in drawn} == {file.name for file in FIGURES.glob("*.svg")}
    for file in drawn:
        assert _texts(FIGURES / file.name) == _texts(file)
        assert f"(scale/{file.name})" in page


def _texts(file: Path) -> list[str | None]:
    """The texts of a plot, and the lines that it draws; versions of matplotlib differ in what is around them."""
    tree = ET.parse(file)
    return [element.text for element in tree.iter(f"{SVG}text")]


def test_the_page_names_commands_that_exist() -> None:
    parts = re.findall(r"benchmarks\.scale --part (\w+)", PAGE.read_text(encoding="utf-8"))
    assert set(parts) == set(PARTS)


@pytest.mark.servers
def test_the_large_table_is_one_that_the_package_and_ducklake_read_and_write(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    catalog = catalog_on(postgres)
    stream = stream_on(catalog, tmp_path)
    make_table(stream)
    files = Files(stream)
    with stream.lake.open() as lake:
        commit_all(lake, files.replacements([numbered(0)]))
    fill(postgres, catalog["database"], 1, 1_500)

    partitions = [stream.config.partition(numbered(number)) for number in (0, 999, 1_000, 1_499)]
    with stream.lake.open() as lake:
        assert len(commits_by_files(lake, stream.table, partitions)) == len(partitions)
        commit_all(lake, files.replacements([numbered(700)]))
        commit_all(lake, files.replacements([numbered(701), numbered(1_200)]))
    with plain_client(stream.lake_config) as client:
        assert client.execute("SELECT count(*) FROM ducklake_list_files('lake', 'sales')").fetchall() == [(1_500,)]
        ((plan,),) = [
            client.execute(
                "EXPLAIN ANALYZE SELECT sum(total) FROM lake.sales WHERE region = 'R1' AND date = '2020-07-19'"
            ).fetchall()[0][1:]
        ]
        assert "Total Files Read: 1" in plan
    with stream.lake.open() as lake:
        ((ids, most),) = lake.rows(
            f"SELECT count(DISTINCT data_file_id), max(data_file_id) < (SELECT max(next_file_id) FROM {lake.metadata}."
            f"ducklake_snapshot) FROM {lake.metadata}.ducklake_data_file"
        )
    assert (ids, most) == (1_503, True)
