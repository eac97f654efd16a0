"""Mode append under kills, retries and other writers: each object enters its partition once."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from lake_assets.errors import PartitionMovedError
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_kill import STATEMENTS, STRATEGY_OPTIONS
from lake_assets_tests.faults.writer import ROWS, STRATEGIES, make_table, write
from lake_assets_tests.world import NW, SW, World

pytestmark = pytest.mark.kill

ENCRYPTED = STRATEGY_OPTIONS["insert"]
# The moments that `make test-all` tries of each strategy; `make kills` tries all statements that an addition has.
MOMENTS = {
    "extension": {"ducklake_add_data_files", "COMMIT", "after COMMIT"},
    "direct": {'INSERT INTO "ducklake_data_file"', "COMMIT", "after COMMIT"},
    "insert": {'INSERT INTO "lake"."main"."sales"', "COMMIT", "after COMMIT"},
}
DEATHS = [
    pytest.param(strategy, statement, marks=() if statement in MOMENTS[strategy] else pytest.mark.kill_all)
    for strategy, statements in STATEMENTS.items()
    for statement in statements
    if "DELETE" not in statement and statement != "UPDATE ducklake_data_file"
]


def noted(world: World) -> list[tuple[str, int]]:
    """How often the manifest has each object."""
    return world.query("SELECT uri, count(*) FROM lake.ingest_files GROUP BY uri ORDER BY uri")


@pytest.mark.sample(3)
@pytest.mark.parametrize(("strategy", "statement"), DEATHS)
def test_death_at_each_statement_adds_the_object_once(
    local_world: World, tmp_path: Path, strategy: str, statement: str
) -> None:
    local_world.lake_options = STRATEGY_OPTIONS.get(strategy, {})
    make_table(local_world)
    write(local_world, NW, appends="a")

    chosen = () if strategy == "insert" else ("--strategy", strategy)
    command = ["--partition", NW, "--append", "b", *chosen]
    _, errors = (child := start(local_world, tmp_path, *command, "--die-at", statement)).communicate(timeout=60)

    assert child.returncode == -signal.SIGKILL, errors
    assert len(local_world.totals()) == (2 if statement == "after COMMIT" else 1) * ROWS
    _, errors = (child := start(local_world, tmp_path, *command)).communicate(timeout=60)
    assert child.returncode == 0, errors
    assert len(local_world.totals()) == 2 * ROWS
    assert noted(local_world) == [("a", 1), ("b-0", 1)]


WRITERS = [
    (("duckdb", "local"), {}, []),  # one process at a time opens it, with the lock
    *(
        (catalog, encrypted, lock)
        for catalog in (("sqlite", "local"), ("postgres", "local"))
        for encrypted in ({}, ENCRYPTED)
        for lock in ([], ["--no-lock"])
    ),
]


@pytest.mark.parametrize(("world", "encrypted", "lock"), WRITERS, indirect=["world"])
def test_writers_of_the_same_objects_of_a_new_partition_add_each_once(
    world: World, tmp_path: Path, encrypted: dict[str, object], lock: list[str]
) -> None:
    world.lake_options = encrypted
    make_table(world)

    children = [start(world, tmp_path, "--partition", NW, "--append", "a", "--times", "3", *lock) for _ in range(4)]
    results = [child.communicate(timeout=240) for child in children]

    assert [child.returncode for child in children] == [0] * 4, results
    assert sorted(word for out, _ in results for word in out.split()) == ["committed"] * 3 + ["known"] * 9
    assert noted(world) == [(f"a-{number}", 1) for number in range(3)]
    assert len(world.totals()) == 3 * ROWS
    rows = sorted(row.rows_before or 0 for row in world.ledger() if row.status == "committed")
    assert rows == [0, ROWS, 2 * ROWS]


OVERTAKEN = [
    *((("postgres", "local"), strategy, faster) for strategy in STRATEGIES for faster in STRATEGIES),
    # SQLite itself lets one writer of the direct strategy begin.
    *((("sqlite", "local"), "extension", faster) for faster in STRATEGIES),
    (("sqlite", "local"), None, None),
    (("postgres", "local"), None, None),
]


@pytest.mark.parametrize(("world", "strategy", "faster_strategy"), OVERTAKEN, indirect=["world"])
def test_an_addition_that_is_overtaken_after_its_check_is_refused(
    world: World, strategy: str | None, faster_strategy: str | None
) -> None:
    """Without the lock the snapshot's number protects; None is the strategy of an encrypted lake."""
    world.lake_options = {} if strategy else ENCRYPTED
    make_table(world)
    write(world, SW)
    other = replace(world, _opened=None)

    def overtake() -> None:
        write(other, NW, lock=False, strategy=faster_strategy, appends="a")

    with pytest.raises(PartitionMovedError):
        write(world, NW, lock=False, strategy=strategy, overtaken_by=overtake, appends="a")

    assert noted(world) == [("a", 1)]
    assert len(world.totals(NW)) == ROWS


@pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
def test_a_replacement_and_an_addition_at_once_are_as_one_after_the_other(world: World) -> None:
    make_table(world)
    write(world, NW, appends="a")
    other = replace(world, _opened=None)

    row = write(world, NW, lock=False, overtaken_by=lambda: write(other, NW, lock=False, appends="b"))

    assert row.rows_before == 2 * ROWS
    assert len(world.totals(NW)) == ROWS
    write(world, NW, appends="b")  # which the replacement removed
    assert len(world.totals(NW)) == 2 * ROWS
