"""Each example of `examples/` alone: the script of seven lines, a sensor, a transform, and a project of Dagster."""

import ast
import csv
import datetime as dt
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets import open_stream
from lake_assets.wings.templates.starter.project import start
from lake_assets_tests.examples import EXAMPLES

SCRIPT = EXAMPLES / "ingest_and_read.py"


@pytest.mark.journey
def test_the_script_ingests_a_partition_and_prints_what_it_read(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark  # one session for all tests
    start(tmp_path / "shop", dt.date(2026, 2, 11))
    monkeypatch.chdir(tmp_path / "shop")

    runpy.run_path(str(SCRIPT))
    first, printed = capsys.readouterr().out.splitlines()
    runpy.run_path(str(SCRIPT))
    second, again = capsys.readouterr().out.splitlines()

    totals = ast.literal_eval(printed)
    assert first.startswith("committed: ")
    assert second.startswith("skipped: ")
    assert len(totals["store_id"]) == 2
    assert all(total > 0 for total in totals["total_sum"])
    assert ast.literal_eval(again)["total_sum"] == pytest.approx(totals["total_sum"])


def test_the_script_has_seven_lines_and_is_that_of_the_page() -> None:
    code = SCRIPT.read_text(encoding="utf-8")
    lines = [line for line in code.splitlines() if line]
    page = (EXAMPLES.parent / "docs" / "python.md").read_text(encoding="utf-8")

    assert len(lines) <= 7
    assert "\n".join(lines[1:]) in page.replace("\n\n", "\n")


@pytest.mark.more
def test_a_tick_asks_for_a_run_that_ingests_the_partition(example: Callable[[str], Path]) -> None:
    folder = example("sensor")
    definitions = runpy.run_path(str(folder / "definitions.py"))["defs"]
    dg.Definitions.validate_loadable(definitions)
    sensor = definitions.resolve_sensor_def("done_sensor")
    job = definitions.resolve_implicit_global_asset_job_def()

    with dg.DagsterInstance.ephemeral() as instance:
        with dg.build_sensor_context(instance=instance, definitions=definitions) as context:
            idle = sensor.evaluate_tick(context)
        (folder / "done").mkdir()
        (folder / "done" / "region=NW,date=2026-02-11").touch()
        with dg.build_sensor_context(instance=instance, definitions=definitions) as context:
            (request,) = list(sensor.evaluate_tick(context).run_requests or [])
        done = job.execute_in_process(
            instance=instance, partition_key=request.partition_key, asset_selection=[dg.AssetKey("sales")]
        )

    assert idle.skip_message == "No partition is done."
    assert done.success
    assert open_stream(folder / "lake.yaml").partition("region=NW,date=2026-02-11").read().num_rows == 175


class OneSession:
    """Stands in for the example's own conftest, so that all tests share one session."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @pytest.fixture(scope="session")
    def spark(self) -> SparkSession:
        return self.session


@pytest.mark.more
def test_the_unit_test_passes(example: Callable[[str], Path], spark: SparkSession) -> None:
    folder = example("transform")
    options = ["--noconftest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={folder}"]

    code = pytest.main([*options, "-c", "/dev/null", str(folder)], plugins=[OneSession(spark)])

    assert code == pytest.ExitCode.OK


def test_the_stream_is_ingested_with_the_function(
    example: Callable[[str], Path], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example("transform")
    monkeypatch.syspath_prepend(str(folder))
    partition = open_stream("lake.yaml").partition("region=NW,date=2026-02-11")

    result = partition.ingest(spark=spark)
    table = partition.read()

    assert result.row.row_count == table.num_rows == 2
    assert table.column_names == ["store_id", "sales", "revenue", "region", "date"]
    assert sum(table["sales"].to_pylist()) == 175


PARTITION = "2026-02-11|NW"


@pytest.fixture
def project(example: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = example("dagster_project")
    monkeypatch.setenv("LANDING", str(folder / "landing" / "sales"))
    monkeypatch.setenv("SHOP_DATA", str(folder / "data"))
    monkeypatch.syspath_prepend(str(folder / "src"))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]


def test_the_asset_downstream_reads_what_the_stream_ingested(project: Path) -> None:
    definitions = dg.load_from_defs_folder(path_within_project=project / "src" / "shop")
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    keys = [dg.AssetKey(["shop", name]) for name in ("sales", "revenue")]

    with dg.DagsterInstance.ephemeral() as instance:
        done = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, partition_key=PARTITION, asset_selection=keys
        )
        (event,) = instance.fetch_materializations(keys[1], limit=2).records

    assert done.success
    assert graph.get(keys[1]).parent_keys == {keys[0]}
    assert event.partition_key == PARTITION
    with (project / "data" / "revenue" / "region=NW" / "date=2026-02-11" / "revenue.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["store_id"] for row in rows] == ["1", "3"]
    assert sum(float(row["total_sum"]) for row in rows) == pytest.approx(9280.68 + 9608.73)
