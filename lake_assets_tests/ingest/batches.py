"""Runs of several partitions."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lake_assets.base.events import ended_by
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets_tests.world import World, sales

TEXTS = [f"region={region},date=2026-02-1{day}" for region in ("NE", "NW", "SW") for day in (1, 2)]
BATCH = {"commit_batch": len(TEXTS)}


def land_all(world: World, first: float, name: str = "batch_1.parquet") -> None:
    """An object in each partition, whose totals begin with this number."""
    for number, text in enumerate(TEXTS):
        world.land(text, sales(first + number, first + number + 0.5), name)


def ingest_texts(
    world: World, texts: Sequence[str] = TEXTS, checkpoint: Callable[[], None] = lambda: None, **options: Any
) -> dict[str, Outcome]:
    """The outcomes of one run, by the partition's text."""
    by_partition = {world.partition(text): text for text in texts}
    with ended_by(checkpoint):
        outcomes = ingest_all(world.stream, by_partition, world.sessions, IngestOptions(**options))
        return {by_partition[outcome.partition]: outcome for outcome in outcomes}


def snapshots(outcomes: dict[str, Outcome]) -> dict[str, int]:
    """The snapshots of those that committed, by the partition's text."""
    rows = {text: outcome.row for text, outcome in outcomes.items() if outcome.is_done}
    return {text: row.snapshot_id for text, row in rows.items() if row.snapshot_id is not None}


@pytest.fixture
def filled(local_world: World) -> World:
    """A lake of all partitions, with other objects landed since."""
    local_world.options = dict(BATCH)
    land_all(local_world, 10)
    ingest_texts(local_world)
    land_all(local_world, 20)
    return local_world
