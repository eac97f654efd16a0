"""Check and repair of registered files that change or vanish."""

from pathlib import Path

import pytest

from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.index.index_plan import plan_index
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.index.verify import check_indexed, repair_indexed
from lake_assets.report.state import read_state
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.ingest.index.indexing import with_partition
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales


@pytest.fixture
def indexed_world(local_world: World) -> World:
    return indexed(local_world)


def indexed(world: World) -> World:
    world.options = {"mode": "index"}
    for name in ("a", "b", "c"):
        world.land(NW, sales(1, 2), f"{name}.parquet")
    world.land(SW, sales(3))
    assert all(outcome.error is None for outcome in index_all(world.stream))
    return world


def test_unchanged_objects_are_sound(indexed_world: World) -> None:
    state = check_indexed(indexed_world.stream)
    assert state.is_consistent
    assert state.registered == 4
    indexed_world.land(NW, sales(9), "new.parquet")  # not registered yet, which is no fault
    assert check_indexed(indexed_world.stream).is_consistent
    assert repair_indexed(indexed_world.stream).rows == ()


def test_nothing_registered_is_sound(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    assert check_indexed(local_world.stream).is_consistent


def test_changed_and_vanished_objects_are_found_and_repaired(world: World) -> None:
    indexed(world)
    before = world.query("SELECT max(snapshot_id) FROM lake.snapshots()")[0][0]
    changed = world.land(NW, sales(*range(10, 40)), "a.parquet")
    world.unland(NW, "b.parquet")

    state = check_indexed(world.stream)

    assert [obj.now.uri for obj in state.changed] == [changed]
    assert [(item.uri.rsplit("/", 1)[1], item.load_partition) for item in state.vanished] == [
        ("b.parquet", world.partition(NW).path)
    ]
    assert check_indexed(world.stream, [world.partition(SW)]).is_consistent

    repaired = repair_indexed(world.stream)

    assert not repaired.errors
    (row,) = repaired.rows
    assert (row.mode, row.row_count, row.rows_before, row.files_written) == ("repair", 32, 6, 1)
    assert row.snapshot_id == before + 1
    partitions = read_state(world.stream).partitions
    assert {str(p.partition): (p.state, p.rows, p.is_waiting) for p in partitions if p.objects} == {
        str(world.partition(NW)): ("committed", 32, False),
        str(world.partition(SW)): ("committed", 1, False),
    }
    assert not scan_landing(world.stream).pending
    assert world.totals(NW) == [1, 2, *range(10, 40)]
    for total in (10, 39):
        assert world.query("SELECT count(*) FROM lake.sales WHERE total = ?", total) == [(1,)]
    assert check_indexed(world.stream).is_consistent
    assert list(index_all(world.stream)) == []
    # A reader of an old snapshot finds the file that is there.
    assert world.query(f"SELECT count(*) FROM lake.sales AT (VERSION => {before}) WHERE total = 39") == [(1,)]
    row_ids = world.query("SELECT count(DISTINCT rowid), count(*) FROM lake.sales")
    assert row_ids == [(33, 33)]


def test_the_lake_can_be_written_after_a_repair(indexed_world: World) -> None:
    """DuckLake itself deletes, expires and cleans up, and no live landed object is lost."""
    changed = indexed_world.land(NW, sales(10, 20, 30), "a.parquet")
    indexed_world.unland(NW, "b.parquet")
    repair_indexed(indexed_world.stream)
    indexed_world.land(NW, sales(50), "d.parquet")
    list(index_all(indexed_world.stream))

    with indexed_world.stream.lake.open() as lake:
        lake.rows("CALL ducklake_expire_snapshots('lake', older_than => now())")
        lake.rows("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        totals = lake.rows("SELECT total FROM lake.sales WHERE region = 'NW' ORDER BY ALL")
        assert totals == [(1,), (2,), (10,), (20,), (30,), (50,)]
        lake.rows("DELETE FROM lake.sales WHERE total = 20")
        assert lake.rows("SELECT count(*) FROM lake.sales") == [(6,)]

    assert Path(changed).exists()
    assert check_indexed(indexed_world.stream).is_consistent


def test_a_changed_file_that_no_longer_fits_stays_reported(indexed_world: World) -> None:
    changed = indexed_world.land(SW, with_partition("NW"))
    indexed_world.unland(NW, "b.parquet")

    repaired = repair_indexed(indexed_world.stream)

    assert f"the object {changed} has a row with region='NW'" in str(repaired.errors[0])
    state = check_indexed(indexed_world.stream)
    assert not state.vanished
    assert [obj.now.uri for obj in state.changed] == [changed]


def test_a_file_whose_rows_were_deleted_is_not_repaired(indexed_world: World) -> None:
    indexed_world.execute("DELETE FROM lake.sales WHERE total = 1")
    indexed_world.land(NW, sales(10, 20, 30), "a.parquet")
    with pytest.raises(Exception, match=r"cannot be repaired in place: rows were deleted"):
        repair_indexed(indexed_world.stream)


@pytest.mark.parametrize("is_another", [False, *more([True])])
def test_a_vanished_object_that_lands_again_is_refused_with_a_hint(indexed_world: World, is_another: bool) -> None:
    path = file_of(indexed_world, NW, "b.parquet")
    away = path.rename(indexed_world.landing.uri("away"))
    repair_indexed(indexed_world.stream)
    assert check_indexed(indexed_world.stream).is_consistent
    if is_another:
        indexed_world.land(NW, sales(5), path.name)
    else:
        away.rename(path)  # with the ETag that the manifest has

    (outcome,) = index_all(indexed_world.stream)
    assert f"the object {path} has landed again" in str(outcome.error)
    assert [obj.uri for obj in plan_index(indexed_world.stream).changed] == [str(path)]
    assert "fail: nothing new; 1 changed" in plan(indexed_world.stream, indexed_world.partition(NW)).action
    assert [(item.now.uri, item.is_live) for item in check_indexed(indexed_world.stream).changed] == [
        (str(path), False)
    ]
    (error,) = repair_indexed(indexed_world.stream).errors
    assert f"the object {path} has landed again after it vanished" in str(error)
    assert indexed_world.totals(NW) == [1, 1, 2, 2]

    path.rename(path.with_name("d.parquet"))
    list(index_all(indexed_world.stream))
    assert indexed_world.totals(NW) == ([1, 1, 2, 2, 5] if is_another else [1, 1, 1, 2, 2, 2])
    assert check_indexed(indexed_world.stream).is_consistent


def file_of(world: World, text: str, name: str) -> Path:
    return Path(world.landing.uri(f"{world.partition(text).path}/{name}"))


def test_an_object_that_a_replacement_missed_is_new_when_it_returns(local_world: World) -> None:
    """In mode replace no path is registered, so it may be registered now; the others must not be read twice."""
    local_world.land(NW, sales(1), "a.parquet")
    local_world.land(NW, sales(2), "b.parquet")
    local_world.ingest(NW)
    path = file_of(local_world, NW, "b.parquet")
    away = path.rename(local_world.landing.uri("away"))
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    away.rename(path)
    local_world.options = {"mode": "index"}

    assert [obj.uri for obj in plan_index(local_world.stream).new] == [str(path)]
    list(index_all(local_world.stream))

    assert local_world.totals() == [1, 2]
    assert check_indexed(local_world.stream).is_consistent
    assert list(index_all(local_world.stream)) == []


def test_a_changed_file_that_only_the_extension_reads_does_not_hold_up_the_rest(indexed_world: World) -> None:
    odd = indexed_world.land(SW, sales(4, 5).rename_columns(["id", "TOTAL"]))
    indexed_world.unland(NW, "b.parquet")

    repaired = repair_indexed(indexed_world.stream)

    (error,) = repaired.errors
    assert f"the object {odd} changed, and only DuckLake's extension can read the statistics" in str(error)
    assert (repaired.ended, repaired.renewed) == (1, 0)
    assert [obj.now.uri for obj in check_indexed(indexed_world.stream).changed] == [odd]
    totals = indexed_world.query("SELECT total FROM lake.sales WHERE region = 'NW' ORDER BY ALL")
    assert totals == [(1,), (1,), (2,), (2,)]


def test_a_changed_object_fails_its_partition_and_names_the_fix(indexed_world: World) -> None:
    """Its rows have landed, and are not in the lake: named or not, alone or beside new ones."""
    changed = indexed_world.land(NW, sales(10, 20, 30), "a.parquet")

    for partitions in (None, [indexed_world.partition(NW)]):
        (outcome,) = index_all(indexed_world.stream, partitions)
        assert f"the object {changed} has changed since it was registered" in str(outcome.error)
        assert "`lake-assets index sales --repair`" in str(outcome.error)
    row, *_ = indexed_world.ledger(NW)
    assert (row.status, changed in (row.error or "")) == ("failed", True)

    indexed_world.land(NW, sales(50), "d.parquet")
    emptied = indexed_world.land(NW, sales(), "b.parquet")
    (outcome,) = index_all(indexed_world.stream)

    text = str(outcome.error)
    assert "the rows of 2 of 4 objects of region=NW/date=2026-02-11 are not in the lake:" in text
    assert changed in text
    assert emptied in text
    assert indexed_world.query("SELECT count(*) FROM lake.sales WHERE total = 50") == [(1,)]
    assert [
        obj.result.row.status for obj in index_all(indexed_world.stream, [indexed_world.partition(SW)]) if obj.result
    ] == ["skipped"]

    repair_indexed(indexed_world.stream)
    assert list(index_all(indexed_world.stream)) == []


def test_an_object_that_replaces_one_with_deleted_rows_fails_its_partition(indexed_world: World) -> None:
    indexed_world.execute("DELETE FROM lake.sales WHERE region = 'SW'")
    assert list(index_all(indexed_world.stream)) == []  # the lake let its rows go
    other = indexed_world.land(SW, sales(7))

    with pytest.raises(LakeAssetsError, match=f"the object {other} changed after the lake recorded it"):
        indexed_world.ingest(SW)
