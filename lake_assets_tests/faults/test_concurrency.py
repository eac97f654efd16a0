"""Writers at once, each a process: all succeed or say clearly why not, and the lake ends as if each had come alone."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lake_assets.base.errors import PartitionHeldError, PartitionMovedError
from lake_assets.lake.session import LakeSession
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.independent import Files
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.scenarios import MAINTENANCE, Landed, assert_either, begin, next_round
from lake_assets_tests.faults.writer import ROWS, STRATEGIES, make_table, overtaken, write
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import NW, SW, World, sales

pytestmark = pytest.mark.kill

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


def run(world: World, actors: Actors, acts: Acts, *, times: int = 1, lock: bool = True) -> list[str]:
    """All acts at once, each so often; returns what was refused."""
    begun = [actors.start(world, act, times=times, lock=lock, **options) for act, options in acts]
    ends = [act.wait() for act in begun]
    assert not [end for end in ends if end.crashed or end.was_killed], ends
    return [end.refused for end in ends if end.refused]


@dataclass(frozen=True)
class Race:
    """What eight writers do at once, to partitions that do not exist yet.

    Attributes:
        options: of the stream.
        landed: partitions with objects.
        acts: of the writers.
        commits: the commits of all writers, and the least number of their snapshots.
        splits: whether partitions that were overtaken are committed alone, by more snapshots.
        repeats: whether an act that is repeated commits again.
        lake: options of the lake.
        is_first: whether the table does not exist yet either.
    """

    options: dict[str, Any]
    landed: list[str]
    acts: Acts
    commits: tuple[int, int]
    repeats: bool = False
    splits: bool = False
    lake: dict[str, Any] = field(default_factory=dict)
    is_first: bool = False


PAIRS = [PARTITIONS[0:2], PARTITIONS[1::-1], PARTITIONS[1:3], PARTITIONS[2::-2]]  # of partitions, that overlap
RACES = {
    "replace": Race({}, [NW], [ingests(NW)] * 8, (8, 8), repeats=True),
    "replace others": Race({}, PARTITIONS, [ingests(text) for text in PARTITIONS], (8, 8), repeats=True),
    "append": Race({"mode": "append"}, [NW], [ingests(NW, force=False)] * 8, (1, 1)),
    "append to others": Race(
        {"mode": "append"}, PARTITIONS, [ingests(text, force=False) for text in PARTITIONS], (8, 8)
    ),
    "batch": Race(
        {"commit_batch": 2}, PARTITIONS[:3], [ingests(*pair) for pair in PAIRS * 2], (16, 8), repeats=True, splits=True
    ),
    "index": Race({"mode": "index"}, [NW, *PARTITIONS], [("index", {})] * 8, (9, 1)),
}
FOUR = PARTITIONS[:4] * 2
OTHERS = {
    "replace by insert": Race({}, [NW], [ingests(NW)] * 4, (4, 4), lake=ENCRYPTED),
    "append by insert": Race({"mode": "append"}, [NW], [ingests(NW, force=False)] * 4, (1, 1), lake=ENCRYPTED),
    "replace in a new table": Race({}, FOUR[:4], [ingests(text) for text in FOUR], (8, 8), is_first=True),
    "append to a new table": Race(
        {"mode": "append"}, FOUR[:4], [ingests(text, force=False) for text in FOUR], (4, 4), is_first=True
    ),
}
# Catalog and storage, whether the writers take the lock, the race, and how often each acts. DuckDB's file is opened by
# one process at a time, which the lock sees to. Without a lock the catalog itself refuses, and the retry commits.
SQLITE, DUCKDB, POSTGRES = ((catalog, "local") for catalog in ("sqlite", "duckdb", "postgres"))
CASES = [
    (POSTGRES, False, "replace", 1),
    (SQLITE, True, "append", 1),
    *more((POSTGRES, False, race, 1) for race in RACES if race != "replace"),
    *more([(SQLITE, True, "batch", 1)]),
    *more([(DUCKDB, True, "replace others", 1)]),
    *soak((pair, True, race, 2) for pair in (SQLITE, DUCKDB, ("postgres", "s3")) for race in RACES),
    *soak((pair, False, race, 4) for pair in (SQLITE, POSTGRES) for race in RACES),
    *more([(SQLITE, True, "replace by insert", 1), (POSTGRES, False, "append by insert", 1)]),
    (SQLITE, True, "replace in a new table", 1),
    *more([(SQLITE, True, "append to a new table", 1)]),
    *soak((pair, lock, race, 1) for pair, lock in ((SQLITE, False), (POSTGRES, True)) for race in list(OTHERS)[:2]),
]


@pytest.mark.journey
@pytest.mark.parametrize(("world", "lock", "race", "times"), CASES, indirect=["world"])
def test_writers_at_once_all_succeed_and_none_is_lost_or_doubled(
    world: World, actors: Actors, race: str, lock: bool, times: int
) -> None:
    chosen = (RACES | OTHERS)[race]
    world.options, world.lake_options = dict(chosen.options), chosen.lake | {"commit_retries": 200}
    landed = Landed(world)
    if not chosen.is_first:
        landed.land(SW, "first.parquet", sales(0.25))
        act, options = ("index", {}) if race == "index" else ingests(SW)
        assert actors.run(world, act, **options).did
    land(landed, *chosen.landed, objects=4 if race == "index" else 2)

    assert run(world, actors, chosen.acts, times=times, lock=lock) == []

    assert_sound(world, landed.rows(), landed=True)
    committed = [row for row in world.ledger() if row.status == "committed"]
    before = 0 if chosen.is_first else 1
    commits, snapshots = (count * (times if chosen.repeats else 1) for count in chosen.commits)
    made = len({row.snapshot_id for row in committed}) - before
    assert len(committed) - before == commits
    assert snapshots <= made <= (commits if chosen.splits else snapshots)


@pytest.mark.more
@pytest.mark.parametrize(("world", "lock"), [(POSTGRES, False), (SQLITE, True)], indirect=["world"])
def test_writers_at_once_export_each_commit_once(world: World, actors: Actors, lock: bool) -> None:
    scenario = begin(world, actors, "delta export")
    world.lake_options["commit_retries"] = 200
    land(scenario.landed, *PARTITIONS[:4])

    assert run(world, actors, [ingests(text) for text in PARTITIONS[:4]], times=2, lock=lock) == []

    assert_sound(world, scenario.landed.rows(), landed=True)
    # What was written for a snapshot that another commit took is removed.
    visible = [uri for (uri,) in world.query("SELECT uri FROM lake.ingest_deltas")]
    assert sorted(Files.of(world.options["deltas"]["to"]).listed()) == sorted(visible)


@pytest.mark.parametrize(
    ("world", "encrypted"),
    [
        (SQLITE, False),
        *more([(SQLITE, True)]),
        *soak((pair, encrypted) for pair in (DUCKDB, POSTGRES) for encrypted in (False, True)),
    ],
    indirect=["world"],
)
def test_restores_and_refreshes_at_once_never_double_a_partition(world: World, actors: Actors, encrypted: bool) -> None:
    world.lake_options = dict(ENCRYPTED) if encrypted else {}
    scenario = begin(world, actors, "restore")
    begun = next_round(scenario, "restore")
    again = ("restore", begun.options | {"hold": False})

    assert run(world, actors, [again, again, ingests(NW)], times=2) == []

    assert_either(world, begun.before, begun.after, cleaning=False)


@pytest.mark.soak
@pytest.mark.parametrize("world", [SQLITE, ("postgres", "s3")], indirect=True)
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
    (POSTGRES, "direct", "direct", None),
    (POSTGRES, "extension", "direct", "a"),
    *more((POSTGRES, slower, faster, "a") for slower, faster in (("direct", "direct"), ("direct", "extension"))),
    *more((POSTGRES, slower, "extension", None) for slower in STRATEGIES),
    # SQLite itself lets one writer of the direct strategy begin.
    *more((SQLITE, "extension", faster, appends) for faster, appends in (("direct", None), ("extension", "a"))),
    *more((pair, None, None, appends) for pair in (POSTGRES, SQLITE) for appends in (None, "a")),
]


@pytest.mark.parametrize(("world", "strategy", "faster_strategy", "appends"), OVERTAKEN, indirect=["world"])
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


@pytest.mark.more
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


@pytest.mark.more
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
            write(other, NW)
            if what == "refresh"
            else Restoration(other.stream, other.partition(NW), second, hold=True).run()
        )

    monkeypatch.setattr(LakeSession, "takes_locks", False)
    with overtaken(None, faster):
        row = Restoration(world.stream, world.partition(NW), first).run().row

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
    Restoration(local_world.stream, local_world.partition(NW), first, hold=True).run()

    with pytest.raises(PartitionHeldError, match="restored and held meanwhile"):
        write(local_world, NW)

    assert local_world.totals(NW) == restored


@pytest.mark.parametrize("world", [POSTGRES, *more([(SQLITE,)])], indirect=True)
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
