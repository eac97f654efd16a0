"""`kill -9` at any moment: a reader sees the old partition or the new one, and the next run needs no cleaning."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lake_assets.lake.locks import commit_lock
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.writer import ROWS, make_table, write
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, World, sales

pytestmark = pytest.mark.kill

STATEMENTS = {
    "extension": [
        "BEGIN",
        "after BEGIN",
        "DELETE",
        "after DELETE",
        "ducklake_add_data_files",
        "after ducklake_add_data_files",
        "set_commit_message",
        "COMMIT",
        "after COMMIT",
    ],
    "direct": [
        "BEGIN IMMEDIATE",
        "UPDATE ducklake_data_file",
        "UPDATE ducklake_table_stats",
        'INSERT INTO "ducklake_data_file"',
        'INSERT INTO "ducklake_file_column_stats"',
        "UPDATE ducklake_table_column_stats",
        'INSERT INTO "ducklake_inlined_data_',
        'after INSERT INTO "ducklake_inlined_data_',
        'INSERT INTO "ducklake_snapshot"',
        'after INSERT INTO "ducklake_snapshot_changes"',
        "COMMIT",
        "after COMMIT",
    ],
    "insert": [
        "BEGIN",
        "DELETE",
        "after DELETE",
        'INSERT INTO "lake"."main"."sales"',
        'after INSERT INTO "lake"."main"."sales"',
        "set_commit_message",
        "COMMIT",
        "after COMMIT",
    ],
}
# The three moments that `make test-all` tries of each strategy; `make kills` tries all statements.
MOMENTS = {
    "extension": {"after DELETE", "COMMIT", "after COMMIT"},
    "direct": {"UPDATE ducklake_table_stats", "COMMIT", "after COMMIT"},
    "insert": {"after DELETE", "COMMIT", "after COMMIT"},
}
DEATHS = [
    pytest.param(strategy, statement, marks=() if statement in MOMENTS[strategy] else pytest.mark.kill_all)
    for strategy, statements in STATEMENTS.items()
    for statement in statements
]
DEATHS_AT_RANDOM = int(os.environ.get("LAKE_ASSETS_DEATHS", "3"))  # on each catalog
STRATEGY_OPTIONS = {"insert": {"attach_options": {"encrypted": True}}}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("strategy", "statement"), DEATHS)
def test_death_at_each_statement_leaves_the_old_partition_or_the_new(
    local_world: World, tmp_path: Path, strategy: str, statement: str
) -> None:
    local_world.lake_options = STRATEGY_OPTIONS.get(strategy, {})
    make_table(local_world)
    write(local_world, NW)
    before = local_world.totals()

    chosen = () if strategy == "insert" else ("--strategy", strategy)
    child = start(local_world, tmp_path, "--partition", NW, *chosen, "--die-at", statement)
    _, errors = child.communicate(timeout=60)

    assert child.returncode == -signal.SIGKILL, errors
    after = local_world.totals()
    assert len(set(after)) == 1
    assert len(after) == ROWS
    assert (after == before) == (statement != "after COMMIT")
    committed = [row for row in local_world.ledger() if row.status == "committed"]
    assert len(committed) == (2 if statement == "after COMMIT" else 1)
    row = write(local_world, NW)
    assert row.rows_before == ROWS
    assert len(local_world.totals()) == ROWS


@pytest.mark.parametrize("world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "local")], indirect=True)
def test_death_at_random_moments_never_shows_a_mixture(world: World, tmp_path: Path) -> None:
    make_table(world)
    write(world, NW)
    moments = random.Random(7)

    for _ in range(DEATHS_AT_RANDOM):
        child = start(world, tmp_path, "--partition", NW, "--times", "1000")
        assert child.stdout.readline() == "committed\n"
        time.sleep(moments.random() * 0.2)
        child.kill()
        child.communicate(timeout=60)

        totals = world.totals()
        assert len(totals) == ROWS
        assert len(set(totals)) == 1
        committed = world.query("SELECT count(*) FROM lake.ingest_runs WHERE status = 'committed'")
        messages = world.query("SELECT count(*) FROM lake.snapshots() WHERE author = 'lake_assets'")
        assert committed == messages

    assert write(world, NW).rows_before == ROWS


def test_death_of_a_whole_ingest_leaves_the_old_partition_and_the_next_run_succeeds(
    local_world: World, tmp_path: Path
) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    local_world.land(NW, sales(*range(2_000_000)))
    config = tmp_path / "lake.yaml"
    config.write_text(local_world.config.model_dump_json(by_alias=True, exclude_none=True))
    script = Path(sys.executable).with_name("lake-assets")
    command = [str(script), "--config", str(config), "ingest", "sales", "--partition", NW]

    orphans = local_world.data_files()
    with commit_lock(local_world.config.lakes["test"]):  # the kill comes before the commit, however late it comes
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        until(lambda: local_world.data_files() != orphans or child.poll() is not None, "the run writes a file")
        child.kill()
        child.wait()

    assert child.returncode == -signal.SIGKILL
    assert local_world.totals() == [1, 2]
    local_world.ingest(NW)
    assert local_world.query("SELECT count(*) FROM lake.sales") == [(2_000_000,)]
