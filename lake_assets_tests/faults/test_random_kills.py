"""`kill -9` of every act at any moment: the rows are those of before or after, and the next run needs no help.

`LAKE_ASSETS_SEED` repeats the moments of a run; its seed is printed when a test fails. `LAKE_ASSETS_KILLS` is the
number of kills of an act on a lake.
"""

import os
import random
import time

import pytest

from lake_assets_tests.faults.actors import Actors, Ended
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.scenarios import KINDS, Round, Scenario, assert_either, begin, finish, next_round
from lake_assets_tests.world import World

pytestmark = pytest.mark.kill

SEED = int(os.environ.get("LAKE_ASSETS_SEED") or random.SystemRandom().randrange(2**32))
KILLS = int(os.environ.get("LAKE_ASSETS_KILLS", "8"))  # of each kind on each lake, so that all are more than 200
LAKES = pytest.mark.parametrize(
    "world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")], indirect=True, ids="-".join
)


def check(scenario: Scenario, begun: Round, ended: Ended) -> None:
    """The lake after a kill, and after the next run."""
    assert ended.crashed is None, ended.crashed
    assert ended.refused is None, ended.refused
    if ended.was_killed:
        assert_either(scenario.world, begun.before, begun.after, cleaning=begun.cleaning)
    else:
        assert_sound(scenario.world, begun.after, landed=begun.landed)
    finish(scenario, begun)


def measured(scenario: Scenario, kind: str) -> tuple[int, float]:
    """The steps of a round that nobody kills, and its seconds."""
    begun = next_round(scenario, kind)
    start = time.perf_counter()
    ended = scenario.actors.run(scenario.world, begun.act, **begun.options)
    seconds = time.perf_counter() - start
    check(scenario, begun, ended)
    return ended.steps, seconds


@pytest.mark.kill_all
@LAKES
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_a_random_moment_leaves_a_sound_lake(world: World, actors: Actors, kind: str) -> None:
    print(f"LAKE_ASSETS_SEED={SEED}")  # noqa: T201 - shown when the test fails
    moments = random.Random(f"{SEED} {kind} {world.catalog['type']}")
    scenario = begin(world, actors, kind)
    steps, seconds = measured(scenario, kind)
    killed = 0
    for number in range(KILLS):
        begun = next_round(scenario, kind)
        # Every second kill comes by the clock, and can hit the middle of a step.
        if number % 2:
            ended = actors.kill(world, begun.act, moments.uniform(0, seconds), **begun.options)
        else:
            ended = actors.run(world, begun.act, die_at=moments.randint(1, steps), **begun.options)
        killed += ended.was_killed
        check(scenario, begun, ended)

    assert killed >= KILLS / 2


# What no other test of a kill covers, in the middle and at the end.
@pytest.mark.parametrize("kind", ["compaction", "clean-up", "quarantine"])
def test_a_kill_of_maintenance_or_of_a_quarantine_leaves_a_sound_lake(
    local_world: World, actors: Actors, kind: str
) -> None:
    scenario = begin(local_world, actors, kind)
    measured(scenario, kind)
    steps, _ = measured(scenario, kind)  # the first round may have more steps than later ones
    for part in (0.5, 1.0):
        begun = next_round(scenario, kind)
        ended = actors.run(local_world, begun.act, die_at=round(part * steps), **begun.options)
        assert ended.was_killed
        check(scenario, begun, ended)
