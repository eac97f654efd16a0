"""Mode append: each object enters its partition once, no run takes rows away, and what is known stays known."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lake_assets.streams.pending import scan_landing
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.history.restore import Restoration
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.ingest.landed_as import load
from lake_assets_tests.ingest.test_in_rows import EITHER_LAKE, TWO_WORLDS
from lake_assets_tests.tiers import more
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, plan, sales

APPEND = {"mode": "append"}
SUM = {"transform": {"sql": "SELECT sum(id) AS id, sum(total) AS total FROM source"}}


def appended(world: World, *objects: tuple[float, ...], **options: Any) -> World:
    """The world with objects of these totals, each of which a run of its own has added."""
    world.options = APPEND | options
    for number, totals in enumerate(objects):
        load(world, sales(*totals), name=str(number))
    return world


@pytest.mark.journey
def test_a_run_adds_the_rows_of_new_objects_and_reads_no_known_one(world: World) -> None:
    world.options = APPEND
    first = load(world, sales(1, 2), name="a")
    load(world, sales(7), SW)
    new = world.land(NW, sales(3), "b.parquet")

    second = world.ingest(NW).row

    assert (world.totals(NW), world.totals(SW)) == ([1, 2, 3], [7])
    assert (first.mode, first.status, first.rows_before, first.row_count) == ("append", "committed", 0, 2)
    assert (second.rows_before, second.row_count, second.source_files) == (2, 1, 1)
    assert world.query("SELECT uri FROM lake.ingest_files WHERE snapshot_id = ?", second.snapshot_id) == [(new,)]
    assert not scan_landing(world.stream).pending
    assert world.ingest(NW).row.status == "skipped"
    assert world.totals(NW) == [1, 2, 3]


@pytest.mark.more
@TWO_WORLDS
def test_objects_stay_known_when_old_ledger_rows_are_deleted(world: World) -> None:
    world.lake_options["maintenance"] = {"ledger_retention": 30, "expire_older_than": 1}
    world.options = APPEND
    for number in range(3):
        load(world, sales(number), name=str(number))
        world.ingest(NW)

    assert world.tidy(40.0).forgotten == 2

    world.unland(NW, "2.parquet")  # so that the manifest decides
    assert world.ingest(NW).row.status == "skipped"
    assert world.totals() == [0, 1, 2]


@EITHER_LAKE
def test_compaction_keeps_what_is_known(either_lake: World) -> None:
    appended(either_lake, (0,), (1,), (2,))

    (done,) = compact(either_lake.stream, 3, either_lake.sessions)

    assert (done.files_before, done.files_after, done.why) == (3, 1, None)
    assert either_lake.ingest(NW).row.status == "skipped"
    assert load(either_lake, sales(3), name="3").rows_before == 3
    assert either_lake.totals() == [0, 1, 2, 3]


@pytest.mark.more
@EITHER_LAKE
def test_deltas_of_an_addition_have_the_added_rows_only(either_lake: World, tmp_path: Path) -> None:
    deltas = {"to": str(tmp_path / "deltas"), "plaintext": bool(either_lake.lake_options)}
    appended(either_lake, (0,), (1,), deltas=deltas)
    assert either_lake.ingest(NW).row.status == "skipped"

    changes = [pq.read_table(file).to_pylist() for file in sorted((tmp_path / "deltas").rglob("*.parquet"))]

    assert [[(row["_change"], row["total"]) for row in rows] for rows in changes] == [[("insert", 0)], [("insert", 1)]]


def test_a_restore_says_that_the_next_refresh_adds_new_objects(local_world: World) -> None:
    appended(local_world, (1,), (2,))
    first = local_world.ledger()[-1].snapshot_id or 0
    local_world.land(NW, sales(3), "3.parquet")

    restored = Restoration(local_world.stream, local_world.partition(NW), first).run()

    assert restored.next.startswith("The next refresh adds the rows of 1 new object.")
    local_world.ingest(NW)
    assert local_world.totals() == [1, 3]


def test_the_history_has_the_rows_of_the_partition_also_of_expired_snapshots(local_world: World) -> None:
    appended(local_world, (0, 0), (1, 1), (2, 2))
    local_world.execute("CALL ducklake_expire_snapshots('lake', older_than => now())")

    entries = history(local_world.stream, local_world.partition(NW))

    assert [(entry.rows_before, entry.rows) for entry in entries] == [(4, 6), (2, 4), (0, 2)]


# A stream that changes its mode: what the lake has of each object is known in every mode.


def assert_sound(world: World) -> None:
    results = [run_check(world.stream, name, Scope()) for name in checks_of(world.stream)]
    assert [result for result in results if not result.passed] == []


@pytest.mark.more
@EITHER_LAKE
def test_after_replace_only_new_objects_are_read(either_lake: World) -> None:
    either_lake.land(NW, sales(1), "a.parquet")
    load(either_lake, sales(1), name="b")
    either_lake.options = APPEND

    assert plan(either_lake.stream, either_lake.partition(NW)).action.startswith("skip")
    assert either_lake.ingest(NW).row.status == "skipped"
    assert not scan_landing(either_lake.stream).pending
    assert load(either_lake, sales(2), name="c").source_files == 1

    assert either_lake.totals() == [1, 1, 2]
    assert_sound(either_lake)


@EITHER_LAKE
@pytest.mark.parametrize("commits", [2, *more([1])])
def test_after_append_each_partition_is_read_once_as_a_whole(either_lake: World, commits: int) -> None:
    appended(either_lake, *[(1, 2)] * commits, **SUM)
    assert either_lake.totals() == [3] * commits
    either_lake.options = SUM

    assert set(scan_landing(either_lake.stream).pending) == {either_lake.partition(NW)}
    row = either_lake.ingest(NW).row

    assert (row.mode, row.status, row.rows_before) == ("replace", "committed", commits)
    assert either_lake.totals() == [3.0 * commits]
    assert either_lake.ingest(NW).row.status == "skipped"
    assert_sound(either_lake)
    either_lake.options = APPEND | SUM
    assert either_lake.ingest(NW).row.status == "skipped"
    load(either_lake, sales(10), name="new")
    assert either_lake.totals() == sorted([3.0 * commits, 10])
    assert_sound(either_lake)
