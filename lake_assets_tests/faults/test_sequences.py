"""Random sequences of what happens to a lake, beside a model of it: its rows are the model's after each of them.

`LAKE_ASSETS_EXAMPLES` is the number of sequences of `make soak`, on each lake.
"""

import copy
import datetime as dt
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lake_assets.base.errors import EmptySourceError, LakeAssetsError, PartitionError, SourceError
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets.upkeep.maintenance.maintenance_run import maintain
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.independent import Files, Row
from lake_assets_tests.faults.lake_invariants import assert_sound, complaints
from lake_assets_tests.faults.scenarios import MAINTENANCE
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, maintained_at
from lake_assets_tests.world_fixtures import bucket_on, database_on

pytestmark = pytest.mark.kill

EXAMPLES = int(os.environ.get("LAKE_ASSETS_EXAMPLES", "60"))
PARTITIONS = st.sampled_from([NW, SW])
NAMES = st.sampled_from(["a.parquet", "b.parquet", "c.parquet"])
STEPS = st.none() | st.integers(1, 130)  # at which it is killed
DAY = dt.timedelta(days=1)
DEAD_LETTERS = Path(__file__).parents[2] / "docs/how-to/dead-letters.md"


class Landed(NamedTuple):
    """A landed object."""

    version: int
    rows: list[Row]  # that fit
    bad: list[int]  # the ids of the others


