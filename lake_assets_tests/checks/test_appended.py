"""The checks of a stream in mode append: objects that vanish or change, and rows."""

import pytest

from lake_assets.checks.check_run import checks_of, is_error
from lake_assets.checks.result import Scope
from lake_assets_tests.checks.checked import by_partition, check, sql
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture
def appended(local_world: World) -> World:
    local_world.options = {"mode": "append"}
    for name, total in (("a", 1), ("b", 2)):
        local_world.land(NW, sales(total), f"{name}.parquet")
        local_world.ingest(NW)
    local_world.land(SW, sales(7))
    local_world.ingest(SW)
    return local_world


def scopes(world: World) -> list[Scope]:
    """The whole table, and the partitions of a run."""
    return [Scope(), Scope(partitions=(world.partition(NW), world.partition(SW)))]


def test_all_checks_pass_and_count_the_rows_of_the_footers(appended: World) -> None:
    for scope in scopes(appended):
        for name in checks_of(appended.stream):
            result = check(appended, name, scope)
            assert result.passed, result
        assert check(appended, "row_counts", scope).numbers["partitions"] == 2
        assert check(appended, "appended_objects", scope).numbers == {"appended": 3, "vanished": 0, "changed": 0}


def test_a_vanished_object_is_named_and_its_rows_are_due(appended: World) -> None:
    appended.unland(NW, "a.parquet")
    appended.ingest(NW)

    for scope in scopes(appended):
        result = check(appended, "appended_objects", scope)
        assert (result.passed, is_error(appended.stream, "appended_objects")) == (False, False)
        assert "a.parquet has vanished" in result.named[0]
        assert check(appended, "row_counts", scope).passed
        assert check(appended, "landing_zone", scope).passed
        assert check(appended, "ledger", scope).passed
        found = by_partition(appended, "appended_objects", scope)
        assert found == {appended.partition(NW): False, appended.partition(SW): True}
    sql(appended, "DELETE FROM lake.sales WHERE total = 1")
    assert not check(appended, "row_counts").passed


def test_a_changed_object_is_named(appended: World) -> None:
    appended.land(NW, sales(1, 1), "a.parquet")

    for scope in scopes(appended):
        result = check(appended, "appended_objects", scope)
        assert not result.passed
        assert "a.parquet has changed" in result.named[0]


def test_too_many_rows_are_found_by_the_footers(appended: World) -> None:
    sql(appended, "INSERT INTO lake.sales SELECT * FROM lake.sales WHERE total = 2")

    for scope in scopes(appended):
        assert not check(appended, "row_counts", scope).passed


def test_the_check_is_of_mode_append_only(local_world: World) -> None:
    assert "appended_objects" not in checks_of(local_world.stream)
