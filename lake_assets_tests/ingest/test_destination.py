"""The destination table gets another name in the config, is renamed by another client, or is dropped."""

import pytest

from lake_assets.base.errors import LakeAssetsError
from lake_assets_tests.world import NW, SW, World, plan, sales

MODES = ["replace", "append", "index"]


@pytest.mark.parametrize("mode", MODES)
def test_what_another_table_got_is_new_to_this_one(local_world: World, mode: str) -> None:
    local_world.options = {"mode": mode}
    local_world.commit(NW, 1)
    local_world.options["destination"] = {"table": "other"}
    local_world.commit(SW, 2)

    local_world.options["destination"] = {"table": "sales"}
    planned = plan(local_world.stream, local_world.partition(SW))

    if mode == "index":  # a file is of one table
        assert planned.decision.fails == "the lake refuses 1 new object"
        with pytest.raises(LakeAssetsError, match="is a file of another table of this lake"):
            local_world.ingest(SW)
    else:
        assert local_world.ingest(SW).row.status == "committed"
        assert local_world.totals() == [1, 2]
    assert local_world.ingest(NW).row.status == "skipped"


@pytest.mark.parametrize("mode", MODES)
def test_a_table_that_was_dropped_is_filled_again_and_one_that_was_renamed_is_not_begun_anew(
    local_world: World, mode: str
) -> None:
    local_world.options = {"mode": mode}
    local_world.commit(NW, 1)
    local_world.execute("ALTER TABLE lake.sales RENAME TO other")
    local_world.land(SW, sales(2))

    planned = plan(local_world.stream, local_world.partition(SW))

    assert planned.decision.fails.startswith("the table main.sales was renamed to main.other in snapshot ")
    with pytest.raises(LakeAssetsError, match="and the ledger has commits of it: rename it back, by"):
        local_world.ingest(SW)
    local_world.execute("ALTER TABLE lake.other RENAME TO sales")
    assert [local_world.ingest(text).row.status for text in (NW, SW)] == ["skipped", "committed"]
    assert local_world.totals() == [1, 2]
    local_world.execute("DROP TABLE lake.sales")
    if mode != "index":  # the catalog still has the paths
        assert [local_world.ingest(text).row.status for text in (NW, SW)] == ["committed", "committed"]
        assert local_world.totals() == [1, 2]
