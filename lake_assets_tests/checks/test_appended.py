"""The checks of a stream in mode append: objects that vanish or change, and rows."""

import pytest

from lake_assets.checks.check_run import checks_of, is_error
from lake_assets.checks.result import Scope
from lake_assets_tests.checks.checked import by_partition, check
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture
def appended(local_world: World) -> World:
    assert "appended_objects" not in checks_of(local_world.stream)
    local_world.options = {"mode": "append"}
    for text, name, total in ((NW, "a", 1), (NW, "b", 2), (SW, "c", 7)):
        local_world.commit(text, total, name=f"{name}.parquet")
    return local_world


def scopes(world: World) -> list[Scope]:
    """The whole table, and the partitions of a run."""
    return [Scope(), Scope(partitions=(world.partition(NW), world.partition(SW)))]


def test_all_checks_pass_until_there_are_more_rows_than_in_the_footers(appended: World) -> None:
    for scope in scopes(appended):
        assert [name for name in checks_of(appended.stream) if not check(appended, name, scope).passed] == []
        assert check(appended, "row_counts", scope).numbers["partitions"] == 2
        assert check(appended, "appended_objects", scope).numbers == {"appended": 3, "vanished": 0, "changed": 0}

    appended.execute("INSERT INTO lake.sales SELECT * FROM lake.sales WHERE total = 2")
    assert [check(appended, "row_counts", scope).passed for scope in scopes(appended)] == [False, False]


def test_a_vanished_and_a_changed_object_are_named_and_rows_of_the_vanished_are_due(appended: World) -> None:
    appended.unland(NW, "a.parquet")
    appended.ingest(NW)

    for scope in scopes(appended):
        result = check(appended, "appended_objects", scope)
        assert (result.passed, is_error(appended.stream, "appended_objects")) == (False, False)
        assert "a.parquet has vanished" in result.named[0]
        assert [check(appended, n, scope).passed for n in ("row_counts", "landing_zone", "ledger")] == [True] * 3
        found = by_partition(appended, "appended_objects", scope)
        assert found == {appended.partition(NW): False, appended.partition(SW): True}
    appended.land(SW, sales(1, 1), "c.parquet")
    for scope in scopes(appended):
        assert any("c.parquet has changed" in named for named in check(appended, "appended_objects", scope).named)
    appended.execute("DELETE FROM lake.sales WHERE total = 1")
    assert not check(appended, "row_counts").passed
