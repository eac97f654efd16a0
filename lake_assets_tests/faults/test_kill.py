"""`kill -9` of every act at any moment: a reader sees the rows of before or of after, and the next run needs no help.

`LAKE_ASSETS_SEED` chooses the random moments. `LAKE_ASSETS_KILLS` is the number of random kills of an act on a lake.
"""

import os
import random
import time

import pytest

from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.scenarios import KINDS, Scenario, assert_held, begin, check, finish, next_round
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import World

pytestmark = pytest.mark.kill

SEED = os.environ.get("LAKE_ASSETS_SEED", "0")
KILLS = int(os.environ.get("LAKE_ASSETS_KILLS", "8"))  # of each kind on each lake, so that all are more than 200
LAKES = [("sqlite", "local"), ("duckdb", "local"), ("postgres", "s3")]
ENCRYPTED = {"attach_options": {"encrypted": True}}
REPLACING = ("replace", "append", "quarantine", "append with quarantine", "evolve", "dead letters")
# The acts whose commits a strategy can make; `insert` is that of an encrypted lake.
OF_STRATEGIES = {
    "direct": tuple(KINDS),
    "extension": (*REPLACING, "delta export", "index"),
    "insert": (*REPLACING, "delta export", "restore", "compaction"),
}
CASES = [(kind, strategy) for strategy, kinds in OF_STRATEGIES.items() for kind in kinds]
# Those of `make test`: each act by the strategy that most lakes have, and each strategy; and of `make test-all`.
FEW = {
    *((kind, "direct") for kind in ("replace", "append", "index", "restore")),
    ("append", "extension"),
}
MORE = {
    *((kind, "direct") for kind in ("batch", "delta export", "dead letters")),
    ("compaction", "insert"),
    ("replace", "insert"),
}
# What a step begins with that writes a row or a file, so that a death before it leaves what earlier ones have written.
ROWS = ("INSERT", "UPDATE", "DELETE", "CALL", "COPY", "CREATE", "ALTER", "DROP", "COMMIT", "the end")
FILES = ("create", "stream", "put_new", "put_own", "delete", "copy")


def begun_with(world: World, actors: Actors, kind: str, strategy: str) -> tuple[Scenario, str | None]:
    """A scenario whose commits are made by a strategy, and the name that its acts take for that."""
    if strategy == "insert":
        world.lake_options = dict(ENCRYPTED)
    return begin(world, actors, kind), None if strategy == "insert" else strategy


def measured(scenario: Scenario, kind: str, strategy: str | None = None) -> tuple[list[str], float]:
    """The steps of a round that nobody kills, and its seconds."""
    begun = next_round(scenario, kind)
    start = time.perf_counter()
    ended = scenario.actors.run(scenario.world, begun.act, strategy=strategy, **begun.options)
    seconds = time.perf_counter() - start
    assert ended.did is not None, ended
    check(scenario, begun, ended)
    return list(ended.steps), seconds


@pytest.mark.parametrize(
    ("kind", "strategy"),
    # A clean-up has no COMMIT.
    [
        pytest.param(*case, marks=() if case in FEW else pytest.mark.more if case in MORE else pytest.mark.soak)
        for case in CASES
        if case[0] != "clean-up"
    ],
)
def test_a_death_before_the_commit_leaves_the_rows_of_before_and_one_after_it_those_of_after(
    local_world: World, actors: Actors, kind: str, strategy: str
) -> None:
    scenario, chosen = begun_with(local_world, actors, kind, strategy)
    steps, _ = measured(scenario, kind, chosen)
    # An earlier COMMIT of evolve is that of the columns, and that of index ends a transaction that reads the table.
    last = steps.count("COMMIT")
    rounds = range(2 if kind == "restore" else 1)  # with a hold and without
    for moment in [moment for moment in ("COMMIT", "after COMMIT") for _ in rounds]:
        begun = next_round(scenario, kind)

        ended = actors.run(local_world, begun.act, die_at=moment, nth=last, strategy=chosen, **begun.options)

        assert ended.was_killed, ended
        is_done = moment == "after COMMIT"
        expected = begun.after if is_done else begun.before
        assert_sound(local_world, expected, landed=False, cleaning=begun.cleaning)
        assert_held(local_world, begun, is_done)
        if begun.act in ("ingest", "index"):
            if not is_done:
                scenario.do(begun.act, **begun.options)
            nothing = "" if kind == "index" else "skipped"  # an index has no partition to tell of
            assert actors.run(local_world, begun.act, **begun.options).did == nothing
        finish(scenario, begun)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "strategy"), CASES)
def test_a_death_before_each_row_or_file_that_is_written_leaves_a_sound_lake(
    local_world: World, actors: Actors, kind: str, strategy: str
) -> None:
    scenario, chosen = begun_with(local_world, actors, kind, strategy)
    for _ in range(3):  # the first rounds may have more steps than later ones: the second of evolve widens a column
        steps, _ = measured(scenario, kind, chosen)
    # Of which word a step is which: a round may read more often than another, and writes the same.
    written = [word for step in steps for word in ROWS + FILES if step.startswith(word)]
    deaths = 0
    for number, word in enumerate(written):
        begun = next_round(scenario, kind)
        nth = written[: number + 1].count(word)
        ended = actors.run(local_world, begun.act, die_at=word, nth=nth, strategy=chosen, **begun.options)
        deaths += ended.was_killed
        assert ended.refused is None, ended.refused
        check(scenario, begun, ended)
    assert deaths == len(written) > 0
    assert "COMMIT" in written or kind == "clean-up"


@pytest.mark.journey
@pytest.mark.parametrize(
    ("world", "kind", "kills"),
    [
        (("sqlite", "local"), "clean-up", 2),
        *more([(("postgres", "local"), "batch", 2), (("duckdb", "local"), "delta export", 2)]),
        *soak((pair, kind, KILLS) for pair in LAKES for kind in KINDS),
    ],
    indirect=["world"],
)
def test_kills_at_random_moments_leave_a_sound_lake(world: World, actors: Actors, kind: str, kills: int) -> None:
    moments = random.Random(f"{SEED} {kind} {world.catalog['type']}")
    scenario = begin(world, actors, kind)
    steps, seconds = measured(scenario, kind)
    killed = 0
    for number in range(kills):
        begun = next_round(scenario, kind)
        # Every second kill comes by the clock, and can hit the middle of a step.
        if number % 2:
            ended = actors.kill(world, begun.act, moments.uniform(0, seconds), **begun.options)
        else:
            ended = actors.run(world, begun.act, die_at=moments.randint(1, len(steps)), **begun.options)
        killed += ended.was_killed
        assert ended.refused is None, ended.refused
        check(scenario, begun, ended)
    assert killed >= kills / 2
