"""`lake-assets index` as a user types it."""

from pathlib import Path

import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture(autouse=True)
def _index(local_world: World) -> None:
    local_world.options = {"mode": "index"}


def test_new_files_are_registered_and_unmatched_objects_are_named(local_world: World, run: Run) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.land(SW, sales(3))
    Path(local_world.source["path"], "stray.parquet").write_bytes(b"x")

    dry = run("index", "sales", "--dry-run")
    first = run("index", "sales")
    second = run("index", "sales")

    assert (dry.exit_code, first.exit_code, second.exit_code) == (0, 0, 0), first.output
    assert "region=NW/date=2026-02-11  1 new object" in dry.output
    assert "2 new objects of 2 objects" in dry.output
    assert "committed  region=NW/date=2026-02-11  2 rows (before: 0), 1 file" in first.output
    assert "2 files registered, 3 rows, in 2 partitions" in first.output
    assert "sales: 1 object left out: 1 in no partition: `lake-assets plan sales --left-out`\n" in first.output
    assert "  the source's own folder (1 object): the path is not of the layout" in first.output
    assert second.output.splitlines()[0] == "nothing new"
    assert local_world.totals() == [1, 2, 3]


@pytest.mark.more
def test_a_plan_says_that_new_objects_are_registered_and_that_the_partition_then_fails(
    local_world: World, run: Run
) -> None:
    """By a changed object, and by new ones that the lake refuses: plan, dry run and run have the same exit code."""
    uri = local_world.land(NW, sales(1), "a.parquet")
    run("index")
    local_world.land(NW, sales(1, 2, 3), "a.parquet")
    local_world.land(NW, sales(4), "b.parquet")
    local_world.land(SW, sales(5), "a.parquet")
    bad = local_world.land(SW, b"no Parquet", "b.parquet")

    plan, dry, named = run("plan"), run("index", "--dry-run"), run("plan", "--partition", NW)
    applied = run("plan", "--apply")

    assert (plan.exit_code, named.exit_code, dry.exit_code, applied.exit_code) == (1, 1, 1, 1)
    changed = "1 changed object, see `lake-assets index sales --check`"
    assert f"fail: {changed} (1 partition)" in plan.stdout
    assert "fail: the lake refuses 1 new object (1 partition)" in plan.stdout
    assert f"sales region=NW/date=2026-02-11: register 1 new object in place, then fail: {changed}" in named.stdout
    assert f"note      the object {uri} has changed since it was registered" in named.stdout
    assert f"region=NW/date=2026-02-11  register 1 new object in place, then fail: {changed}" in dry.stderr
    assert f"the object {bad} cannot be read as Parquet" in applied.stderr
    registered = "SELECT region, total FROM lake.sales WHERE total > 3 ORDER BY ALL"
    assert local_world.query(registered) == [("NW", 4), ("SW", 5)]
