"""Indexers at once and indexers killed: each landed file becomes a lake file once."""

import signal
from pathlib import Path

import pytest

from lake_assets.ingest.index.run import index_all
from lake_assets_tests.faults.modules import start
from lake_assets_tests.world import NW, SW, World, sales

pytestmark = pytest.mark.kill

STATEMENTS = {
    "extension": [
        "ducklake_add_data_files",
        "after ducklake_add_data_files",
        'INSERT INTO "lake"."main"."ingest_files"',
        "after INSERT INTO",
        "set_commit_message(?, ?, extra_info",
        "after set_commit_message(?, ?, extra_info",
    ],
    "direct": [
        'INSERT INTO "ducklake_name_mapping"',
        'INSERT INTO "ducklake_data_file"',
        'INSERT INTO "ducklake_file_column_stats"',
        'INSERT INTO "ducklake_inlined_data_',
        'after INSERT INTO "ducklake_inlined_data_',
        'INSERT INTO "ducklake_snapshot"',
        'after INSERT INTO "ducklake_snapshot_changes"',
    ],
}
# As in `test_kill`: what `make test-all` tries.
MOMENTS = {
    "extension": {"ducklake_add_data_files", "after set_commit_message(?, ?, extra_info"},
    "direct": {'INSERT INTO "ducklake_name_mapping"', 'after INSERT INTO "ducklake_snapshot_changes"'},
}
DEATHS = [
    pytest.param(strategy, statement, marks=() if statement in MOMENTS[strategy] else pytest.mark.kill_all)
    for strategy, statements in STATEMENTS.items()
    for statement in statements
]


@pytest.mark.parametrize("world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "local")], indirect=True)
def test_indexers_at_once_register_each_file_once(world: World, tmp_path: Path) -> None:
    world.options = {"mode": "index"}
    for number in range(40):
        world.land(NW if number % 2 else SW, sales(number), f"{number}.parquet")

    children = [start(world, tmp_path, module="indexer") for _ in range(3)]
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors

    assert world.totals() == list(range(40))
    assert world.query("SELECT count(*), count(DISTINCT uri) FROM lake.ingest_files") == [(40, 40)]
    assert sum(row.row_count or 0 for row in world.ledger()) == 40


@pytest.mark.parametrize(("strategy", "statement"), DEATHS)
def test_death_at_each_statement_registers_nothing_and_the_next_run_all(
    local_world: World, tmp_path: Path, strategy: str, statement: str
) -> None:
    local_world.options = {"mode": "index"}
    for number in range(6):
        local_world.land(NW if number % 2 else SW, sales(number), f"{number}.parquet")

    child = start(local_world, tmp_path, "--strategy", strategy, "--die-at", statement, module="indexer")
    _, errors = child.communicate(timeout=120)

    assert child.returncode == -signal.SIGKILL, errors
    assert local_world.totals() == []
    assert all(outcome.error is None for outcome in index_all(local_world.stream))
    assert local_world.totals() == list(range(6))
    assert local_world.query("SELECT count(*) FROM lake.ingest_files") == [(6,)]
