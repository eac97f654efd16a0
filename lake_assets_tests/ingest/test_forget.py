"""A partition that never was one leaves the ledger, and nothing else does."""

import dataclasses

import pytest

from lake_assets.base.errors import PartitionError
from lake_assets.ingest.ingest_all import ingest
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets.upkeep.maintenance.cleaning import forget
from lake_assets_tests.world import NW, SW, World


def test_all_rows_of_a_partition_are_deleted_and_none_of_others(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    for text in (NW, SW):
        local_world.commit(text, 1)
    local_world.unland(NW)
    local_world.ingest(NW)
    other = dataclasses.replace(local_world.stream, name="other")
    ingest(other, local_world.partition(NW), local_world.sessions)

    (forgotten,) = forget(local_world.stream, [local_world.partition(NW)])

    assert forgotten.ledger_rows == 2
    nw, sw = (local_world.partition(text).path for text in (NW, SW))
    kept = local_world.query("SELECT stream, load_partition FROM lake.ingest_runs ORDER BY ALL")
    assert kept == [("other", nw), ("sales", sw)]
    assert local_world.query("SELECT DISTINCT load_partition FROM lake.ingest_files") == [(sw,)]


def test_a_held_partition_is_not_forgotten(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    first = local_world.commit(NW, 1).snapshot_id
    local_world.unland(NW)
    emptied = local_world.ingest(NW).row.snapshot_id
    assert first is not None
    assert emptied is not None
    partition = local_world.partition(NW)
    Restoration(local_world.stream, partition, emptied, hold=True).run()

    with pytest.raises(PartitionError, match=r"is held since a restore: release it first with `lake-assets restore"):
        forget(local_world.stream, [partition])

    release(local_world.stream, partition)
    forget(local_world.stream, [partition])
    # The ledger knows the partition from the restore on, so that a refresh empties it again.
    assert "The next refresh empties it again" in Restoration(local_world.stream, partition, first).run().next
    assert local_world.ingest(NW).row.rows_before == 1
