"""Rows that do not fit the table, and where they are."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, World

NARROW = pa.table({"id": pa.array([0], pa.int32()), "total": pa.array([1.0])})
FOLDER = "_dead_letters/sales/region=NW/date=2026-02-11/"
BIG = 3_000_000_000


def wide(*ids: int) -> pa.Table:
    """Rows whose `id` is wider than the table's."""
    return pa.table({"id": pa.array(ids, pa.int64()), "total": pa.array(map(float, range(len(ids))), pa.float64())})


def visible(world: World) -> list[str]:
    """The URIs of all files that commits have made visible."""
    return [uri for (uri,) in world.query("SELECT uri FROM lake.ingest_dead_letters ORDER BY snapshot_id, uri")]


def stored(world: World) -> set[str]:
    """The URIs of all files that are there."""
    rules = world.stream.letters
    assert rules is not None
    return {obj.uri for obj in Store(rules.storage).list(rules.folder)}


def letters(world: World, uris: list[str] | None = None) -> list[dict[str, Any]]:
    """The rows of files, of all visible ones if none are named."""
    rules = world.stream.letters
    assert rules is not None
    rows: list[dict[str, Any]] = []
    for uri in visible(world) if uris is None else uris:
        with Store(rules.storage).open(uri.removeprefix(f"{rules.storage.root}/")) as file:
            rows += pq.read_table(file).to_pylist()
    return rows


def made(world: World) -> World:
    """A table with a narrow `id`, of one object."""
    world.land(NW, NARROW, "a.parquet")
    world.ingest(NW)
    return world
