"""`kill -9` while dead letters are written or committed: each commit's are visible once, and no others."""

import datetime as dt
import signal
from pathlib import Path

import pytest

from lake_assets.maintenance.run import maintain
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_copy_killed import die
from lake_assets_tests.faults.test_kill import STRATEGY_OPTIONS
from lake_assets_tests.faults.writer import make_table, write
from lake_assets_tests.ingest.lettering import BIG, NARROW, letters, stored, visible, wide
from lake_assets_tests.world import NW, World

pytestmark = pytest.mark.kill


@pytest.mark.parametrize("strategy", ["direct", "extension", "insert"])
@pytest.mark.parametrize("statement", ["COMMIT", "after COMMIT"])
def test_a_death_makes_the_letters_visible_with_the_commit(
    local_world: World, tmp_path: Path, strategy: str, statement: str
) -> None:
    local_world.options = {"on_bad_row": "dead_letter"}
    local_world.lake_options = STRATEGY_OPTIONS.get(strategy, {})
    make_table(local_world)
    write(local_world, NW, letters=True)

    chosen = () if strategy == "insert" else ("--strategy", strategy)
    child = start(local_world, tmp_path, "--partition", NW, *chosen, "--letters", "--die-at", statement)
    _, errors = child.communicate(timeout=60)

    assert child.returncode == -signal.SIGKILL, errors
    committed = [row for row in local_world.ledger() if row.status == "committed"]
    assert len(committed) == 1 + (statement == "after COMMIT")
    shown = local_world.query(
        "SELECT run_id, snapshot_id, rows FROM lake.ingest_dead_letters ORDER BY snapshot_id DESC"
    )
    assert shown == [(row.run_id, row.snapshot_id, row.rows_dead_lettered) for row in committed]


@pytest.mark.parametrize(
    "world",
    [("sqlite", "local"), pytest.param(("sqlite", "s3"), marks=pytest.mark.kill_all)],
    indirect=True,
)
def test_death_while_letters_are_written_shows_none_and_the_next_run_writes_them_once(
    world: World, tmp_path: Path
) -> None:
    world.options = {"on_bad_row": "dead_letter"}
    world.land(NW, NARROW, "a.parquet")
    world.ingest(NW)
    for number in range(4):
        world.land(NW, wide(number + 1, BIG + number), f"b{number}.parquet")

    die(world, tmp_path, "letter")

    assert visible(world) == []
    orphans = stored(world)
    assert orphans
    row = world.ingest(NW).row
    assert (row.row_count, row.rows_dead_lettered) == (5, 4)
    assert sorted(letter["id"] for letter in letters(world)) == [BIG + number for number in range(4)]
    assert stored(world) == orphans | set(visible(world))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
    assert {one.uri for one in maintain(world.config, "test", world.sessions, now=later).letters} == orphans
    assert stored(world) == set(visible(world))
