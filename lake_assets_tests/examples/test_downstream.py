"""The example of assets downstream: a run gives each of them the rows of its partition, and dbt reads the lake."""

import os
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import duckdb
import pytest
import yaml
from pyspark.sql import SparkSession

from dev.plain_client import install_extensions
from dev.servers.absent import absent
from lake_assets import open_stream
from lake_assets.ingest.ingest_all import ingest
from lake_assets_tests.examples import EXAMPLES
from lake_assets_tests.world import NW, World, sales

PAGE = EXAMPLES.parent / "docs" / "how-to" / "read-the-lake.md"
DBT = EXAMPLES.parent / ".dbt" / "bin"


@pytest.fixture
def definitions(example: Callable[[str], Path], sessions: Callable[[], SparkSession]) -> dg.Definitions:
    """Those of the example, after an ingest of two regions."""
    folder = example("downstream")
    sales = open_stream(folder / "lake.yaml", "sales")
    for region in ("NW", "SW"):
        ingest(sales, sales.config.partition(f"region={region},date=2026-02-11"), sessions)
    definitions = runpy.run_path(str(folder / "definitions.py"))["defs"]
    assert isinstance(definitions, dg.Definitions)
    dg.Definitions.validate_loadable(definitions)
    return definitions


def run(definitions: dg.Definitions, asset: str, key: str | None = None) -> dg.ExecuteInProcessResult:
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(partition_key=key, asset_selection=[dg.AssetKey(asset)])


def test_each_asset_downstream_reads_its_partition(definitions: dg.Definitions) -> None:
    facts = {}
    for asset, key in {"store_revenue": "2026-02-11|NW", "daily_revenue": "2026-02-11"}.items():
        (event,) = run(definitions, asset, key).get_asset_materialization_events()
        facts[asset] = {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }

    assert facts["store_revenue"]["stores"] == 2
    by_region = facts["daily_revenue"]["revenue"]
    assert isinstance(by_region, dict)
    assert by_region["region"] == ["NW", "SW"]
    assert facts["store_revenue"]["revenue"] == pytest.approx(by_region["total_sum"][0])


def test_what_spark_writes_is_a_landing_zone_of_the_next_stream(
    definitions: dg.Definitions, sessions: Callable[[], SparkSession]
) -> None:
    assert run(definitions, "store_totals_by_spark", "2026-02-11|NW").success

    totals = open_stream("lake.yaml", "store_totals")
    (outcome,) = totals.ingest("region=NW,date=2026-02-11", spark=sessions())
    assert outcome.row.row_count == 2


@pytest.fixture
def dbt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command `dbt`, and DuckDB's extensions where it would download them to."""
    if not (DBT / "dbt").exists():
        absent("no dbt: `make .dbt/.installed` installs it")
    install_extensions(tmp_path / "home", "ducklake", "sqlite_scanner", "postgres_scanner", "httpfs")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{DBT}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")


def revenue(file: Path) -> list[tuple[object, ...]]:
    with duckdb.connect(str(file), read_only=True) as models:
        return models.execute("SELECT region, date::VARCHAR, revenue > 0 FROM revenue ORDER BY ALL").fetchall()


@pytest.mark.more
@pytest.mark.usefixtures("dbt")
def test_dbt_makes_its_models_of_the_table_in_the_lake(definitions: dg.Definitions, tmp_path: Path) -> None:
    assert run(definitions, "dbt_models").success

    made = revenue(tmp_path / "downstream" / "models.duckdb")
    assert made == [("NW", "2026-02-11", True), ("SW", "2026-02-11", True)]


@pytest.mark.more
@pytest.mark.usefixtures("dbt")
@pytest.mark.parametrize("world", [("postgres", "s3")], indirect=True)
def test_dbt_reads_a_lake_on_postgresql_and_s3_by_the_profile_of_the_page(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.land(NW, sales(1, 2))
    world.ingest(NW)
    folder = tmp_path / "dbt"
    shutil.copytree(EXAMPLES / "downstream" / "dbt", folder)
    ours, servers = profiles()
    assert (folder / "profiles.yml").read_text(encoding="utf-8") == ours
    profile = yaml.safe_load(servers)
    catalog, storage = profile["shop"]["outputs"]["dev"]["secrets"]
    catalog |= {name: world.catalog[name] for name in ("host", "port", "database", "user")}
    storage |= {
        "scope": f"s3://{world.storage['bucket']}",
        "endpoint": world.storage["endpoint"].removeprefix("http://"),
    }
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    monkeypatch.setenv("LAKE_PASSWORD", world.catalog["password"])
    monkeypatch.setenv("LAKE_KEY_ID", world.storage["key_id"])
    monkeypatch.setenv("LAKE_SECRET", world.storage["secret"])

    done = subprocess.run(["dbt", "build"], cwd=folder, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert revenue(folder / "models.duckdb") == [("NW", "2026-02-11", True)]


def profiles() -> list[str]:
    """The `profiles.yml` of the page."""
    section = PAGE.read_text(encoding="utf-8").split("## dbt")[1].split("\n## ")[0]
    return [block.split("```")[0] for block in section.split("```text\n")[1:]]
