"""Writing data files inside a task: immutable, under names that no other attempt can have."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.config.secrets import masking
from lake_assets.parquet.attempt import discard_unfinished
from lake_assets.parquet.job import DataFile, Job
from lake_assets.parquet.leaves import leaf_types, leaves, no_rows, width
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.failures import storage_errors

# A row group is closed at either limit; the second bounds the memory of a task when rows are wide.
GROUP_ROWS = 1_000_000
GROUP_BYTES = 128 * 2**20  # of Arrow memory


def write_files(batches: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterator[DataFile]:
    """Write batches to new files below a folder of the lake, yielding each file when it is complete.

    No rows, no file. On an error all of them are removed, the unfinished one too: they will never be registered.

    Args:
        batches: rows of the job's schema.
        job: says where and how to write.
        folder: key prefix, ending in a slash.

    Raises:
        StorageUnreachableError: the store failed, also after its client's own retries.
        StorageError: the store refuses, is full, or cannot have such a name.
    """
    store = ArrowStore(job.storage)
    groups = _Groups(row_groups(batches))
    written: list[str] = []
    try:
        with masking(job.source, job.storage):
            while groups.next():
                written.append(job.file_key(folder))
                yield _write_file(groups, store, job, written[-1])
    except BaseException as error:
        discard_unfinished(job.storage, [store.uri(key) for key in written], error)
        raise


class _Groups:
    """Row groups, of which the next can be looked at before it is taken.

    Attributes:
        nan: the leaves of the next that have a NaN, by their places.
    """

    def __init__(self, groups: Iterator[pa.Table]) -> None:
        self._groups = groups
        self._next: pa.Table | None = None
        self.nan: frozenset[int] = frozenset()

    def next(self) -> bool:
        """Whether there is one more."""
        if self._next is None:
            # It is gathered in the memory of the last, not beside it: nobody holds that any more.
            self._next = next(self._groups, None)
            self.nan = _with_nan(self._next)
        return self._next is not None

    def take(self) -> pa.Table:
        """The next one."""
        group, self._next = self._next, None
        return group


def _write_file(groups: _Groups, store: ArrowStore, job: Job, key: str) -> DataFile:
    """One file of the next row groups, up to the target size."""
    silent = groups.nan
    with storage_errors(job.storage, store.uri(key), "written"), ExitStack() as stack:
        sink = stack.enter_context(store.create(key))
        writer = stack.enter_context(
            pq.ParquetWriter(
                sink,
                job.schema,
                compression=job.compression,
                version="2.6",
                store_schema=False,
                write_statistics=_leaf_paths(job.schema, silent) if silent else True,
            )
        )
        rows = _write_group(writer, groups.take())
        # A file has statistics of a column in all its row groups, or in none.
        while sink.tell() < job.target_file_size and groups.next() and groups.nan <= silent:
            rows += _write_group(writer, groups.take())
        writer.close()
        size = sink.tell()
    return DataFile(store.uri(key), rows, size)


def _write_group(writer: pq.ParquetWriter, group: pa.Table) -> int:
    writer.write_table(group, row_group_size=GROUP_ROWS)
    return int(group.num_rows)


def _with_nan(group: pa.Table | None) -> frozenset[int]:
    """Which leaves of the columns have a NaN. Arrow's statistics leave it out, and readers then do not find it."""
    if group is None:
        return frozenset()
    kinds = [kind for field in group.schema for kind in leaf_types(field.type)]
    if not any(map(pa.types.is_floating, kinds)):
        return frozenset()
    found: set[int] = set()
    place = 0
    for column in group.columns:
        wide = width(column.type)
        for number, leaf in enumerate(leaves(column)):  # those of each chunk one after the other
            if pa.types.is_floating(leaf.type) and pc.any(pc.is_nan(leaf)).as_py():
                found.add(place + number % wide)
        place += wide
    return frozenset(found)


def _leaf_paths(schema: pa.Schema, without: frozenset[int]) -> list[str]:
    """Parquet's paths of the leaves but for those at some places."""
    sink = pa.BufferOutputStream()
    pq.write_table(no_rows(schema), sink, version="2.6", store_schema=False)
    parquet = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [parquet.column(place).path for place in range(len(parquet)) if place not in without]


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches gathered into tables of about one row group each: the memory that a writing task takes."""
    gathered: list[pa.RecordBatch] = []
    rows = memory = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if gathered and rows + batch.num_rows > GROUP_ROWS:
            yield pa.Table.from_batches(gathered)
            gathered, rows, memory = [], 0, 0
        gathered.append(batch)
        rows += batch.num_rows
        memory += batch.nbytes
        if memory >= GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, rows, memory = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered)
