"""A project of somebody else's, that has our component in its `defs.yaml` files and no line of Python about it."""

import uuid
from pathlib import Path

import dagster as dg
import pytest

from lake_assets import LakeStream
from lake_assets_tests.orchestration.test_dg import DEFS, PROJECT
from lake_assets_tests.world import NW, World, sales


@pytest.fixture
def project(tmp_path: Path, local_world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of the project, with two streams over one landing zone."""
    monkeypatch.setenv("LANDING", local_world.source["path"])
    root = tmp_path / "project"
    shop = f"shop_{uuid.uuid4().hex}"  # Python would give the second test the first one's package
    for name in ("sales", "copies"):
        folder = root / shop / "defs" / name
        folder.mkdir(parents=True)
        landing = DEFS.replace("source: landing", 'source: "{{ env.LANDING }}"')
        (folder / "defs.yaml").write_text(landing.replace(": sales", f": {name}"))
    (root / "pyproject.toml").write_text(PROJECT.replace('root_module = "shop"', f'root_module = "{shop}"'))
    (root / shop / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(root))
    return root / shop


def loaded(project: Path) -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=project)


def test_a_partition_is_materialized_without_python(
    project: Path, local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.land(NW, sales(1, 2))

    definitions = loaded(project)
    job = definitions.resolve_implicit_global_asset_job_def()
    done = job.execute_in_process(
        instance=instance, partition_key="2026-02-11|NW", asset_selection=[dg.AssetKey("sales")]
    )

    assert done.success
    lake = {"type": "sqlite", "path": str(project / "defs" / "sales" / "lake" / "catalog.sqlite")}
    storage = {"type": "local", "path": str(project / "defs" / "sales" / "lake" / "data")}
    world = World(lake, storage, local_world.source, local_world.sessions)
    assert world.totals() == [1, 2]


def test_components_have_alerts_and_one_of_them_sends_failed_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAMS_URL", "https://alerts.example.com/x")
    for name, more in (("sales", ""), ("copies", ", failed_runs: false")):
        with (project / "defs" / name / "defs.yaml").open("a") as file:
            file.write(f'  alerts: {{teams: {{url: "{{{{ env.TEAMS_URL }}}}"}}{more}}}\n')

    sensors = {sensor.name for sensor in loaded(project).sensors or ()}

    assert {name for name in sensors if "alerts" in name} == {
        "sales_alerts_failed_runs_to_teams",
        "sales_alerts_stale_streams",
        "copies_alerts_stale_streams",
    }


PYTHON = """\
import dagster as dg
from lake_assets import LakeAssetsTranslatorData, LakeStream

class ShopStream(LakeStream):
    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        spec = super().get_asset_spec(data)
        return spec.replace_attributes(key=spec.key.with_prefix("team"), group_name="shop_" + data.kind)
"""


def test_a_subclass_gives_the_assets_other_attributes_and_downstream_follows(project: Path) -> None:
    (project / "streams.py").write_text(PYTHON)
    file = project / "defs" / "sales" / "defs.yaml"
    own = file.read_text().replace("lake_assets.LakeStream", f"{project.name}.streams.ShopStream")
    file.write_text(own + '  key_prefix: "shop/raw"\n  orchestration: {ledger_asset: true}\n')

    definitions = loaded(project)
    graph = definitions.resolve_asset_graph()
    component = dg.ComponentTree.for_project(project).load_component("sales", LakeStream)

    key = dg.AssetKey(["team", "shop", "raw", "sales"])
    assert component.asset_key == key
    assert component.partitions_def == graph.get(key).partitions_def
    assert component.partition("2026-02-11|NW").path == "region=NW/date=2026-02-11"
    assert graph.get(key).group_name == "shop_table"
    assert graph.get(dg.AssetKey(["team", "shop", "raw", "sales_ledger"])).group_name == "shop_ledger"
    assert {key.asset_key for key in graph.asset_check_keys} == {key, dg.AssetKey("copies")}
