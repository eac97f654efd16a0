"""`kill -9` in a restore: a reader sees the present rows or the restored ones, and the next restore succeeds."""

import signal
from pathlib import Path

import pytest

from lake_assets.history.restore import restore
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_kill import STRATEGY_OPTIONS
from lake_assets_tests.faults.writer import ROWS, make_table, write
from lake_assets_tests.world import NW, World, plan

pytestmark = pytest.mark.kill

STATEMENTS = {
    "direct": [
        "copy",
        "BEGIN IMMEDIATE",
        "UPDATE ducklake_data_file",
        "UPDATE ducklake_table_stats",
        'INSERT INTO "ducklake_data_file"',
        'INSERT INTO "ducklake_file_column_stats"',
        'INSERT INTO "ducklake_inlined_data_',
        'INSERT INTO "ducklake_snapshot"',
        'after INSERT INTO "ducklake_snapshot_changes"',
        "COMMIT",
        "after COMMIT",
    ],
    "insert": [
        "AT (VERSION",
        "DELETE FROM",
        "after DELETE FROM",
        'INSERT INTO "lake"."main"."sales"',
        'after INSERT INTO "lake"."main"."sales"',
        "set_commit_message",
        "COMMIT",
    ],
}
MOMENTS = {"copy", "UPDATE ducklake_table_stats", "COMMIT", "after COMMIT", "after DELETE FROM"}
DEATHS = [
    pytest.param(strategy, statement, marks=() if statement in MOMENTS else pytest.mark.kill_all)
    for strategy, statements in STATEMENTS.items()
    for statement in statements
]


@pytest.mark.parametrize(("strategy", "statement"), DEATHS)
def test_death_at_each_statement_leaves_the_present_rows_or_the_restored_ones(
    local_world: World, tmp_path: Path, strategy: str, statement: str
) -> None:
    local_world.lake_options = STRATEGY_OPTIONS.get(strategy, {})
    make_table(local_world)
    first = write(local_world, NW).snapshot_id
    old = local_world.totals()
    write(local_world, NW)
    present = local_world.totals()
    assert first is not None

    options = ["--partition", NW, "--snapshot", str(first), "--die-at", statement]
    _, errors = (child := start(local_world, tmp_path, *options, module="restorer")).communicate(timeout=120)

    assert child.returncode == -signal.SIGKILL, errors
    is_done = statement == "after COMMIT"
    assert local_world.totals() == (old if is_done else present)
    restores = [row for row in local_world.ledger() if row.mode == "restore"]
    assert len(restores) == is_done
    local_world.landing  # noqa: B018 - makes the folder
    assert ("skip: held" in plan(local_world.stream, local_world.partition(NW)).action) == is_done
    again = restore(local_world.stream, local_world.partition(NW), first, hold=True)
    assert again.row is not None
    assert again.row.rows_before == ROWS
    assert local_world.totals() == old
    with local_world.stream.lake.open() as lake:
        paths = lake.rows(f"SELECT path FROM {lake.metadata}.ducklake_data_file")
    assert len(paths) == len(set(paths))
