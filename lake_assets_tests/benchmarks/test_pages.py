"""The pages of the benchmarks have the figures and plots of the committed results, and the model predicts them."""

import re
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


def test_the_model_of_large_deployments_predicts_the_largest_sizes_that_were_measured() -> None:
    from dev.simulate import checks, measured  # noqa: PLC0415

    results, constants = measured()

    found = checks(results, constants)
    assert len(found) >= 10
    assert {what: (a, b) for what, a, b in found if not 1 / FACTOR < a / b < FACTOR} == {}
    assert [name for name, constant in constants.items() if constant.seconds <= 0] == []
