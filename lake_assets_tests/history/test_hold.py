"""A hold keeps refreshes off a partition until it is released."""

import dataclasses

import pytest

from dev.plain_client import plain_client
from lake_assets.history.restore import release
from lake_assets.maintenance.compaction import compact
from lake_assets_tests.history.test_restore import back, ingested
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales


def test_a_refresh_that_began_before_the_hold_does_not_replace_the_rows(either_lake: World) -> None:
    first = ingested(either_lake, 1, 2)
    ingested(either_lake, 3)
    either_lake.land(NW, sales(4))
    other = dataclasses.replace(either_lake, _opened=None)
    with before("transaction", lambda _: back(other, first, hold=True)):
        result = either_lake.ingest(NW)

    assert (result.row.status, result.row.hold) == ("skipped", "held")
    assert either_lake.totals(NW) == [1, 2]


@pytest.mark.parametrize("had_rows", [False, True])
def test_a_refresh_that_began_before_an_empty_partition_was_held_does_not_fill_it(
    local_world: World, had_rows: bool
) -> None:
    """No file of the partition says then that it is held."""
    local_world.options = {"on_empty": "clear"}
    ingested(local_world, 1)
    local_world.unland(NW)
    empty = local_world.ingest(NW).row.snapshot_id
    if had_rows:
        ingested(local_world, 2)
    local_world.land(NW, sales(3))
    other = dataclasses.replace(local_world, options={}, _opened=None)
    with before("transaction", lambda _: back(other, empty, hold=True)):
        result = local_world.ingest(NW)

    assert (result.row.status, result.row.hold) == ("skipped", "held")
    assert local_world.totals(NW) == []


@pytest.mark.parametrize("change", ["UPDATE {} SET total = total + 10", *more(["DELETE FROM {} WHERE total = 1"])])
def test_rows_that_another_client_changed_are_held_too(local_world: World, change: str) -> None:
    """DuckLake's extension replaces such rows, and the files of an update have names that DuckLake gave them."""
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)
    held: list[list[float]] = []

    def hold_and_change(_: object) -> None:
        back(dataclasses.replace(local_world, _opened=None), first, hold=True)
        with plain_client(local_world.config.lakes["test"], read_only=False) as client:
            client.execute(change.format("lake.sales"))
        held.append(local_world.totals(NW))

    local_world.land(NW, sales(4))
    with before("transaction", hold_and_change):
        result = local_world.ingest(NW)

    assert (result.row.status, result.row.hold) == ("skipped", "held")
    assert local_world.totals(NW) == held[0]


def test_a_held_partition_is_not_compacted(local_world: World) -> None:
    ingested(local_world, 1)
    for number in range(3):
        with local_world.stream.lake.open() as lake:
            lake.rows(f"INSERT INTO {local_world.stream.table.sql} VALUES ({number}, 1, 'NW', '2026-02-11')")
            snapshot = lake.current_snapshot()
    back(local_world, snapshot, hold=True)

    assert compact(local_world.stream, 2, local_world.sessions) == []
    release(local_world.stream, local_world.partition(NW))
    assert [result.files_before for result in compact(local_world.stream, 2, local_world.sessions)] == [4]
