"""`record_skipped: false`: a run that finds nothing new leaves the catalog unchanged; other runs are recorded."""

import pytest

from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.index.index_run import index_all
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.maintenance.test_run import newest_snapshot
from lake_assets_tests.world import NW, World, sales


def test_a_run_that_finds_nothing_new_makes_no_snapshot(world: World) -> None:
    world.options = {"record_skipped": False}
    world.land(NW, sales(1))
    committed = world.ingest(NW).row
    newest = newest_snapshot(world)

    again = world.ingest(NW)

    assert (again.row.status, again.row.source_fingerprint) == ("skipped", committed.source_fingerprint)
    assert newest_snapshot(world) == newest
    assert [row.status for row in world.ledger()] == ["committed"]
    assert not scan_landing(world.stream).pending
    world.options = {}
    world.ingest(NW)
    assert newest_snapshot(world) == newest + 1


def test_a_skip_after_a_failure_is_recorded_once(local_world: World) -> None:
    local_world.options = {"record_skipped": False}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.land(NW, b"", "empty.parquet")
    with pytest.raises(LakeAssetsError, match="empty"):
        local_world.ingest(NW)
    local_world.unland(NW, "empty.parquet")

    for _ in range(2):
        assert local_world.ingest(NW).row.status == "skipped"

    assert [row.status for row in local_world.ledger()] == ["skipped", "failed", "committed"]


def test_a_source_that_lost_its_objects_is_recorded_once(local_world: World) -> None:
    local_world.options = {"record_skipped": False, "on_empty": "keep"}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.unland(NW)

    for _ in range(2):
        assert local_world.ingest(NW).row.on_empty == "keep"

    assert [(row.status, row.on_empty) for row in local_world.ledger()] == [("skipped", "keep"), ("committed", None)]
    local_world.land(NW, sales(1), "again.parquet")
    assert local_world.ingest(NW).row.status == "committed"


def test_an_index_that_finds_nothing_new_makes_no_snapshot(local_world: World) -> None:
    local_world.options = {"record_skipped": False, "mode": "index"}
    local_world.land(NW, sales(1))
    list(index_all(local_world.stream, [local_world.partition(NW)]))
    newest = newest_snapshot(local_world)

    (again,) = index_all(local_world.stream, [local_world.partition(NW)])

    assert again.result is not None
    assert again.result.row.status == "skipped"
    assert newest_snapshot(local_world) == newest
