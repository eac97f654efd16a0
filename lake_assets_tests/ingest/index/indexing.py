"""Streams in mode index for tests."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.events import ended_by
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.lake.commit.extension import register_by_extension
from lake_assets.lake.commit.strategy import REGISTER_STRATEGIES
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales


@pytest.fixture
def indexed_world(local_world: World) -> World:
    local_world.options = {"mode": "index"}
    return local_world


@pytest.fixture(params=["direct", *more(["extension"])])
def strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One strategy of a commit only."""
    strategies = {"direct": REGISTER_STRATEGIES[:1], "extension": (register_by_extension,)}[request.param]
    monkeypatch.setattr("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", strategies)
    return str(request.param)


def land_numbers(world: World, storage: dict[str, Any], first: str, new: str, numbers: range) -> None:
    """A stream in mode index whose source is this storage: one partition is in the lake, the other has new objects.

    As the table exists, DuckDB alone reads what is new.
    """
    world.options["mode"] = "index"
    world.source = storage
    world.land(first, sales(0))
    world.ingest(first)
    for number in numbers:
        world.land(new, sales(number), f"{number}.parquet")


def index(
    world: World, *texts: str, checkpoint: Callable[[], None] = lambda: None, **options: Any
) -> dict[str, Outcome]:
    """The outcomes by the partition's path."""
    partitions = [world.partition(text) for text in texts] if texts else None
    with ended_by(checkpoint):
        outcomes = index_all(world.stream, partitions, options=IngestOptions(**options))
        return {str(outcome.partition): outcome for outcome in outcomes}


def with_partition(region: str | None, date: dt.date = dt.date(2026, 2, 11), rows: int = 2) -> pa.Table:
    table = sales(*range(rows))
    regions = pa.array([region] * rows, pa.string())
    return table.append_column("region", regions).append_column("date", pa.array([date] * rows))
