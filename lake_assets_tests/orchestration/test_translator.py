"""Keys with a prefix, and a translator of one's own: everything of Dagster's refers to the new keys."""

from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from lake_assets import LakeAssetsTranslator, LakeAssetsTranslatorData, LakeConfig, build_definitions
from lake_assets.base.errors import ConfigError
from lake_assets_tests.world import NW, World, sales

EVERYTHING: dict[str, Any] = {
    "schedule": {"cron": "0 * * * *", "lookback": 0},
    "automation": "0 * * * *",
    "sensor": {"max_runs": 1},
    "group": "shop",
    "owners": ["team:shop"],
    "tags": {"tier": "1"},
    "partitions": {"region": {"values": ["NW", "SW"]}, "date": {"type": "date", "start": "2026-02-01"}},
}
KEY, LANDING = (dg.AssetKey(["retail", "raw", name]) for name in ("sales", "sales_landing"))
ALL_ASSETS = {"orchestration": {"report_asset": True, "ledger_asset": True}}


def with_prefix(world: World, prefix: object = "retail/raw", **options: object) -> LakeConfig:
    """The world's config with a prefix for all keys."""
    world.options, world.sections = EVERYTHING | options, ALL_ASSETS
    return LakeConfig.model_validate(world.config.model_dump(by_alias=True) | {"key_prefix": prefix})


def keys(definitions: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}


class ByTeam(LakeAssetsTranslator):
    """Other keys, groups, tags, owners and descriptions, by the kind of the asset."""

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        spec = super().get_asset_spec(data)
        return spec.replace_attributes(
            key=dg.AssetKey(["team-a", data.kind, data.stream.name]),
            group_name=f"group_{data.kind}",
            tags={**spec.tags, "team": "a"},
            owners=["team:a"],
            description=f"{data.name} of {len(data.streams)} streams",
        )


@pytest.mark.parametrize("prefix", ["retail/raw", ["retail", "raw"]])
def test_every_asset_has_the_prefix_and_nothing_the_old_key(local_world: World, prefix: object) -> None:
    definitions = build_definitions(with_prefix(local_world, prefix))
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()

    assert keys(definitions) == {
        f"retail/raw/{name}" for name in ("sales", "sales_landing", "sales_report", "test_ledger")
    }
    assert graph.get(KEY).parent_keys == {dg.AssetKey(["retail", "raw", "sales_landing"])}
    assert graph.get(dg.AssetKey(["retail", "raw", "sales_report"])).parent_keys == {KEY}
    assert graph.get(dg.AssetKey(["retail", "raw", "test_ledger"])).parent_keys == {KEY}
    assert {key.asset_key for key in graph.asset_check_keys} == {KEY}
    assert set(definitions.resolve_job_def("refresh_sales").asset_layer.selected_asset_keys) == {KEY}
    automation = definitions.resolve_sensor_def("sales_automation")
    assert automation.asset_selection is not None
    assert automation.asset_selection.resolve(graph) == {KEY}
    observed = definitions.resolve_job_def("observe_sales").asset_layer.selected_asset_keys
    assert set(observed) == {dg.AssetKey(["retail", "raw", "sales_landing"])}


def test_a_stream_has_a_prefix_of_its_own_or_none(local_world: World) -> None:
    own = build_definitions(with_prefix(local_world, key_prefix="mine"))
    none = build_definitions(with_prefix(local_world, key_prefix=[]))

    assert keys(own) == {"mine/sales", "mine/sales_landing", "mine/sales_report", "retail/raw/test_ledger"}
    assert keys(none) == {"sales", "sales_landing", "sales_report", "retail/raw/test_ledger"}


@pytest.mark.parametrize("prefix", ["", "a//b", "/a", "a b", "a|b", ["a/b"], ["é"], [""]])
def test_a_prefix_that_dagster_does_not_take_is_refused(local_world: World, prefix: object) -> None:
    with pytest.raises(ValidationError, match=r"is not a part of an asset key: use letters, digits, underscores"):
        with_prefix(local_world, prefix)


