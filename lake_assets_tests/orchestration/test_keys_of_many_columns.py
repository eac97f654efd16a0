"""Keys in Dagster that are no partition each: months of days, and the columns beside the time joined to one.

Each shape goes from the landing zone to Dagster and back.
"""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from lake_assets.api import open_stream
from lake_assets.base.errors import PartitionError
from lake_assets.cli import main
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.dagster_private import newest_result
from lake_assets.orchestration.partition_keys import StreamKeys
from lake_assets.orchestration.sensors.sync import sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets.upkeep.report.grid import arrange
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.orchestration.assets.test_landing_asset import Automated
from lake_assets_tests.orchestration.check_runs import SALES, run
from lake_assets_tests.orchestration.in_process import failure_of
from lake_assets_tests.orchestration.test_queued_runs import queue
from lake_assets_tests.orchestration.test_stream_schedules import Scheduled, box
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales

ASSET = dg.AssetKey("sales")
NW_2 = "2026-02|NW"
NW_11, NW_12, SW_11 = ("region=NW,date=2026-02-11", "region=NW,date=2026-02-12", "region=SW,date=2026-02-11")
BY_MONTH: dict[str, Any] = {"region": {}, "date": {"type": "date", "start": "2026-01-15", "keys": "month"}}
WITH_SHOP: dict[str, Any] = {"region": {}, "date": {"type": "date", "start": "2026-02-10"}, "shop": {}}


@dataclass(frozen=True)
class Shape:
    """Partition columns, three partitions of them, and the key of each."""

    columns: dict[str, Any]
    texts: tuple[str, str, str]
    keys: tuple[str, str, str]
    dynamic: list[str]  # of the first and the second key

    def paths(self) -> list[str]:
        return [text.replace(",", "/") for text in self.texts]


MONTHS = Shape(BY_MONTH, (NW_11, NW_12, SW_11), (NW_2, NW_2, "2026-02|SW"), ["NW"])
SHOPS = Shape(
    WITH_SHOP,
    (f"{NW_11},shop=s 1", f"{NW_12},shop=s 1", f"{NW_11},shop=s 2"),
    ("2026-02-11|NW/s 1", "2026-02-12|NW/s 1", "2026-02-11|NW/s 2"),
    ["NW/s 1"],
)


@pytest.fixture
def by_month(local_world: World) -> World:
    """A world whose keys are months of regions that the config lists."""
    local_world.options |= {"partitions": BY_MONTH | {"region": {"values": ["NW", "SW"]}}}
    return local_world


def materialized(instance: dg.DagsterInstance) -> list[tuple[str | None, str]]:
    """The key and the partition of each materialization, oldest first."""
    records = instance.fetch_materializations(ASSET, limit=100).records[::-1]
    events = [record.asset_materialization for record in records if record.asset_materialization]
    return [(event.partition, str(event.metadata["partition"].value)) for event in events]


def events_of(shape: Shape, instance: dg.DagsterInstance) -> list[tuple[str | None, str]]:
    """The materializations, oldest first: the key and the partition, which the key is if it has one partition."""
    if shape is MONTHS:
        return materialized(instance)
    records = instance.fetch_materializations(ASSET, limit=100).records[::-1]
    return [(record.partition_key, shape.paths()[shape.keys.index(str(record.partition_key))]) for record in records]


def observed(instance: dg.DagsterInstance) -> list[str]:
    """The partitions of the observations, oldest first."""
    records = instance.fetch_observations(ASSET, limit=100).records[::-1]
    events = [record.asset_observation for record in records if record.asset_observation]
    return [str(event.metadata["partition"].value) for event in events]


def status(world: World, instance: dg.DagsterInstance, key: str) -> str | None:
    definition = StreamKeys(world.stream).definition
    statuses = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations
    if key in instance.get_materialized_partitions(ASSET) and key not in statuses(ASSET):
        return "materialized"
    of_key = instance.get_status_by_partition(ASSET, [key], definition) or {}
    return value.value if (value := of_key.get(key)) else None


