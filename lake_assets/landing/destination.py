"""Which file of which partition a record belongs to, and whether the stream has that partition."""

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from lake_assets.config.streams import Stream
from lake_assets.errors import PartitionError, SchemaError
from lake_assets.partition import TIME_FORMATS, Partition, PartitionColumn

_REMEMBERED = 65_536  # paths
_TIMES = {"date": "day"}  # the type whose name is not that of its values


class Destination:
    """Splits rows of one schema by the stream's layout.

    Args:
        stream: its config.
        schema: of the rows.

    Raises:
        LayoutError: the layout needs a column that the schema lacks, or cannot name its type.
        SchemaError: the rows consist of nothing but partition columns.
    """

    def __init__(self, stream: Stream, schema: pa.Schema) -> None:
        self._stream = stream
        self._layout = stream.template
        self._layout.render(schema.empty_table())
        places = [p for p in self._layout.placeholders if not p.is_now]
        in_parts = {p.column for p in places if p.granularity is not None}
        in_path = {p.column for p in places if p.name in stream.partitions} - in_parts
        self.columns = [name for name in schema.names if name not in in_path]
        """Those that stand in the files. A partition column that the path holds whole is left out, as Hive does."""
        if not self.columns:
            raise SchemaError(
                f"the records have no column besides {', '.join(sorted(in_path))}, which the path holds:",
                "a Parquet file needs one column at least.",
            )
        self.fault = lru_cache(_REMEMBERED)(self._fault)

    def paths(self, rows: pa.Table, now: dt.datetime) -> pa.DictionaryArray:
        """The path of each row.

        Raises:
            LayoutError: a row's time lies outside the years 1 to 9999.
        """
        return self._layout.render(rows, now=now)

    def faults(self, paths: pa.DictionaryArray) -> Sequence[str | None]:
        """Why the stream has no partition of a path, for each distinct path; None where it has."""
        return [self.fault(path) for path in paths.dictionary.to_pylist()]

    def _fault(self, path: str) -> str | None:
        found = self._layout.match(f"{path}/file", file=True) or {}
        columns = tuple(column for column in self._stream.columns if not column.in_rows)
        try:
            partition = Partition.of(columns, {c.name: found[c.name] for c in columns if c.name in found})
        except PartitionError as error:
            return error.problem.rstrip(":")
        for column, value in zip(columns, partition.values, strict=True):
            field = self._stream.partitions[column.name]
            if field.values is not None and column.text(value) not in map(column.text, field.values):
                return f"{column.name}={value} is none of the stream's: {', '.join(field.values)}"
            if column.type not in TIME_FORMATS:
                continue
            if value is None:
                return f"{column.name} is NULL, which is no {_TIMES.get(column.type, column.type)}"
            # As texts, which sort by time: a column of months has the whole month that its start lies in.
            text = column.text(value)
            first = field.start and _text(column, field.start, dt.time.min)
            last = field.end and _text(column, field.end, dt.time.max)
            if (first and text < first) or (last and text > last):
                return f"{column.name}={text} lies outside {field.start} to {field.end or 'today'}, the stream's dates"
        return None


def _text(column: PartitionColumn, date: dt.date, time: dt.time) -> str:
    """A moment as the column's value that it lies in."""
    moment = dt.datetime.combine(date, time)
    # Not every platform pads the year 33 to four digits.
    return moment.strftime(TIME_FORMATS[column.type].replace("%Y", f"{moment.year:04}"))
