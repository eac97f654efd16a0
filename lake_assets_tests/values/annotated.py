"""Parquet files whose columns have annotations that Arrow does not write."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.storage.formats import parquet_footers
from lake_assets.storage.formats.parquet_files import TAIL

CONVERTED, LOGICAL = 6, 10  # fields of a node
NUMBER, NODE = parquet_footers.I32, 12  # their types
_NO, _BYTE = 2, 3


def logical(number: int) -> parquet_footers.Struct:
    """The fields of a node with this logical type, and no converted type."""
    return {LOGICAL: (NODE, {number: (NODE, {})})}


def converted(number: int) -> parquet_footers.Struct:
    return {CONVERTED: (NUMBER, number)}


def unsigned(bits: int) -> parquet_footers.Struct:
    """The fields of a node of unsigned numbers, which are stored as signed ones."""
    return {CONVERTED: (NUMBER, {8: 11, 16: 12, 32: 13, 64: 14}[bits])} | {
        LOGICAL: (NODE, {10: (NODE, {1: (_BYTE, bits), 2: (_NO, None)})})
    }


def written(
    rows: pa.Table, fields: dict[str, parquet_footers.Struct], without: str | None = None, **writer: Any
) -> bytes:
    """Return a file in which nodes of the schema have other fields, by their names, and one node is left out."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, store_schema=False, **writer)
    body = sink.getvalue()
    size = int.from_bytes(body[-TAIL : 4 - TAIL], "little")
    footer = body[-TAIL - size : -TAIL]
    kept = [
        {key: part for key, part in (node | fields.get(node[parquet_footers.NAME][1].decode(), {})).items() if part[0]}
        for node in parquet_footers.schema_nodes(footer)
        if node[parquet_footers.NAME][1].decode() != without
    ]
    footer = parquet_footers.with_nodes(footer, kept)
    return body[: -TAIL - size] + parquet_footers.footer_file(footer)[4:]


def with_keys(rows: pa.Table, keys: Mapping[str, str], **writer: Any) -> bytes:
    """Return a file with these keys in its footer."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **writer) as file:
        file.write_table(rows)
        file.add_key_value_metadata(dict(keys))
    return sink.getvalue()


def with_optional_keys(maps: Sequence[Sequence[tuple[str | None, int]] | None]) -> bytes:
    """Return a file with `id` and a map `m` whose keys are optional, as Hive and Athena write it."""
    entry = pa.struct([("key", pa.string()), ("value", pa.int64())])
    pairs = [
        None if pairs is None else [dict(zip(("key", "value"), pair, strict=True)) for pair in pairs] for pairs in maps
    ]
    column = pa.array(pairs, pa.list_(pa.field("element", entry, nullable=False)))
    fields: dict[str, parquet_footers.Struct] = {
        "m": {CONVERTED: (NUMBER, 1), LOGICAL: (NODE, {2: (NODE, {})})},
        "list": {5: (NUMBER, 2)},
    }
    return written(pa.table({"id": range(len(maps)), "m": column}), fields, without="element")
