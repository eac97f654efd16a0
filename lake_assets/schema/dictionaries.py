"""Texts that stay dictionaries from a landed object to the data file.

Parquet stores a column with few different texts as a dictionary, and a number for each row. Decoding the numbers to
texts, only to find the texts' numbers again in the writer, takes most of the time of such a column. The data file has
the same rows and statistics as one that was written from plain texts.
"""

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.schema.leaves import leaf_count

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