def test_a_run_its_checks_and_an_observation_are_of_the_key_with_the_prefix(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.land(NW, sales(1, 2))
    definitions = build_definitions(with_prefix(local_world))
    job = definitions.resolve_implicit_global_asset_job_def()

    assert definitions.resolve_job_def("observe_sales").execute_in_process(instance=instance).success
    observed = instance.fetch_observations(LANDING, limit=5).records
    done = job.execute_in_process(
        instance=instance,
        partition_key="2026-02-11|NW",
        asset_selection=[KEY, dg.AssetKey(["retail", "raw", "sales_report"])],
        raise_on_error=False,
    )
    (event,) = instance.fetch_materializations(KEY, limit=5).records
    report = instance.get_latest_materialization_event(dg.AssetKey(["retail", "raw", "sales_report"]))
    old = [key for key in instance.all_asset_keys() if key.path[0] != "retail"]

    assert {record.partition_key for record in observed} == {None, "2026-02-11|NW"}
    assert done.success
    assert old == []
    assert report is not None
    assert {check.asset_key for check in done.get_asset_check_evaluations()} == {KEY}
    materialization = event.asset_materialization
    assert materialization is not None
    assert event.partition_key == "2026-02-11|NW"
    lineage = materialization.metadata["dagster/column_lineage"].value
    assert isinstance(lineage, dg.TableColumnLineage)
    (column,) = lineage.deps_by_column["total"]
    assert column.asset_key == LANDING
    assert local_world.totals() == [1, 2]


def test_a_translator_gives_every_asset_its_attributes(local_world: World) -> None:
    local_world.options, local_world.sections = EVERYTHING, ALL_ASSETS
    definitions = build_definitions(local_world.config, translator=ByTeam())
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()

    assert keys(definitions) == {f"team-a/{kind}/sales" for kind in ("table", "landing", "report", "ledger")}
    for kind in ("table", "landing", "report", "ledger"):
        node = graph.get(dg.AssetKey(["team-a", kind, "sales"]))
        assert node.group_name == f"group_{kind}"
        assert node.tags["team"] == "a"
        assert node.description is not None
        assert node.description.endswith(" of 1 streams")
        assert list(node.owners) == ([] if kind == "landing" else ["team:a"])  # Dagster's sources have none
    table = graph.get(dg.AssetKey(["team-a", "table", "sales"]))
    assert table.tags["tier"] == "1"
    assert table.kinds == {"ducklake", "spark", "parquet"}
    assert table.parent_keys == {dg.AssetKey(["team-a", "landing", "sales"])}


def test_assets_are_in_the_group_of_their_lake_and_their_kinds_tell_what_they_are(local_world: World) -> None:
    local_world.sections = ALL_ASSETS
    graph = build_definitions(local_world.config).resolve_asset_graph()
    nodes = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}

    assert {node.group_name for node in nodes.values()} == {"test"}
    assert {name: node.kinds for name, node in nodes.items()} == {
        "sales": {"ducklake", "spark", "parquet"},
        "sales_landing": {"landing_zone", "file", "parquet"},
        "sales_report": {"report"},
        "test_ledger": {"ledger", "ducklake"},
    }


def test_a_translator_may_add_dependencies_and_conditions(local_world: World) -> None:
    class Eager(LakeAssetsTranslator):
        def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
            spec = super().get_asset_spec(data)
            if data.kind != "table":
                return spec
            return spec.replace_attributes(deps=["upstream"], automation_condition=dg.AutomationCondition.eager())

    node = build_definitions(local_world.config, translator=Eager()).resolve_asset_graph().get(dg.AssetKey("sales"))

    assert node.parent_keys == {dg.AssetKey("upstream"), dg.AssetKey("sales_landing")}
    assert node.automation_condition == dg.AutomationCondition.eager()


class Same(LakeAssetsTranslator):
    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        return super().get_asset_spec(data).replace_attributes(key="same")


class Partitioned(LakeAssetsTranslator):
    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        days = dg.DailyPartitionsDefinition("2026-01-01")
        return super().get_asset_spec(data).replace_attributes(partitions_def=days)


@pytest.mark.parametrize(
    ("translator", "message"),
    [
        (Same, r"streams\.sales and the ledger of lakes\.test would both be called same"),
        (Partitioned, "the translator Partitioned sets a partitions_def for sales: leave it out"),
    ],
)
def test_two_assets_of_one_key_and_other_partitions_are_refused(
    local_world: World, translator: type[LakeAssetsTranslator], message: str
) -> None:
    local_world.sections = ALL_ASSETS
    with pytest.raises(ConfigError, match=message):
        build_definitions(local_world.config, translator=translator())
