"""A stream that changes its mode: what the lake has of each object is known in every mode."""

import pytest

from lake_assets.checks.result import Scope
from lake_assets.checks.run import checks_of, run_check
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.ingest.append.test_append import APPEND, statuses
from lake_assets_tests.world import NW, World, plan, sales

ENCRYPTED = {"attach_options": {"encrypted": True}}
TRANSFORM = {"transform": {"sql": "SELECT sum(id) AS id, sum(total) AS total FROM source"}}


def assert_sound(world: World) -> None:
    for name in checks_of(world.stream):
        result = run_check(world.stream, name, Scope())
        assert result.passed, result


@pytest.mark.parametrize("lake_options", [{}, ENCRYPTED], ids=["files", "encrypted"])
def test_after_replace_only_new_objects_are_read(local_world: World, lake_options: dict[str, object]) -> None:
    local_world.lake_options = lake_options
    for name in ("a", "b"):
        local_world.land(NW, sales(1), f"{name}.parquet")
    local_world.ingest(NW)
    local_world.options = APPEND

    assert plan(local_world.stream, local_world.partition(NW)).action.startswith("skip")
    assert local_world.ingest(NW).row.status == "skipped"
    assert not scan_landing(local_world.stream).pending
    local_world.land(NW, sales(2), "c.parquet")
    assert local_world.ingest(NW).row.source_files == 1

    assert local_world.totals() == [1, 1, 2]
    assert_sound(local_world)


@pytest.mark.parametrize("lake_options", [{}, ENCRYPTED], ids=["files", "encrypted"])
@pytest.mark.parametrize("commits", [1, 2])
def test_after_append_each_partition_is_read_once_as_a_whole(
    local_world: World, commits: int, lake_options: dict[str, object]
) -> None:
    local_world.lake_options = lake_options
    local_world.options = APPEND | TRANSFORM
    for number in range(commits):
        local_world.land(NW, sales(1, 2), f"{number}.parquet")
        local_world.ingest(NW)
    assert local_world.totals() == [3] * commits
    local_world.options = TRANSFORM

    assert set(scan_landing(local_world.stream).pending) == {local_world.partition(NW)}
    row = local_world.ingest(NW).row

    assert (row.mode, row.status, row.rows_before) == ("replace", "committed", commits)
    assert local_world.totals() == [3.0 * commits]
    assert local_world.ingest(NW).row.status == "skipped"
    assert_sound(local_world)
    local_world.options = APPEND | TRANSFORM
    assert local_world.ingest(NW).row.status == "skipped"
    local_world.land(NW, sales(10), "new.parquet")
    local_world.ingest(NW)
    assert local_world.totals() == sorted([3.0 * commits, 10])
    assert_sound(local_world)


def test_between_append_and_index_no_object_enters_twice(local_world: World) -> None:
    for number, mode in enumerate(("index", "append", "index", "append")):
        local_world.options = {"mode": mode}
        local_world.land(NW, sales(number), f"{number}.parquet")
        assert local_world.ingest(NW).row.row_count == 1
        assert local_world.ingest(NW).row.status == "skipped"

    assert local_world.totals() == [0, 1, 2, 3]
    assert [mode for mode, status in statuses(local_world) if status == "committed"] == ["append", "index"] * 2
    assert_sound(local_world)
