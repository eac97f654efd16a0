"""The benchmark of scale: its figures and plots are on its page, its large table is one that the package can use."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dev.benchmarks.plotted import draw_all
from dev.benchmarks.scale.__main__ import FIGURES, PAGE, PARTS
from dev.benchmarks.scale.lake import Files, catalog_on, commit_all, make_table, numbered, stream_on
from dev.benchmarks.scale.page import with_figures
from dev.benchmarks.scale.plots import drawings
from dev.benchmarks.scale.results import Results
from dev.benchmarks.scale.table import fill
from dev.plain_client import plain_client
from dev.servers.postgres import PostgresServer
from docs.hooks.figures import with_figures as with_site_figures
from lake_assets.lake.ledger.lookup import commits_by_files

SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_has_the_figures_and_the_plots_of_the_committed_results(tmp_path: Path) -> None:
    results = Results.model_validate_json((FIGURES / "results.json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")

    assert not results.quick
    assert set(results.measured) == set(PARTS)
    assert with_site_figures("explanation/scale.md", page) == with_figures(page, results)
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
