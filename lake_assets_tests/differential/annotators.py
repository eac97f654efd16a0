"""Landed files whose columns have annotations that Arrow does not write, of the rows of a table that Arrow has."""

import datetime as dt
import io
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyarrow import types as t

from lake_assets_tests.differential.writers import row_group
from lake_assets_tests.values.annotated import CONVERTED, NUMBER, logical, unsigned, with_keys, written

Annotate = Callable[[random.Random, pa.Table], bytes]

_ENUM = {CONVERTED: (NUMBER, 4), **logical(4)}
_BSON = {CONVERTED: (NUMBER, 20), **logical(13)}
_ONLY_LOGICAL = {CONVERTED: (0, None), **logical(1)}
_TEXTS = (t.is_string, t.is_large_string, t.is_string_view)
_BYTES = (t.is_binary, t.is_large_binary, t.is_binary_view)


def parquet(chosen: random.Random, table: pa.Table) -> bytes:
    """Texts are enums or have no converted type, bytes are BSON; unsigned numbers have the bounds of signed ones."""
    fields: dict[str, Any] = {}
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array, kind = column.combine_chunks(), column.type
        if any(is_kind(kind) for is_kind in _TEXTS) and chosen.random() < 0.8:
            array, fields[name] = (
                array.cast(pa.string()).cast(pa.binary()),
                chosen.choice([_ENUM, _ENUM, _ONLY_LOGICAL]),
            )
        elif any(is_kind(kind) for is_kind in _BYTES):
            array, fields[name] = array.cast(pa.binary()), _BSON
        elif t.is_unsigned_integer(kind) and chosen.random() < 0.8:
            bits = kind.bit_width
            array = array.view(f"int{bits}") if bits >= 32 else array.cast(pa.int32())
            fields[name] = unsigned(bits)
        columns[name] = array
    return written(pa.table(columns), fields, row_group_size=row_group(chosen, table))


def legacy(chosen: random.Random, table: pa.Table) -> bytes:
    """Days and instants are those of Spark 2, which counted those before 1582-10-15 by the Julian calendar."""
    columns = [_by_julian(column.combine_chunks()) for column in table.columns]
    versions = [{"version": "2.4.8"}, {"version": "3.5.0", "legacyDateTime": ""}]
    keys = {f"org.apache.spark.{name}": text for name, text in [*chosen.choice(versions).items(), ("timeZone", "UTC")]}
    return with_keys(pa.table(columns, table.column_names), keys)


