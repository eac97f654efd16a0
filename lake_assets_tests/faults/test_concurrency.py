"""Writers at once: the lake ends as if one had run after the other."""

from dataclasses import replace
from pathlib import Path

import pytest

from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.writer import ROWS, STRATEGIES, make_table, write
from lake_assets_tests.world import NW, SW, World

pytestmark = pytest.mark.kill

CATALOGS = pytest.mark.parametrize(
    "world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "local")], indirect=True
)


def run_all(world: World, folder: Path, *commands: list[str]) -> None:
    children = [start(world, folder, *command) for command in commands]
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors


@CATALOGS
def test_writers_of_the_same_new_partition_do_not_double_it(world: World, tmp_path: Path) -> None:
    make_table(world)

    run_all(world, tmp_path, *[["--partition", NW, "--times", "5"]] * 4)

    assert len(world.totals()) == ROWS
    assert len(set(world.totals())) == 1
    rows = [row for row in world.ledger() if row.status == "committed"]
    assert len(rows) == 20
    assert sorted(row.rows_before or 0 for row in rows) == [0] + [ROWS] * 19
    # Each ledger row names the snapshot that it is part of.
    named = world.query(
        "SELECT r.run_id, s.snapshot_id FROM lake.snapshots() s "
        "JOIN lake.ingest_runs r ON s.commit_message LIKE '%' || r.run_id"
    )
    assert dict(named) == {row.run_id: row.snapshot_id for row in rows}


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
@pytest.mark.parametrize("lock", [[], ["--no-lock"]], ids=["lock", "no lock"])
def test_writers_by_insert_of_the_same_new_partition_do_not_double_it(
    world: World, tmp_path: Path, lock: list[str]
) -> None:
    world.lake_options = {"attach_options": {"encrypted": True}}
    make_table(world)

    run_all(world, tmp_path, *[["--partition", NW, "--times", "3", *lock]] * 3)

    assert len(world.totals()) == ROWS
    assert len(set(world.totals())) == 1
    rows = [row for row in world.ledger() if row.status == "committed"]
    assert sorted(row.rows_before or 0 for row in rows) == [0] + [ROWS] * 8


@CATALOGS
def test_writers_of_different_partitions_all_commit(world: World, tmp_path: Path) -> None:
    make_table(world)

    run_all(world, tmp_path, *[["--partition", f"region=R{i},date=2026-02-11", "--times", "5"] for i in range(4)])

    assert len(world.totals()) == 4 * ROWS
    assert len(set(world.totals())) == 4


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
def test_without_the_lock_the_catalog_itself_refuses_and_the_retry_commits(world: World, tmp_path: Path) -> None:
    make_table(world)

    run_all(world, tmp_path, *[["--partition", NW, "--times", "3", "--no-lock"]] * 3)

    assert len(world.totals()) == ROWS
    assert len(set(world.totals())) == 1
    assert len([row for row in world.ledger() if row.status == "committed"]) == 9


@pytest.mark.sample(2)
@pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("faster_strategy", STRATEGIES)
def test_a_first_commit_that_is_overtaken_by_another_does_not_double_the_partition(
    world: World, strategy: str, faster_strategy: str
) -> None:
    """The case that DuckLake lets pass by itself: each of two deletes matches nothing."""
    make_table(world)
    write(world, SW)
    other = World(world.catalog, world.storage, world.source, world.sessions)
    faster: list[LedgerRow] = []

    def overtake() -> None:
        faster.append(write(other, NW, lock=False, strategy=faster_strategy))

    row = write(world, NW, lock=False, strategy=strategy, overtaken_by=overtake)

    assert len(world.totals(NW)) == ROWS
    assert faster[0].rows_before == 0
    assert row.rows_before == ROWS


@pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
def test_a_first_commit_by_insert_that_is_overtaken_does_not_double_the_partition(world: World) -> None:
    world.lake_options = {"attach_options": {"encrypted": True}}
    make_table(world)
    write(world, SW)

    other = replace(world, _opened=None)
    row = write(world, NW, lock=False, overtaken_by=lambda: write(other, NW, lock=False))

    assert len(world.totals(NW)) == ROWS
    assert row.rows_before == ROWS


def test_a_partition_can_be_replaced_while_another_is_read(local_world: World) -> None:
    make_table(local_world)
    write(local_world, NW)
    write(local_world, SW)
    with local_world.stream.lake.open() as reader, reader.transaction():
        before = reader.rows("SELECT sum(total) FROM lake.sales")
        other = World(local_world.catalog, local_world.storage, local_world.source, local_world.sessions)
        write(other, NW)
        assert reader.rows("SELECT sum(total) FROM lake.sales") == before
