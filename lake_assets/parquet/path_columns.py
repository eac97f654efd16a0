"""Columns that only the paths have: values of folders that are not partition columns."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lake_assets.errors import PartitionError, SourceError
from lake_assets.escapes import visible_name
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template
from lake_assets.parquet.partition_values import typed_value


@dataclass(frozen=True, slots=True)
class PathColumns:
    """The columns of a layout, besides partition columns, that are added to the rows."""

    template: Template
    columns: tuple[PartitionColumn, ...]

    def values(self, key: str, uri: str, schema: pa.Schema) -> Mapping[str, pa.Scalar]:
        """Return the values of an object's path, without the columns of its file's schema; `uri` names it in errors.

        Raises:
            SourceError: a folder's text is not a value of its column's type.
        """
        texts = self.template.match(key, file=True) or {}
        own = {name.lower() for name in schema.names}
        try:
            return {
                column.name: typed_value(column, column.parse(texts[column.name]))
                for column in self.columns
                if column.name.lower() not in own
            }
        except PartitionError as error:
            raise SourceError(
                f"the path of the object {visible_name(uri)} does not fit path_columns: {error.problem.rstrip(':')}:",
                "move the object, or correct the column's type in the config.",
            ) from error


def with_types(schema: pa.Schema, values: Mapping[str, pa.Scalar]) -> pa.Schema:
    """Return the schema with the columns of the values appended."""
    return pa.schema([*schema, *((name, value.type) for name, value in values.items())]) if values else schema


def with_values(batch: pa.RecordBatch, values: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """Return the rows with the values appended, the same in each row."""
    for name, value in values.items():
        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch
