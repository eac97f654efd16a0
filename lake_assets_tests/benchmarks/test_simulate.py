"""The model of large deployments: it predicts what was measured and is none of its constants, and its page says so."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from dev.benchmarks.scale.driver import costs
from dev.simulate import DAYS, Scale, checks, contend, main, measured, predict, with_figures
from docs.hooks.figures import with_figures as with_site_figures

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "limits.md"
FACTOR = 1.7  # between a prediction and what was measured under other work


def test_it_predicts_the_largest_sizes_that_were_measured() -> None:
    results, constants = measured()

    found = checks(results, constants)
    assert len(found) >= 10
    assert {what: (a, b) for what, a, b in found if not 1 / FACTOR < a / b < FACTOR} == {}
    assert [name for name, constant in constants.items() if constant.seconds <= 0] == []


@pytest.mark.parametrize(
    ("work", "between", "wait"),
    [
        ((3.0, 2.0, 1.0), 2.0, 1.0),  # the executors are the limit: nobody waits for the catalog
        ((3.0, 1.0, 2.0), 2.0, 4.0),  # the catalog is: of 8 s a writer works 4
        ((20.0, 1.0, 1.0), 5.5, 1.0),  # the writers themselves
    ],
)
def test_writers_wait_for_what_is_busiest(work: tuple[float, float, float], between: float, wait: float) -> None:
    assert contend(4, work) == pytest.approx((between, wait))


def test_the_limits_are_those_that_the_page_names() -> None:
    _, constants = measured()
    limits = {name: predict(scale, constants).limit for name, scale in DAYS.items()}
    assert set(limits.values()) == {"writers", "executors", "catalog"}
    assert limits["100 writers, 1,000 cores"] == "catalog"
    one, two = (predict(Scale(writers=100, executors=1_000, lakes=n), constants) for n in (1, 2))
    assert two.rate == pytest.approx(2 * one.rate, rel=0.05)
    assert predict(Scale(), constants).rate > Scale().partitions / 86_400


def test_the_page_has_the_figures_of_the_committed_results() -> None:
    page = PAGE.read_text("utf-8")

    assert with_site_figures("explanation/limits.md", page) == with_figures(page) != page


def test_the_command_predicts_a_deployment() -> None:
    result = CliRunner().invoke(main, ["--writers", "100", "--executors", "1000", "--batch", "1"])

    assert result.exit_code == 0, result.output
    assert "limit                         catalog\n" in result.output
    assert "1,000,000 requests, 50,000 s one after the other" in result.output


@pytest.mark.long
def test_the_benchmark_measures_driver_and_tasks(tmp_path: Path, spark: SparkSession) -> None:
    refresh, still, tasks = costs(tmp_path, spark, 5, 2)

    assert refresh > still > 0
    assert tasks > 0
