"""The history of a partition: runs and other clients, rows before and after, and the snapshots that can be restored."""

import pytest

from dev.plain_client import plain_client
from dev.servers.postgres import PostgresServer
from dev.servers.postgres_proxy import plain, postgres_proxy
from lake_assets.errors import CatalogError
from lake_assets.history.history_entries import HistoryEntry, history
from lake_assets.lake.catalog.past import past_table
from lake_assets_tests.faults.writer import make_table, write
from lake_assets_tests.history.test_restore import back, ingested
from lake_assets_tests.lake.worlds import ON_POSTGRES
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import database_on


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


def test_other_clients_are_in_it_with_their_author(world: World) -> None:
    ingested(world, 1, 2, 3)
    with world.stream.lake.open() as lake:
        with lake.transaction():
            lake.rows(f"DELETE FROM {world.stream.table.sql} WHERE total = 2")
            lake.sign("ann", "by hand")
        lake.rows(f"INSERT INTO {world.stream.table.sql} VALUES (9, 9, 'NW', '2026-02-11')")

    entries = of(world)
    assert figures(entries) == [
        ("inserted_into_table", 2, 3),
        ("deleted_from_table", 3, 2),
        ("replace", 0, 3),
    ]
    assert [entry.requested_by for entry in entries] == [None, "ann", None]
    of_table = of(world, None)
    assert figures(of_table)[:3] == figures(entries)
    assert of_table[-1].partition is None


def test_a_limit_gives_the_newest_and_any_number_of_snapshots_is_counted(local_world: World) -> None:
    snapshots = [ingested(local_world, number) for number in range(4)]

    assert [entry.snapshot for entry in of(local_world, limit=2)] == snapshots[:1:-1]
    assert [entry.snapshot for entry in of(local_world, None, 2)] == snapshots[:1:-1]
    with local_world.stream.lake.open() as lake:
        partition = local_world.partition(NW)
        past = past_table(lake, local_world.stream.table, partition.columns, [partition]).of(partition)
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


@pytest.mark.more
@ON_POSTGRES
def test_it_costs_what_it_shows(world: World, postgres: PostgresServer) -> None:
    """Of the table and of a partition: the numbers of partitions, files and snapshots do not matter."""
    with postgres_proxy(postgres) as proxy:
        world.catalog = database_on(proxy.server)
        counts: list[list[tuple[str, int]]] = []
        make_table(world)
        for times in (4, 8):
            for number in range(times):
                for text in (NW, SW, f"region=R{number},date=2026-02-11"):
                    write(world, text)
            with plain_client(world.config.lakes["test"], read_only=False) as client:
                client.execute("UPDATE lake.sales SET id = id + 1")  # one snapshot of another client, in all partitions
            for wanted in (None, NW):
                proxy.forget()
                assert len(of(world, wanted, limit=3)) == 3
                counts.append([(plain(statement.text)[:120], statement.rows) for statement in proxy.statements])

    small, large = counts[:2], counts[2:]
    assert large == small
    for found in small:
        assert len(found) <= 60
        assert max(rows for _, rows in found) <= 20
