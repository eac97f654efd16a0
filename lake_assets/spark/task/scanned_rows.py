"""The rows of a table's data file, read by Arrow without a catalog: a task of Spark reads them from a `ScanFile`.

A column is found by its id in the file, or by the mapping of names, also inside nested columns; a column that the
file is older than has its default.

Source of the rules: DuckLake's specification, "Schema Evolution" and "Column Mapping" in
https://ducklake.select/docs/stable/specification/tables/ducklake_column_mapping.
"""

import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from lake_assets.base.errors import SchemaError, WorkerError
from lake_assets.config.layout.hive import HIVE_NULL, unescape
from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.schema.arrow_types import leaf_count
from lake_assets.schema.casts import cast
from lake_assets.spark.task.conditions import Condition, Extents, fulfilled, may_fulfil
from lake_assets.spark.task.scanned_files import CHANGE, ChangedFile, DeleteFile, MappedColumn, ScanColumn, ScanFile
from lake_assets.storage.formats.landed_rows import BATCH_ROWS
from lake_assets.storage.formats.parquet_files import ParquetRows, opened_object
from lake_assets.storage.store import Store

# Columns that DuckLake adds to files with rows, or deletes, of several snapshots.
_ADDED = "_ducklake_internal_snapshot_id"
_ROW_ID = "_ducklake_internal_row_id"
_IDS = {_ADDED: 2147483539, _ROW_ID: 2147483540}  # of these columns in files
_POSITION = "pos"
_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file has a column: under which name, or as which value; both None: nowhere."""

    column: ScanColumn
    name: str | None = None
    value: pa.Scalar | None = None
    parts: tuple["_Place", ...] = ()


@dataclass(frozen=True)
class RowReader:
    """Reads files of one table; it is sent to the tasks."""

    columns: Sequence[ScanColumn]
    mappings: Mapping[int, Sequence[MappedColumn]]
    storages: Sequence[AnyStorage]
    conditions: Sequence[Condition] = ()  # that wanted rows fulfil; others may be returned nevertheless

    def rows(self, file: ScanFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file with the columns of the table, in their types.

        Raises SourceError if the file is gone or damaged, and StorageError if the storage refuses.
        """
        deleted = self._deleted(file)
        for start, raw, rows in self._read(file, [_ADDED] if file.until is not None else []):
            kept = np.ones(rows.num_rows, bool)
            low, high = np.searchsorted(deleted, (start, start + rows.num_rows))
            kept[deleted[low:high] - start] = False
            if file.until is not None:
                kept &= _numbers(raw, _ADDED, 0) <= file.until
            yield self.wanted(rows if kept.all() else rows.filter(pa.array(kept)))

    def wanted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that fulfil the exact conditions."""
        for condition in self.conditions:
            if condition.is_exact:
                rows = rows.filter(fulfilled(condition, rows.column(condition.column)))
        return rows

    def changes(self, changed: ChangedFile, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that were added or deleted in a range of snapshots, with `CHANGE` before them."""
        deleted, moments = self._deletions(changed)
        end = last + 1 if changed.end is None else changed.end
        schema = pa.schema([*CHANGE, *((column.name, column.type) for column in self.columns)])
        for start, raw, rows in self._read(changed.file, [_ADDED, _ROW_ID]):
            number = raw.num_rows
            ends = np.full(number, end, np.int64)
            low, high = np.searchsorted(deleted, (start, start + number))
            ends[deleted[low:high] - start] = moments[low:high]
            ids = _numbers(raw, _ROW_ID, np.arange(start, start + number) + changed.first_row)
            for kind, at in (("insert", _numbers(raw, _ADDED, changed.begin)), ("delete", ends)):
                if (is_changed := (at >= first) & (at <= last)).any():
                    facts = [pa.array(at), pa.array(ids), pa.repeat(kind, number)]
                    batch = pa.RecordBatch.from_arrays([*facts, *rows.columns], schema=schema)
                    yield batch.filter(pa.array(is_changed))

    def _read(self, file: ScanFile, extra: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch, pa.RecordBatch]]:
        """Yield rows of the row groups that may have wanted ones.

        First the position of a batch in the file, then the batch as it is in the file, with those of the extra columns
        that the file has, then its rows with the columns of the table.
        """
        with self._opened(file.uri, file.key, self.columns, extra) as opened:
            parquet = ParquetRows(opened, file.uri, pre_buffer=True)
            places = self._places(file, parquet)
            names = [place.name for place in places if place.name is not None]
            names += [name for name in extra if name in parquet.parquet.schema_arrow.names]
            schema = pa.schema([(column.name, column.type) for column in self.columns])
            start = 0
            for group in range(parquet.parquet.metadata.num_row_groups):
                number = parquet.parquet.metadata.row_group(group).num_rows
                if self._may_have_rows(parquet, group, places):
                    at = start
                    for batch in self._batches(parquet, group, names, number):
                        columns = [_placed(place, batch) for place in places]
                        yield at, batch, pa.RecordBatch.from_arrays(columns, schema=schema)
                        at += batch.num_rows
                start += number

    @staticmethod
    def _batches(parquet: ParquetRows, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        if names:
            yield from parquet.batches(group, names)
            return
        for start in range(0, rows, BATCH_ROWS):  # only columns that the file lacks
            yield pa.RecordBatch.from_arrays([pa.nulls(min(BATCH_ROWS, rows - start))], ["none"])

    @contextmanager
    def _opened(
        self, uri: str, key: str | None, columns: Sequence[ScanColumn] = (), extra: Sequence[str] = ()
    ) -> Iterator["pa.NativeFile | str"]:
        """Open a file, of an encrypted lake as a decrypted copy: Arrow does not read what DuckDB encrypts."""
        storage = next((s for s in self.storages if uri.startswith(f"{s.root}/")), None)
        if storage is None:
            storage = LocalStorage(path="/") if uri.startswith("/") else self.storages[0]
        store = Store(storage)
        name = uri.removeprefix(store.root).lstrip("/")
        with ExitStack() as stack:
            opened = stack.enter_context(opened_object(store, name))
            if key is None:
                yield opened
                return
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            with (folder / "encrypted").open("wb") as copy:
                while piece := opened.read(2**20):
                    copy.write(piece)
            yield _decrypted(folder, key, columns, extra)

    def _deleted(self, file: ScanFile) -> np.ndarray:
        """Return the positions of deleted rows, in order."""
        positions = [np.asarray(file.positions, np.int64), *map(self._positions, file.deletes)]
        return np.unique(np.concatenate(positions))

    def _positions(self, deletes: DeleteFile) -> np.ndarray:
        positions, moments = self._with_moments(deletes, 0)
        return positions if deletes.until is None else positions[moments <= deletes.until]

    def _deletions(self, changed: ChangedFile) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of deleted rows, in order, and the snapshots that deleted them."""
        found = [self._with_moments(deletes, begin) for begin, deletes in changed.deletes]
        if changed.positions:
            moments, positions = np.asarray(changed.positions, np.int64).T
            found.append((positions, moments))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        positions, moments = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.lexsort((moments, positions))
        positions, moments = positions[order], moments[order]
        is_first = np.append(True, positions[1:] != positions[:-1])  # a later file repeats what one before it has
        return positions[is_first], moments[is_first]

    def _with_moments(self, deletes: DeleteFile, begin: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions in a file of deletes, and the snapshots that deleted them, `begin` if it has none."""
        with self._opened(deletes.uri, deletes.key) as opened:
            table = pq.read_table(opened)
        positions = table.column(_POSITION).to_numpy()
        return positions, _numbers(table, _ADDED, begin)

    def _places(self, file: ScanFile, parquet: ParquetRows) -> list[_Place]:
        own = parquet.parquet.schema_arrow
        if file.key is not None:
            return [_as_it_is(column, own.field(str(column.column_id))) for column in self.columns]
        if file.mapping is not None:
            mapped = self.mappings[file.mapping]
            return [self._by_name(file.uri, column, mapped, None, own) for column in self.columns]
        if any(_ID in (field.metadata or {}) for field in own):
            return [_by_id(column, own) for column in self.columns]
        return [
            _as_it_is(column, own.field(column.name)) if column.name in own.names else _Place(column)
            for column in self.columns
        ]

    def _by_name(
        self,
        uri: str,
        column: ScanColumn,
        mapped: Sequence[MappedColumn],
        parent: int | None,
        fields: "pa.Schema | Sequence[pa.Field]",
    ) -> _Place:
        entry = next((e for e in mapped if e[2] == column.column_id and e[3] == parent), None)
        if entry is None:
            return _Place(column)
        number, source, _, _, is_in_path = entry
        if is_in_path:
            return _Place(column, value=_of_path(uri, source, column))
        own = next((field for field in fields if field.name == source), None)
        if own is None and parent is not None and len(fields) == 1:  # an element, which writers name as they like
            own = fields[0]
        if own is None:
            return _Place(column)
        inner = _inner(own.type)
        parts = tuple(self._by_name(uri, part, mapped, number, inner) for part in column.parts)
        return _Place(column, own.name, parts=parts)

    def _may_have_rows(self, parquet: ParquetRows, group: int, places: Sequence[_Place]) -> bool:
        metadata, own = parquet.parquet.metadata.row_group(group), parquet.parquet.schema_arrow
        for condition in self.conditions:
            place = next((place for place in places if place.column.name == condition.column), None)
            if place is None or place.name is None or place.parts:
                continue
            index = own.get_field_index(place.name)
            leaf = sum(leaf_count(own.field(number).type) for number in range(index))
            facts = metadata.column(leaf).statistics
            if facts is None or own.field(index).type != place.column.type:
                continue
            try:
                bounds = (facts.min, facts.max) if facts.has_min_max else (None, None)
            except OverflowError:  # a time that Python lacks, such as infinity
                continue
            nulls = facts.null_count if facts.has_null_count else None
            values = None if nulls is None else metadata.num_rows - nulls
            known = Extents(place.column.type, [bounds[0]], [bounds[1]], [nulls], [values])
            if not may_fulfil(condition, known)[0]:
                return False
        return True


def changes_as(columns: Sequence[ScanColumn], then: Sequence[ScanColumn], changes: pa.Table) -> pa.Table:
    """Return changes with these columns instead of those that the table had in an earlier snapshot."""
    schema = pa.schema([*CHANGE, *((column.name, column.type) for column in columns)])
    places = [_of_earlier(column, then) for column in columns]
    batches = (
        pa.RecordBatch.from_arrays([*batch.columns[: len(CHANGE)], *(_placed(p, batch) for p in places)], schema=schema)
        for batch in changes.combine_chunks().to_batches()
    )
    return pa.Table.from_batches(batches, schema=schema)


def _of_earlier(column: ScanColumn, then: Sequence[ScanColumn]) -> _Place:
    own = next((earlier for earlier in then if earlier.column_id == column.column_id), None)
    if own is None:
        return _Place(column)
    return _Place(column, own.name, parts=tuple(_of_earlier(part, own.parts) for part in column.parts))


def _as_it_is(column: ScanColumn, own: pa.Field) -> _Place:
    parts = (_as_it_is(part, field) for part, field in zip(column.parts, _inner(own.type), strict=True))
    return _Place(column, own.name, parts=tuple(parts))


def _by_id(column: ScanColumn, fields: "pa.Schema | Sequence[pa.Field]") -> _Place:
    wanted = str(column.column_id).encode()
    own = next((field for field in fields if (field.metadata or {}).get(_ID) == wanted), None)
    if own is None:
        return _Place(column)
    inner = _inner(own.type)
    return _Place(column, own.name, parts=tuple(_by_id(part, inner) for part in column.parts))


def _inner(data_type: pa.DataType) -> Sequence[pa.Field]:
    if t.is_struct(data_type):
        return list(data_type)
    if t.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    return [data_type.value_field] if t.is_list(data_type) or t.is_large_list(data_type) else []


def _of_path(uri: str, folder: str, column: ScanColumn) -> pa.Scalar:
    """Return the value of a partition column in a file's path."""
    for name in uri.split("/")[:-1]:
        key, found, text = name.partition("=")
        if found and unescape(key) == folder:
            value = None if text == HIVE_NULL else unescape(text)
            return cast(pa.array([value], pa.string()), column.type)[0]
    raise SchemaError(f"the path of {uri} has no value of {folder}:", "read by lake_assets.connect.")


def _placed(place: _Place, batch: pa.RecordBatch) -> pa.Array:
    if place.name is None:
        value = place.column.default if place.value is None else place.value
        return pa.repeat(value, batch.num_rows)
    return _converted(place, batch.column(place.name))


def _converted(place: _Place, values: pa.Array) -> pa.Array:
    """Return a column of a file, or a part of one, in the table's type."""
    kind, target = values.type, place.column.type
    if not place.parts:
        return cast(values, target)
    if t.is_struct(kind):
        fields = dict(zip((field.name for field in kind), values.flatten(), strict=True))
        parts = [
            pa.repeat(part.column.default, len(values)) if part.name is None else _converted(part, fields[part.name])
            for part in place.parts
        ]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=values.is_null())
    offsets, mask = pa.array(np.array(values.offsets), values.offsets.type), values.is_null()
    if t.is_map(kind):
        keys, items = (
            _converted(part, inner) for part, inner in zip(place.parts, (values.keys, values.items), strict=True)
        )
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)
    return pa.ListArray.from_arrays(offsets, _converted(place.parts[0], values.values), type=target, mask=mask)


def _numbers(rows: "pa.RecordBatch | pa.Table", name: str, absent: "int | np.ndarray") -> np.ndarray:
    """Return a column of whole numbers; what is NULL, or a column that is not there, has the absent ones."""
    others = np.broadcast_to(np.asarray(absent, np.int64), rows.num_rows)
    if name not in rows.schema.names:
        return others
    column = rows.column(name)
    if not column.null_count:
        return np.asarray(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column, np.int64)
    return np.where(np.asarray(column.is_null()), others, np.asarray(column.fill_null(0), np.int64))


def _decrypted(folder: Path, key: str, columns: Sequence[ScanColumn], extra: Sequence[str]) -> str:
    try:
        # No other task needs DuckDB.
        from lake_assets.spark.task.decryption import decrypted  # noqa: PLC0415
    except ImportError as error:
        raise WorkerError(
            f"files of an encrypted lake are decrypted by DuckDB, and the worker at {socket.gethostname()} lacks it "
            f"({error}):",
            "install duckdb there, in the version of this machine.",
        ) from error
    ids = {_IDS[name]: name for name in extra}
    return decrypted(folder, key, columns, ids)
