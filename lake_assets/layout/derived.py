"""Partition columns whose values are made of another column of the rows: the date of a timestamp, another name."""

from dataclasses import dataclass

import pyarrow as pa

from lake_assets.layout.grammar import quoted
from lake_assets.layout.partition import PartitionType
from lake_assets.layout.template import Template
from lake_assets.layout.times import TIME_TYPES


@dataclass(frozen=True, slots=True)
class Derived:
    """A partition column, and the column of the rows that its values are made of.

    Attributes:
        name: of the partition column.
        column: of the rows.
        template: a layout with the partition column, whose places say how a value is made.
    """

    name: str
    column: str
    template: Template

    @property
    def is_whole(self) -> bool:
        """Whether a value is the rows' own under another name, and not made of parts of it."""
        return any(p.granularity is None for p in self.template.placeholders if p.name == self.name)

    def texts(self, values: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
        """The partition column's value for each row, as `PartitionColumn.text` writes it.

        Args:
            values: of the rows' column.

        Raises:
            LayoutError: they are of a type that no path can name, or a time lies outside the years 1 to 9999.
        """
        return self.template.read_rows(self.name, values)


def folder(name: str, kind: PartitionType, column: str) -> str:
    """Hive's folder of a derived partition column, such as `date={ts,,YY}-{ts,,MM}-{ts,,DD}` or `region={store}`.

    Args:
        name: of the partition column, an identifier.
        kind: its type; one that is a time is made of a timestamp's parts.
        column: of the rows.
    """
    return f"{name}={places(kind, column)}"


def places(kind: PartitionType, column: str) -> str:
    """The placeholders of a partition column of this type that is made of a column of the rows."""
    source, parts = quoted(column), TIME_TYPES[kind].parts if kind in TIME_TYPES else ()
    return "-".join(f"{{{source},,{part}}}" for part in parts) or f"{{{source}}}"
