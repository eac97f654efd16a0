"""A table without partition columns, `partitions: {}`: its one partition `all` is every row of it."""

from typing import Any

import dagster as dg
import pytest

from lake_assets.base.errors import CatalogError, PartitionError
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.selection_grammar import parse_selector
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets.upkeep.report.grid import arrange
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.encrypted import ENCRYPTED
from lake_assets_tests.orchestration.ticks import ticks_of
from lake_assets_tests.world import NW, SW, World, plan, sales

ALL = "all"


@pytest.fixture
def whole(world: World) -> World:
    world.options = {"partitions": {}}
    return world


@pytest.fixture
def local(local_world: World) -> World:
    local_world.options = {"partitions": {}}
    return local_world


def totals(world: World, at: int | None = None) -> list[float]:
    when = "" if at is None else f" AT (VERSION => {at})"
    return [total for (total,) in world.query(f"SELECT total FROM lake.sales{when} ORDER BY 1")]


def test_each_run_replaces_all_rows_and_the_earlier_ones_stay_in_time_travel(whole: World) -> None:
    whole.land(ALL, sales(1, 2), "a.parquet")
    whole.land(ALL, sales(3), "below/b.parquet")
    first = whole.ingest(ALL).row
    whole.unland(ALL, "a.parquet")
    whole.land(ALL, sales(7), "c.parquet")
    assert plan(whole.stream, whole.partition(ALL)).strategy == "direct"

    second = whole.ingest(ALL).row

    assert (first.load_partition, first.rows_before, first.row_count) == ("all", 0, 3)
    assert (second.rows_before, second.row_count) == (3, 2)
    assert totals(whole) == [3, 7]
    assert totals(whole, first.snapshot_id) == [1, 2, 3]
    assert [name for name, *_ in whole.query("DESCRIBE lake.sales")] == ["id", "total"]
    assert whole.ingest(ALL).row.status == "skipped"
    assert totals(whole) == [3, 7]


@pytest.mark.parametrize(
    ("options", "lake_options", "before_and_added"),
    [
        ({"mode": "append"}, {}, (2, 1)),
        pytest.param({"mode": "index"}, {}, (2, 1), marks=pytest.mark.more),
        pytest.param({}, ENCRYPTED, (2, 3), id="encrypted", marks=pytest.mark.more),
    ],
)
def test_a_new_object_is_added_in_each_mode_and_an_encrypted_lake(
    local: World, options: dict[str, Any], lake_options: dict[str, Any], before_and_added: tuple[int, int]
) -> None:
    local.options |= options
    local.lake_options = lake_options
    local.commit(ALL, 1, 2, name="a.parquet")

    row = local.commit(ALL, 3, name="b.parquet")

    assert (row.rows_before, row.row_count) == before_and_added
    assert totals(local) == [1, 2, 3]
    if "index" in options.values():
        assert sorted(uri.rpartition("/")[2] for uri in local.live_files()) == ["a.parquet", "b.parquet"]


@pytest.mark.more
def test_rows_that_another_client_changed_are_compacted_and_replaced_too(local: World) -> None:
    local.commit(ALL, 1, 2)
    local.execute("DELETE FROM lake.sales WHERE total = 1")
    local.execute(*(f"INSERT INTO lake.sales VALUES ({n}, {n})" for n in (7, 8, 9)))

    (done,) = compact(local.stream, 3, local.sessions)

    assert (str(done.partition), done.files_before, done.files_after) == ("all", 4, 1)
    assert totals(local) == [2, 7, 8, 9]
    local.execute("DELETE FROM lake.sales WHERE total = 7")
    row = local.commit(ALL, 5, name="b.parquet")
    assert (row.rows_before, row.row_count) == (3, 3)
    assert totals(local) == [1, 2, 5]


def test_history_an_earlier_snapshot_and_the_report(local: World) -> None:
    first = local.commit(ALL, 1, 2)
    second = local.commit(ALL, 3, name="b.parquet")
    table = local.stream.partition()

    assert [entry.snapshot for entry in table.history()] == [second.snapshot_id, first.snapshot_id]
    state = read_stream_state(local.stream)
    assert [(str(p.partition), p.state, p.rows) for p in state.partitions] == [("all", "committed", 3)]
    (block,) = arrange(state).blocks
    assert (block.y_labels, [cell.rows for cell in block.cells.values()]) == ([(0, "all")], [3])
    assert first.snapshot_id is not None
    table.restore(first.snapshot_id)
    assert totals(local) == [1, 2]
    assert sorted(table.read()["total"].to_pylist()) == [1, 2]
    assert [entry.rows for entry in local.stream.history()] == [2, 3, 2]


@pytest.mark.more
def test_a_table_that_is_partitioned_is_refused_until_its_partitioning_is_reset(local: World) -> None:
    local.options = {}
    local.commit(NW, 1)
    local.commit(SW, 2)
    local.options = {"partitions": {}, "schema_policy": "evolve"}

    with pytest.raises(CatalogError, match=r"run `ALTER TABLE main\.sales RESET PARTITIONED BY` in a client"):
        local.ingest(ALL)

    local.execute("ALTER TABLE lake.sales RESET PARTITIONED BY")
    assert local.ingest(ALL).error is None
    assert totals(local) == [1, 2]


@pytest.mark.more
def test_a_stream_with_partitions_adds_to_a_table_without_by_the_extension(local: World) -> None:
    local.options = {"mode": "append"}
    local.commit(NW, 1)
    local.execute("ALTER TABLE lake.sales RESET PARTITIONED BY")
    local.land(NW, sales(2), "b.parquet")

    assert plan(local.stream, local.partition(NW)).strategy == "extension"
    assert local.ingest(NW).row.row_count == 1
    assert totals(local) == [1, 2]


def test_a_selection_of_other_partitions_is_refused(local: World) -> None:
    config = local.config.streams["sales"]
    for text in ("region=NW", "date=last:3", "everything"):
        with pytest.raises(PartitionError, match="has no partition columns: write all"):
            parse_selector(config, text, Calendar(config))
        with pytest.raises(PartitionError):
            config.partition(text)
        assert config.partition_at(text) is None
    assert parse_selector(config, ALL, Calendar(config)).matches(config.partition(ALL))


@pytest.mark.more
def test_a_sensor_asks_dagster_for_the_key_all(local: World) -> None:
    local.options |= {"sensor": {"type": "objects"}}
    local.land(ALL, sales(1, 2))
    with ticks_of(local) as ticks:
        requests = ticks.tick()
        assert [request.partition_key for request in requests] == ["all"]
        assert all(result.success for result in ticks.run(requests))
        assert ticks.tick() == []
        assert ticks.instance.get_materialized_partitions(dg.AssetKey("sales")) == {"all"}
    assert totals(local) == [1, 2]
