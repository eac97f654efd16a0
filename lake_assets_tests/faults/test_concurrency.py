"""Writers at once, each a process: all succeed or say clearly why not, and the lake ends as if each had come alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lake_assets.errors import PartitionHeldError, PartitionMovedError
from lake_assets.history.restore import restore
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.independent import Files
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.scenarios import MAINTENANCE, Landed, assert_either, begin, next_round
from lake_assets_tests.faults.writer import ROWS, STRATEGIES, make_table, overtaken, write
from lake_assets_tests.world import NW, SW, World, sales

pytestmark = pytest.mark.kill

TIMES = 2
PARTITIONS = [f"region=R{number},date=2026-02-11" for number in range(8)]
ENCRYPTED = {"attach_options": {"encrypted": True}}
Acts = list[tuple[str, dict[str, Any]]]
ON_POSTGRES = pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)


def ingests(*partitions: str, force: bool = True) -> tuple[str, dict[str, Any]]:
    return "ingest", {"partitions": partitions, "force": force}


def land(landed: Landed, *texts: str, objects: int = 2) -> None:
    for text in texts:
        for number in range(objects):
            landed.land(text, f"{number}.parquet", sales(len(landed.objects), 0.5))


def replacing(landed: Landed) -> Acts:
    """A partition that does not exist yet."""
    land(landed, NW)
    return [ingests(NW)] * 8


def replacing_others(landed: Landed) -> Acts:
    land(landed, *PARTITIONS)
    return [ingests(text) for text in PARTITIONS]


def adding(landed: Landed) -> Acts:
    """All to the same partition, which does not exist yet."""
    land(landed, NW)
    return [ingests(NW, force=False)] * 8


def adding_to_others(landed: Landed) -> Acts:
    land(landed, *PARTITIONS)
    return [ingests(text, force=False) for text in PARTITIONS]


def in_batches(landed: Landed) -> Acts:
    """Pairs of partitions that overlap."""
    one, two, three = PARTITIONS[:3]
    land(landed, one, two, three)
    return [ingests(*pair) for pair in ((one, two), (two, one), (two, three), (three, one)) * 2]


def indexing(landed: Landed) -> Acts:
    land(landed, NW, *PARTITIONS, objects=4)
    return [("index", {})] * 8


# The stream's options, what is done at once, and how many commits of how many snapshots there are.
RACES: dict[str, tuple[dict[str, Any], Callable[[Landed], Acts], tuple[int, int]]] = {
    "replace": ({}, replacing, (16, 16)),
    "replace others": ({}, replacing_others, (16, 16)),
    "append": ({"mode": "append"}, adding, (1, 1)),
    "append to others": ({"mode": "append"}, adding_to_others, (8, 8)),
    "batch": ({"commit_batch": 2}, in_batches, (32, 16)),
    "index": ({"mode": "index"}, indexing, (9, 1)),
}
CATALOGS = [
    (("sqlite", "local"), True),
    (("duckdb", "local"), True),  # one process at a time opens it, with the lock
    (("postgres", "local"), False),
    pytest.param(("sqlite", "local"), False, marks=pytest.mark.soak),
    pytest.param(("postgres", "s3"), True, marks=pytest.mark.soak),
]


def run(world: World, actors: Actors, acts: Acts, *, times: int = TIMES, lock: bool = True) -> list[str]:
    """All acts at once, each so often; returns what was refused."""
    begun = [actors.start(world, act, times=times, lock=lock, **options) for act, options in acts]
    ends = [act.wait() for act in begun]
    assert not [end for end in ends if end.crashed or end.was_killed], ends
    return [end.refused for end in ends if end.refused]


@pytest.mark.sample(5)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize(("world", "lock"), CATALOGS, indirect=["world"])
def test_writers_at_once_all_succeed_and_none_is_lost_or_doubled(
    world: World, actors: Actors, race: str, lock: bool
) -> None:
    """Without the lock the catalog itself refuses, and the retry commits."""
    options, acts, (commits, snapshots) = RACES[race]
    world.options = dict(options)
    world.lake_options = {"commit_retries": 200}
    landed = Landed(world)
    landed.land(SW, "first.parquet", sales(0.25))
    act, chosen = ("index", {}) if race == "index" else ingests(SW)
    assert actors.run(world, act, **chosen).did

    assert run(world, actors, acts(landed), lock=lock) == []

    assert_sound(world, landed.rows(), landed=True)
    committed = [row for row in world.ledger() if row.status == "committed"]
    assert (len(committed) - 1, len({row.snapshot_id for row in committed}) - 1) == (commits, snapshots)


@pytest.mark.parametrize("race", ["replace", "append"])
@pytest.mark.parametrize(
    ("world", "lock"),
    [
        (("sqlite", "local"), True),
        (("postgres", "local"), False),
        pytest.param(("sqlite", "local"), False, marks=pytest.mark.soak),
        pytest.param(("postgres", "local"), True, marks=pytest.mark.soak),
    ],
    indirect=["world"],
)
def test_writers_by_insert_do_not_double_a_new_partition(world: World, actors: Actors, race: str, lock: bool) -> None:
    options, acts, (commits, _) = RACES[race]
    world.options, world.lake_options = dict(options), ENCRYPTED | {"commit_retries": 200}
    make_table(world)
    landed = Landed(world)

    assert run(world, actors, acts(landed)[:4], lock=lock) == []

    assert_sound(world, landed.rows(), landed=True)
    assert len([row for row in world.ledger() if row.status == "committed"]) == min(commits, 8)


@pytest.mark.parametrize("race", ["replace others", "append to others"])
def test_writers_of_new_partitions_of_a_new_table_succeed(local_world: World, actors: Actors, race: str) -> None:
    """Two of them for each of four partitions."""
    options, acts, _ = RACES[race]
    local_world.options = dict(options)
    landed = Landed(local_world)

    assert run(local_world, actors, acts(landed)[:4] * 2, times=1) == []

    rows = [row for text in PARTITIONS[:4] for row in landed.rows(text)]
    assert_sound(local_world, rows, landed=False)


@pytest.mark.parametrize(
    ("world", "lock"), [(("sqlite", "local"), True), (("postgres", "local"), False)], indirect=["world"]
)
def test_writers_at_once_export_each_commit_once(world: World, actors: Actors, lock: bool) -> None:
    scenario = begin(world, actors, "deltas")
    world.lake_options["commit_retries"] = 200
    land(scenario.landed, *PARTITIONS[:4])

    assert run(world, actors, [ingests(text) for text in PARTITIONS[:4]], lock=lock) == []

    assert_sound(world, scenario.landed.rows(), landed=True)
    # What was written for a snapshot that another commit took is removed.
    visible = [uri for (uri,) in world.query("SELECT uri FROM lake.ingest_deltas")]
    assert sorted(Files.of(world.options["deltas"]["to"]).listed()) == sorted(visible)


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(
    "world",
    [
        ("sqlite", "local"),
        pytest.param(("duckdb", "local"), marks=pytest.mark.soak),
        pytest.param(("postgres", "local"), marks=pytest.mark.soak),
    ],
    indirect=True,
)
def test_restores_and_refreshes_at_once_never_double_a_partition(world: World, actors: Actors, encrypted: bool) -> None:
    world.lake_options = dict(ENCRYPTED) if encrypted else {}
    scenario = begin(world, actors, "restore")
    begun = next_round(scenario, "restore")
    again = ("restore", begun.options | {"hold": False})

    assert run(world, actors, [again, again, ingests(NW)]) == []

    assert_either(world, begun.before, begun.after, cleaning=False)


@pytest.mark.soak
@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "s3")], indirect=True, ids="-".join)
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_writers_beside_maintenance_and_restores_succeed_or_say_why_not(
    world: World, actors: Actors, mode: str
) -> None:
    world.options = {"mode": mode}
    world.lake_options = {"maintenance": MAINTENANCE | {"compact": 2}}
    landed = Landed(world)
    for number in range(3):
        landed.land(NW, f"{number}.parquet", sales(number, 0.5))
        assert actors.run(world, "ingest", partitions=[NW]).did
    then = landed.rows()
    snapshot = max(row.snapshot_id or 0 for row in world.ledger(NW))
    others = PARTITIONS[:3]
    land(landed, *others)
    landed.land(NW, "more.parquet", sales(7.5))
    acts = [ingests(text, force=mode == "replace") for text in (*others, NW)]
    acts += [("maintain", {}), ("maintain", {"days": 3})]
    acts += [("restore", {"partition": NW, "snapshot": snapshot})] * 2

    refused = run(world, actors, acts, times=5)

    clear = ("PartitionMovedError", "expired", "was not compacted", "is gone")
    assert not [text for text in refused if not any(words in text for words in clear)], refused
    for text in others:  # maintenance of three days later may have removed the files of each refresh
        assert actors.run(world, "ingest", partitions=[text]).did
    rows = [row for text in others for row in landed.rows(text)]
    assert_either(world, [*then, *rows], [*landed.rows(NW), *rows], cleaning=False)
    assert actors.run(world, "ingest", partitions=[NW], force=True).did
    assert_sound(world, [*landed.rows(NW), *rows], landed=False)


OVERTAKEN = [
    *((("postgres", "local"), strategy, faster) for strategy in STRATEGIES for faster in STRATEGIES),
    # SQLite itself lets one writer of the direct strategy begin.
    *((("sqlite", "local"), "extension", faster) for faster in STRATEGIES),
    (("postgres", "local"), None, None),
    pytest.param(("sqlite", "local"), None, None, marks=pytest.mark.more),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("world", "strategy", "faster_strategy"), OVERTAKEN, indirect=["world"])
@pytest.mark.parametrize("appends", [None, "a"], ids=["replace", "append"])
def test_a_first_commit_that_is_overtaken_does_not_double_the_partition(
    world: World, strategy: str | None, faster_strategy: str | None, appends: str | None
) -> None:
    """DuckLake lets it pass: each of two deletes matches nothing. None is the strategy of an encrypted lake."""
    world.lake_options = {} if strategy else ENCRYPTED
    make_table(world)
    write(world, SW)
    other = replace(world, _opened=None)

    def overtake() -> None:
        assert write(other, NW, lock=False, strategy=faster_strategy, appends=appends).rows_before == 0

    if appends:
        with pytest.raises(PartitionMovedError):
            write(world, NW, lock=False, strategy=strategy, overtaken_by=overtake, appends=appends)
        assert world.query("SELECT uri FROM lake.ingest_files") == [(appends,)]
    else:
        assert write(world, NW, lock=False, strategy=strategy, overtaken_by=overtake).rows_before == ROWS
    assert len(world.totals(NW)) == ROWS


@ON_POSTGRES
def test_a_replacement_and_an_addition_at_once_are_as_one_after_the_other(world: World) -> None:
    make_table(world)
    write(world, NW, appends="a")
    other = replace(world, _opened=None)

    row = write(world, NW, lock=False, overtaken_by=lambda: write(other, NW, lock=False, appends="b"))

    assert row.rows_before == 2 * ROWS
    assert len(world.totals(NW)) == ROWS
    write(world, NW, appends="b")  # which the replacement removed
    assert len(world.totals(NW)) == 2 * ROWS


@ON_POSTGRES
@pytest.mark.parametrize("what", ["refresh", "restore"])
def test_a_restore_that_is_overtaken_is_retried_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Without the lock, another commit comes after the restore has read the number of the last snapshot."""
    make_table(world)
    first = write(world, NW).snapshot_id
    restored = world.totals(NW)
    second = write(world, NW).snapshot_id
    assert first is not None
    assert second is not None
    other = replace(world, _opened=None)
    happened: list[object] = []

    def faster() -> None:
        happened.append(
            write(other, NW) if what == "refresh" else restore(other.stream, other.partition(NW), second, hold=True)
        )

    monkeypatch.setattr(LakeSession, "takes_locks", False)
    with overtaken(None, faster):
        row = restore(world.stream, world.partition(NW), first).row

    assert happened
    assert row is not None
    assert (row.rows_before, row.snapshot_id) == (ROWS, second + 2)
    assert world.totals(NW) == restored


