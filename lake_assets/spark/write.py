"""Writing data files inside a task: immutable, under names that no other attempt can have."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.config.secrets import masking
from lake_assets.spark.job import DataFile, Job
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.failures import storage_errors

# A row group is closed at either limit; the second bounds the memory of a task when rows are wide.
GROUP_ROWS = 1_000_000
GROUP_BYTES = 128 * 2**20  # of Arrow memory


def write_files(batches: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterator[DataFile]:
    """Write batches to new files below a folder of the lake, yielding each file when it is complete.

    No rows, no file. A file that an error leaves unfinished is nobody's: it is never registered.

    Args:
        batches: rows of the job's schema.
        job: says where and how to write.
        folder: key prefix, ending in a slash.

    Raises:
        StorageUnreachableError: the store failed, also after its client's own retries.
        StorageError: the store refuses, is full, or cannot have such a name.
    """
    store = ArrowStore(job.storage)
    groups = row_groups(batches)
    with masking(job.source, job.storage):
        while (file := _write_file(groups, store, job, folder)) is not None:
            yield file


def _write_file(groups: Iterator[pa.Table], store: ArrowStore, job: Job, folder: str) -> DataFile | None:
    """One file of the next row groups, up to the target size; None when there are no more."""
    group = next(groups, None)
    if group is None:
        return None
    key = f"{folder}{job.run_id}-{uuid.uuid4().hex}.parquet"
    rows = 0
    with storage_errors(job.storage, store.uri(key), "written"), ExitStack() as stack:
        sink = stack.enter_context(store.create(key))
        writer = stack.enter_context(
            pq.ParquetWriter(sink, job.schema, compression=job.compression, version="2.6", store_schema=False)
        )
        while group is not None:
            writer.write_table(group, row_group_size=GROUP_ROWS)
            rows += group.num_rows
            # The next group is gathered in the memory of this one, not beside it.
            group = None
            if sink.tell() < job.target_file_size:
                group = next(groups, None)
        writer.close()
        size = sink.tell()
    return DataFile(store.uri(key), rows, size)


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
