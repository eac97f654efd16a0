"""Scenarios of a lake: in each round something changes, an act takes it in, and the rows are known before."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lake_assets.storage.store import Store
from lake_assets_tests.faults.actors import Actors, Ended
from lake_assets_tests.faults.independent import Row
from lake_assets_tests.faults.lake_invariants import assert_sound, complaints
from lake_assets_tests.world import NW, SW, World, sales

DAMAGED = b"PAR1 this is not a Parquet file PAR1"
MAINTENANCE = {"expire_older_than": 1, "delete_older_than": 1, "orphans_older_than": 1}


@dataclass
class Landed:
    """The landing zone of a world, and the rows that its objects have by the test's own account."""

    world: World
    objects: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def land(self, text: str, name: str, rows: pa.Table | bytes) -> None:
        """Put an object; one of bytes has no rows."""
        self.world.land(text, rows, name)
        values = dict(part.split("=", 1) for part in text.split(","))
        self.objects[text, name] = [] if isinstance(rows, bytes) else [row | values for row in rows.to_pylist()]

    def land_misfit(self, text: str, name: str, rows: pa.Table) -> None:
        """Put an object with these rows, and with one more that belongs to another partition."""
        (region, *_) = self.world.partition(text).values
        more = pa.concat_tables([rows, rows.slice(0, 1)])
        regions = pa.array([region] * rows.num_rows + ["elsewhere"], pa.string())
        self.land(text, name, more.append_column("region", regions))
        self.objects[text, name].pop()

    def unland(self, text: str, name: str) -> None:
        """Take an object away."""
        self.world.unland(text, name)
        del self.objects[text, name]

    def rows(self, text: str | None = None) -> list[Row]:
        """The rows of a partition's objects, or of all."""
        return [row for (of, _), rows in self.objects.items() if text in (None, of) for row in rows]


@dataclass
class Round:
    """What a round of a scenario does: the act, the rows before and after it, and what is known of the landing zone."""

    act: str
    options: dict[str, Any]
    before: list[Row]
    after: list[Row]
    landed: bool = True  # the manifest knows all objects afterwards
    cleaning: bool = False


@dataclass
class Scenario:
    """The scenario of one world by one kind of act."""

    world: World
    actors: Actors
    landed: Landed
    number: int = 0  # of rounds

    def do(self, act: str, **options: Any) -> None:
        """Act, to the end."""
        ended = self.actors.run(self.world, act, **options)
        assert ended.did is not None, ended

    def numbers(self, count: int = 2) -> pa.Table:
        """Rows that no other object has."""
        return sales(*(self.number + index / 8 for index in range(count)))


def _after(land: Callable[[Scenario], None], *partitions: str) -> Callable[[Scenario], Round]:
    """Return the round of a scenario in which this lands objects, and an ingest of the partitions takes them in."""

    def new_round(scenario: Scenario) -> Round:
        before = scenario.landed.rows()
        land(scenario)
        act, options = ("ingest", {"partitions": partitions}) if partitions else ("index", {})
        return Round(act, options, before, scenario.landed.rows())

    return new_round


def _land_again(scenario: Scenario) -> None:
    scenario.landed.land(NW, f"{scenario.number % 2}.parquet", scenario.numbers())


def _land_new(scenario: Scenario) -> None:
    scenario.landed.land(NW, f"{scenario.number}.parquet", scenario.numbers())


def _land_a_column(scenario: Scenario) -> None:
    """A new column each time, and one that gets wider the second time."""
    rows = scenario.numbers()
    kinds = {f"c{scenario.number}": pa.int32(), "n": pa.int32() if scenario.number < 2 else pa.int64()}
    for name, kind in kinds.items():
        rows = rows.append_column(name, pa.array([scenario.number] * 2, kind))
    scenario.landed.land(NW, f"{scenario.number % 3}.parquet", rows)


def _land_damaged(scenario: Scenario) -> None:
    scenario.landed.land(NW, f"bad-{scenario.number}.parquet", DAMAGED)
    _land_new(scenario)


def _land_in_both(scenario: Scenario) -> None:
    for text in (NW, SW):
        scenario.landed.land(text, f"{scenario.number % 2}.parquet", scenario.numbers())


def _land_a_misfit(scenario: Scenario) -> None:
    scenario.landed.land_misfit(NW, f"{scenario.number % 2}.parquet", scenario.numbers())


def _compact(scenario: Scenario) -> Round:
    for name in ("a", "b"):
        scenario.landed.land(NW, f"{scenario.number}-{name}.parquet", scenario.numbers())
        scenario.do("ingest", partitions=[NW])
    return Round("maintain", {}, scenario.landed.rows(), scenario.landed.rows())


