"""The operations that faults are injected into, each with a lake on which it has work to do."""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lake_assets.history.restore import restore
from lake_assets.ingest.index.index_run import index_all
from lake_assets.maintenance.compaction import compact
from lake_assets.maintenance.maintenance_run import maintain
from lake_assets.storage.arrow import ArrowStore
from lake_assets_tests.world import NW, SW, World, sales

Prepare = Callable[[World], None]
Run = Callable[[World], None]

LATER = dt.timedelta(days=30)  # until a clean-up; by then every snapshot and every orphan is old


class NotCompactedError(Exception):
    """Compaction says why it left a partition; the text is the reason."""


@dataclass(frozen=True)
class Operation:
    """An operation that faults are injected into.

    Args:
        name: for people.
        prepare: makes a lake on which the operation has work to do.
        run: the operation; raises its error.
        options: of the stream.
        beside: the stream's options that name a storage of other files in `to`, without it.
        is_landed: whether the manifest knows exactly the landed objects afterwards.
    """

    name: str
    prepare: Prepare
    run: Run
    options: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_landed: bool = True


def _replaced(world: World) -> None:
    """A partition in its second version, a third that has landed, and another partition."""
    for total in (1, 2):
        world.land(NW, sales(total, total + 0.5))
        world.ingest(NW)
    world.land(SW, sales(10))
    world.ingest(SW)
    world.land(NW, sales(3, 4, 5))
    world.land(NW, sales(6), "batch_2.parquet")


def _misfit(world: World) -> None:
    """A partition with a dead letter, and two objects that have landed, with rows that belong elsewhere."""
    for total, name in ((1, "batch_1.parquet"), (3, "batch_1.parquet"), (6, "batch_2.parquet")):
        rows = sales(total, total + 0.5, total + 0.75).append_column("region", pa.array(["NW", "SW", "NW"]))
        world.land(NW, rows, name)
        if total == 1:
            world.ingest(NW)
    world.land(SW, sales(10))
    world.ingest(SW)


def _appended(world: World) -> None:
    """A partition of three objects, a file each, and a fourth that has landed."""
    for number in range(3):
        world.land(NW, sales(number), f"{number}.parquet")
        world.ingest(NW)
    world.land(NW, sales(10, 11), "late.parquet")


def _scattered(world: World) -> None:
    """A partition of three files, with nothing to ingest."""
    _appended(world)
    world.ingest(NW)


def _landed_in_place(world: World) -> None:
    """A partition that is registered, and objects of it and of another that are not."""
    world.land(SW, sales(0))
    world.ingest(SW)
    for number in range(1, 4):
        world.land(NW, sales(number), f"{number}.parquet")
    world.land(SW, sales(4), "late.parquet")


def _grown_old(world: World) -> None:
    """A partition in its third version, and a file of no commit."""
    for total in (1, 2, 3):
        world.land(NW, sales(total))
        world.ingest(NW)
    storage = ArrowStore(world.config.lakes["test"].own_storage)
    with storage.create("main/sales/region=NW/date=2026-02-11/of-a-killed-run.parquet") as file:
        file.write(b"of no commit")


def _ingest(world: World) -> None:
    world.ingest(NW)


def _index(world: World) -> None:
    for outcome in index_all(world.stream):
        if outcome.error is not None:
            raise outcome.error


def _compact(world: World) -> None:
    for result in compact(world.stream, 2, world.sessions):
        if result.why is not None:
            raise NotCompactedError(result.why)


def _clean_up(world: World) -> None:
    maintain(world.config, "test", world.sessions, now=dt.datetime.now(dt.UTC) + LATER)


def _restore(world: World) -> None:
    first = next(row for row in reversed(world.ledger(NW)) if row.status == "committed")
    assert first.snapshot_id is not None
    restore(world.stream, world.partition(NW), first.snapshot_id)


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("replace", _replaced, _ingest),
        Operation("append", _appended, _ingest, {"mode": "append"}),
        Operation("index", _landed_in_place, _index, {"mode": "index"}),
        Operation("compaction", _scattered, _compact, {"mode": "append"}),
        Operation("clean-up", _grown_old, _clean_up),
        Operation("restore", _replaced, _restore, is_landed=False),
        Operation("delta export", _replaced, _ingest, beside={"deltas": {"latest": True}}),
        Operation("dead letters", _misfit, _ingest, {"on_bad_row": "dead_letter"}, {"dead_letters": {}}),
    )
}
