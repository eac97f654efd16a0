"""A Parquet file's footer without its rows, and what Arrow does not tell of a footer, or refuses in it.

A task returns the footer as a file of its own with the file that it wrote, so that the commit need not read the file.
A footer is a struct of Thrift in its compact form:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.

Where Arrow alone would give a column as what it is stored as, its type is that of its annotation; what becomes of an
annotation is in `schema/annotations.py`. An opaque type has the name that DuckDB gives it. A VARIANT is a group, a TIME
in UTC may have the older, converted type, which DuckDB reads as TIME, and geometries may be bytes that the footer's key
`geo` names.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.schema.annotations import PARQUET, annotated_type, opaque_type
from lake_assets.schema.arrow_types import is_list, leaf_count

MOST_BYTES = 2**20  # bytes of a footer that a task returns; the commit reads a larger one
LIMITS = {"thrift_string_size_limit": 2**31 - 1, "thrift_container_size_limit": 2**31 - 1}
"""Of Arrow's reader, whose own are 100 MB of one text and 1,000,000 parts."""
ENTRIES = "key_value of optional keys"
"""The field of a struct that is a map whose keys are not required, which Arrow refuses."""

Struct: TypeAlias = dict[int, tuple[int, Any]]
"""A struct of Thrift: the type and the value of each field by its number."""

_MAGIC = b"PAR1"
_BOOLEANS, _BYTE, I32, _TEXT, _LIST, _STRUCT = (1, 2), 3, 5, 8, 9, 12  # types of Thrift
_CHECKSUM = 4  # of the fields of a page's header, behind its type and two sizes, which each page has
_SCHEMA = 2  # of the fields of a footer, behind the version
_BEGIN = bytes([0x15, 2, 0x19, 0x0C, 0x16, 0, 0x19, 0x0C, 0])  # a footer without nodes and rows
_REPETITION, NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, LOGICAL = 3, 4, 5, 6, 7, 8, 10  # of a node of the schema
_MAPS, _MAP = ((I32, 1), (I32, 2)), 2  # a map as converted type, of new and of old writers, and as logical type
_INTEGER, _BY_CONVERTED = 10, {1, 2, 3, 4, 5, 6}  # logical types: STRING, MAP, LIST, ENUM, DECIMAL, DATE
_REQUIRED = I32, 0


def written_footer(metadata: pq.FileMetaData) -> bytes | None:
    """Return the footer that a writer has written; None if it is large."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer: bytes = sink.getvalue().to_pybytes()
    return footer if len(footer) <= MOST_BYTES else None


def footer_file(footer: bytes) -> bytes:
    """Return the footer of these bytes, which are between a file's row groups and the footer's length."""
    return b"".join((_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC))


def has_checksum(data: bytes, at: int) -> bool:
    """Return whether the page of a file that begins at a position has a checksum; also if no page begins there."""
    try:
        before, behind = _parsed(data, at, _CHECKSUM - 1)
        return len(before) != _CHECKSUM - 1 or data[behind] >> 4 == 1
    except (LookupError, ValueError):
        return True


def schema_nodes(footer: bytes) -> list[Struct]:
    """Return the nodes of a footer's schema in their order, each before those within it; the first is the root."""
    schema: list[Struct] = _parsed(footer, 0, _SCHEMA)[0][_SCHEMA][1][1]
    return schema


def with_nodes(footer: bytes, schema: Sequence[Struct]) -> bytes:
    """Return a footer with other nodes of its schema."""
    begun, end = _parsed(footer, 0, _SCHEMA)
    return _fields(begun | {_SCHEMA: (_LIST, (_STRUCT, list(schema)))}) + footer[end:]


def only_logical(footer: bytes) -> list[str]:
    """Return the columns with a logical type and no converted one, which DuckDB reads as what they are stored as."""
    _, *rest = schema_nodes(footer)
    return [column[0][NAME][1].decode() for column in _columns(rest) if any(map(_is_only_logical, column))]


def _is_only_logical(node: Struct) -> bool:
    kinds = node.get(LOGICAL, (0, {}))[1]
    is_unsigned = kinds.get(_INTEGER, (0, {}))[1].get(2) == (_BOOLEANS[1], None)
    return _CONVERTED not in node and (is_unsigned or not _BY_CONVERTED.isdisjoint(kinds))


def is_leaf(node: Struct) -> bool:
    """Return whether a node of a schema has values."""
    return _CHILDREN not in node


