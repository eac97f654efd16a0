"""Restores as a process of its own, which may die before or after a statement, or after it copied a file."""

import argparse
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from lake_assets.history import restore as restoring
from lake_assets.lake import ducklake
from lake_assets_tests.faults.writer import deadly, die
from lake_assets_tests.world import World

COPY = "copy"


def dying(function: Callable[..., Any], point: str) -> Callable[..., Any]:
    """The function, after which the process dies if the point is a copy."""

    def call(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        die(point, COPY)
        return result

    return call


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("world", type=Path)
    parser.add_argument("--partition", required=True)
    parser.add_argument("--snapshot", type=int, required=True)
    parser.add_argument("--die-at")
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_args()
    world = World(**json.loads(given.world.read_text()), sessions=lambda: None)  # type: ignore[arg-type, return-value]
    if given.die_at is None:
        for _ in range(given.times):
            restoring.restore(world.stream, world.partition(given.partition), given.snapshot)
        return
    if given.die_at == COPY:
        mock.patch.object(restoring, "copy_object", dying(vars(restoring)["copy_object"], COPY)).start()
    else:
        connect, engine = sqlite3.connect, vars(ducklake)["open_engine"]
        mock.patch.object(sqlite3, "connect", lambda *a, **k: deadly(connect(*a, **k), given.die_at)).start()
        mock.patch.object(ducklake, "open_engine", lambda *a, **k: deadly(engine(*a, **k), given.die_at)).start()
    restoring.restore(world.stream, world.partition(given.partition), given.snapshot, hold=True)


if __name__ == "__main__":
    main()
