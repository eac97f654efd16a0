"""Rows as a landed object of each format."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

FORMATS = ["parquet", "csv", "json", "avro", "orc"]
DAMAGED = {"csv": b'id\n"open\n', "json": b'[{"id": 1}, {"id"', "parquet": b"no", "avro": b"no", "orc": b"no"}

_AVRO = {"int32": "int", "int64": "long", "string": "string", "double": "double", "null": "null"}


def landed(form: str, *rows: Mapping[str, Any], delimiter: str = ",", schema: pa.Schema | None = None) -> bytes:
    """An object of rows that have the same fields; their types count for formats that have some."""
    if form == "json":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    if form == "csv":
        names = rows[0] if rows else schema.names if schema else ()
        lines = [delimiter.join("" if value is None else str(value) for value in row.values()) for row in rows]
        return "".join(f"{line}\n" for line in (delimiter.join(names), *lines)).encode()
    sink = io.BytesIO()
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    if form == "avro":
        fields = [{"name": f.name, "type": ["null", _AVRO[str(f.type)]]} for f in table.schema]
        fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, table.to_pylist())
    else:
        (pq.write_table if form == "parquet" else orc.write_table)(table, sink)
    return sink.getvalue()