def check(instance: dg.DagsterInstance, name: str, key: str) -> dg.AssetCheckEvaluation:
    """The newest result of a check for a key."""
    newest = newest_result(instance, dg.AssetCheckKey(ASSET, name), key)
    assert newest is not None
    return newest


def run_month(world: World, instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    """A run of February of NW, with its checks."""
    options = {"ops": {"sales": {"config": config}}}
    done: dg.ExecuteInProcessResult = run(world, SALES, instance=instance, partition_key=NW_2, run_config=options)
    return done


@pytest.mark.parametrize(
    "shape", [pytest.param(MONTHS, id="months"), pytest.param(SHOPS, id="shops", marks=pytest.mark.more)]
)
def test_a_sensor_asks_for_keys_whose_runs_commit_each_changed_partition_by_itself(
    local_world: World, ticks: Ticks, shape: Shape
) -> None:
    local_world.options |= {"partitions": shape.columns}
    local_world.options["sensor"] |= {"group_runs": 1}
    for text in shape.texts:
        local_world.land(text, sales(1))

    requests = ticks.tick()
    assert {request.partition_key for request in requests} == set(shape.keys)
    assert all(result.success for result in ticks.run(requests))
    committed = zip(shape.keys, shape.paths(), strict=True)
    assert sorted(events_of(shape, ticks.instance)) == sorted(committed)
    assert sorted(row.load_partition for row in local_world.ledger()) == sorted(shape.paths())
    assert not ticks.tick()

    local_world.land(shape.texts[1], sales(2), "late.parquet")
    (request,) = ticks.tick()
    assert request.partition_key == shape.keys[1]
    ticks.run([request])
    assert events_of(shape, ticks.instance)[3:] == [(shape.keys[1], shape.paths()[1])]
    assert len([row for row in local_world.ledger() if row.status == "committed"]) == 4
    assert not observed(ticks.instance)

    local_world.options["sensor"] |= {"group_runs": 100}
    for text in (shape.texts[0], shape.texts[2]):
        local_world.land(text, sales(3), "later.parquet")
    (shared,) = ticks.tick()
    assert all(result.success for result in ticks.run([shared]))
    assert set(events_of(shape, ticks.instance)[4:]) == {(shape.keys[n], shape.paths()[n]) for n in (0, 2)}


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        pytest.param(SHOPS, "replace", id="shops-replace"),
        *more([(SHOPS, "append"), (SHOPS, "index"), (MONTHS, "replace")]),
    ],
)
def test_commits_of_the_command_line_are_reported_once_each_with_their_keys(
    local_world: World, instance: dg.DagsterInstance, shape: Shape, mode: str
) -> None:
    local_world.options |= {"partitions": shape.columns, "mode": mode}
    for number in (0, 1):
        local_world.commit(shape.texts[number], number)
    specs = specs_of(local_world.stream)

    first, again = sync_stream(specs, instance), sync_stream(specs, instance)

    pairs = list(zip(shape.keys, shape.paths(), strict=True))
    assert first.reported == list(shape.keys[:2])
    assert (list(again.reported), again.known) == ([], 2)
    assert events_of(shape, instance) == pairs[:2]
    assert instance.get_dynamic_partitions(next(iter(StreamKeys(local_world.stream).dynamic.values()))) == shape.dynamic
    local_world.commit(shape.texts[0], 5, name="batch_2.parquet")
    assert list(sync_stream(specs, instance).reported) == [shape.keys[0]]
    assert events_of(shape, instance)[2:] == pairs[:1]
    assert local_world.query("SELECT total FROM lake.sales ORDER BY ALL") == [(0,), (1,), (5,)]


