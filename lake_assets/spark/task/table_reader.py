"""What a task of Spark's data source does: it reads files of a table, or the changes of some."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.base.errors import CatalogError, SourceChangedError
from lake_assets.schema.arrow_types import has_nanoseconds
from lake_assets.schema.casts import cast
from lake_assets.spark.task.scanned_files import CHANGE, ChangedFile, ScanFile
from lake_assets.spark.task.scanned_rows import RowReader


@dataclass(frozen=True)
class TableWork:
    """What one task reads: files, or the changes of some, and rows that are in none."""

    reader: RowReader
    files: Sequence[ScanFile] = ()
    changes: Sequence[ChangedFile] = ()
    rows: pa.Table | None = None


class WorkPartition(Protocol):
    """What Spark's `InputPartition` is."""

    value: TableWork


@dataclass(frozen=True)
class SourceName:
    """What a task gets of Spark's data source, for Spark's own errors."""

    text: str

    def name(self) -> str:
        """Return the name of the format."""
        return self.text


@dataclass(frozen=True)
class TableReader:
    """Reads a table in a snapshot, or its changes from a first snapshot to this one."""

    table: str
    snapshot: int
    first: int | None
    schema: pa.Schema  # of the rows, in types that Spark takes

    def read(self, partition: WorkPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task.

        Raises CatalogError if a file was removed, SourceError if one is damaged, and StorageError if the storage
        refuses.
        """
        pa.set_cpu_count(1)
        work = partition.value
        for batch in self._rows(work) if self.first is None else self._changes(work, self.first):
            columns = [_given(values, field.type) for values, field in zip(batch.columns, self.schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _rows(self, work: TableWork) -> Iterator[pa.RecordBatch]:
        yield from map(work.reader.wanted, [] if work.rows is None else work.rows.to_batches())
        for file in work.files:
            with self._named(file):
                yield from work.reader.rows(file)

    def _changes(self, work: TableWork, first: int) -> Iterator[pa.RecordBatch]:
        """Yield changes. A row that was deleted and added in one snapshot was updated."""

        def read(reader: RowReader, inlined: pa.Table | None) -> Iterator[pa.RecordBatch]:
            yield from [] if inlined is None else inlined.to_batches()
            for changed in work.changes:
                with self._named(changed.file):
                    yield from reader.changes(changed, first, self.snapshot)

        updated: Mapping[int, pa.Array] = {}
        # A single file has both rows of an update only if it has those of several snapshots.
        if work.rows is not None or len(work.changes) > 1 or any(c.file.until is not None for c in work.changes):
            ids = read(replace(work.reader, columns=()), None if work.rows is None else work.rows.select(CHANGE.names))
            updated = _updated(pa.Table.from_batches(ids, schema=CHANGE))
        for batch in read(work.reader, work.rows):
            yield _with_updates(batch, updated) if updated else batch

    @contextmanager
    def _named(self, file: ScanFile) -> Iterator[None]:
        try:
            yield
        except SourceChangedError as error:
            raise CatalogError(
                f"{file.uri} was removed while Spark read {self.table} in snapshot {self.snapshot}:",
                "read the table again; `maintenance.expire_older_than` and `delete_older_than` keep files for longer.",
            ) from error


def _given(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values in a type of Spark, which has microseconds: finer digits of times are cut off."""
    if has_nanoseconds(values.type):
        values = values.cast(_in_microseconds(values.type), safe=False)
    return cast(values, data_type)


def _in_microseconds(data_type: pa.DataType) -> pa.DataType:
    if t.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if t.is_struct(data_type):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in data_type])
    if t.is_map(data_type):
        return pa.map_(*map(_in_microseconds, (data_type.key_type, data_type.item_type)))
    return pa.list_(_in_microseconds(data_type.value_type)) if t.is_list(data_type) else data_type


def _updated(changes: pa.Table) -> Mapping[int, pa.Array]:
    """Return the ids of rows that were both deleted and added in a snapshot, by its number."""
    counts = changes.group_by(["snapshot_id", "rowid"]).aggregate([("change_type", "count_distinct")])
    twice = counts.filter(pc.greater(counts.column("change_type_count_distinct"), 1))
    numbers = twice.column("snapshot_id")
    return {
        at: twice.filter(pc.equal(numbers, at)).column("rowid").combine_chunks() for at in numbers.unique().to_pylist()
    }


def _with_updates(batch: pa.RecordBatch, updated: Mapping[int, pa.Array]) -> pa.RecordBatch:
    moments, ids, kinds = batch.columns[:3]
    images = pc.if_else(pc.equal(kinds, "insert"), "update_postimage", "update_preimage")
    for at in moments.unique().to_pylist():
        if at in updated:
            is_update = pc.and_(pc.equal(moments, at), pc.is_in(ids, updated[at]))
            kinds = pc.if_else(is_update, images, kinds)
    return batch.set_column(2, "change_type", kinds)
