"""Which file of which partition a record belongs to, and whether the stream has that partition."""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lake_assets.config.clashes import clash, renamed
from lake_assets.config.streams import Stream
from lake_assets.errors import FuturePartitionError, PartitionError, SchemaError
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.layout.times import TIME_TYPES
from lake_assets.parquet.leaves import no_rows
from lake_assets.parquet.schema_fit import is_other, typed_value
from lake_assets.streams.calendar import Calendar

_REMEMBERED = 65_536  # paths


class RefusedRows(NamedTuple):
    """Rows that an ingest of their partition would refuse, and why."""

    rows: npt.NDArray[np.bool_]
    problem: str
    hint: str


class Destination:
    """Splits rows of one schema by the stream's layout.

    Args:
        stream: its config.
        schema: of the rows.

    Raises:
        LayoutError: the layout needs a column that the schema lacks, or cannot name its type.
        SchemaError: the rows consist of nothing but partition columns, or one of their columns is where the layout
            puts something else.
    """

    def __init__(self, stream: Stream, schema: pa.Schema) -> None:
        self._stream = stream
        self._calendar = Calendar(stream)
        self._layout = stream.template
        empty = no_rows(schema)
        self._layout.render(empty)
        if found := clash(stream.template, stream.partitions, schema):
            raise SchemaError(*found)
        places = [p for p in self._layout.placeholders if not p.is_now]
        in_parts = {p.column for p in places if p.granularity is not None}
        in_path = {p.column for p in places if p.name in stream.partitions} - in_parts
        self.columns = [name for name in schema.names if name not in in_path]
        """Those of the records that are in the files. One that the path holds whole is left out, as Hive does."""
        self._none = empty.select(self.columns)
        names = {name.lower(): name for name in self.columns}
        self._own = {c: names[c.name.lower()] for c in stream.columns if not c.in_rows and c.name.lower() in names}
        self._kept = self._kept_columns(names) if stream.landing and stream.landing.keep_path_columns else ()
        if not self.columns:
            raise SchemaError(
                f"the records have no column besides {', '.join(sorted(in_path))}, which the path holds:",
                "a Parquet file needs one column at least.",
            )
        self.fault = lru_cache(_REMEMBERED)(self._fault)
        self._said = lru_cache(_REMEMBERED)(self._values)

    def _kept_columns(self, names: Mapping[str, str]) -> tuple[PartitionColumn, ...]:
        """The columns of the path that the files get: those of partitions, and others that the records lack."""
        more = (PartitionColumn(n, c.type) for n, c in self._stream.path_columns.items() if n.lower() not in names)
        return (*(column for column in self._stream.columns if not column.in_rows), *more)

    def file_rows(self, path: str, rows: pa.Table) -> pa.Table:
        """The rows as they are in the file of a path: with the columns that the path says, if these are kept."""
        return self._with(rows, self._said(path)) if self._kept else rows

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of the files."""
        return self._with(self._none, [typed_value(column, None) for column in self._kept]).schema

    def _with(self, rows: pa.Table, said: Sequence[pa.Scalar]) -> pa.Table:
        for column, value in zip(self._kept, said, strict=True):
            values = pa.chunked_array([pa.repeat(value, rows.num_rows)], value.type)
            own = self._own.get(column)
            if own is None:
                rows = rows.append_column(column.name, values)
            else:
                rows = rows.set_column(rows.schema.get_field_index(own), column.name, values)
        return rows

    def _values(self, path: str) -> tuple[pa.Scalar, ...]:
        texts = self._layout.match(f"{path}/file", file=True) or {}
        return tuple(typed_value(column, column.parse(texts[column.name])) for column in self._kept)

    def refused_rows(self, rows: pa.Table, paths: pa.DictionaryArray) -> RefusedRows | None:
        """The rows whose own column of a partition's name says another partition than their path; None if none does.

        Args:
            rows: with the columns of the schema.
            paths: of the rows, each of a partition of the stream.
        """
        for column, own in self._own.items():
            found = np.zeros(rows.num_rows, np.bool_)
            codes, values = paths.indices.to_numpy(), rows.column(own).combine_chunks()
            if pa.types.is_string_view(values.type):
                values = values.cast(pa.large_string())  # Arrow takes no rows of views
            for code, path in enumerate(paths.dictionary.to_pylist()):
                mine = np.flatnonzero(codes == code)
                texts = self._layout.match(f"{path}/file", file=True) or {}
                other = is_other(values.take(pa.array(mine)), column, column.parse(texts[column.name]))
                found[mine[other.to_numpy(zero_copy_only=False)]] = True
            if found.any():
                row = int(found.argmax())
                problem = (
                    f"the records' column {own!r} has the value {str(values[row].as_py())!r}, and by the layout "
                    f"{self._layout.text!r} its record belongs to {paths[row].as_py()}:"
                )
                new = column.type if column.type in TIME_TYPES else "part"
                line = renamed(
                    self._stream.partitions, column.name, new if new not in rows.schema.names else f"{new}_of_path"
                )
                return RefusedRows(found, problem, f"give the partition column another name: partitions: {{{line}}}.")
        return None

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
        outside = self._calendar.outside(partition)
        # A clock may be ahead of ours, and what lands today for tomorrow is ingested tomorrow.
        return None if outside is None or isinstance(outside, FuturePartitionError) else outside.problem.rstrip(":")
