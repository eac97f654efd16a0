"""Rows as a landed object of each format, and one object through an ingest into the table."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.storage.formats.text_files import PEEKED
from lake_assets_tests.values.annotated import unsigned, written
from lake_assets_tests.world import NW, World

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
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    if form == "avro":
        fields = [{"name": f.name, "type": ["null", _AVRO[str(f.type)]]} for f in table.schema]
        return as_avro(table.to_pylist(), fields)
    if form == "orc":
        return as_orc(table)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def as_avro(rows: list[Any], fields: list[Any], codec: str = "null") -> bytes:
    """A file of these rows, by fastavro's writer."""
    file = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "row", "namespace": "a.b", "fields": fields})
    fastavro.writer(file, schema, rows, codec=codec)
    return file.getvalue()


def as_orc(table: pa.Table, **options: Any) -> bytes:
    """A file of these rows, by Arrow's writer."""
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    return file.getvalue()


def in_signed_order(*numbers: int, **writer: Any) -> bytes:
    """A file of unsigned numbers `u`, whose bounds are those of signed ones."""
    rows = {"u": pa.array(numbers, pa.uint32()).view(pa.int32()), "n": range(len(numbers))}
    return written(pa.table(rows), {"u": unsigned(32)}, **writer)


def miscounted() -> bytes:
    """A file with seven NULLs of thirteen in `x`, and a footer that counts them twice, as Polars did for two pages."""
    sink = io.BytesIO()
    table = pa.table({"x": [None] * 7 + ["a"] * 6})
    pq.write_table(table, sink, use_dictionary=False, compression="none", store_schema=False)
    seven, twice = b"\x36\x0e\x28", b"\x36\x1c\x28"  # in Thrift's form, before a bound
    assert sink.getvalue().count(seven) == 2
    return sink.getvalue().replace(seven, twice)


def with_footer(body: bytes, *changes: tuple[bytes, bytes], count: int = -1) -> bytes:
    """A Parquet file with other bytes in its footer, each at so many places."""
    begin = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    footer = body[begin:-8]
    for old, new in changes:
        assert old in footer
        footer = footer.replace(old, new, count)
    return body[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def counted(rows: int, *, says: int) -> bytes:
    """A file whose footer has another number of rows than its row group, as one that fastparquet has added rows to."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array(range(rows), pa.int32())}), sink, store_schema=False)
    number, other = (bytes([0x16, 2 * n]) for n in (rows, says))  # in Thrift's form
    return with_footer(sink.getvalue(), (number + b"\x19", other + b"\x19"), count=1)  # before the row groups


def not_utf8(*values: bytes) -> pa.Array:
    """Texts of these bytes, of which Arrow checks nothing."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


FACES = "\U0001f600\U0001f601"


def cut_bounds() -> bytes:
    """A file with two texts of faces, whose bounds end within a character, as Snowflake has them."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [FACES, FACES + "!"]}), sink, use_dictionary=False, store_schema=False)
    texts = [text.encode() for text in (FACES + "!", FACES)]
    ends = (bytes([7]) + FACES.encode()[:6] + b"\xa0", bytes([7]) + FACES.encode()[:7])
    changes = [(bytes([len(text)]) + text, end) for text, end in zip(texts, ends, strict=True)]
    return with_footer(sink.getvalue(), *changes)


def load(world: World, body: pa.Table | bytes, text: str = NW, name: str = "a", **options: Any) -> LedgerRow:
    """Land an object under a name and the suffix of the stream's format, ingest its partition, return its run's row."""
    form = world.options.get("format", "parquet")
    world.land(text, body, f"{name}.{form['type'] if isinstance(form, dict) else form}")
    return world.ingest(text, **options).row


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> int:
    """Types of texts are inferred from few bytes; more than this fixture says are read in the course of a task."""
    monkeypatch.setattr("lake_assets.storage.formats.records._SAMPLE", 2**12)
    return 2 * PEEKED


def columns_of(world: World, columns: str, where: str = "true") -> list[tuple[Any, ...]]:
    """Columns of the table's rows, in their own order."""
    return world.query(f"SELECT {columns} FROM lake.sales WHERE {where} ORDER BY ALL")


def types(world: World) -> dict[str, str]:
    """The types of the table's columns, as DuckDB names them, without those of the partitions."""
    described = world.query("DESCRIBE lake.sales")
    return {name: kind for name, kind, *_ in described if name not in {"region", "date"}}
