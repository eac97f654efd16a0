"""Columns that only the paths have: what the folders between or below the partition's say of an object's rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lake_assets.errors import PartitionError, SourceError
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template
from lake_assets.parquet.schema_fit import typed_value


@dataclass(frozen=True, slots=True)
class PathColumns:
    """Which columns of a layout that are no partition columns the rows shall have.

    Attributes:
        template: the layout.
        columns: the columns, each one of the layout's.
    """

    template: Template
    columns: tuple[PartitionColumn, ...]

    def values(self, key: str, uri: str, schema: pa.Schema) -> Mapping[str, pa.Scalar]:
        """What the path says of an object's rows, but for the columns that its file has itself.

        Args:
            key: the object's, of the layout.
            uri: names it in errors.
            schema: of its file.

        Raises:
            SourceError: a folder's text is no value of its column's type.
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
                f"the path of the object {uri} does not fit path_columns: {error.problem.rstrip(':')}:",
                "move the object, or correct the column's type in the config.",
            ) from error


def with_types(schema: pa.Schema, values: Mapping[str, pa.Scalar]) -> pa.Schema:
    """The schema with the values' columns behind its own."""
    return pa.schema([*schema, *((name, value.type) for name, value in values.items())])


def with_values(batch: pa.RecordBatch, values: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """The rows with the same values in each."""
    for name, value in values.items():
        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch
