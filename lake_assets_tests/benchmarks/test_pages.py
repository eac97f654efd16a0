"""The pages of the benchmarks have the figures and plots of the committed results, and the benchmarks run.

What they measure is for people to judge.
"""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docs.hooks.figures import with_figures

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
FACTOR = 1.7  # between a prediction and what was measured under other work


@pytest.mark.parametrize("name", ["benchmarks", "scale", "tpch", "limits"])
def test_a_page_has_figures_and_plots_of_the_committed_results(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text("utf-8")
    plots = set(re.findall(rf"\]\({name}/([^)]+\.svg)\)", page))

    shown = with_figures(f"explanation/{name}.md", page)

    assert shown != page
    assert re.findall(r"<!-- (\w+) -->\n<!-- end \1 -->", shown) == []
    assert plots or name == "limits"
    for plot in plots:
        text = (DOCS / name / plot).read_text("utf-8")
        ET.fromstring(text)
        assert "<script" not in text


@pytest.mark.more
def test_the_plots_of_scale_are_those_of_the_committed_results(tmp_path: Path) -> None:
    """Their texts; versions of matplotlib differ in what is around them."""
    from dev.benchmarks.plotted import draw_all  # noqa: PLC0415 - takes long
    from dev.benchmarks.scale.plots import drawings  # noqa: PLC0415
    from dev.benchmarks.scale.results import Results  # noqa: PLC0415

    def texts(file: Path) -> list[str | None]:
        return [element.text for element in ET.parse(file).iter("{http://www.w3.org/2000/svg}text")]

    results = Results.model_validate_json((DOCS / "scale/results.json").read_text("utf-8"))
    drawn = draw_all(drawings(results), tmp_path)

    assert {file.name for file in drawn} == {file.name for file in (DOCS / "scale").glob("*.svg")}
    for file in drawn:
        assert texts(DOCS / "scale" / file.name) == texts(file)


def test_the_model_of_large_deployments_predicts_the_largest_sizes_that_were_measured() -> None:
    from dev.simulate import checks, measured  # noqa: PLC0415

    results, constants = measured()

    found = checks(results, constants)
    assert len(found) >= 10
    assert {what: (a, b) for what, a, b in found if not 1 / FACTOR < a / b < FACTOR} == {}
    assert [name for name, constant in constants.items() if constant.seconds <= 0] == []


@pytest.mark.soak
def test_a_benchmark_prints_its_ratios() -> None:
    command = [sys.executable, "-m", "dev.benchmarks", "--quick", "--only", "small"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    assert done.returncode == 0, done.stderr
    assert "DuckDB DELETE + INSERT" in done.stdout


@pytest.mark.more
def test_a_peer_is_measured_or_has_a_failure_in_its_own_words(tmp_path: Path) -> None:
    """With fake peers: `make bench-peers` runs the real ones."""
    from dev.benchmarks.peers.bench import Bench  # noqa: PLC0415
    from dev.benchmarks.peers.process import Command  # noqa: PLC0415
    from dev.benchmarks.peers.refresh import refresh  # noqa: PLC0415
    from dev.benchmarks.peers.results import Failure, Refresh  # noqa: PLC0415

    wrong = {"right": "", "loses": "loses a row", "changes": "changes a value", "ends": "ends"}
    fake = Path(sys.executable), "dev.benchmarks.peers.fake_peer"
    bench = Bench(tmp_path, {name: Command(*fake, {"FAKE_PEER": how}) for name, how in wrong.items()}, lambda _: None)

    found = refresh(bench, "small", list(wrong), 2, 50, 2)

    errors = {name: one.error for name, one in found.items() if isinstance(one, Failure)}
    assert isinstance(found["right"], Refresh)
    assert set(errors) == set(wrong) - {"right"}
    assert errors["ends"] == "the process ended in refresh: out of memory"
    # Ten partitions, and each has lost a row.
    assert "9,100 rows landed, 9,090 in the table" in errors["loses"]
    assert "; values differ in city; landed only" in errors["changes"]
