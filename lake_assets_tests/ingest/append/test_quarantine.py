"""Mode append with `on_bad_object: quarantine`: bad objects are left out, the others are added, each once."""

from typing import Any

import pytest

from lake_assets.base.errors import LakeAssetsError
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.ingest.append.test_append import APPEND
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.ingest.test_in_rows import both_in_rows, put, rows
from lake_assets_tests.ingest.test_quarantine import BAD, BADS, WRONG_TYPE, reasons
from lake_assets_tests.world import NW, SW, World, plan, sales

QUARANTINE: dict[str, Any] = APPEND | {"on_bad_object": "quarantine"}
DAMAGED = b"x" * 100


@pytest.fixture
def appended(local_world: World) -> World:
    """A partition that was made of one object."""
    local_world.options = {**QUARANTINE}
    local_world.land(NW, sales(1), "a.parquet")
    local_world.ingest(NW)
    return local_world


def test_a_bad_object_is_left_out_and_the_rest_is_added(world: World) -> None:
    world.options = {**QUARANTINE}
    world.land(NW, sales(1), "a.parquet")
    world.land(NW, WRONG_TYPE, "b.parquet")
    first = world.ingest(NW).row
    world.land(NW, sales(2), "c.parquet")
    uri = world.land(NW, DAMAGED, "d.parquet")

    row = world.ingest(NW).row

    assert (first.row_count, first.files_quarantined, first.source_files) == (1, 1, 2)
    assert (row.mode, row.status, row.rows_before, row.row_count) == ("append", "committed", 1, 1)
    assert (row.files_quarantined, row.source_files) == (1, 2)
    assert world.totals() == [1, 2]
    assert set(reasons(world)) == {"b.parquet", "d.parquet"}
    assert reasons(world)["d.parquet"].startswith(f"the object {uri} cannot be read as Parquet: ")
    assert not scan_landing(world.stream).pending
    assert world.ingest(NW).row.status == "skipped"
    world.land(NW, sales(3), "e.parquet")
    assert world.ingest(NW).row.source_files == 1  # the quarantined ones are not read again
    assert world.totals() == [1, 2, 3]


@pytest.mark.more
@pytest.mark.parametrize(("on_empty", "kind"), [("fail", "empty"), ("keep", "empty"), ("fail", "another type")])
def test_a_new_partition_of_bad_objects_only_is_one_without_rows(local_world: World, on_empty: str, kind: str) -> None:
    local_world.options = QUARANTINE | {"on_empty": on_empty}
    local_world.land(SW, sales(1))
    local_world.ingest(SW)
    local_world.land(NW, BADS[kind], BAD)

    if on_empty == "fail":
        with pytest.raises(LakeAssetsError, match=BAD):
            local_world.ingest(NW)
        if kind == "empty":
            decision = plan(local_world.stream, local_world.partition(NW)).decision
            assert (decision.action, BAD in decision.why) == ("fail", True)
    else:
        assert (row := local_world.ingest(NW).row).status == "skipped"
        assert (row.on_empty, row.files_quarantined) == ("keep", 1)
    local_world.land(NW, sales(2), "b.parquet")
    assert local_world.ingest(NW).row.files_quarantined == 1
    assert local_world.totals() == [1, 2]


@pytest.mark.more
def test_the_dry_run_says_what_is_quarantined(appended: World) -> None:
    appended.land(NW, WRONG_TYPE, BAD)
    appended.land(NW, sales(2), "c.parquet")

    found = plan(appended.stream, appended.partition(NW))
    assert (found.action, len(found.reads.objects)) == ("append 2 new objects", 2)
    appended.ingest(NW)
    skip = "skip: all of its objects have been read"
    assert plan(appended.stream, appended.partition(NW)).action == skip
    appended.unland(NW, "c.parquet")  # so that the manifest decides
    found = plan(appended.stream, appended.partition(NW))
    assert found.action == f"{skip} but 1 quarantined object, which --force tries again"
    appended.land(NW, b"", BAD)
    found = plan(appended.stream, appended.partition(NW))
    assert (found.action, found.reads.read, found.rows_after) == ("append 1 new object", (), 2)
    assert list(found.reads.left_out) == [f"{appended.partition(NW).path}/{BAD}"]
    forced = plan(appended.stream, appended.partition(NW), force=True)
    assert [obj.key.rpartition("/")[2] for obj in forced.reads.read] == ["a.parquet"]


@pytest.mark.more
def test_an_object_of_several_partitions_is_left_out_of_each_by_itself(local_world: World) -> None:
    local_world.options = QUARANTINE | both_in_rows()
    put(local_world, "a.parquet", rows(("NW", "2026-02-11", 1), ("SW", "2026-02-11", 2)))
    for text in (NW, SW):
        local_world.ingest(text)
    put(local_world, "b.parquet", WRONG_TYPE)

    assert local_world.ingest(NW).row.files_quarantined == 1
    put(local_world, "b.parquet", rows(("NW", "2026-02-11", 3), ("SW", "2026-02-11", 4)))
    for text in (NW, SW):
        assert local_world.ingest(text).row.files_quarantined == 0

    assert local_world.totals(NW) == [1, 3]
    assert local_world.totals(SW) == [2, 4]


@pytest.mark.parametrize(
    ("repaired", "noted"), [(False, [True]), (True, [True, False])], ids=["as it was", "landed again"]
)
def test_a_run_that_was_overtaken_notes_no_object_twice(appended: World, repaired: bool, noted: list[bool]) -> None:
    appended.land(NW, WRONG_TYPE, BAD)
    if repaired:
        appended.ingest(NW)
        appended.land(NW, sales(2), BAD)
    with before("verify", lambda _: appended.ingest(NW)):
        row = appended.ingest(NW).row

    assert row.status == "skipped"
    found = appended.query("SELECT uri, reason FROM lake.ingest_files ORDER BY snapshot_id")
    assert [reason is not None for uri, reason in found if uri.endswith(BAD)] == noted
    assert appended.totals() == ([1, 2] if repaired else [1])
