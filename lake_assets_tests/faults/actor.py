"""A process that acts on worlds, each time in a fork of itself, which starts at once and can be killed.

    python -m lake_assets_tests.faults.actor

It reads requests, one JSON document a line, and answers each with the number of the fork's process; see `actors.py`.
Spark's jobs run in the fork. Its steps are what it does outside of its memory: statements of the catalog, and files
that it writes, copies or deletes. The fork kills itself at one of them: before the step of a number, before the first
or the nth whose text begins with some words, or after it (`after COMMIT`).
"""

import datetime as dt
import importlib
import json
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.errors import CatalogError, LakeAssetsError
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.lake.commit import strategy as strategies
from lake_assets.lake.commit.direct import register_directly, replace_directly
from lake_assets.lake.commit.extension import register_by_extension, replace_by_extension
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import LakeSession
from lake_assets.storage.store import Store
from lake_assets.upkeep.history import restore as restoring
from lake_assets.upkeep.history.restore import release
from lake_assets.upkeep.maintenance.maintenance_run import maintain
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.faults.writer import Watched
from lake_assets_tests.world import World, maintained_at

DAY = dt.timedelta(days=1)
# Of the strategies that may be chosen: what replaces or adds, and what registers.
STRATEGIES = {
    "direct": (replace_directly, register_directly),
    "extension": (replace_by_extension, register_by_extension),
}


def refresh(world: World, partitions: Sequence[str], *, force: bool = False) -> str:
    """One run over partitions; the result is the statuses of their ledger rows."""
    chosen = map(world.partition, partitions)
    return _statuses(list(ingest_all(world.stream, chosen, no_session, IngestOptions(force=force))))


def index(world: World) -> str:
    """One run of mode index over all partitions."""
    return _statuses(list(index_all(world.stream)))


def _statuses(outcomes: Sequence[Outcome]) -> str:
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return ", ".join(sorted({outcome.row.status for outcome in outcomes}))


def maintained(world: World, days: float = 0) -> str:
    """Maintenance as it would be in so many days."""
    with maintained_at(dt.datetime.now(dt.UTC) + days * DAY):
        done = maintain(world.config, "test", no_session)
    if done.left:
        raise CatalogError(f"{done.left[0].partition} was not compacted:", f"{done.left[0].why}")
    return f"{len(done.expired)} expired, {len(done.cleaned.deleted)} deleted, {len(done.compacted)} compacted"


def restored(world: World, partition: str, snapshot: int, *, hold: bool = False) -> str:
    """One restore."""
    done = restoring.Restoration(world.stream, world.partition(partition), snapshot, hold=hold).run()
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
    """Notes what this process does outside of its memory, and kills it at one of these steps."""

    def __init__(self, die_at: int | str | None, nth: int = 1) -> None:
        self.done: list[str] = []
        self._die_at = die_at
        self._nth = nth

    def before(self, what: str) -> None:
        self.done.append(what)
        if self._die_at == len(self.done) or (isinstance(self._die_at, str) and self._is_nth(self._die_at, what)):
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, what: str) -> None:
        if isinstance(self._die_at, str) and self._is_nth(self._die_at.removeprefix("after "), what):
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_nth(self, words: str, what: str) -> bool:
        return what.startswith(words) and sum(step.startswith(words) for step in self.done) == self._nth

    def watch(self) -> None:
        """Note all steps from now on."""
        connect, engine = sqlite3.connect, DuckLake._new_engine
        mock.patch.object(
            sqlite3, "connect", lambda *a, **k: Watched(connect(*a, **k), self.before, self.after)
        ).start()
        mock.patch.object(DuckLake, "_new_engine", lambda lake: Watched(engine(lake), self.before, self.after)).start()
        for owner, names in (
            (psycopg.Cursor, ("execute", "executemany")),
            (psycopg.Connection, ("commit",)),
            (Store, ("create", "stream", "delete", "put_new", "put_own", "delete_unchanged", "copy")),
        ):
            for name in names:
                mock.patch.object(owner, name, self._noted(getattr(owner, name))).start()

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            what = str(arguments[1]) if function.__name__.startswith("execute") else function.__name__
            self.before(what)
            result = function(*arguments, **options)
            self.after(what)
            return result

        return call


def act(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request says, in a fork."""
    steps = Steps(request["die_at"], request["nth"])
    steps.watch()
    world = World(**request["world"], sessions=no_session)
    result: dict[str, Any] = {"did": None, "refused": None, "crashed": None}
    with ExitStack() as stack:
        stack.enter_context(jobs_here())
        if request["strategy"]:
            replaces, registers = STRATEGIES[request["strategy"]]
            stack.enter_context(mock.patch.object(strategies, "STRATEGIES", (replaces,)))
            stack.enter_context(mock.patch.object(strategies, "REGISTER_STRATEGIES", (registers,)))
        if not request["lock"]:
            stack.enter_context(mock.patch.object(LakeSession, "takes_locks", new=False))
        for _ in range(request["times"]):
            try:
                result["did"] = ACTS[request["act"]](world, **request["options"])
            except LakeAssetsError as error:
                result["refused"] = f"{type(error).__name__}: {error}"
                break
            except BaseException:  # noqa: BLE001 - the test shows it
                result["crashed"] = traceback.format_exc()
                break
    steps.before("the end")
    return result | {"steps": steps.done}


def main() -> None:
    # What each fork would do again: DuckDB verifies an extension once a process, and imports pandas late.
    open_engine(("ducklake", "sqlite_scanner", "postgres_scanner", "httpfs")).close()
    importlib.import_module("pandas")
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