@pytest.mark.more
@pytest.mark.parametrize(
    ("shape", "name", "refused"),
    [pytest.param(SHOPS, SHOPS.keys[0], None, id="shops"), (MONTHS, NW_11, NW_2)],
)
def test_a_restore_takes_a_partition_or_the_key_of_one_and_its_materialization_has_the_key(
    local_world: World, instance: dg.DagsterInstance, shape: Shape, name: str, refused: str | None
) -> None:
    local_world.options |= {"partitions": shape.columns}
    snapshot = local_world.commit(shape.texts[0], 1).snapshot_id
    local_world.commit(shape.texts[0], 2)
    job = build_definitions(local_world.config).resolve_job_def("restore_sales")

    def restore(partition: str) -> dg.ExecuteInProcessResult:
        config = {"partition": partition, "snapshot": snapshot}
        options = {"ops": {"restore_partition_of_sales": {"config": config}}}
        return job.execute_in_process(options, instance=instance, raise_on_error=False)

    if refused is not None:
        assert "has 28 partitions" in failure_of(restore(refused))
    assert restore(name).success
    assert events_of(shape, instance) == [(shape.keys[0], shape.paths()[0])]
    assert local_world.query("SELECT total FROM lake.sales") == [(1,)]


@pytest.mark.more
def test_a_run_of_an_unchanged_month_has_one_observation_of_its_newest_commit(
    by_month: World, instance: dg.DagsterInstance
) -> None:
    for number in (11, 12, 13):
        by_month.land(f"region=NW,date=2026-02-{number}", sales(number))
    assert run_month(by_month, instance).success
    assert run_month(by_month, instance).success

    assert len(materialized(instance)) == 3
    assert observed(instance) == ["region=NW/date=2026-02-13"]


@pytest.mark.more
def test_the_run_of_a_month_fails_with_one_day_and_the_retry_ends_that(
    by_month: World, instance: dg.DagsterInstance
) -> None:
    by_month.land(NW_11, sales(1))
    by_month.land(NW_12, b"no parquet")

    failed = run_month(by_month, instance)

    assert not failed.success
    assert "region=NW/date=2026-02-12" in failure_of(failed)
    assert materialized(instance) == [(NW_2, "region=NW/date=2026-02-11")]
    assert observed(instance) == ["region=NW/date=2026-02-12"]
    assert status(by_month, instance, NW_2) == "FAILED"
    assert not check(instance, "last_run", NW_2).passed
    assert "region=NW/date=2026-02-12" in str(check(instance, "last_run", NW_2).description)

    by_month.land(NW_12, sales(2))
    assert run_month(by_month, instance).success
    assert materialized(instance)[1:] == [(NW_2, "region=NW/date=2026-02-12")]
    assert status(by_month, instance, NW_2) == "materialized"
    assert check(instance, "last_run", NW_2).passed


@pytest.mark.more
def test_a_result_of_some_days_keeps_the_failures_of_the_others(by_month: World, instance: dg.DagsterInstance) -> None:
    positive = "SELECT region, date, total FROM refreshed WHERE total < 0"
    by_month.options["checks"] = {"sql": {"positive": positive}}
    by_month.land(NW_11, sales(-1))
    by_month.land(NW_12, sales(1))
    run_month(by_month, instance)
    assert not check(instance, "positive", NW_2).passed

    by_month.land(NW_12, sales(2))
    run_month(by_month, instance, partitions=["date=2026-02-12"])
    kept = check(instance, "positive", NW_2)
    assert not kept.passed
    assert "region=NW/date=2026-02-11" in str(kept.description)

    by_month.land(NW_11, sales(3))
    run_month(by_month, instance, partitions=["date=2026-02-11"])
    assert check(instance, "positive", NW_2).passed


@pytest.mark.more
def test_a_schedule_asks_for_the_months_of_its_days(by_month: World, instance: dg.DagsterInstance) -> None:
    scheduled = Scheduled(by_month, instance, lookback=3)

    assert box(scheduled.request("2026-02-02T12:00+00:00")) == ("2026-01|NW", "2026-02|SW")
    by_month.land("region=SW,date=2026-01-20", sales(1))
    assert scheduled.run(scheduled.request("2026-02-02T12:00+00:00")).success
    assert materialized(scheduled.instance) == [("2026-01|SW", "region=SW/date=2026-01-20")]


