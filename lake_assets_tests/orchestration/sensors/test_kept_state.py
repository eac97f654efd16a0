"""The state of a sensor in Dagster's database, and the cursor that names it."""

import re
from collections.abc import Iterator

import dagster as dg
import pytest

from lake_assets.orchestration.sensors.kept_state import KeptState
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp() as instance:
        yield instance


def test_a_cursor_is_one_line_and_names_its_state(instance: dg.DagsterInstance) -> None:
    first = KeptState(instance, None)
    cursor = first.store("x" * 20_000)

    assert first.text is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, state [0-9a-f]{8}-0-[0-9a-f]{16}", cursor)
    assert KeptState(instance, cursor).text == "x" * 20_000


def test_a_lost_tick_leaves_the_state_of_the_tick_before(instance: dg.DagsterInstance) -> None:
    cursor = KeptState(instance, None).store("a")

    for _ in range(3):  # their cursors are lost
        KeptState(instance, cursor).store("lost")

    assert KeptState(instance, cursor).text == "a"
    following = KeptState(instance, cursor).store("b")
    assert KeptState(instance, following).text == "b"


def test_a_state_that_another_tick_has_replaced_is_not_used(instance: dg.DagsterInstance) -> None:
    old = KeptState(instance, None).store("a")
    new = KeptState(instance, old).store("b")
    newest = KeptState(instance, new).store("c")

    assert KeptState(instance, old).text is None
    assert KeptState(instance, newest).text == "c"
    assert KeptState(instance, re.sub("state .{8}", "state 00000000", newest)).text is None


def test_two_sensors_have_places_of_their_own(instance: dg.DagsterInstance) -> None:
    cursors = [KeptState(instance, None).store(text) for text in ("a", "b")]

    assert [KeptState(instance, cursor).text for cursor in cursors] == ["a", "b"]


def test_a_cursor_of_an_earlier_version_is_the_state(ticks: Ticks, local_world: World) -> None:
    local_world.land(NW, sales(1))
    ticks.tick()
    ticks.cursor = KeptState(ticks.instance, ticks.cursor).text
    assert str(ticks.cursor).startswith('{"version": 2')
    local_world.land(SW, sales(1))

    assert [request.partition_key for request in ticks.tick()] == ["2026-02-11|SW"]
    assert "state " in str(ticks.cursor)


def test_where_dagster_has_no_place_for_texts_the_cursor_is_the_state(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster+ returns an error from both functions."""
    for name in ("get_cursor_values", "set_cursor_values"):
        monkeypatch.setattr(type(instance.daemon_cursor_storage), name, lambda *_: NotImplementedError("no"))

    cursor = KeptState(instance, None).store("a")

    assert cursor == "a"
    assert KeptState(instance, cursor).text == "a"
