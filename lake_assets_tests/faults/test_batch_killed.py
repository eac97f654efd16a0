"""`kill -9` of commits of several partitions, and such commits at once: all of a batch is old, or all of it is new."""

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_kill import DEATHS_AT_RANDOM, STATEMENTS
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.faults.writer import ROWS, make_table, write_together
from lake_assets_tests.ingest.batches import BATCH, TEXTS, ingest_texts, land_all
from lake_assets_tests.world import NW, SW, World

__all__ = ["sessions"]

pytestmark = pytest.mark.kill

NE = "region=NE,date=2026-02-11"
# The moments that `make test-all` tries; `make kills` tries all.
MOMENTS = {"UPDATE ducklake_data_file", "COMMIT", "after COMMIT"}
DEATHS = [
    pytest.param(statement, marks=() if statement in MOMENTS else pytest.mark.kill_all)
    for statement in STATEMENTS["direct"]
]
CATALOGS = [("sqlite", "local"), ("duckdb", "local"), ("postgres", "local")]


@pytest.mark.parametrize("statement", DEATHS)
def test_death_at_each_statement_leaves_all_partitions_old_or_all_new(
    local_world: World, tmp_path: Path, statement: str
) -> None:
    make_table(local_world)
    write_together(local_world, NW, SW)
    before = local_world.totals()

    child = start(local_world, tmp_path, "--partition", NW, "--with", SW, "--die-at", statement)
    _, errors = child.communicate(timeout=60)

    assert child.returncode == -signal.SIGKILL, errors
    is_done = statement == "after COMMIT"
    after = local_world.totals()
    assert len(after) == 2 * ROWS
    assert len(set(after)) == 1
    assert (after != before) == is_done
    assert len([row for row in local_world.ledger() if row.status == "committed"]) == (4 if is_done else 2)
    assert [row.rows_before for row in write_together(local_world, NW, SW)] == [ROWS, ROWS]


@pytest.mark.parametrize("statement", ["COMMIT", "after COMMIT"])
def test_death_of_a_run_leaves_a_sound_lake_and_the_next_run_commits_the_rest(
    local_world: World, tmp_path: Path, statement: str
) -> None:
    local_world.options = BATCH | {"on_bad_object": "quarantine"}
    land_all(local_world, 10)
    ingest_texts(local_world)
    land_all(local_world, 20)
    for text in TEXTS:
        local_world.land(text, b"no Parquet", "bad.parquet")

    texts = [option for text in TEXTS for option in ("--partition", text)]
    child = start(local_world, tmp_path, *texts, "--die-at", statement, module="ingester")
    _, errors = child.communicate(timeout=120)

    assert child.returncode == -signal.SIGKILL, errors
    is_done = statement == "after COMMIT"
    assert local_world.totals(TEXTS[0]) == ([20, 20.5] if is_done else [10, 10.5])
    statuses = {outcome.result.row.status for outcome in ingest_texts(local_world).values() if outcome.result}
    assert statuses == {"skipped" if is_done else "committed"}
    for number, text in enumerate(TEXTS):
        assert local_world.totals(text) == [20 + number, 20.5 + number]
        local_world.unland(text, "bad.parquet")
    ingest_texts(local_world)
    assert_sound(local_world)


@pytest.mark.parametrize("world", CATALOGS, indirect=True)
def test_death_at_random_moments_never_shows_a_part_of_a_batch(world: World, tmp_path: Path) -> None:
    make_table(world)
    write_together(world, NW, SW)
    moments = random.Random(13)

    for _ in range(DEATHS_AT_RANDOM):
        child = start(world, tmp_path, "--partition", NW, "--with", SW, "--times", "1000")
        assert child.stdout.readline() == "committed\n"
        time.sleep(moments.random() * 0.2)
        child.kill()
        child.communicate(timeout=60)

        totals = world.totals()
        assert len(totals) == 2 * ROWS
        assert len(set(totals)) == 1
        ((commits, snapshots),) = world.query(
            "SELECT count(*), count(DISTINCT snapshot_id) FROM lake.ingest_runs WHERE status = 'committed'"
        )
        assert commits == 2 * snapshots

    assert {row.rows_before for row in write_together(world, NW, SW)} == {ROWS}


@pytest.mark.parametrize("world", CATALOGS, indirect=True)
@pytest.mark.parametrize("options", [(), ("--no-lock",)], ids=["lock", "no lock"])
def test_batches_that_overlap_are_as_if_one_had_come_after_the_other(
    world: World, tmp_path: Path, options: tuple[str, ...]
) -> None:
    if options and world.catalog["type"] == "duckdb":
        pytest.skip("one process at a time has a DuckDB-file catalog, so its lock cannot be left out")
    make_table(world)
    write_together(world, NW, SW, NE)
    pairs = [(NW, SW), (SW, NW), (SW, NE), (NE, NW)]
    children = []
    for number, (one, other) in enumerate(pairs):
        folder = tmp_path / str(number)
        folder.mkdir()
        children.append(start(world, folder, "--partition", one, "--with", other, "--times", "4", *options))
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors

    rows = [row for row in world.ledger() if row.status == "committed"]
    assert len(rows) == 3 + 2 * 4 * len(pairs)
    assert {row.rows_before for row in rows} == {0, ROWS}
    assert len({row.snapshot_id for row in rows}) == 1 + 4 * len(pairs)
    newest = {text: world.ledger(text)[0].snapshot_id for text in (NW, SW, NE)}
    totals = {text: set(world.totals(text)) for text in newest}
    assert all(len(found) == 1 for found in totals.values())
    # Partitions have the same number exactly if the same commit wrote them last.
    assert len({*newest.values()}) == len({number for found in totals.values() for number in found})


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
def test_a_reader_never_sees_a_part_of_a_batch(world: World, tmp_path: Path) -> None:
    make_table(world)
    write_together(world, NW, SW)
    seen = set()
    with world.reader() as client, ThreadPoolExecutor(1) as pool:
        child = start(world, tmp_path, "--partition", NW, "--with", SW, "--times", "30")
        ended = pool.submit(child.communicate, timeout=240)
        is_last = False
        while not is_last:
            is_last = ended.done()
            seen |= set(client.execute("SELECT count(*), count(DISTINCT total) FROM lake.sales").fetchall())

    assert child.returncode == 0, ended.result()
    assert seen == {(2 * ROWS, 1)}
