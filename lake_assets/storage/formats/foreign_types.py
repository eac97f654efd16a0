"""The types of a Parquet file by its annotations, where Arrow alone would give what they are stored as.

What becomes of an annotation is in `schema/annotations.py`. An opaque type has the name that DuckDB gives it. Arrow
does not tell everything: a VARIANT is a group, a TIME in UTC may have the older, converted type, which DuckDB reads as
TIME, and geometries may be bytes that the footer's key `geo` names.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.schema.annotations import PARQUET, annotated_type, opaque_type
from lake_assets.schema.leaves import is_list, leaf_count
from lake_assets.storage.formats import footers

_TIME, _VARIANT = 7, 16  # Parquet's logical types by their numbers
_ARROW, _NO_ARROW = b"ARROW:schema", b"ARROW:nobody"
_WIDE = ("FIXED_LEN_BYTE_ARRAY", 16, "NONE")


def with_foreign_types(
    parquet: pq.ParquetFile, footer: Callable[[], bytes], unreadable: Mapping[str, str] = MappingProxyType({})
) -> pa.Schema:
    """Return the Arrow schema of a file without metadata, with the types of its annotations.

    `footer` reads the footer again; called for a file with times and variants only. `unreadable` is from
    `footers.readable`.
    """
    schema: pa.Schema = parquet.schema_arrow.remove_metadata()
    foreign = _Foreign(parquet, footer)
    first, fields = 0, []
    for field in schema:
        own = foreign.type_of(field.type, first)
        if field.name in unreadable:
            own = opaque_type(field.type, unreadable[field.name])
        fields.append(field.with_type(own))
        first += leaf_count(field.type)
    return pa.schema(fields)


def without_wide_integers(footer: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a footer without Arrow's types, of which pyarrow does not know all; see `footers.readable`.

    Raises LookupError if it has no 128-bit integer.
    """
    plain = footers.footer_file(footer.replace(_ARROW, _NO_ARROW))
    parquet = pq.ParquetFile(pa.BufferReader(plain), **footers.LIMITS)
    columns = [parquet.schema.column(index) for index in range(len(parquet.schema))]
    is_wide = [(c.physical_type, c.length, c.logical_type.type) == _WIDE for c in columns]
    ends = accumulate(leaf_count(field.type) for field in parquet.schema_arrow)
    names = [
        f.name
        for f, end in zip(parquet.schema_arrow, ends, strict=True)
        if any(is_wide[end - leaf_count(f.type) : end])
    ]
    if not names:
        raise LookupError
    return plain, dict.fromkeys(names, "128-bit integer")


class _Foreign:
    def __init__(self, parquet: pq.ParquetFile, footer: Callable[[], bytes]) -> None:
        self._parquet = parquet
        self._footer = footer

    def type_of(self, data_type: pa.DataType, first: int) -> pa.DataType:
        """Return the type of a column or a part of one whose first leaf is at this position."""
        if isinstance(data_type, pa.ExtensionType):  # of a library that this process happens to have imported
            return self.type_of(data_type.storage_type, first)
        if t.is_struct(data_type):
            if data_type.names == [footers.ENTRIES]:
                key, item = data_type.field(0).type.value_type
                entry = pa.map_(key.type, item.type)
                return self.type_of(entry, first)
            if {"metadata", "value"} <= {field.name for field in data_type} and first in self._variants:
                return opaque_type(data_type, "VARIANT")
            return pa.struct(list(self._fields(data_type, first)))
        if t.is_map(data_type):
            key = self.type_of(data_type.key_type, first)
            item = self.type_of(data_type.item_type, first + leaf_count(data_type.key_type))
            is_same = key.equals(data_type.key_type) and item.equals(data_type.item_type)
            return data_type if is_same else pa.map_(key, item)
        if is_list(data_type):
            value = self.type_of(data_type.value_type, first)
            return data_type if value.equals(data_type.value_type) else pa.list_(value)
        return annotated_type(data_type, self._name(first), PARQUET)

    def _fields(self, data_type: pa.StructType, first: int) -> Iterator[pa.Field]:
        for field in data_type:
            yield field.with_type(self.type_of(field.type, first))
            first += leaf_count(field.type)

    def _name(self, position: int) -> str:
        column = self._parquet.schema.column(position)
        if column.converted_type == "INTERVAL":
            return "INTERVAL"
        kind = str(column.logical_type.type)
        if kind == "TIME" and '"isAdjustedToUTC":true' in column.logical_type.to_json() and position in self._utc:
            return "TIMETZ"
        is_bytes = (column.physical_type, kind) == ("BYTE_ARRAY", "NONE")
        if is_bytes and any(column.path == name or column.path.endswith(f".{name}") for name in self._geometries):
            return "GEOMETRY"
        if kind == "UNDEFINED":
            return f"logical type {min(dict(self._logical)[position])} of Parquet"
        return kind

    @cached_property
    def _utc(self) -> Collection[int]:
        """The positions of times in UTC."""
        is_true = (1, None)
        return [place for place, kinds in self._logical if kinds.get(_TIME, (0, {}))[1].get(1) == is_true]

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
        return [place for place, kinds in self._logical if _VARIANT in kinds]

    @cached_property
    def _logical(self) -> list[tuple[int, footers.Struct]]:
        """The positions of the first leaves of nodes, and what Parquet's schema says of their logical types."""
        _, *nodes = footers.schema_nodes(self._footer())
        places = zip(accumulate(map(footers.is_leaf, nodes), initial=0), nodes, strict=False)
        return [(place, node[footers.LOGICAL][1]) for place, node in places if footers.LOGICAL in node]
