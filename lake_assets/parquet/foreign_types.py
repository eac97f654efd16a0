"""Types that a Parquet file has and Arrow has not: without this, Arrow would give what they are stored as.

Such a part of a column is Arrow's `opaque` type, with the name that DuckDB gives it. No column of a lake holds one.

| in the footer                                     | type                        | Arrow alone would read |
|---------------------------------------------------|-----------------------------|------------------------|
| INTERVAL (converted type)                         | INTERVAL                    | 12 bytes               |
| TIME, with UTC in the logical type                | TIMETZ                      | a time of day          |
| GEOMETRY, GEOGRAPHY; WKB that the key `geo` names | GEOMETRY, GEOGRAPHY         | bytes                  |
| VARIANT, a group                                  | VARIANT                     | a struct of bytes      |
| 16 bytes that polars wrote                        | a 128-bit integer: an error | an error               |
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.errors import SchemaError
from lake_assets.parquet import footers
from lake_assets.parquet.leaves import is_list, width

# Thrift's logical type of a time in UTC, of any unit. Arrow reports UTC also of a column that has only the older,
# converted type, which DuckDB reads as TIME.
_TIME_IN_UTC = re.compile(rb"\x7c\x11\x1c[\x1c\x2c\x3c]\x00\x00\x00\x00")
# Arrow tells the logical types of groups only in the text of a schema.
_NODE = re.compile(r"^ *(?:optional|required|repeated) (group )?.*?(\(Variant\(\d+\)\) \{)?$")
_ARROW, _NO_ARROW = b"ARROW:schema", b"ARROW:nobody"
_WIDE = ("FIXED_LEN_BYTE_ARRAY", 16, "NONE")


def opaque(storage: pa.DataType, name: str) -> pa.DataType:
    """Return the type of a part of a column that no column of a lake holds."""
    return pa.opaque(storage, name, "Parquet")


def is_foreign(data_type: pa.DataType) -> bool:
    """Return whether a type, or a part of it, is `opaque`."""
    parts = (data_type.field(index).type for index in range(data_type.num_fields))
    return isinstance(data_type, pa.OpaqueType) or any(map(is_foreign, parts))


def with_foreign_types(parquet: pq.ParquetFile, footer: Callable[[], bytes]) -> pa.Schema:
    """Return the Arrow schema of a file without metadata, with `opaque` types.

    Args:
        parquet: the open file.
        footer: reads the footer again; called for a file with times only.
    """
    schema: pa.Schema = parquet.schema_arrow.remove_metadata()
    foreign = _Foreign(parquet, footer)
    first, fields = 0, []
    for field in schema:
        fields.append(field.with_type(foreign.type_of(field.type, first)))
        first += width(field.type)
    return pa.schema(fields)


def wide_integer(footer: bytes, origin: str) -> SchemaError | None:
    """Return the error for the first 128-bit integer of a file that Arrow cannot open; None if it has none."""
    metadata = pq.read_metadata(pa.BufferReader(footers.of_bytes(footer.replace(_ARROW, _NO_ARROW))))
    columns = (metadata.schema.column(index) for index in range(len(metadata.schema)))
    names = (c.path for c in columns if (c.physical_type, c.length, c.logical_type.type) == _WIDE)
    if (name := next(names, None)) is None:
        return None
    return SchemaError(
        f"column {name!r} of {origin} has the type 128-bit integer, which DuckLake cannot hold:",
        "land it as another type, such as a decimal.",
    )


class _Foreign:
    """The foreign types of one file."""

    def __init__(self, parquet: pq.ParquetFile, footer: Callable[[], bytes]) -> None:
        self._parquet = parquet
        self._footer = footer

    def type_of(self, data_type: pa.DataType, first: int) -> pa.DataType:
        """Return the type of a column or a part of one whose first leaf is at this position."""
        if t.is_struct(data_type):
            if {"metadata", "value"} <= {field.name for field in data_type} and first in self._variants:
                return opaque(data_type, "VARIANT")
            return pa.struct(list(self._fields(data_type, first)))
        if t.is_map(data_type):
            key = self.type_of(data_type.key_type, first)
            item = self.type_of(data_type.item_type, first + width(data_type.key_type))
            is_same = key.equals(data_type.key_type) and item.equals(data_type.item_type)
            return data_type if is_same else pa.map_(key, item)
        if is_list(data_type):
            value = self.type_of(data_type.value_type, first)
            return data_type if value.equals(data_type.value_type) else pa.list_(value)
        name = self._name(first)
        return data_type if name is None else opaque(data_type, name)

    def _fields(self, data_type: pa.StructType, first: int) -> Iterator[pa.Field]:
        for field in data_type:
            yield field.with_type(self.type_of(field.type, first))
            first += width(field.type)

    def _name(self, position: int) -> str | None:
        column = self._parquet.schema.column(position)
        if column.converted_type == "INTERVAL":
            return "INTERVAL"
        kind = column.logical_type.type
        if kind in ("GEOMETRY", "GEOGRAPHY"):
            return str(kind)
        if kind == "TIME" and '"isAdjustedToUTC":true' in column.logical_type.to_json() and self._has_time_in_utc:
            return "TIMETZ"
        is_bytes = (column.physical_type, kind) == ("BYTE_ARRAY", "NONE")
        if is_bytes and any(column.path == name or column.path.endswith(f".{name}") for name in self._geometries):
            return "GEOMETRY"
        return None

    @cached_property
    def _has_time_in_utc(self) -> bool:
        return _TIME_IN_UTC.search(self._footer()) is not None

    @cached_property
    def _geometries(self) -> Collection[str]:
        """The names of columns that are WKB by the footer's key `geo`."""
        try:
            columns = json.loads((self._parquet.metadata.metadata or {})[b"geo"])["columns"]
            return [name for name, column in columns.items() if column["encoding"] == "WKB"]
        except (LookupError, ValueError, TypeError, AttributeError):
            return ()

    @cached_property
    def _variants(self) -> Collection[int]:
        """The positions of the first leaves of groups that are variants."""
        found, position = set(), 0
        nodes = (match for line in str(self._parquet.schema).splitlines()[2:] if (match := _NODE.match(line)))
        for is_group, variant in (match.groups() for match in nodes):
            if variant:
                found.add(position)
            position += not is_group
        return found