@pytest.mark.more
def test_automation_refreshes_the_months_with_new_objects(by_month: World, instance: dg.DagsterInstance) -> None:
    Path(by_month.source["path"]).mkdir()
    automated = Automated(by_month, instance)
    assert (automated.observe(), automated.requested()) == ({}, set())
    for text in (NW_11, NW_12):
        by_month.land(text, sales(1))

    ((key, first),) = automated.observe().items()
    assert key == NW_2
    assert automated.requested() == {NW_2}
    automated.materialize(NW_2)
    assert (automated.observe(), automated.requested()) == ({}, set())

    by_month.land(NW_12, sales(3), "late.parquet")
    ((key, second),) = automated.observe().items()
    assert (key, automated.requested()) == (NW_2, {NW_2})
    assert first != second


@pytest.mark.more
def test_an_asset_downstream_reads_all_days_of_its_month(by_month: World, instance: dg.DagsterInstance) -> None:
    for text, total in ((NW_11, 11), (NW_12, 12), ("region=NW,date=2026-01-20", 20)):
        by_month.commit(text, total)
    seen: list[list[float]] = []

    @dg.asset(partitions_def=StreamKeys(by_month.stream).definition, ins={"sales": dg.AssetIn("sales")})
    def revenue(sales: Any) -> None:
        seen.append(sorted(sales["total"].to_pylist()))

    definitions = dg.Definitions.merge(build_definitions(by_month.config), dg.Definitions(assets=[revenue]))
    job = definitions.resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=instance, partition_key=NW_2, asset_selection=[revenue.key])

    assert seen == [[11, 12]]


def test_a_month_in_the_queue_is_not_asked_for_again(by_month: World, ticks: Ticks) -> None:
    by_month.land(NW_11, sales(1))
    (request,) = ticks.tick()
    queue(ticks, request)

    by_month.land(NW_12, sales(2))

    assert not ticks.tick()


@pytest.mark.more
def test_the_commands_and_the_report_show_three_columns(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    date = {"type": "date", "start": "2026-02-10", "end": "2026-02-13"}
    local_world.options |= {"partitions": WITH_SHOP | {"date": date}}
    monkeypatch.chdir(tmp_path)
    file = str(local_world.config_file(tmp_path))
    for text in SHOPS.texts:
        local_world.land(text, sales(1))

    def command(*arguments: str) -> Result:
        result = CliRunner().invoke(main, ["--config", file, *arguments])
        assert result.exit_code == 0, result.output
        return result

    assert "3 partitions" in command("plan", "sales", "--waiting").output
    command("ingest", "sales", "--partition", NW_11)
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(2,)]
    command("ingest", "sales", "--waiting")
    command("check", "sales")
    assert "shop=s 2" in command("history", "sales", "--partition", SHOPS.texts[2]).output
    page = tmp_path / "page.html"
    command("report", "--html", str(page))
    assert "region=NW" in page.read_text(encoding="utf-8")
    (block,) = arrange(read_stream_state(local_world.stream)).blocks
    assert [label for _, label in block.y_labels] == ["NW / s 1", "NW / s 2"]
    assert {cell.state for cell in block.cells.values()} == {"committed", "absent"}


def test_a_million_partitions_are_forty_thousand_keys_and_none_of_them_is_made(
    local_world: World, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=999)
    local_world.options["partitions"] = {
        "region": {"values": [f"r{number:04}" for number in range(1000)]},
        "date": {"type": "date", "start": start.isoformat(), "keys": "month"},
    }
    definition = StreamKeys(local_world.stream).definition
    assert isinstance(definition, dg.MultiPartitionsDefinition)
    assert 33_000 <= definition.get_num_partitions() <= 40_000
    local_world.land(f"region=r0007,date={start}", sales(1))
    local_world.land(f"region=r0999,date={start + dt.timedelta(days=998)}", sales(1))
    made: list[Partition] = []
    is_valid = Partition.__post_init__

    def note(partition: Partition) -> None:
        made.append(partition)
        is_valid(partition)

    monkeypatch.setattr(Partition, "__post_init__", note)

    requests = ticks.tick()  # builds the definitions too

    assert len(requests) == 2
    assert len(made) < 100


