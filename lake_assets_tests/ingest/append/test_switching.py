"""A stream that changes its mode: what the lake has of each object is known in every mode."""

import pytest

from lake_assets.checks.check_run import checks_of, run_check
from lake_assets.checks.result import Scope
from lake_assets.streams.pending import scan_landing
from lake_assets_tests.ingest.append.test_append import APPEND
from lake_assets_tests.world import NW, World, plan, sales

TRANSFORM = {"transform": {"sql": "SELECT sum(id) AS id, sum(total) AS total FROM source"}}


def assert_sound(world: World) -> None:
    for name in checks_of(world.stream):
        result = run_check(world.stream, name, Scope())
        assert result.passed, result


def test_after_replace_only_new_objects_are_read(either_lake: World) -> None:
    for name in ("a", "b"):
        either_lake.land(NW, sales(1), f"{name}.parquet")
    either_lake.ingest(NW)
    either_lake.options = APPEND

    assert plan(either_lake.stream, either_lake.partition(NW)).action.startswith("skip")
    assert either_lake.ingest(NW).row.status == "skipped"
    assert not scan_landing(either_lake.stream).pending
    either_lake.land(NW, sales(2), "c.parquet")
    assert either_lake.ingest(NW).row.source_files == 1

    assert either_lake.totals() == [1, 1, 2]
    assert_sound(either_lake)


@pytest.mark.parametrize("commits", [1, 2])
def test_after_append_each_partition_is_read_once_as_a_whole(either_lake: World, commits: int) -> None:
    either_lake.options = APPEND | TRANSFORM
    for number in range(commits):
        either_lake.land(NW, sales(1, 2), f"{number}.parquet")
        either_lake.ingest(NW)
    assert either_lake.totals() == [3] * commits
    either_lake.options = TRANSFORM

    assert set(scan_landing(either_lake.stream).pending) == {either_lake.partition(NW)}
    row = either_lake.ingest(NW).row

    assert (row.mode, row.status, row.rows_before) == ("replace", "committed", commits)
    assert either_lake.totals() == [3.0 * commits]
    assert either_lake.ingest(NW).row.status == "skipped"
    assert_sound(either_lake)
    either_lake.options = APPEND | TRANSFORM
    assert either_lake.ingest(NW).row.status == "skipped"
    either_lake.land(NW, sales(10), "new.parquet")
    either_lake.ingest(NW)
    assert either_lake.totals() == sorted([3.0 * commits, 10])
    assert_sound(either_lake)
