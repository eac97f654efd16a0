"""Columns that the rows of an object get beside those of its file: values of its path, and what is known of the object.

The number of a row in its object differs from row to row; all others are the same in each row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.config.modes import FileFact
from lake_assets.errors import PartitionError, SchemaError, SourceError
from lake_assets.escapes import visible_name
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template
from lake_assets.parquet.partition_values import typed_value

Facts = Mapping[FileFact, object]

_TYPES: Mapping[FileFact, pa.DataType] = MappingProxyType(
    {
        "uri": pa.string(),
        "row_number": pa.int64(),
        "modified": pa.timestamp("us", "UTC"),
        "written_at": pa.timestamp("us", "UTC"),
        "run_id": pa.string(),
    }
)
_NOTHING: Facts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns that are added to the rows of an object."""

    template: Template
    of_path: tuple[PartitionColumn, ...] = ()  # the columns of the layout, besides partition columns
    of_file: Mapping[str, FileFact] = field(default_factory=dict)  # what the other columns hold, by their names
    rescue: str | None = None  # the column with what does not fit the others: NULL, or a JSON object

    @property
    def _types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns that are not of the path."""
        rescue = {self.rescue: pa.string()} if self.rescue else {}
        return {name: _TYPES[fact] for name, fact in self.of_file.items()} | rescue

    def lacking(self, table: pa.Schema) -> pa.Schema:
        """Return those of the columns that are not of the path that a table lacks."""
        known = {name.lower() for name in table.names}
        return pa.schema([(name, kind) for name, kind in self._types.items() if name.lower() not in known])

    def without(self, table: pa.Schema) -> pa.Schema:
        """Return the columns of a table that may be those of objects."""
        own = {name.lower() for name in (*(column.name for column in self.of_path), *self._types)}
        return pa.schema([field for field in table if field.name.lower() not in own])

    @property
    def numbers(self) -> frozenset[str]:
        """The names of the columns with the number of each row."""
        return frozenset(name for name, fact in self.of_file.items() if fact == "row_number")

    def values(self, key: str, uri: str, schema: pa.Schema, facts: Facts = _NOTHING) -> Mapping[str, pa.Scalar]:
        """Return the values of an object by column; NULL of the column's type if a fact is unknown.

        A column of the path that the file has too is the file's. One of another name is refused.
        """
        texts = self.template.match(key, file=True) or {}
        own = {name.lower() for name in schema.names}
        if (taken := next((name for name in self._types if name.lower() in own), None)) is not None:
            whose = "the stream's column of rescue" if taken == self.rescue else "one of the stream's file_columns"
            raise SchemaError(
                f"the object {visible_name(uri)} has a column {taken!r}, which is {whose}:",
                "give the stream's column another name.",
            )
        try:
            of_path = {
                column.name: typed_value(column, column.parse(texts[column.name]))
                for column in self.of_path
                if column.name.lower() not in own
            }
        except PartitionError as error:
            raise SourceError(
                f"the path of the object {visible_name(uri)} does not fit path_columns: {error.problem.rstrip(':')}:",
                "move the object, or correct the column's type in the config.",
            ) from error
        of_file = {name: facts.get(fact) for name, fact in self.of_file.items()}
        return of_path | {name: pa.scalar(of_file.get(name), kind) for name, kind in self._types.items()}


def with_types(schema: pa.Schema, values: Mapping[str, pa.Scalar]) -> pa.Schema:
    """Return the schema with the columns of the values appended."""
    return pa.schema([*schema, *((name, value.type) for name, value in values.items())]) if values else schema


def with_values(
    batch: pa.RecordBatch, values: Mapping[str, pa.Scalar], numbers: frozenset[str], first: int
) -> pa.RecordBatch:
    """Return the rows with the values appended, as far as they have no column of the name.

    The columns in `numbers` get the number of the row instead, from 1; `first` is that of the first row, from 0.
    """
    for name, value in values.items():
        if name in batch.schema.names:  # what the reader of the object has kept
            continue
        if name in numbers:
            column = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows), start=first)
        else:
            column = pa.repeat(value, batch.num_rows)
        batch = batch.append_column(name, column)
    return batch
