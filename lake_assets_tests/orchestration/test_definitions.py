"""What Dagster loads: the code location and its settings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.snap.snap_to_yaml import default_values_yaml_from_type_snap

from dev.size import Trace
from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.definitions import defs
from lake_assets.orchestration.build import build_definitions
from lake_assets.streams.load import CONFIG_VARIABLE, load_config
from lake_assets_tests.world import World

ROOT = Path(__file__).parents[2]
ASSETS = {"sales", "sales_landing"}


def write_config(world: World, folder: Path) -> Path:
    """The world's config as a user would have written it."""
    return world.config_file(folder, spark={"spark.master": "local[2]"})


@pytest.fixture
def dagster(tmp_path: Path) -> Any:
    """Runs the command `dagster` in a folder of its own, with the project's dagster.yaml."""
    home = tmp_path / "dagster_home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"DAGSTER_HOME": str(home)}
        environment.pop(CONFIG_VARIABLE, None)
        return subprocess.run(
            [sys.executable, "-m", "dagster", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


def assets_of(definitions: dg.Definitions) -> set[str]:
    dg.Definitions.validate_loadable(definitions)
    return {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}


def test_there_is_an_asset_for_each_stream_and_its_landing_zone_and_others_for_who_asks(local_world: World) -> None:
    definitions = build_definitions(local_world.config)

    assert assets_of(definitions) == ASSETS
    assert definitions.executor is dg.in_process_executor
    for key, name in (("report_asset", "sales_report"), ("ledger_asset", "test_ledger")):
        local_world.sections = {"orchestration": {key: True}}
        assert assets_of(build_definitions(local_world.config)) == ASSETS | {name}


@pytest.mark.parametrize("status", ["running", "stopped"])
@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("sensor", {"type": "objects"}, "sales_sensor"),
        ("report", {"to": "/reports"}, "sales_report_automation"),
        ("schedule", {"cron": "0 * * * *"}, "refresh_sales_schedule"),
    ],
)
def test_whether_it_runs_at_once_is_said_in_the_config(
    local_world: World, option: str, value: dict[str, str], name: str, status: str
) -> None:
    local_world.options[option] = value | {"status": status}
    definitions = build_definitions(local_world.config)

    resolve = definitions.resolve_schedule_def if option == "schedule" else definitions.resolve_sensor_def
    assert resolve(name).default_status.value == status.upper()


def test_streams_over_one_landing_zone_share_its_asset(local_world: World) -> None:
    def graph(**copies: Any) -> Any:
        dates = {"type": "date", "start": "2026-02-01", "end": "2026-02-28"}
        local_world.options["partitions"] = {"region": {"values": ["NW", "SW"]}, "date": dates}
        document = local_world.document
        document["streams"]["copies"] = document["streams"]["sales"] | {"destination": {"table": "copies"}} | copies
        definitions = build_definitions(LakeConfig.model_validate(document))
        dg.Definitions.validate_loadable(definitions)
        return definitions.resolve_asset_graph()

    def parents(graph: Any, name: str) -> set[str]:
        return {key.to_user_string() for key in graph.get(dg.AssetKey(name)).parent_keys}

    shared = graph()
    assert parents(shared, "sales") == parents(shared, "copies") == {"sales_landing"}
    assert len(shared.get_all_asset_keys()) == 3
    assert parents(graph(files="a_*.parquet"), "copies") == {"copies_landing"}
    assert parents(graph(partitions={"region": {}, "date": {"type": "date", "start": "2026-01-01"}}), "copies") == {
        "copies_landing"
    }


@pytest.mark.more
def test_each_stream_takes_the_same_work_in_a_config_of_any_size(local_world: World) -> None:
    document, calls = local_world.document, dict[int, int]()
    sales = document["streams"]["sales"]
    for size in (2, 4, 8, 16):  # the first one fills caches
        numbers = range(size)
        document["streams"] = {f"s{n}": sales | {"destination": {"table": f"t{n}"}, "files": f"{n}_*"} for n in numbers}
        config, trace = LakeConfig.model_validate(document), Trace("/")
        with trace.running():
            build_definitions(config)
        calls[size] = trace.calls

    assert calls[16] - calls[8] == pytest.approx(2 * (calls[8] - calls[4]), rel=0.02)


def test_dagster_makes_no_job_of_assets_for_a_sensor(local_world: World) -> None:
    """It makes each by a look at every asset, when a code server starts."""
    local_world.options["sensor"] = {"type": "objects"}
    repository = build_definitions(local_world.config).get_repository_def()

    jobs = {job.name for job in repository.get_all_jobs()}

    assert jobs == {"__ASSET_JOB", "ingest_sales", "restore_sales", "maintain_test", "audit_test"}
    sensor = repository.get_sensor_def("sales_sensor")
    assert sensor.asset_selection is not None
    assert sensor.asset_selection.resolve(repository.asset_graph) == {dg.AssetKey("sales")}


def test_the_config_is_the_one_that_the_environment_names(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(write_config(local_world, tmp_path)))

    assert load_config().streams.keys() == {"sales"}
    assert assets_of(defs()) == ASSETS


def test_a_config_error_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=r"there is no config file lake\.yaml: write one"):
        defs()
    file = tmp_path / "bad.yaml"
    file.write_text("lakes: {}\nstreams: {}\nsprak: {}\n", encoding="utf-8")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))

    with pytest.raises(ConfigError, match=f"{file}:3:1: sprak: unknown key: did you mean spark") as raised:
        defs()

    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.dagster
def test_the_workspace_loads(local_world: World, tmp_path: Path, dagster: Any) -> None:
    shutil.copy(ROOT / "workspace.yaml", tmp_path)
    write_config(local_world, tmp_path)

    done = dagster("definitions", "validate", "-w", "workspace.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_launchpad_shows_the_options_of_jobs_and_only_the_users_own_settings_of_spark(
    local_world: World,
) -> None:
    """What it shows, a launch keeps: the package's settings depend on the installation."""
    config = LakeConfig.model_validate(local_world.document | {"spark": {"spark.driver.memory": "2g"}})
    shown = {}
    for job in build_definitions(config).get_repository_def().get_all_jobs():
        schema, root = job.get_config_schema_snapshot(), job.run_config_schema.run_config_schema_type
        shown[job.name] = yaml.safe_load(default_values_yaml_from_type_snap(schema, schema.get_config_snap(root.key)))

    assert shown["ingest_sales"]["resources"] == {
        "pyspark": {"config": {"spark_config": {"spark.driver.memory": "2g"}}}
    }
    (restore,) = shown["restore_sales"]["ops"].values()
    assert restore["config"] == {"partition": "", "snapshot": 0, "hold": False, "release": False, "dry_run": False}
