"""Objects that the cases land."""

import io
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
from pyarrow import orc

from lake_assets import connect
from lake_assets_tests.world import NW, World


def change(world: World, statement: str) -> None:
    """Change the lake by a statement, as a user does."""
    with connect(world.config, read_only=False) as connection:
        connection.execute(statement)


def of_avro(kind: Any, value: Any) -> bytes:
    """Return a file of Avro with a value."""
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(kind), [value])
    return sink.getvalue()


def in_orc(**columns: Any) -> bytes:
    """Return a file of ORC with these columns."""
    sink = io.BytesIO()
    orc.write_table(pa.table(columns), sink)
    return sink.getvalue()


def in_polars(rows: pl.DataFrame) -> bytes:
    """Return a file of Parquet as Polars writes it."""
    sink = io.BytesIO()
    rows.write_parquet(sink)
    return sink.getvalue()


def parquet(world: World, name: str = "batch_1.parquet", **columns: Any) -> None:
    """Land an object of NW with these columns."""
    world.land(NW, pa.table(columns), name)


def text(world: World, rows: str | bytes, name: str) -> None:
    """Land an object of NW with this text."""
    world.land(NW, rows.encode() if isinstance(rows, str) else rows, name)
