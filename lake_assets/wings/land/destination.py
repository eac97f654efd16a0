"""The partition and the path of each record, and whether the stream has that partition."""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lake_assets.base.errors import (
    FuturePartitionError,
    LakeAssetsError,
    LayoutError,
    OutsidePartitionError,
    SchemaError,
)
from lake_assets.config.column_types import COLUMN_TYPES
from lake_assets.config.layout.hive import HIVE_NULL, is_hidden
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.partitions import renamed_line
from lake_assets.config.sections import Landing
from lake_assets.config.streams import StreamConfig
from lake_assets.lake.table_setup import data_schema
from lake_assets.schema.arrow_types import no_rows
from lake_assets.schema.partition_values import AddedColumns, is_other, typed_value
from lake_assets.storage.formats.parquet_files import read_schema
from lake_assets.storage.store import Store
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.locator import PartitionLocator
from lake_assets.streams.stream import OpenStream

_REMEMBERED = 65_536  # paths


class RefusedRows(NamedTuple):
    """Rows that an ingest of their partition would refuse, and why."""

    rows: npt.NDArray[np.bool_]
    problem: str
    hint: str


class RecordRouter:
    """Splits rows of one schema by the stream's layout.

    Raises LayoutError if the layout needs a column that the schema lacks, or cannot name its type, and SchemaError if
    the rows have partition columns only, or a column of theirs clashes with one of the layout.
    """

    def __init__(self, stream: StreamConfig, schema: pa.Schema) -> None:
        self._stream = stream
        self._calendar = Calendar(stream)
        self._locator = PartitionLocator(stream)
        self._layout = stream.template
        empty = no_rows(schema)
        self._layout.render(empty)
        if error := stream.records_misfit(schema):
            raise SchemaError(*error)
        placeholders = [placeholder for placeholder in self._layout.placeholders if not placeholder.is_now]
        in_parts = {placeholder.column for placeholder in placeholders if placeholder.granularity is not None}
        in_path = {placeholder.column for placeholder in placeholders if placeholder.name in stream.partitions}
        # OLake's paths do not tell a value from the default of NULL, so its files have all columns.
        in_path = set() if self._layout.compat else in_path - in_parts
        self.columns = [name for name in schema.names if name not in in_path]
        """The columns of the records that are in the files. One that the path holds whole is left out, as Hive does."""
        self._none = empty.select(self.columns)
        names = {name.lower(): name for name in self.columns}
        self._own = {
            c: names[c.name.lower()] for c in stream.partition_columns if not c.in_rows and c.name.lower() in names
        }
        is_kept = stream.landing is not None and stream.landing.keep_path_columns
        self._kept = AddedColumns(self._layout, self._kept_columns(names) if is_kept else ())
        if not self.columns:
            raise SchemaError(
                f"the records have no column besides {', '.join(sorted(in_path))}, which the path holds:",
                "add another column to them.",
            )
        self.fault = lru_cache(_REMEMBERED)(self._fault)
        self._kept_values = lru_cache(_REMEMBERED)(self._values)

    def _kept_columns(self, names: Mapping[str, str]) -> tuple[PartitionColumn, ...]:
        """Return the columns of the path that the files get: those of partitions, and others that the records lack."""
        return tuple(
            column
            for column in self._stream.path_typed
            if column.name not in self._stream.path_columns or column.name.lower() not in names
        )

    def file_rows(self, path: str, rows: pa.Table) -> pa.Table:
        """Return the rows as the file of a path has them: with the columns of the path, if these are kept."""
        return self._with(rows, self._kept_values(path)) if self._kept.of_path else rows

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of the files."""
        return self._with(self._none, {c.name: typed_value(c, None) for c in self._kept.of_path}).schema

    def _with(self, rows: pa.Table, path_values: Mapping[str, pa.Scalar]) -> pa.Table:
        for column in self._kept.of_path:
            value = path_values[column.name]
            values = pa.chunked_array([pa.repeat(value, rows.num_rows)], value.type)
            own = self._own.get(column)
            if own is None:
                rows = rows.append_column(column.name, values)
            else:
                rows = rows.set_column(rows.schema.get_field_index(own), column.name, values)
        return rows

    def _values(self, path: str) -> Mapping[str, pa.Scalar]:
        return self._kept.values(f"{path}/file", path, pa.schema([]))

    def refused_rows(self, rows: pa.Table, paths: pa.DictionaryArray) -> RefusedRows | None:
        """Return the rows whose own partition column has another value than their path; None if there are none."""
        codes = paths.indices.to_numpy()
        # The paths of rows that were rejected before are still in the dictionary.
        paths_of = {code: str(paths.dictionary[code]) for code in np.unique(codes).tolist()}
        partitions = {
            c: p for c, path in paths_of.items() if isinstance(p := self._locator.find_of_folder(path), Partition)
        }
        for column, own in self._own.items():
            refused = np.zeros(rows.num_rows, np.bool_)
            values = rows.column(own).combine_chunks()
            if pa.types.is_string_view(values.type):
                values = values.cast(pa.large_string())  # Arrow takes no rows of views
            for code, partition in partitions.items():
                of_path = np.flatnonzero(codes == code)
                value = partition.values[partition.columns.index(column)]
                differs = is_other(values.take(pa.array(of_path)), column, value)
                refused[of_path[differs.to_numpy(zero_copy_only=False)]] = True
            if refused.any():
                row = int(refused.argmax())
                problem = (
                    f"the records' column {own!r} has the value {str(values[row].as_py())!r}, and the layout "
                    f"{self._layout.text!r} puts its record in {paths[row].as_py()}:"
                )
                new = column.type if column.type in TIME_TYPES else "part"
                line = renamed_line(
                    self._stream.partitions, column.name, new if new not in rows.schema.names else f"{new}_of_path"
                )
                return RefusedRows(refused, problem, f"give the partition column another name: partitions: {{{line}}}.")
        return None

    def paths(self, rows: pa.Table, now: dt.datetime) -> pa.DictionaryArray:
        """Return the path of each row. A time outside the years 1 to 9999 is a LayoutError."""
        return self._layout.render(rows, now=now)

    def faults(self, paths: pa.DictionaryArray) -> Sequence[LakeAssetsError | None]:
        """Return why the stream has no partition of a path, for each distinct path; None where it has."""
        return [self.fault(path) for path in paths.dictionary.to_pylist()]

    def _fault(self, path: str) -> LakeAssetsError | None:
        partition = self._locator.find_of_folder(path)
        error = partition if isinstance(partition, LakeAssetsError) else self._calendar.outside(partition)
        # A clock may be ahead of ours: what lands today for tomorrow is ingested tomorrow.
        return None if isinstance(error, FuturePartitionError) else error

    def reason(self, path: str, row: pa.Table) -> str:
        """Return why the stream has no partition of a record, given its path."""
        fault = self.fault(path)
        is_null = isinstance(fault, OutsidePartitionError) and fault.reason == "null_time"
        if is_null or isinstance(fault, LayoutError):  # OLake's paths have such a text as it is
            for column in self._stream.partition_columns:
                source = self._layout.source(column.name)
                if column.type not in TIME_TYPES or source not in row.schema.names:
                    continue
                values = row.column(source)
                # The path of a text that is not a time is that of NULL.
                is_no_time = self._layout.read_rows(column.name, values)[0].as_py() == HIVE_NULL
                if is_no_time and (value := values[0].as_py()) not in {None, ""}:
                    return f"column {source!r} has the value {value!r}, which is not a time"
        return "" if fault is None else fault.problem.rstrip(":")


def as_known(inferred: pa.Schema, stream: OpenStream) -> pa.Schema:
    """Return the columns with the known type of each whose inferred type the stream could not ingest beside it.

    Records whose values do not fit the known type are rejected then, and the others land. The types are known from the
    stream's table, or else from the newest file in the last of the output's folders. Of neither catalog nor output an
    error is raised: the columns are then as inferred.
    """
    of_path = {column.name.lower() for column in (*stream.config.partition_columns, *stream.config.path_typed)}
    known = {field.name.lower(): field.type for field in _known(stream) if field.name.lower() not in of_path}
    rules = stream.landed.rules

    def settled(field: pa.Field) -> pa.Field:
        typed = field.with_type(known.get(field.name.lower(), field.type))
        is_read_from_texts = typed.type in COLUMN_TYPES.values() or pa.types.is_decimal(typed.type)
        return typed if is_read_from_texts and not rules.takes(field, typed) else field

    return pa.schema(map(settled, inferred))


def _known(stream: OpenStream) -> pa.Schema:
    if stream.config.transform is None:  # otherwise the table has other columns than the files
        with suppress(LakeAssetsError), stream.lake.open_if_exists() as lake:
            if lake is not None and lake.exists(stream.table):
                return data_schema(lake, stream.partitioned_table)
    landing = stream.config.landing or Landing()
    store, folder = Store((landing.outputs or (stream.config.source,))[0]), ""
    with suppress(LakeAssetsError):
        while folders := [path for path in store.folders(folder) if not is_hidden((path.rpartition("/")[2],))]:
            folder = folders[-1]
        if objects := store.list(folder, stream.config.files):
            newest = max(objects, key=lambda landed: landed.last_modified)
            return read_schema(Store(store.storage), newest.key)
    return pa.schema([])
