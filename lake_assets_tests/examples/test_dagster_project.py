"""The example of a Dagster project: `dg` takes it, and a run goes from landed files to the file downstream."""

import csv
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from dev.servers.absent import absent

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


def test_the_asset_downstream_reads_what_the_stream_ingested(project: Path, spark: SparkSession) -> None:
    assert spark  # one session for all tests
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


@pytest.mark.dagster
def test_dg_checks_the_project(project: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("dagster_dg_cli") is None:
        absent("no `dg`: the package dagster-dg-cli is not installed")
    environment = os.environ | {
        "PYTHONPATH": str(project / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "DG_CLI_CONFIG": str(tmp_path / "absent.toml"),
    }

    done = subprocess.run(
        [sys.executable, "-c", "from dagster_dg_cli.cli import main; main()", "check", "defs"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "All component YAML validated successfully" in done.stdout, done.stdout + done.stderr
    assert "All definitions loaded successfully" in done.stdout, done.stdout + done.stderr
