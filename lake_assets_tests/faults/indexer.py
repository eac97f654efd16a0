"""A process that indexes a world's landing zone, to be killed or to run beside others.

python -m lake_assets_tests.faults.indexer WORLD.json [--strategy STRATEGY] [--die-at STATEMENT]
"""

import argparse
import json
import sqlite3
from pathlib import Path

from lake_assets.ingest.index.run import index_all
from lake_assets.lake.commit import strategy as commit
from lake_assets.lake.commit.direct import register_directly
from lake_assets.lake.commit.extension import register_by_extension
from lake_assets.lake.ducklake import DuckLake
from lake_assets_tests.faults.writer import deadly
from lake_assets_tests.world import World

STRATEGIES = {"direct": register_directly, "extension": register_by_extension}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("world", type=Path)
    parser.add_argument("--strategy", choices=STRATEGIES)
    parser.add_argument("--die-at")
    given = parser.parse_args()
    world = World(**json.loads(given.world.read_text()), sessions=lambda: None)  # type: ignore[arg-type, return-value]
    if given.strategy:
        commit.REGISTER_STRATEGIES = (STRATEGIES[given.strategy],)
    if given.die_at:
        watch(given.die_at)
    for outcome in index_all(world.stream):
        if outcome.error is not None:
            raise outcome.error


def watch(point: str) -> None:
    """Let every connection to the catalog be deadly."""
    connect, new_engine = sqlite3.connect, DuckLake._new_engine

    sqlite3.connect = lambda *a, **k: deadly(connect(*a, **k), point)
    DuckLake._new_engine = lambda self, name="": deadly(new_engine(self, name), point)  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
