"""Partition columns that are derived from another column of the rows: the date of a timestamp, or another name."""

from dataclasses import dataclass

import pyarrow as pa

from lake_assets.layout.grammar import quoted
from lake_assets.layout.partition import PartitionType
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES


@dataclass(frozen=True, slots=True)
class Derived:
    """A partition column that is derived from a column of the rows.

    Attributes:
        name: the partition column.
        column: the column of the rows.
        template: a layout whose placeholders say how the partition column is made.
    """

    name: str
    column: str
    template: Template

    @property
    def is_whole(self) -> bool:
        """Whether a value is the rows' own value under another name, not parts of it."""
        return any(p.granularity is None for p in self.template.placeholders if p.name == self.name)

    def texts(self, values: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
        """Return the partition column's value for each row, as `PartitionColumn.text` writes it.

        Args:
            values: the values of the rows' column.

        Raises:
            LayoutError: paths cannot hold values of this type, or a time is outside the years 1 to 9999.
        """
        return self.template.read_rows(self.name, values)


def folder(name: str, kind: PartitionType, column: str) -> str:
    """Hive's folder of a derived partition column, such as `date={ts,,YY}-{ts,,MM}-{ts,,DD}` or `region={store}`.

    Args:
        name: the partition column, an identifier.
        kind: its type; a time is made of a timestamp's parts.
        column: the column of the rows.
    """
    return f"{name}={placeholders(kind, column)}"


def placeholders(kind: PartitionType, column: str) -> str:
    """Return the placeholders that make a partition column of this type from a column of the rows."""
    source, parts = quoted(column), TIME_TYPES[kind].parts if kind in TIME_TYPES else ()
    return "-".join(f"{{{source},,{part}}}" for part in parts) or f"{{{source}}}"