def readable_footer(footer: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a footer, as `footer_file`, whose columns Arrow can read, and why it could not read some, by their names.

    Such a column loses its annotations. A map whose keys are optional becomes a struct with `ENTRIES`. Raises
    LookupError, ValueError or TypeError if it is no footer.
    """
    root, *rest = schema = schema_nodes(footer)
    types = {}
    for column in _columns(rest):
        for number, node in enumerate(column[:-2]):
            is_map = node.get(_CONVERTED) in _MAPS or _MAP in node.get(LOGICAL, (0, ()))[1]
            if is_map and not is_leaf(node) and column[number + 2].get(_REPETITION, _REQUIRED) != _REQUIRED:
                _strip(node)
                column[number + 1][NAME] = _TEXT, ENTRIES.encode()
        alone = with_nodes(_BEGIN, [root | {_CHILDREN: (I32, 1)}, *column])
        try:
            pq.ParquetFile(pa.BufferReader(footer_file(alone)))
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            types[column[0][NAME][1].decode()] = f"unreadable by Arrow ({reason})"
            for node in column:
                _strip(node)
    return footer_file(with_nodes(footer, schema)), types


def _strip(node: Struct) -> None:
    for field in (_CONVERTED, _SCALE, _PRECISION, LOGICAL):
        node.pop(field, None)


def _columns(schema: Sequence[Struct]) -> Iterator[Sequence[Struct]]:
    """Yield the nodes of each column, given all but the root."""
    begin = 0
    while begin < len(schema):
        end, left = begin, 1
        while left:
            left += schema[end].get(_CHILDREN, (I32, 0))[1] - 1
            end += 1
        yield schema[begin:end]
        begin = end


def _parsed(data: bytes, at: int, until: int = 2**15) -> tuple[Struct, int]:
    """Return the struct of Thrift at a position, with its fields up to a number, and the position behind it."""
    fields: Struct = {}
    number = 0
    while number < until and data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        number, at = number + step, at + 1
        if not step:  # the number itself follows
            number, at = _varint(data, at)
            number >>= 1
        value, at = (None, at) if kind in _BOOLEANS else _value(data, at, kind)
        fields[number] = kind, value
    return fields, at + (number < until)


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == _BYTE:
        return data[at], at + 1
    if kind == _STRUCT:
        return _parsed(data, at)
    if kind == _LIST:
        count, kind = data[at] >> 4, data[at] & 15
        count, at = _varint(data, at + 1) if count == 15 else (count, at + 1)
        values = []
        for _ in range(count):
            value, at = _value(data, at, kind)
            values.append(value)
        return (kind, values), at
    number, at = _varint(data, at)
    if kind == _TEXT:
        return data[at : at + number], at + number
    if kind != I32:
        raise ValueError(f"a value of Thrift's type {kind} in a schema")
    return number >> 1, at  # none is negative


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def _fields(struct: Struct) -> bytes:
    parts, last = [], 0
    for number, (kind, value) in sorted(struct.items()):
        step, last = number - last, number
        parts.append(bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _varint_of(number << 1))
        parts.append(b"" if kind in _BOOLEANS else _thrift_value(value, kind))
    return b"".join(parts)


def _thrift_value(value: Any, kind: int) -> bytes:  # noqa: ANN401 - as of `Struct`
    """Return a value of a type as Thrift writes it."""
    if kind == _BYTE:
        return bytes([value])
    if kind == _STRUCT:
        return _fields(value) + b"\0"
    if kind == _LIST:
        kind, values = value
        head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + _varint_of(len(values))
        return head + b"".join(_thrift_value(part, kind) for part in values)
    return _varint_of(len(value)) + value if kind == _TEXT else _varint_of(value << 1)


def thrift_texts(values: Sequence[str]) -> bytes:
    """Return a list of texts as Thrift writes it, as the field after one that has the number before."""
    return _fields({1: (_LIST, (_TEXT, [value.encode() for value in values]))})


def _varint_of(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint_of(number >> 7)


_TIME, _VARIANT = 7, 16  # Parquet's logical types by their numbers
_ARROW, _NO_ARROW = b"ARROW:schema", b"ARROW:nobody"
_WIDE = ("FIXED_LEN_BYTE_ARRAY", 16, "NONE")


def with_foreign_types(
    parquet: pq.ParquetFile, footer: Callable[[], bytes], unreadable: Mapping[str, str] = MappingProxyType({})
) -> pa.Schema:
    """Return the Arrow schema of a file without metadata, with the types of its annotations.

    `footer` reads the footer again; called for a file with times and variants only. `unreadable` is from
    `readable`.
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
    """Return a footer without Arrow's types, of which pyarrow does not know all; see `readable`.

    Raises LookupError if it has no 128-bit integer.
    """
    plain = footer_file(footer.replace(_ARROW, _NO_ARROW))
    parquet = pq.ParquetFile(pa.BufferReader(plain), **LIMITS)
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
            if data_type.names == [ENTRIES]:
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
    def _logical(self) -> list[tuple[int, Struct]]:
        """The positions of the first leaves of nodes, and what Parquet's schema says of their logical types."""
        _, *nodes = schema_nodes(self._footer())
        places = zip(accumulate(map(is_leaf, nodes), initial=0), nodes, strict=False)
        return [(place, node[LOGICAL][1]) for place, node in places if LOGICAL in node]
