"""States of streams: made-up ones, for the tests that need no lake, and a real one."""

import datetime as dt
from collections.abc import Iterable

import pytest

from lake_assets.base.errors import SourceError
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionType, PartitionValue
from lake_assets.upkeep.report.state import PartitionState, State, StreamState
from lake_assets_tests.world import NW, SW, World, sales

READ_AT = dt.datetime(2026, 2, 12, 9, tzinfo=dt.UTC)


def days(first: str, number: int) -> list[dt.date]:
    return [dt.date.fromisoformat(first) + dt.timedelta(days=n) for n in range(number)]


def stream_state(
    columns: dict[str, PartitionType], cells: Iterable[tuple[tuple[PartitionValue, ...], State, int | None]]
) -> StreamState:
    """A stream `sales` with these partitions: values, state, rows in the lake."""
    named = tuple(PartitionColumn(name, kind) for name, kind in columns.items())
    partitions = tuple(
        PartitionState("sales", Partition(named, values), state, rows=rows) for values, state, rows in cells
    )
    return StreamState("sales", "main.sales", named, READ_AT, partitions)


def commit_one_and_fail_one(world: World) -> None:
    """The partition NW has two rows, and the object of SW is damaged."""
    world.land(NW, sales(1, 2))
    world.land(SW, b"no Parquet")
    world.ingest(NW)
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        world.ingest(SW)
