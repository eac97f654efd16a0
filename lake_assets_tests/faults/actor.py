"""A process that acts on worlds, each time in a fork of itself, which starts at once and can be killed.

    python -m lake_assets_tests.faults.actor

It reads requests, one JSON document a line, and answers each with the number of the fork's process; see `actors.py`.
Spark's jobs run in the fork. `die_at` counts what a fork does outside of its memory: statements of the catalog, and
files that it writes, copies or deletes. The fork kills itself before the thing of this number, or after the last one.
"""

import datetime as dt
import json
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from lake_assets.errors import CatalogError, LakeAssetsError
from lake_assets.history import restore as restoring
from lake_assets.history.restore import release
from lake_assets.ingest.api import ingest
from lake_assets.ingest.index.run import index_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.lake.ducklake import DuckLake
from lake_assets.maintenance.run import maintain
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.faults.writer import Watched, survive
from lake_assets_tests.world import World

DAY = dt.timedelta(days=1)


def refresh(world: World, partition: str, *, force: bool = False) -> str:
    """One ingest; the result is the status of its ledger row."""
    return ingest(world.stream, world.partition(partition), no_session, IngestOptions(force=force)).row.status


def index(world: World) -> str:
    """One run of mode index over all partitions."""
    for outcome in index_all(world.stream):
        if outcome.error is not None:
            raise outcome.error
    return "committed"


def maintained(world: World, days: float = 0) -> str:
    """Maintenance as it would be in so many days."""
    done = maintain(world.config, "test", no_session, now=dt.datetime.now(dt.UTC) + days * DAY)
    if done.left:
        raise CatalogError(f"{done.left[0].partition} was not compacted:", f"{done.left[0].why}")
    return f"{len(done.expired)} expired, {len(done.cleaned.deleted)} deleted, {len(done.compacted)} compacted"


def restored(world: World, partition: str, snapshot: int, *, hold: bool = False) -> str:
    """One restore."""
    done = restoring.restore(world.stream, world.partition(partition), snapshot, hold=hold)
    return "unchanged" if done.row is None else done.row.status


def released(world: World, partition: str) -> str:
    """The end of a hold."""
    return release(world.stream, world.partition(partition)).status


ACTS: dict[str, Callable[..., str]] = {
    "ingest": refresh,
    "index": index,
    "maintain": maintained,
    "restore": restored,
    "release": released,
}


class Steps:
    """Counts what this process does outside of its memory, and kills it at one of these steps."""

    def __init__(self, die_at: int | None) -> None:
        self.done = 0
        self._die_at = die_at

    def step(self, *_: object) -> None:
        """Count one more, before it is done."""
        self.done += 1
        if self.done == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Count all steps from now on."""
        connect, engine = sqlite3.connect, DuckLake._new_engine
        mock.patch.object(sqlite3, "connect", lambda *a, **k: Watched(connect(*a, **k), self.step, survive)).start()
        mock.patch.object(DuckLake, "_new_engine", lambda lake: Watched(engine(lake), self.step, survive)).start()
        for owner, names in (
            (psycopg.Cursor, ("execute", "executemany")),
            (psycopg.Connection, ("commit",)),
            (ArrowStore, ("create", "stream")),
            (Store, ("delete", "put_new", "put_own", "delete_unchanged")),
            (restoring, ("copy_object",)),
        ):
            for name in names:
                mock.patch.object(owner, name, self._counted(getattr(owner, name))).start()

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.step()
            return function(*arguments, **options)

        return call


def act(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request says, in a fork."""
    steps = Steps(request["die_at"])
    steps.watch()
    world = World(**request["world"], sessions=no_session)
    result: dict[str, Any] = {"did": None, "refused": None, "crashed": None}
    for _ in range(request["times"]):
        try:
            with jobs_here():
                result["did"] = ACTS[request["act"]](world, **request["options"])
        except LakeAssetsError as error:
            result["refused"] = f"{type(error).__name__}: {error}"
            break
        except BaseException:  # noqa: BLE001 - the test shows it
            result["crashed"] = traceback.format_exc()
            break
    steps.step()
    return result | {"steps": steps.done}


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a fork ended
    for line in sys.stdin:
        request = json.loads(line)
        if process := os.fork():
            print(process, flush=True)  # noqa: T201 - the answer
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        file = Path(request["result"])
        part = file.with_suffix(".part")
        part.write_text(json.dumps(act(request)))
        part.rename(file)
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