def test_the_columns_beside_the_time_are_one_dimension(local_world: World) -> None:
    local_world.options["partitions"] = WITH_SHOP
    keys = StreamKeys(local_world.stream)
    partition = local_world.partition("region=N%2FW|x,date=2026-02-11,shop=a b")

    assert list(keys.dimensions) == ["region/shop", "date"]
    assert keys.dynamic == {"region/shop": "sales_region/shop"}
    assert keys.of(partition) == "2026-02-11|N%2FW%7Cx/a b"
    assert keys.partitions("2026-02-11|N%2FW%7Cx/a b") == [partition]

    local_world.options["partitions"] = WITH_SHOP | {"region": {"values": ["NW", "SW"]}, "shop": {"values": ["a", "b"]}}
    of_shops = StreamKeys(local_world.stream).dimensions["region/shop"]
    assert of_shops.get_partition_keys() == ["NW/a", "NW/b", "SW/a", "SW/b"]
    assert StreamKeys(local_world.stream).dynamic == {}

    local_world.options["partitions"] = {"region": {}, "shop": {}, "till": {"type": "integer"}}
    alone = StreamKeys(local_world.stream)
    partition = local_world.partition("region=NW,shop=a,till=7")
    assert list(alone.dimensions) == ["region/shop/till"]
    assert alone.of(partition) == "NW/a/7"
    assert alone.partition("NW/a/7") == partition
    with pytest.raises(PartitionError, match="till"):
        alone.partition("NW/a")


JANUARY = {"start": "2026-01-15", "end": "2026-03-10"}


def keys_with(**column: str) -> StreamKeys:
    """The keys of a stream with one column `date`."""
    stream = {"source": "landing", "destination": {"table": "sales"}, "partitions": {"date": column}}
    lake = {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "data"}
    document = {"lakes": {"test": lake}, "streams": {"sales": stream}}
    return StreamKeys(open_stream(LakeConfig.model_validate(document), "sales"))


@pytest.mark.parametrize(
    ("column", "first", "number", "key", "values"),
    [
        (JANUARY | {"type": "date", "keys": "month"}, "2026-01", 17, "2026-02", ("2026-02-01", "2026-02-28")),
        (JANUARY | {"type": "date", "keys": "year"}, "2026", 55, "2026", ("2026-01-15", "2026-03-10")),
        (JANUARY | {"type": "date", "keys": "week"}, "2026-W03-1", 4, "2026-W07-1", ("2026-02-09", "2026-02-15")),
        (JANUARY | {"type": "hour", "keys": "day"}, "2026-01-15", 24, "2026-02-11", ("2026-02-11-00", "2026-02-11-23")),
        (
            {"type": "week", "start": "2020-12-01", "end": "2021-03-10", "keys": "year"},
            *("2020", 5, "2021", ("2021-W01", "2021-W10")),
        ),
    ],
)
def test_a_key_has_the_partitions_of_its_time_within_start_and_end(
    column: dict[str, str], first: str, number: int, key: str, values: tuple[str, str]
) -> None:
    keys = keys_with(**column)

    assert keys.definition.get_partition_keys()[0] == first
    assert len(keys.partitions(first)) == number
    of_key = keys.partitions(key)
    assert tuple(str(partition) for partition in (of_key[0], of_key[-1])) == tuple(f"date={value}" for value in values)
    assert {keys.of(partition) for partition in of_key} == {key}


def test_a_key_of_another_form_is_refused() -> None:
    with pytest.raises(PartitionError, match="is not of type month"):
        keys_with(**JANUARY, type="date", keys="month").partitions("2026-2")