@dataclass
class Model:
    """What the lake must have: of each partition its rows, dead letters, versions of its known objects, and hold."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    letters: dict[str, list[int]] = field(default_factory=dict)  # ids
    known: dict[str, dict[str, int]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)

    def all_rows(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows]


class LakeMachine(RuleBasedStateMachine):
    """One lake with its landing zone, and the model of both."""

    mode = "replace"
    new_world: Callable[[Path], World]
    actors: Actors

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lake-assets-sequence-"))
        self.world = type(self).new_world(self.folder)
        self.world.options = {"mode": self.mode, "schema_policy": "evolve", "on_bad_row": "dead_letter"}
        self.world.options |= {"on_empty": "clear"} if self.mode == "replace" else {}
        self.world.options |= {"commit_batch": 2}
        self.world.lake_options = {"maintenance": MAINTENANCE | {"compact": 2}}
        self.landed: dict[tuple[str, str], Landed] = {}
        self.model = Model()
        self.past: list[tuple[int, Model]] = []  # of commits, with their snapshots
        self.number = 0
        self.has_misfits = False
        self.committed = 0  # the snapshot of the last commit, which may have expired
        self.acted = True  # since the lake was last looked at

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @invariant()
    def the_lake_is_sound(self) -> None:
        if not self.acted:
            return
        self.acted = False
        assert_sound(self.world, self.model.all_rows(), landed=False)
        if self.has_misfits:
            assert letters_now(self.world) == sorted(row for ids in self.model.letters.values() for row in ids)

    @initialize()
    def begin(self) -> None:
        self.land(NW, "a.parquet", 2, "bad")
        self.ingest(NW, force=False)

    @rule(
        text=PARTITIONS, name=NAMES, size=st.integers(1, 3), more=st.sampled_from(["", "int32", "int64", "note", "bad"])
    )
    def land(self, text: str, name: str, size: int, more: str) -> None:
        """An object lands or changes, perhaps with a new or wider column, or with a row of another partition."""
        self.number += 1
        columns: dict[str, Any] = {"id": pa.array([self.number] * size, pa.int64()), "total": [0.5, 1.5, 2.5][:size]}
        values = dict(part.split("=", 1) for part in text.split(","))
        if more == "bad":
            self.has_misfits = True
            columns["region"] = [values["region"]] * (size - 1) + ["elsewhere"]
        elif more == "note":
            columns["note"] = [f"note {self.number}"] * size
        elif more:
            columns["n"] = pa.array([self.number] * size, pa.type_for_alias(more))
        table = pa.table(columns)
        self.world.land(text, table, name)
        fit = size - (more == "bad")
        rows = [row | values for row in table.slice(0, fit).to_pylist()]
        self.landed[text, name] = Landed(self.number, rows, [self.number] * (size - fit))

    @precondition(lambda self: self.landed)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """An object goes."""
        text, name = data.draw(st.sampled_from(sorted(self.landed)))
        self.world.unland(text, name)
        del self.landed[text, name]

    @rule(text=PARTITIONS, force=st.sampled_from([False, False, True]), step=STEPS)
    def ingest(self, text: str, force: bool, step: int | None = None) -> None:
        wanted = self._ingested(text, force=force)
        if step is not None:
            self._kill("ingest", step, wanted, partitions=[text], force=force)
            return
        with jobs_here():
            self._do(lambda: self.world.ingest(text, force=force), wanted, (EmptySourceError, SourceError))

    @rule(force=st.sampled_from([False, False, True]))
    def ingest_both(self, force: bool) -> None:
        """One run of both partitions, whose commits are one snapshot if there are two."""
        self.acted = True
        refused = set()
        wanted = self.model
        for text in (NW, SW):
            if (after := self._ingested(text, force=force, before=wanted)) is None:
                refused.add(text)
            else:
                wanted = after
        partitions = {self.world.partition(text): text for text in (NW, SW)}
        with jobs_here():
            outcomes = list(ingest_all(self.world.stream, partitions, no_session, IngestOptions(force=force)))
        assert {partitions[outcome.partition] for outcome in outcomes if outcome.error} == refused
        self._set(wanted)

    @precondition(lambda self: self.past)
    @rule(days=st.sampled_from([0, 3]), step=STEPS)
    def maintain(self, days: int, step: int | None = None) -> None:
        """Partitions are compacted, and with three days snapshots expire."""
        if step is not None:
            self._kill("maintain", step, self.model, days=days)
            if not days:
                return
            with self.world.stream.lake.open(read_only=True) as lake:
                rows = lake.rows("SELECT snapshot_id FROM ducklake_snapshots(?)", [lake.alias])
            self._forget({snapshot for snapshot, _ in self.past} - {int(row[0]) for row in rows})
            # Then the next one, which deletes the scheduled files that may be gone.
        self.acted = True
        with jobs_here(), maintained_at(dt.datetime.now(dt.UTC) + days * DAY):
            done = maintain(self.world.config, "test", no_session)
        assert not done.left, done.left
        self._forget(set(done.expired))

    @precondition(lambda self: self.past)
    @rule(data=st.data(), text=PARTITIONS, hold=st.booleans(), step=STEPS)
    def restore(self, data: st.DataObject, text: str, hold: bool, step: int | None) -> None:
        snapshot, then = data.draw(st.sampled_from(self.past))
        wanted = self._restored(text, then, hold=hold)
        if step is not None:
            self._kill("restore", step, wanted, partition=text, snapshot=snapshot, hold=hold)
            return
        partition = self.world.partition(text)
        self._do(
            lambda: Restoration(self.world.stream, partition, snapshot, hold=hold).run(), wanted, (PartitionError,)
        )

    @rule(text=PARTITIONS)
    def release(self, text: str) -> None:
        wanted = None
        if text in self.model.held:
            wanted = copy.deepcopy(self.model)
            wanted.held.discard(text)
        if self.past:
            partition = self.world.partition(text)
            self._do(lambda: release(self.world.stream, partition), wanted, (PartitionError,))

    def _objects(self, text: str) -> dict[str, Landed]:
        return {name: value for (of, name), value in self.landed.items() if of == text}

    def _ingested(self, text: str, *, force: bool, before: Model | None = None) -> Model | None:
        """The model after an ingest, from the present one or another; None if the ingest is to be refused."""
        wanted, objects = copy.deepcopy(before or self.model), self._objects(text)
        if text in wanted.held and not force:
            return wanted
        known = wanted.known.get(text, {})
        versions = {name: landed.version for name, landed in objects.items()}
        new = versions.keys() - known.keys()
        if self.mode == "append" and not force:
            if any(known[name] != version for name, version in versions.items() if name in known):
                return None
            if not objects:
                return wanted if text in wanted.rows else None
            wanted.rows[text] = wanted.rows.get(text, []) + [row for name in new for row in objects[name].rows]
            wanted.letters[text] = wanted.letters.get(text, []) + [row for name in new for row in objects[name].bad]
            wanted.known[text] = known | versions
            return wanted
        if not objects:
            if self.mode == "append":
                return wanted if text in wanted.rows else None
            if text not in wanted.rows:
                return wanted  # nothing to clear
        wanted.rows[text] = [row for landed in objects.values() for row in landed.rows]
        wanted.letters[text] = [row for landed in objects.values() for row in landed.bad]
        wanted.known[text] = versions
        return wanted

    def _restored(self, text: str, then: Model, *, hold: bool) -> Model | None:
        if text not in then.rows:
            return None
        wanted = copy.deepcopy(self.model)
        wanted.rows[text] = list(then.rows[text])
        wanted.letters[text] = list(then.letters.get(text, []))
        wanted.known[text] = wanted.known.get(text, {}) | then.known.get(text, {})
        (wanted.held.add if hold else wanted.held.discard)(text)
        return wanted

    def _do(self, act: Callable[[], object], wanted: Model | None, refusals: tuple[type[LakeAssetsError], ...]) -> None:
        self.acted = True
        if wanted is None:
            with pytest.raises(refusals):
                act()
            return
        act()
        self._set(wanted)

    def _kill(self, act: str, step: int, wanted: Model | None, **options: Any) -> None:
        self.acted = True
        ended = self.actors.run(self.world, act, die_at=step, **options)
        assert ended.crashed is None, ended.crashed
        if ended.did is not None:
            assert wanted is not None
            self._set(wanted)
        elif ended.refused is not None:
            assert wanted is None, ended.refused
        elif wanted is not None and self._is_done(wanted):
            self._set(wanted)

    def _is_done(self, wanted: Model) -> bool:
        """Whether a killed act had committed: the last commit of the ledger is not that of before."""
        if any(complaints(self.world, self.model.all_rows(), landed=False, cleaning=True)):
            return True
        return self._newest() > self.committed and wanted is not self.model

    def _newest(self) -> int:
        return max((row.snapshot_id or 0 for row in self.world.ledger() if row.status == "committed"), default=0)

    def _set(self, wanted: Model) -> None:
        newest = self._newest()
        if newest == self.committed:  # a restore of the present rows changes no dead letters
            wanted.letters = self.model.letters
        self.model = wanted
        if newest > self.committed:
            self.committed = newest
            self.past.append((newest, copy.deepcopy(wanted)))

    def _forget(self, expired: set[int]) -> None:
        self.past = [(snapshot, model) for snapshot, model in self.past if snapshot not in expired]


def letters_now(world: World) -> list[int]:
    """The ids of the rows that the lake does not have now, by the query of docs/how-to/dead-letters.md."""
    query = DEAD_LETTERS.read_text("utf-8").split("```sql\n")[1].split("```")[0].replace("ingest_", "lake.ingest_")
    files = Files.of(world.source)
    return sorted(row for (uri,) in world.query(query) for row in files.read(uri)["id"].to_pylist())


def run(machine: type[LakeMachine], new_world: Callable[[Path], World], actors: Actors, **options: Any) -> None:
    """Run sequences of a machine's rules on new worlds."""
    members = {"new_world": staticmethod(new_world), "actors": actors}
    chosen = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None, **options)
    run_state_machine_as_test(type("Machine", (machine,), members), settings=chosen)


