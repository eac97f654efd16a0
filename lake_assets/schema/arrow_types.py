"""Arrow's types: the leaves of nested ones, which Parquet stores as columns, and texts that stay dictionaries.

Parquet stores a column with few different texts as a dictionary, and a number for each row. Decoding the numbers to
texts, only to find the texts' numbers again in the writer, takes most of the time of such a column. The data file has
the same rows and statistics as one that was written from plain texts.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.schema.annotations import has_map

FIRST_NANOSECOND = -9_223_286_400_000_000_000
"""The first nanosecond since 1970 of DuckDB's TIMESTAMP_NS; 64 bits begin half a day earlier."""


class TypeLimits(NamedTuple):
    """The values that a time type of DuckDB holds."""

    first: int  # as it is stored
    misfit: str  # what another value is
    infinity: int | None = None  # the value that means minus infinity; its opposite means infinity
    last: int | None = None
    hint: str = ""  # a further way to fix it


_MICROSECONDS = "a time before 290309-12-22 (BC), the first that DuckDB's TIMESTAMP can hold"
_MILLISECONDS = "a time outside of 290309-12-22 (BC) to 294247-01-10, which DuckDB's TIMESTAMP cannot hold"
_NANOSECONDS = "a time before 1677-09-22, the first that DuckDB's TIMESTAMP_NS can hold"
_DAYS = "a time before 5877642-06-25 (BC), the first that DuckDB's DATE can hold"
_OF_DAY = "a time of day before 00:00 or of 24 hours and more, which DuckDB's TIME cannot hold"
_HELD = {
    pa.timestamp("ns"): TypeLimits(FIRST_NANOSECOND, _NANOSECONDS, hint=", or land the column in microseconds"),
    pa.timestamp("us"): TypeLimits(-9_223_372_022_400_000_000, _MICROSECONDS, -(2**63) + 1),
    pa.timestamp("ms"): TypeLimits(-9_223_372_022_400_000, _MILLISECONDS, -(2**63) + 1, last=9_223_372_036_854_775),
    pa.date32(): TypeLimits(-(2**31) + 2, _DAYS, -(2**31) + 1),
    **{
        kind: TypeLimits(0, _OF_DAY, last=86_400 * 1000**power - 1)
        for power, kind in enumerate((pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")))
    },
}


def _held(data_type: pa.DataType) -> TypeLimits | None:
    return _HELD.get(pa.timestamp(data_type.unit) if t.is_timestamp(data_type) else data_type)


_NO_ASCII = 128  # the first byte
_KEYS = TypeLimits(0, "a map with a key twice, which DuckDB's MAP cannot hold")
_TEXT = TypeLimits(
    0, "a text that is not UTF-8, which DuckDB's VARCHAR cannot hold", hint=", or let its writer declare bytes"
)


def has_limits(data_type: pa.DataType) -> bool:
    """Return whether a type, or a part of it, has values that DuckDB cannot read."""
    return has_map(data_type) or any(_held(leaf) is not None or is_text(leaf) for leaf in leaf_types(data_type))


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values of a type are texts, also if a dictionary has them."""
    kinds = (t.is_string, t.is_large_string, t.is_string_view)
    return any(is_kind(without_dictionary(data_type)) for is_kind in kinds)


def exceeded(values: pa.Array | pa.ChunkedArray) -> TypeLimits | None:
    """Return what DuckDB holds, if one of the values, or a part of one, is something else; else None."""
    if not isinstance(values, pa.ChunkedArray | pa.ExtensionArray) and not t.is_nested(values.type):
        return exceeded_in(values)  # a batch of few rows would feel the search for parts
    return next(filter(None, map(exceeded_in, leaves(values))), None) or (_KEYS if _has_key_twice(values) else None)


def exceeded_in(leaf: pa.Array) -> TypeLimits | None:
    """Return what DuckDB holds, if one of the values of a leaf is something else; else None."""
    if is_text(leaf.type):
        return None if _is_utf8(leaf.dictionary if t.is_dictionary(leaf.type) else leaf) else _TEXT
    held = _held(leaf.type)
    if held is None:
        return None
    stored = leaf.view(pa.int32() if leaf.type.bit_width == 32 else pa.int64())
    least, greatest = pc.min_max(stored).as_py().values()
    if least is None or (held.first <= least and (held.last is None or greatest <= held.last)):
        return None  # nearly always; found sooner than value by value
    others = pc.less(stored, held.first)
    if held.last is not None:
        others = pc.or_(others, pc.greater(stored, held.last))
    if held.infinity is not None:
        infinities = pa.array([held.infinity, -held.infinity], stored.type)
        others = pc.and_(others, pc.invert(pc.is_in(stored, infinities)))
    return held if pc.any(others).as_py() else None


def _is_utf8(texts: pa.Array) -> bool:
    if not t.is_string_view(texts.type) and len(texts):
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64 if t.is_large_string(texts.type) else np.int32)
        used = slice(ends[texts.offset], ends[texts.offset + len(texts)])
        # ASCII is seen several times as fast as by Arrow's check.
        if data is None or np.frombuffer(data, np.uint8)[used].max(initial=0) < _NO_ASCII:
            return True
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def has_infinity(leaf: pa.Array) -> bool:
    """Return whether one of the values is an infinity, which as a bound says nothing about those next to it."""
    held = _held(leaf.type)
    if held is None or held.infinity is None:
        return False
    stored = leaf.view(pa.int32() if leaf.type.bit_width == 32 else pa.int64())
    return bool(pc.any(pc.is_in(stored, pa.array([held.infinity, -held.infinity], stored.type))).as_py())


def _has_key_twice(array: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a map of an array, at any depth, has a key more than once."""
    if not has_map(array.type):
        return False
    if isinstance(array, pa.ChunkedArray):
        return any(map(_has_key_twice, array.chunks))
    if not t.is_map(array.type):
        return any(map(_has_key_twice, array.flatten() if t.is_struct(array.type) else [array.flatten()]))
    offsets = np.asarray(array.offsets)
    first, entries = offsets[0], offsets[-1] - offsets[0]
    keys = dictionary_decoded(array.keys.slice(first, entries))
    if t.is_nested(keys.type) or isinstance(keys, pa.ExtensionArray):
        keys = pa.array(map(repr, keys.to_pylist()), pa.string())
    coded = keys.dictionary_encode()
    of_rows = np.repeat(np.arange(len(array)), np.diff(offsets)) * len(coded.dictionary)
    codes = np.sort(of_rows + coded.indices.to_numpy(), kind="stable")  # they are nearly in order
    return bool((codes[1:] == codes[:-1]).any()) or _has_key_twice(array.items.slice(first, entries))


def leaves(array: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the leaf arrays of an array, in Parquet's order."""
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            yield from leaves(chunk)
    elif isinstance(array, pa.ExtensionArray):
        yield from leaves(array.storage)
    elif t.is_struct(array.type):
        for part in array.flatten():
            yield from leaves(part)
    elif t.is_map(array.type):
        yield from leaves(array.keys)
        yield from leaves(array.items)
    elif t.is_nested(array.type):
        yield from leaves(array.flatten())
    else:
        yield array


def leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the leaves of a type, in Parquet's order."""
    if isinstance(data_type, pa.BaseExtensionType):
        yield from leaf_types(data_type.storage_type)
    elif t.is_nested(data_type):
        for index in range(data_type.num_fields):
            yield from leaf_types(data_type.field(index).type)
    else:
        yield data_type


_OPAQUE = re.compile(r"extension<arrow\.opaque\[storage_type=.*?, type_name=(.*?), vendor_name=\w+\]>")


def shown_type(data_type: pa.DataType) -> str:
    """Return the type in an error, where Arrow's text of an opaque type names its storage."""
    return _OPAQUE.sub(r"\1", str(data_type))


def is_list(data_type: pa.DataType) -> bool:
    """Return whether values of the type are lists, in any of Arrow's forms."""
    kinds = (t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view)
    return any(is_kind(data_type) for is_kind in kinds)


Leaf = Callable[[pa.DataType, pa.DataType], pa.DataType]
Keeps = Callable[[pa.Field | None, pa.Field | None], bool]
"""Whether a joined type has a field, of which one of the two types may have none."""


def is_own(own: pa.Field | None, _: pa.Field | None) -> bool:
    """Return whether the first of two types has the field."""
    return own is not None


def joined_types(own: pa.DataType, other: pa.DataType, leaf: Leaf, keeps: Keeps = is_own) -> pa.DataType:
    """Join two types: `leaf` makes a type of each pair of their parts that are not nested alike.

    Fields of structs are pairs by their names in any case; `keeps` says which ones the result gets.
    """
    further = partial(joined_types, leaf=leaf, keeps=keeps)
    if t.is_struct(own) and t.is_struct(other):
        names, given = {field.name.lower() for field in own}, {field.name.lower(): field for field in other}
        kept = [field for field in own if keeps(field, given.get(field.name.lower()))]
        fields = [field.with_type(further(field.type, given.get(field.name.lower(), field).type)) for field in kept]
        new = [field for field in other if field.name.lower() not in names and keeps(None, field)]
        return pa.struct([*fields, *(pa.field(field.name, field.type) for field in new)])
    if t.is_map(own) and t.is_map(other):
        return pa.map_(further(own.key_type, other.key_type), further(own.item_type, other.item_type))
    if is_list(own) and is_list(other):
        value = further(own.value_type, other.value_type)
        return own if value.equals(own.value_type) else pa.list_(value)
    return leaf(own, other)


def joined_columns(own: pa.Schema, other: pa.Schema, leaf: Leaf, keeps: Keeps = is_own) -> pa.Schema:
    """Return columns as `joined_types` does the fields of a struct."""
    return pa.schema(list(joined_types(pa.struct(list(own)), pa.struct(list(other)), leaf, keeps)))


def leaf_count(data_type: pa.DataType) -> int:
    """Return the number of Parquet columns of an Arrow column."""
    return sum(1 for _ in leaf_types(data_type))


def without_columns(columns: Iterable[pa.Field], names: Iterable[str]) -> pa.Schema:
    """Return the columns without those of these names, in any case."""
    lower = {name.lower() for name in names}
    return pa.schema([column for column in columns if column.name.lower() not in lower])


def has_nanoseconds(data_type: pa.DataType) -> bool:
    """Return whether a type, or a part of it, is a timestamp in nanoseconds."""
    return any(t.is_timestamp(leaf) and leaf.unit == "ns" for leaf in leaf_types(data_type))


def without_dictionary(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary; any other type as it is."""
    return data_type.value_type if t.is_dictionary(data_type) else data_type


def dictionary_decoded(values: pa.Array) -> pa.Array:
    """Return the values without a dictionary."""
    return values.dictionary_decode() if t.is_dictionary(values.type) else values


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; Arrow's own `empty_table` fails where a list or struct holds UUIDs or JSON."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def without_views(rows: Rows) -> Rows:
    """Return the rows without views of texts and bytes, which Arrow cannot filter or cast to numbers and dates."""
    fields = [field.with_type(_without_views(field.type)) for field in rows.schema]
    schema = pa.schema(fields, rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """Return the type with plain texts and bytes instead of views, also in its parts."""
    if t.is_struct(data_type):
        return pa.struct([field.with_type(_without_views(field.type)) for field in data_type])
    if t.is_map(data_type):
        return pa.map_(_without_views(data_type.key_type), _without_views(data_type.item_type))
    if t.is_dictionary(data_type):
        return pa.dictionary(data_type.index_type, _without_views(data_type.value_type), data_type.ordered)
    for is_kind, list_of in ((t.is_list, pa.list_), (t.is_large_list, pa.large_list)):
        if is_kind(data_type):
            return list_of(data_type.value_field.with_type(_without_views(data_type.value_type)))
    return _PLAIN.get(data_type, data_type)


def untyped_columns(schema: pa.Schema) -> list[str]:
    """Return the columns without values in a file, or with parts without values, so that their type is not known."""
    return [field.name for field in schema if _has_null(field.type)]


def with_types_of(schema: pa.Schema, others: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema with types of other files' schemas for columns without values; reads as few schemas as needed.

    The first type is taken. The `Fitter` checks whether it fits the values of the other files.
    """
    others = iter(others)
    while untyped_columns(schema) and (other := next(others, None)) is not None:
        schema = joined_columns(schema, other, lambda own, given: given if t.is_null(own) else own)
    return schema


def columns_with_values(schema: pa.Schema) -> pa.Schema:
    """Return the schema without columns, and fields of structs, that are NULL in all rows, if there are others."""
    fields = [field.with_type(without_null_parts(field.type)) for field in schema if not t.is_null(field.type)]
    return pa.schema(fields) if fields else schema


def without_null_parts(data_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries and fields of structs that are NULL in all rows, also in its parts.

    A struct keeps some field.
    """
    if t.is_struct(data_type):
        fields = [field.with_type(without_null_parts(field.type)) for field in data_type if not t.is_null(field.type)]
        return pa.struct(fields) if fields else data_type
    if t.is_map(data_type):
        return pa.map_(without_null_parts(data_type.key_type), without_null_parts(data_type.item_type))
    return pa.list_(without_null_parts(data_type.value_type)) if is_list(data_type) else without_dictionary(data_type)


def with_null_parts(own: pa.Schema, landed: pa.Schema) -> pa.Schema:
    """Return own columns; those, and their parts, that have no type where they landed have the type null."""
    return joined_columns(own, landed, lambda own, landed: landed if t.is_null(landed) else own)


def data_file_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a data file: a column, or a part of it, without a type yet is INTEGER there."""
    if not untyped_columns(schema):
        return schema
    return joined_columns(schema, schema, lambda own, _: pa.int32() if t.is_null(own) else own)


def as_landed(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values of a stored type as the type that they had, in which parts without values are of the type null."""
    if t.is_null(data_type):
        return pa.nulls(len(values))
    return pa.array(values.to_pylist(), data_type) if _has_null(data_type) else values


def _has_null(data_type: pa.DataType) -> bool:
    return any(map(t.is_null, leaf_types(data_type)))


LEAST_ROWS = 10_000  # of a share; the dictionaries of fewer rows cost more than they save
_VALUE_BYTES = 3  # of each value in the object, decompressed; plain texts have four for their length alone
_COPIED_BYTES = 32 * 2**20  # of a table in chunks; a larger one would need too much memory twice
_DICTIONARY_BYTES = 2**20  # of a row group's dictionary, as Arrow's writer has it too


def dictionary_columns(parquet: pq.ParquetFile, groups: Iterable[int], names: Collection[str]) -> list[str]:
    """Return the columns among `names` that all these row groups store as dictionaries, by the footer."""
    facts = [parquet.metadata.row_group(group) for group in groups]
    if sum(group.num_rows for group in facts) < LEAST_ROWS:
        return []
    columns, leaf = [], 0
    for field in parquet.schema_arrow:
        if field.name in names and field.type in (pa.string(), pa.binary()):
            chunks = [group.column(leaf) for group in facts]
            limit = _VALUE_BYTES * sum(chunk.num_values for chunk in chunks)
            if (
                all(chunk.has_dictionary_page for chunk in chunks)
                and sum(chunk.total_uncompressed_size for chunk in chunks) <= limit
            ):
                columns.append(field.name)
        leaf += leaf_count(field.type)
    return columns


def combined_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Join batches into a table. A column is a dictionary if it is one in all batches, and not too large together."""
    first = batches[0].schema
    schemas = [first, *(batch.schema for batch in batches if not batch.schema.equals(first))]
    if not any(t.is_dictionary(kind) for schema in schemas for kind in schema.types):
        table = pa.Table.from_batches(batches)
        # Many small chunks take longer to write than to copy.
        is_copied = table.num_rows < LEAST_ROWS * len(batches) and table.nbytes <= _COPIED_BYTES
        return table.combine_chunks() if is_copied else table
    kept = [all(t.is_dictionary(batch.schema.types[number]) for batch in batches) for number in range(len(first))]
    schema = pa.schema([field if keep else _plain(field) for field, keep in zip(first, kept, strict=True)])
    table = pa.Table.from_batches([batch.cast(schema) for batch in batches]).unify_dictionaries()
    large = [
        field.name
        for field in schema
        if t.is_dictionary(field.type) and table.column(field.name).chunk(0).dictionary.nbytes > _DICTIONARY_BYTES
    ]
    return table.cast(pa.schema([_plain(field) if field.name in large else field for field in schema]))


def schema_with_dictionaries(schema: pa.Schema, table: pa.Table) -> pa.Schema:
    """Return the schema, with dictionaries where the table has them."""
    pairs = zip(schema, table.schema, strict=True)
    return pa.schema([field.with_type(own.type) if t.is_dictionary(own.type) else field for field, own in pairs])


_SAMPLED_ROWS = 4_096  # of a table; in fewer, a look takes as long as what it saves
_REPEATS = 3  # of each value on average, above which a dictionary saves time and bytes
_COUNTED = (
    t.is_primitive, t.is_decimal, t.is_string, t.is_large_string, t.is_binary, t.is_large_binary, t.is_fixed_size_binary
)  # fmt: skip


def unrepeated_leaves(table: pa.Table) -> frozenset[int]:
    """Return the positions of leaves most of whose values come once or twice, by a sample of the rows.

    The writer of Parquet would make dictionaries of these too, which takes a third of its time, and more bytes. Nested
    columns, and texts that are dictionaries, are not among them.
    """
    if table.num_rows < _SAMPLED_ROWS:
        return frozenset()
    # Rows at random have a value twice if there are few values, and neighbours also if they are sorted.
    number = math.isqrt(8 * table.num_rows)
    places = np.linspace(0, table.num_rows - 2, number // 2).astype(np.int64)
    rows = pa.array(np.concatenate([places, places + 1]))
    positions, first = set[int](), 0
    for column in table.columns:
        is_counted = any(is_kind(column.type) for is_kind in _COUNTED)
        if is_counted and not _repeats(column.take(rows), table.num_rows):
            positions.add(first)
        first += leaf_count(column.type)
    return frozenset(positions)


def _repeats(sample: pa.ChunkedArray, rows: int) -> bool:
    values = len(sample) - sample.null_count
    repeats: int = values - pc.count_distinct(sample).as_py()
    return bool(repeats * 2 * rows >= _REPEATS * values * len(sample))


def table_with_dictionaries(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table, with dictionaries where the schema has them, and only there."""
    for number, field in enumerate(schema):
        column = table.column(number)
        if t.is_dictionary(field.type) and not t.is_dictionary(column.type):
            table = table.set_column(number, field, column.dictionary_encode().unify_dictionaries())
        elif not t.is_dictionary(field.type) and t.is_dictionary(column.type):
            table = table.set_column(number, field, column.cast(field.type))
    return table


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if t.is_dictionary(field.type) else field