def _by_julian(array: pa.Array) -> pa.Array:
    """The stored values of the same days in the old calendar."""
    per_day, stored = _stored(array)
    if not per_day:
        return array
    found = [None if n is None else _julian(n // per_day) * per_day + n % per_day for n in stored]
    return pa.array(found, pa.int32() if per_day == 1 else pa.int64()).view(array.type)


def _julian(day: int) -> int:
    """The number of the day that has the same name in the old calendar."""
    if day >= -141_427:
        return day
    named = dt.date(1970, 1, 1) + dt.timedelta(days=day)
    early = (14 - named.month) // 12
    year, month = named.year + 4800 - early, named.month + 12 * early - 3
    return named.day + (153 * month + 2) // 5 + 365 * year + year // 4 - 32083 - 2_440_588


def table_of_old_days(table: pa.Table) -> pa.Table:
    """A table in which all days have a name in the old calendar, and Python has them; many are before 1582-10-15."""
    return pa.table([_with_names(column.combine_chunks()) for column in table.columns], table.column_names)


def _with_names(array: pa.Array) -> pa.Array:
    per_day, stored = _stored(array)
    if not per_day or array.type == pa.timestamp("ns", "UTC"):
        return array
    days = [None if n is None else n // per_day for n in stored]
    is_named = [
        day is None or (day % 3 > 0 and (-719_162 <= day <= -141_438 or -141_427 <= day <= 2_932_896)) for day in days
    ]
    found = [n if fits else (-300_000 + n % 150_000) * per_day for n, fits in zip(stored, is_named, strict=True)]
    return pa.array(found, pa.int32() if per_day == 1 else pa.int64()).view(array.type)


def _stored(array: pa.Array) -> tuple[int, list[Any]]:
    """What is stored for days and instants, and its number in a day; 0 for other types."""
    kind = array.type
    if t.is_date32(kind):
        return 1, array.view(pa.int32()).to_pylist()
    if t.is_timestamp(kind) and kind.tz:
        return 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit], array.view(pa.int64()).to_pylist()
    return 0, []


def _can_be_old(kind: pa.DataType) -> bool:
    return not (t.is_nested(kind) and any(text in str(kind) for text in ("date", "timestamp")))


_OF_AVRO: Mapping[str, Any] = {
    "int32": "int", "int64": "long", "float": "float", "double": "double", "bool": "boolean", "string": "string",
    "binary": "bytes", "date32[day]": {"type": "int", "logicalType": "date"},
    "time32[ms]": {"type": "int", "logicalType": "time-millis"},
    "time64[us]": {"type": "long", "logicalType": "time-micros"},
    **{f"timestamp[{unit}s]": {"type": "long", "logicalType": f"local-timestamp-{name}s"}
       for unit, name in (("m", "milli"), ("u", "micro"))},
    **{f"timestamp[{unit}s, tz=UTC]": {"type": "long", "logicalType": f"timestamp-{name}s"}
       for unit, name in (("m", "milli"), ("u", "micro"))},
    **{f"decimal128({precision}, 2)": {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
       for precision in (4, 9, 18, 38)},
    "extension<arrow.uuid>": {"type": "string", "logicalType": "uuid"},
}  # fmt: skip
_SYMBOL = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def avro(chosen: random.Random, table: pa.Table) -> bytes:
    """Logical types, and enums of the texts that may be symbols."""
    fields, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        array, kind = column.combine_chunks(), _OF_AVRO[str(column.type)]
        if t.is_temporal(array.type):
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        values = array.to_pylist()
        texts = sorted({text for text in values if text is not None}) if kind == "string" else []
        if texts and all(map(_SYMBOL.fullmatch, texts)) and chosen.random() < 0.8:
            kind = {"type": "enum", "name": f"of_{name}", "symbols": texts}
        fields.append({"name": name, "type": ["null", kind]})
        columns.append(values)
    rows = [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows, codec=chosen.choice(["null", "deflate"]))
    return sink.getvalue()


_OF_ORC: Mapping[str, Sequence[tuple[str, str, int]]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "float", "double", "bool", "string", "binary"), ()),
    **dict.fromkeys(("date32[day]", *(f"decimal128({precision}, 2)" for precision in (4, 9, 18, 38))), ()),
    "timestamp[us]": [("spark.sql.catalyst.type", "timestamp_ntz", 1)],
    "time64[us]": [("spark.sql.catalyst.type", "time(6)", 1000), ("iceberg.long-type", "TIME", 1)],
}
"""What may say the type of the numbers that are stored for a column, and how many of them are a microsecond."""


def by_orc(chosen: random.Random, table: pa.Table) -> bytes:
    """Times are the numbers of Spark or Iceberg, with their attributes."""
    fields, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        array, metadata = column.combine_chunks(), {}
        if attributes := _OF_ORC[str(array.type)]:
            key, kind, factor = chosen.choice(attributes)
            array, metadata = pc.multiply(array.view(pa.int64()), factor), {key: kind}
        fields.append(pa.field(name, array.type, metadata=metadata))
        columns.append(array)
    sink = io.BytesIO()
    codec = chosen.choice(["uncompressed", "zlib", "zstd"])
    orc.write_table(pa.table(columns, schema=pa.schema(fields)), sink, compression=codec)
    return sink.getvalue()


FORMATS: Mapping[str, tuple[Annotate, Collection[str]]] = {"avro": (avro, _OF_AVRO), "orc": (by_orc, _OF_ORC)}
"""The formats beside Parquet, by the suffix of their files, with the types that they have."""


def annotated_types(chosen: random.Random, formats: Collection[str]) -> dict[str, pa.DataType]:
    """Columns that have annotations in files of these formats, or of Parquet alone."""
    if formats:
        return {"moment": pa.timestamp("us"), "other": chosen.choice([pa.time64("us"), pa.decimal128(9, 2)])}
    others = (pa.string(), pa.binary(), pa.timestamp("us", "UTC"), pa.uuid())
    return {"number": chosen.choice([pa.uint32(), pa.uint64()]), "other": chosen.choice(others)}


def ends(kind: pa.DataType) -> Sequence[int]:
    """Unsigned numbers, of which the least and the greatest ones are others if they are compared as signed ones."""
    return (1, 7, 2 ** (kind.bit_width - 1), 2**kind.bit_width - 1)


def annotators_of(table: pa.Table, names: Collection[str]) -> dict[str, Annotate]:
    """Those of these annotators that have the types of a table, and its names."""
    kinds = {str(field.type) for field in table.schema}
    is_named = table.num_rows > 0 and all(map(_SYMBOL.fullmatch, table.column_names))
    found: dict[str, Annotate] = {form: of for form, (of, own) in FORMATS.items() if is_named and kinds <= set(own)}
    found |= {"legacy": legacy} if all(map(_can_be_old, table.schema.types)) else {}
    return {name: of for name, of in {"annotated": parquet, **found}.items() if name in names}
