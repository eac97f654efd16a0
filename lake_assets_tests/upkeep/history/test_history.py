"""The history of a partition: runs and other clients, rows before and after, and the snapshots that can be restored."""

import pytest

from lake_assets.base.errors import CatalogError
from lake_assets.lake.catalog.past_partitions import past_table
from lake_assets.upkeep.history.history_entries import HistoryEntry, history
from lake_assets_tests.upkeep.history.test_restore import back, ingested
from lake_assets_tests.world import NW, SW, World


def of(world: World, text: str | None = NW, limit: int = 20) -> list[HistoryEntry]:
    return history(world.stream, world.partition(text) if text else None, limit)


def figures(entries: list[HistoryEntry]) -> list[tuple[str, int | None, int | None]]:
    return [(entry.mode, entry.rows_before, entry.rows) for entry in entries]


def test_it_has_the_partitions_snapshots_with_their_rows_before_and_after(world: World) -> None:
    first = ingested(world, 1, 2, 3)
    ingested(world, 9, text=SW)
    second = ingested(world, 4, 5)
    restored = back(world, first).row

    assert restored is not None
    entries = of(world)
    assert figures(entries) == [("restore", 2, 3), ("replace", 3, 2), ("replace", 0, 3)]
    assert [entry.snapshot for entry in entries] == [restored.snapshot_id, second, first]
    assert [entry.kept for entry in entries] == [entry.snapshot for entry in entries]
    assert entries[0].run_id == restored.run_id
    assert {entry.partition for entry in of(world, None)} >= {world.partition(NW).path, world.partition(SW).path}


def test_a_clock_that_is_behind_the_newest_snapshot_changes_no_order(local_world: World) -> None:
    first = ingested(local_world, 1)
    local_world.execute(
        "UPDATE __ducklake_metadata_lake.ducklake_snapshot SET snapshot_time = '2100-01-01 00:00:00+00'"
    )
    second = ingested(local_world, 2, 3)
    assert [entry.snapshot for entry in of(local_world)] == [second, first]
    assert local_world.totals() == [2, 3]
    assert local_world.tidy().expired == ()
    assert back(local_world, first).rows == 1
    assert local_world.totals() == [1]


def test_other_clients_are_in_it_with_their_author(local_world: World) -> None:
    ingested(local_world, 1, 2, 3)
    with local_world.stream.lake.open() as lake:
        with lake.transaction():
            lake.rows(f"DELETE FROM {local_world.stream.table.sql} WHERE total = 2")
            lake.sign("ann", "by hand")
        lake.rows(f"INSERT INTO {local_world.stream.table.sql} VALUES (9, 9, 'NW', '2026-02-11')")

    entries = of(local_world)
    assert figures(entries) == [
        ("inserted_into_table", 2, 3),
        ("deleted_from_table", 3, 2),
        ("replace", 0, 3),
    ]
    assert [entry.requested_by for entry in entries] == [None, "ann", None]
    of_table = of(local_world, None)
    assert figures(of_table)[:3] == figures(entries)
    assert of_table[-1].partition is None


def test_a_limit_gives_the_newest_and_any_number_of_snapshots_is_counted(local_world: World) -> None:
    snapshots = [ingested(local_world, number) for number in range(4)]

    assert [entry.snapshot for entry in of(local_world, limit=2)] == snapshots[:1:-1]
    assert [entry.snapshot for entry in of(local_world, None, 2)] == snapshots[:1:-1]
    with local_world.stream.lake.open() as lake:
        partition = local_world.partition(NW)
        past = past_table(lake, local_world.stream.partitioned_table, [partition]).of(partition)
        assert {past.rows(number) for number in range(snapshots[0], snapshots[0] + 1_000)} == {1}


def test_an_expired_snapshot_names_a_later_one_with_the_same_rows(local_world: World) -> None:
    first = ingested(local_world, 1)
    other = ingested(local_world, 7, text=SW)
    second = ingested(local_world, 2)
    local_world.execute(f"CALL ducklake_expire_snapshots('lake', versions => [{first}])")

    assert [(entry.snapshot, entry.kept, entry.rows) for entry in of(local_world)] == [
        (second, second, 1),
        (first, other, 1),
    ]
    back(local_world, other)
    assert local_world.totals(NW) == [1]
    local_world.execute(f"CALL ducklake_expire_snapshots('lake', versions => [{other}])")
    assert of(local_world)[-1].kept is None


def test_a_table_that_was_dropped_has_no_history_left(local_world: World) -> None:
    ingested(local_world, 1)
    local_world.execute("DROP TABLE lake.sales")
    with pytest.raises(CatalogError, match=r"the lake has no table main\.sales yet: ingest a partition of sales"):
        of(local_world)
    local_world.ingest(NW)

    assert figures(of(local_world)) == [("replace", 0, 1)]