class AppendMachine(LakeMachine):
    """The same with `mode: append`."""

    mode = "append"


def on_sqlite(folder: Path) -> World:
    return World.in_folder(folder, no_session)


@pytest.mark.parametrize("machine", [LakeMachine, *more([AppendMachine])])
def test_a_sequence_ends_as_its_model_says(machine: type[LakeMachine], actors: Actors) -> None:
    phases = [Phase.generate]
    run(machine, on_sqlite, actors, max_examples=1, stateful_step_count=14, derandomize=True, phases=phases)


@pytest.mark.soak
@pytest.mark.parametrize("place", ["files", "servers"])
@pytest.mark.parametrize("machine", [LakeMachine, AppendMachine])
def test_many_sequences_end_as_their_model_says(
    request: pytest.FixtureRequest, machine: type[LakeMachine], place: str, actors: Actors
) -> None:
    def on_servers(_: Path) -> World:
        postgres, s3 = map(request.getfixturevalue, ("postgres", "s3"))
        return World(database_on(postgres), bucket_on(s3), bucket_on(s3), no_session)

    if place == "files":
        run(machine, on_sqlite, actors, max_examples=EXAMPLES, stateful_step_count=30)
    else:
        run(machine, on_servers, actors, max_examples=max(EXAMPLES // 3, 1), stateful_step_count=20)
