"""A stream with three partition columns, from the landing zone to Dagster and back: two dimensions of keys."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets.errors import PartitionError
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partition_keys import keys_of
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.sensors.sync import sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets.report.grid import arrange
from lake_assets.report.state import read_state
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales

ASSET = dg.AssetKey("sales")
COLUMNS = {"region": {}, "date": {"type": "date", "start": "2026-02-10", "end": "2026-02-13"}, "shop": {}}
KEY = "2026-02-11|NW/s 1"


def at(day: int = 11, region: str = "NW", shop: str = "s 1") -> str:
    return f"region={region},date=2026-02-{day},shop={shop}"


@pytest.fixture(autouse=True)
def three_columns(local_world: World) -> World:
    local_world.options |= {"partitions": COLUMNS}
    return local_world


def totals(world: World) -> list[tuple[Any, ...]]:
    return world.query("SELECT region, date::VARCHAR, shop, total FROM lake.sales ORDER BY ALL")


def materialized(instance: dg.DagsterInstance) -> set[str | None]:
    return {record.partition_key for record in instance.fetch_materializations(ASSET, limit=100).records}


def test_the_columns_beside_the_time_are_one_dimension(local_world: World) -> None:
    keys = keys_of(local_world.stream)
    partition = local_world.partition("region=N%2FW|x,date=2026-02-11,shop=a b")

    assert list(keys.dimensions) == ["region/shop", "date"]
    assert keys.dynamic == {"region/shop": "sales_region/shop"}
    assert keys.of(partition) == "2026-02-11|N%2FW%7Cx/a b"
    assert keys.partitions("2026-02-11|N%2FW%7Cx/a b") == [partition]

    local_world.options["partitions"] = COLUMNS | {"region": {"values": ["NW", "SW"]}, "shop": {"values": ["a", "b"]}}
    of_shops = keys_of(local_world.stream).dimensions["region/shop"]
    assert of_shops.get_partition_keys() == ["NW/a", "NW/b", "SW/a", "SW/b"]
    assert keys_of(local_world.stream).dynamic == {}

    local_world.options["partitions"] = {"region": {}, "shop": {}, "till": {"type": "integer"}}
    alone = keys_of(local_world.stream)
    partition = local_world.partition("region=NW,shop=a,till=7")
    assert list(alone.dimensions) == ["region/shop/till"]
    assert alone.of(partition) == "NW/a/7"
    assert alone.partition("NW/a/7") == partition
    with pytest.raises(PartitionError, match="till"):
        alone.partition("NW/a")


@pytest.mark.more
def test_a_sensor_asks_for_what_has_landed_and_its_run_commits_it(local_world: World, ticks: Ticks) -> None:
    local_world.options["sensor"] |= {"group_runs": 1}
    for text in (at(), at(12), at(shop="s 2"), at(region="SW")):
        local_world.land(text, sales(1))

    requests = ticks.tick()
    assert {request.partition_key for request in requests} == {
        KEY, "2026-02-12|NW/s 1", "2026-02-11|NW/s 2", "2026-02-11|SW/s 1"
    }  # fmt: skip
    assert all(result.success for result in ticks.run(requests))
    assert len(totals(local_world)) == 4
    assert materialized(ticks.instance) == {request.partition_key for request in requests}
    assert ticks.tick() == []

    local_world.options["sensor"] |= {"group_runs": 100}
    for shop in ("s 1", "s 2"):
        local_world.land(at(shop=shop), sales(2), "late.parquet")
    (shared,) = ticks.tick()
    (result,) = ticks.run([shared])
    assert result.success
    assert [row[-1] for row in totals(local_world)] == [1, 2, 1, 2, 1, 1]


@pytest.mark.more
def test_runs_and_their_checks_and_a_failure_are_of_the_key(local_world: World, instance: dg.DagsterInstance) -> None:
    definitions = build_definitions(local_world.config, pyspark_resource(local_world.config.spark))
    instance.add_dynamic_partitions("sales_region/shop", ["NW/s 1"])

    def run() -> dg.ExecuteInProcessResult:
        return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, partition_key=KEY, asset_selection=[ASSET], raise_on_error=False
        )

    local_world.land(at(), b"no parquet")
    assert not run().success
    local_world.land(at(), sales(1))
    done = run()

    assert done.success
    (event,) = done.get_asset_materialization_events()
    assert event.partition == KEY
    assert {result.partition for result in done.get_asset_check_evaluations() if result.partition} == {KEY}
    assert all(result.passed for result in done.get_asset_check_evaluations())


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_each_mode_takes_three_columns_and_the_sync_reports_them(
    local_world: World, instance: dg.DagsterInstance, mode: str
) -> None:
    local_world.options |= {"mode": mode}
    local_world.commit(at(), 1)
    local_world.commit(at(shop="s 2"), 2)
    local_world.commit(at(), 3, name="batch_2.parquet")

    assert [row[-2:] for row in totals(local_world)] == [("s 1", 1), ("s 1", 3), ("s 2", 2)]
    assert sorted(sync_stream(specs_of(local_world.stream), instance).reported) == [KEY, "2026-02-11|NW/s 2"]
    assert materialized(instance) == {KEY, "2026-02-11|NW/s 2"}
    files = local_world.live_files()
    assert all("region=NW" in uri and "date=2026-02-11" in uri and "shop=s" in uri for uri in files)


def test_a_column_in_the_rows_may_be_the_third(local_world: World) -> None:
    local_world.options["partitions"] = COLUMNS | {"shop": {"in": "rows"}}
    rows = sales(1, 2).append_column("shop", [["a", "b"]])
    folder = Path(local_world.source["path"]) / "region=NW" / "date=2026-02-11"
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "batch_1.parquet")

    done = local_world.ingest(at(shop="b"))

    assert done.row.status == "committed"
    assert totals(local_world) == [("NW", "2026-02-11", "b", 2)]


def test_a_schedule_and_a_restore_take_the_joined_key(local_world: World, instance: dg.DagsterInstance) -> None:
    local_world.options["schedule"] = {"cron": "0 * * * *", "lookback": 1}
    snapshot = local_world.commit(at(), 1).snapshot_id
    local_world.commit(at(), 2)
    sync_stream(specs_of(local_world.stream), instance)
    definitions = build_definitions(local_world.config, pyspark_resource(local_world.config.spark))

    config = {"ops": {"restore_partition_of_sales": {"config": {"partition": KEY, "snapshot": snapshot}}}}
    restored = definitions.resolve_job_def("restore_sales").execute_in_process(config, instance=instance)
    assert restored.success
    assert [row[-1] for row in totals(local_world)] == [1]
    (event,) = restored.get_asset_materialization_events()
    assert event.partition == KEY


def test_the_commands_and_the_report_show_three_columns(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = str(local_world.config_file(tmp_path))
    for text in (at(), at(shop="s 2"), at(12)):
        local_world.land(text, sales(1))

    def command(*arguments: str) -> Result:
        result = CliRunner().invoke(main, ["--config", file, *arguments])
        assert result.exit_code == 0, result.output
        return result

    assert "3 partitions" in command("plan", "sales", "--waiting").output
    command("ingest", "sales", "--partition", "region=NW,date=2026-02-11")
    assert len(totals(local_world)) == 2
    command("ingest", "sales", "--waiting")
    command("check", "sales")
    assert "shop=s 2" in command("history", "sales", "--partition", at(shop="s 2")).output
    page = tmp_path / "page.html"
    command("report", "--html", str(page))
    assert "region=NW" in page.read_text(encoding="utf-8")
    (block,) = arrange(read_state(local_world.stream)).blocks
    assert [label for _, label in block.y_labels] == ["NW / s 1", "NW / s 2"]
    assert {cell.state for cell in block.cells.values()} == {"committed", "absent"}
