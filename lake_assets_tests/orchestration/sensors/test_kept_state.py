"""The state of a sensor in Dagster's database, and the cursor that names it."""

import re
import time

import dagster as dg
import pytest
import sqlalchemy
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import KeyValueStoreTable

from lake_assets.orchestration.dagster_private import store_text
from lake_assets.orchestration.sensors.stream_sensor import KeptState
from lake_assets.streams.detection.cursor import CURSOR_VERSION
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, SW, World, sales


def test_a_cursor_is_one_line_and_names_its_state(instance: dg.DagsterInstance) -> None:
    first = KeptState(instance, None)
    cursor = first.store("x" * 20_000)

    assert first.text is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, state [0-9a-f]{12}-[0-9a-f]{8}-[0-9a-f]{16}", cursor)
    assert KeptState(instance, cursor).text == "x" * 20_000


def test_a_lost_tick_leaves_the_state_of_the_tick_before(instance: dg.DagsterInstance) -> None:
    cursor = KeptState(instance, None).store("a")

    for _ in range(3):  # their cursors are lost
        KeptState(instance, cursor).store("lost")

    assert KeptState(instance, cursor).text == "a"
    following = KeptState(instance, cursor).store("b")
    assert KeptState(instance, following).text == "b"


def test_a_state_that_a_later_tick_has_deleted_is_not_used(storage: dg.DagsterInstance) -> None:
    old = KeptState(storage, None).store("a")
    new = KeptState(storage, old).store("b")
    newest = KeptState(storage, new).store("c")

    assert KeptState(storage, old).text is None
    assert KeptState(storage, newest).text == "c"
    assert KeptState(storage, re.sub("state .{8}", "state 00000000", newest)).text is None


def test_a_tick_that_ends_late_replaces_no_state(instance: dg.DagsterInstance) -> None:
    """The daemon gives up a tick that takes too long, and the process of the code goes on with it."""
    cursor = KeptState(instance, None).store("a")
    late, later = KeptState(instance, cursor), KeptState(instance, cursor)
    following = KeptState(instance, cursor).store("b")
    late.store("late")

    assert KeptState(instance, following).text == "b"
    newest = KeptState(instance, following).store("c")
    later.store("later")
    assert KeptState(instance, newest).text == "c"


def places(instance: dg.DagsterInstance) -> list[str]:
    """The keys of all states in the database of Dagster's runs."""
    storage = instance.run_storage
    assert isinstance(storage, SqlRunStorage)
    with storage.connect() as database:
        found = database.execute(sqlalchemy.select(KeyValueStoreTable.c.key)).scalars().all()
    return [key for key in found if key.startswith("lake_assets/")]


def test_a_tick_leaves_two_states_of_its_sensor(instance: dg.DagsterInstance) -> None:
    other = KeptState(instance, None).store("other")
    cursor = KeptState(instance, None).store("a")
    for text in "bcdef":
        KeptState(instance, cursor).store("lost")
        cursor = KeptState(instance, cursor).store(text)
    cursor = KeptState(instance, KeptState(instance, cursor).store("g")).store("h")

    assert len(places(instance)) == 3
    assert [KeptState(instance, each).text for each in (other, cursor)] == ["other", "h"]


def test_a_state_that_a_reset_has_left_is_deleted_after_three_months(instance: dg.DagsterInstance) -> None:
    kept = [KeptState(instance, None).store(text) for text in "ab"]
    (old, *_) = places(instance)
    days_ago = f"{int((time.time() - 91 * 86_400) * 1000):012x}"
    abandoned = re.sub("/[0-9a-f]{12}", f"/{days_ago}", old)
    assert store_text(instance, abandoned, "c")
    kept.append(KeptState(instance, kept.pop()).store("d"))
    assert abandoned in places(instance)

    KeptState(instance, None).store("e")  # after another reset

    assert abandoned not in places(instance)
    assert [KeptState(instance, each).text for each in kept] == ["a", "d"]


def test_a_cursor_of_an_earlier_version_is_the_state(ticks: Ticks, local_world: World) -> None:
    local_world.land(NW, sales(1))
    ticks.tick()
    ticks.cursor = KeptState(ticks.instance, ticks.cursor).text
    assert str(ticks.cursor).startswith(f'{{"version": {CURSOR_VERSION}')
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