def test_of_a_refresh_and_a_restore_with_a_hold_the_restore_wins(local_world: World) -> None:
    """A refresh that commits after the restore finds the hold."""
    make_table(local_world)
    first = write(local_world, NW).snapshot_id
    restored = local_world.totals(NW)
    write(local_world, NW)
    assert first is not None
    restore(local_world.stream, local_world.partition(NW), first, hold=True)

    with pytest.raises(PartitionHeldError, match="restored and held meanwhile"):
        write(local_world, NW)

    assert local_world.totals(NW) == restored


def test_a_partition_can_be_replaced_while_another_is_read(local_world: World) -> None:
    make_table(local_world)
    write(local_world, NW)
    write(local_world, SW)
    with local_world.stream.lake.open() as reader, reader.transaction():
        before = reader.rows("SELECT sum(total) FROM lake.sales")
        write(replace(local_world, _opened=None), NW)
        assert reader.rows("SELECT sum(total) FROM lake.sales") == before


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
def test_a_reader_never_sees_a_part_of_a_batch(world: World, actors: Actors) -> None:
    """Both partitions have the same rows, and other ones after each commit."""
    scenario = begin(world, actors, "batch")
    query = "SELECT region, count(*) AS n, sum(total) AS total FROM lake.sales GROUP BY region"
    seen = set()
    with world.reader() as client, ThreadPoolExecutor(1) as pool:
        for _ in range(4):
            begun = next_round(scenario, "batch")
            ended = pool.submit(actors.run, world, begun.act, **begun.options)
            is_last = False
            while not is_last:
                is_last = ended.done()
                seen |= set(client.execute(f"SELECT count(*), count(DISTINCT (n, total)) FROM ({query})").fetchall())
            assert ended.result().did == "committed"
    assert seen == {(2, 1)}