def _clean(scenario: Scenario) -> Round:
    for index in range(2):
        scenario.landed.land(NW, f"{index}.parquet", scenario.numbers(1 + scenario.number % 3))
        scenario.do("ingest", partitions=[NW])
    storage = Store(scenario.world.config.lakes["test"].own_storage)
    with storage.create(f"main/sales/region=NW/date=2026-02-11/of-a-killed-run-{scenario.number}.parquet") as file:
        file.write(b"of no commit")
    return Round("maintain", {"days": 3}, scenario.landed.rows(), scenario.landed.rows(), cleaning=True)


def _restore(scenario: Scenario) -> Round:
    then = scenario.landed.rows()
    scenario.do("ingest", partitions=[NW], force=True)
    snapshot = next(row.snapshot_id for row in scenario.world.ledger(NW) if row.status == "committed")
    scenario.landed.land(NW, f"{scenario.number % 2}.parquet", scenario.numbers())
    scenario.do("ingest", partitions=[NW])
    options = {"partition": NW, "snapshot": snapshot, "hold": scenario.number % 2 == 0}
    return Round("restore", options, scenario.landed.rows(), then, landed=False)


DELTAS = "deltas"  # is replaced by the storage of a world's exported changes
KINDS: dict[str, tuple[dict[str, Any], Callable[[Scenario], Round]]] = {
    "replace": ({}, _after(_land_again, NW)),
    "append": ({"mode": "append"}, _after(_land_new, NW)),
    "index": ({"mode": "index"}, _after(_land_new)),
    "batch": ({"commit_batch": 2}, _after(_land_in_both, NW, SW)),
    "evolve": ({"schema_policy": "evolve"}, _after(_land_a_column, NW)),
    "quarantine": ({"on_bad_object": "quarantine"}, _after(_land_damaged, NW)),
    "append with quarantine": ({"mode": "append", "on_bad_object": "quarantine"}, _after(_land_damaged, NW)),
    "dead letters": ({"on_bad_row": "dead_letter"}, _after(_land_a_misfit, NW)),
    "delta export": ({"deltas": {"to": DELTAS, "latest": True}}, _after(_land_again, NW)),
    "compaction": ({"mode": "append"}, _compact),
    "clean-up": ({}, _clean),
    "restore": ({}, _restore),
}


def begin(world: World, actors: Actors, kind: str) -> Scenario:
    """A scenario with its first rows: two partitions, of which acts change one."""
    options, _ = KINDS[kind]
    world.options = {name: dict(value) if isinstance(value, dict) else value for name, value in options.items()}
    if kind == "delta export":
        local = {"type": "local", "path": str(Path(str(world.source.get("path"))).with_name("deltas"))}
        remote = world.storage | {"prefix": "deltas"}
        world.options["deltas"]["to"] = local if world.storage["type"] == "local" else remote
        world.options["deltas"]["plaintext"] = "attach_options" in world.lake_options  # encrypted
    world.lake_options |= {"maintenance": MAINTENANCE | ({"compact": 2} if kind == "compaction" else {})}
    scenario = Scenario(world, actors, Landed(world))
    for text in (NW, SW):
        scenario.landed.land(text, "0.parquet", scenario.numbers())
        scenario.do("index" if kind == "index" else "ingest", **({} if kind == "index" else {"partitions": [text]}))
    return scenario


def next_round(scenario: Scenario, kind: str) -> Round:
    """The next round; what it needs before its act has been done."""
    scenario.number += 1
    _, make = KINDS[kind]
    return make(scenario)


def assert_either(world: World, before: Iterable[Row], after: Iterable[Row], *, cleaning: bool) -> bool:
    """The lake is sound, with the rows of before or with those of after; whether it is those of after."""
    is_done = any(complaints(world, before, landed=False, cleaning=cleaning))
    if is_done:
        assert_sound(world, after, landed=False, cleaning=cleaning)
    return is_done


def assert_held(world: World, begun: Round, is_done: bool) -> None:
    """The hold of a restore comes with its rows."""
    if begun.act == "restore":
        assert (world.ledger(NW)[0].hold == "held") == (is_done and begun.options["hold"])


def check(scenario: Scenario, begun: Round, ended: Ended) -> None:
    """The lake is sound after an act that may not have come to its end, and the next run needs no help."""
    assert ended.crashed is None, ended.crashed
    if ended.did is None:
        is_done = assert_either(scenario.world, begun.before, begun.after, cleaning=begun.cleaning)
        assert_held(scenario.world, begun, is_done)
    else:
        assert_sound(scenario.world, begun.after, landed=begun.landed)
    finish(scenario, begun)


def finish(scenario: Scenario, begun: Round) -> None:
    """The next run succeeds with nobody's help, and the lake has the rows of after."""
    scenario.do(begun.act, **begun.options)
    assert_sound(scenario.world, begun.after, landed=begun.landed)
    if begun.act == "restore":  # the next round begins with the landing zone's rows
        if begun.options["hold"]:
            scenario.do("release", partition=NW)
        scenario.do("ingest", partitions=[NW], force=True)
        assert_sound(scenario.world, scenario.landed.rows())
