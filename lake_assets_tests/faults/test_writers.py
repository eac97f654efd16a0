"""Eight writers of one table at once, each a process: all succeed or say clearly why not, and the lake is sound."""

from collections.abc import Callable
from typing import Any

import pytest

from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.scenarios import MAINTENANCE, Landed, assert_either
from lake_assets_tests.world import NW, World, sales

pytestmark = pytest.mark.kill

WRITERS = 8
TIMES = 5
PARTITIONS = [f"region=R{number},date=2026-02-11" for number in range(WRITERS)]
Acts = list[tuple[str, dict[str, Any]]]
SERVED = pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "s3")], indirect=True, ids="-".join)


def land(landed: Landed, text: str, objects: int) -> None:
    for number in range(objects):
        landed.land(text, f"{number}.parquet", sales(len(landed.objects), 0.5))


def same_partition(landed: Landed) -> Acts:
    land(landed, NW, 3)
    return [("ingest", {"partition": NW, "force": landed.world.options["mode"] == "replace"})] * WRITERS


def different_partitions(landed: Landed) -> Acts:
    for text in PARTITIONS:
        land(landed, text, 2)
    force = landed.world.options["mode"] == "replace"
    return [("ingest", {"partition": text, "force": force}) for text in PARTITIONS]


def run(world: World, actors: Actors, acts: Acts, times: int = TIMES) -> list[str]:
    """All acts at once, each so often; returns what was refused."""
    begun = [actors.start(world, act, times=times, **options) for act, options in acts]
    ends = [act.wait() for act in begun]
    assert not [end for end in ends if end.crashed or end.was_killed], ends
    return [end.refused for end in ends if end.refused]


@pytest.mark.kill_all
@SERVED
@pytest.mark.parametrize("mode", ["replace", "append"])
@pytest.mark.parametrize("partitions", [same_partition, different_partitions])
def test_all_of_eight_writers_succeed(
    world: World, actors: Actors, mode: str, partitions: Callable[[Landed], Acts]
) -> None:
    world.options = {"mode": mode}
    landed = Landed(world)

    assert run(world, actors, partitions(landed)) == []

    assert_sound(world, landed.rows(), landed=True)
    commits = [row for row in world.ledger() if row.status == "committed"]
    of_mode = {"replace": WRITERS * TIMES, "append": len({text for text, _ in landed.objects})}
    assert len(commits) == of_mode[mode]


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_eight_writers_of_new_partitions_of_a_new_table_succeed(local_world: World, actors: Actors, mode: str) -> None:
    """Two of them for each of four partitions."""
    local_world.options = {"mode": mode}
    landed = Landed(local_world)

    assert run(local_world, actors, different_partitions(landed)[:4] * 2, times=1) == []

    rows = [row for text in PARTITIONS[:4] for row in landed.rows(text)]
    assert_sound(local_world, rows, landed=False)


@pytest.mark.kill_all
@SERVED
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_writers_beside_maintenance_and_restores_succeed_or_say_why_not(
    world: World, actors: Actors, mode: str
) -> None:
    world.options = {"mode": mode}
    world.lake_options = {"maintenance": MAINTENANCE | {"compact": 2}}
    landed = Landed(world)
    for number in range(3):
        landed.land(NW, f"{number}.parquet", sales(number, 0.5))
        assert actors.run(world, "ingest", partition=NW).did
    then = landed.rows()
    snapshot = max(row.snapshot_id or 0 for row in world.ledger(NW))
    acts = different_partitions(landed)[:3]
    landed.land(NW, "more.parquet", sales(7.5))
    acts += [("ingest", {"partition": NW, "force": mode == "replace"})]
    acts += [("maintain", {}), ("maintain", {"days": 3})]
    acts += [("restore", {"partition": NW, "snapshot": snapshot})] * 2

    refused = run(world, actors, acts)

    clear = ("PartitionMovedError", "has expired", "was not compacted", "is gone")
    assert not [text for text in refused if not any(words in text for words in clear)], refused
    others = [row for text in PARTITIONS[:3] for row in landed.rows(text)]
    assert_either(world, [*then, *others], [*landed.rows(NW), *others], cleaning=False)
    assert actors.run(world, "ingest", partition=NW, force=True).did
    assert_sound(world, [*landed.rows(NW), *others], landed=False)
