"""Data files, written inside a task under names that no other attempt can have; and the staged files of a run.

Of staged files here are the folder, the encryption key, and the removal of those that a killed run left.
"""

import datetime as dt
import re
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.base.errors import StorageError
from lake_assets.config.secrets import masking
from lake_assets.config.storages import AnyStorage
from lake_assets.schema.arrow_types import (
    combined_table,
    leaf_count,
    leaf_types,
    leaves,
    no_rows,
    schema_with_dictionaries,
    table_with_dictionaries,
    unrepeated_leaves,
    without_dictionary,
)
from lake_assets.schema.column_rules import SortKey
from lake_assets.spark.task.job import DataFile, Job, discard_unfinished
from lake_assets.storage.formats.parquet_footers import written_footer
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.storage_errors import reason, write_errors
from lake_assets.storage.store import Store, kept_store

STAGING_FOLDER = "_staging/"  # below the staging storage's root; readers of data ignore this name

_STAGED = re.compile(r"_staging/[0-9a-f]{32}/[^/]+\.parquet")


class Staging:
    """The staged files of one run."""

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        self.folder = f"{STAGING_FOLDER}{uuid.uuid4().hex}/"  # key prefix of this run's files, ending in a slash
        self.key = secrets.token_bytes(16)  # encrypts the files; it exists only in the memory of this run and its tasks

    def clear(self) -> None:
        """Remove the staged files. Maintenance removes those that the store does not let go."""
        store = Store(self.storage)
        with suppress(StorageError):
            store.delete(tuple(obj.key for obj in store.list(self.folder)))
            store.abort_uploads(self.folder)
        if self.storage.is_local:
            for folder in (Path(store.root, self.folder), Path(store.root, STAGING_FOLDER)):
                with suppress(OSError):  # it does not exist, or another run uses it
                    folder.rmdir()


def leftovers(storage: AnyStorage, before: dt.datetime) -> Sequence[LandedObject]:
    """Return the staged files that are older than `before`: killed runs left them."""
    if storage.is_local and not Path(storage.root, STAGING_FOLDER).is_dir():
        return ()
    listed = Store(storage).list(STAGING_FOLDER)
    return [obj for obj in listed if obj.last_modified < before and _STAGED.fullmatch(obj.key)]


# A row group ends at either limit. The second one bounds the memory of a task if rows are wide.
GROUP_ROWS = 1_000_000
GROUP_BYTES = 128 * 2**20  # of Arrow memory
RUN_BYTES = 256 * 2**20  # of Arrow memory that is sorted at once; it bounds the memory of a task
SORTED_ROWS = 100_000  # of sorted rows


def write_files(batches: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterator[DataFile]:
    """Write batches to new files below a folder (a key prefix with a slash at its end); yields each complete file.

    Without rows no file is written. On an error all files are removed, because they will never be registered.
    """
    store = kept_store(job.storage)
    groups = _Groups(row_groups(_sorted_runs(batches, job.landed.rules.order)))
    written: list[str] = []
    try:
        with masking(job.landed.storage, job.storage):
            while groups.next():
                written.append(job.file_key(folder))
                yield _write_file(groups, store, job, written[-1])
    except BaseException as error:
        discard_unfinished(job.storage, [store.uri(key) for key in written], error)
        raise


def _sorted_runs(batches: Iterable[pa.RecordBatch], order: Sequence[SortKey]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in runs of 256 MB, each of them sorted; as they are if there is no order.

    A key that the rows lack is of their partition, and the same for all. A nested column ends the order before it.
    """
    if not order:
        yield from batches
        return
    gathered: list[pa.RecordBatch] = []
    memory = 0
    for batch in batches:
        gathered.append(batch)
        memory += batch.nbytes
        if memory >= RUN_BYTES:
            yield from _sorted(gathered, order)
            memory = 0
    if gathered:
        yield from _sorted(gathered, order)


def _sorted(gathered: list[pa.RecordBatch], order: Sequence[SortKey]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batches, sorted; the list is emptied, so that their memory is released."""
    rows = combined_table(gathered)
    gathered.clear()
    names = {name.lower(): name for name in rows.schema.names}
    values, keys = [], []
    for key in order:
        name = names.get(key.column.lower())
        if name is None:
            continue
        if pa.types.is_nested(kind := without_dictionary(rows.schema.field(name).type)):
            break
        column = rows.column(name).cast(kind)
        # Arrow has one place for the NULLs of all keys.
        values += [column.is_null(), column]
        keys += ["descending" if first else "ascending" for first in (key.has_nulls_first, key.is_descending)]
    if values:
        by = pa.Table.from_arrays(values, [str(number) for number in range(len(values))])
        positions = pc.sort_indices(by, [(name, way) for name, way in zip(by.schema.names, keys, strict=True)])
        rows = rows.take(positions)
    yield from rows.to_batches(SORTED_ROWS)


class _Groups:
    """Row groups, with a preview of the next one."""

    def __init__(self, groups: Iterator[pa.Table]) -> None:
        self._groups = groups
        self._next: pa.Table | None = None
        self.nan: frozenset[int] = frozenset()  # the positions of the leaves of the next row group that have a NaN

    def next(self) -> bool:
        """Return whether there is a further row group."""
        if self._next is None:
            # The last one has been released, so that only one is in memory.
            self._next = next(self._groups, None)
            self.nan = _with_nan(self._next)
        return self._next is not None

    def take(self) -> pa.Table:
        """Return the next row group."""
        group, self._next = self._next, None
        return group


def _write_file(groups: _Groups, store: Store, job: Job, key: str) -> DataFile:
    """Write one file of the next row groups, up to the target size."""
    nan = groups.nan
    with write_errors(job.storage, store.uri(key)), ExitStack() as stack:
        sink = stack.enter_context(store.create(key))
        first = groups.take()
        unrepeated = unrepeated_leaves(first)
        writer = stack.enter_context(
            pq.ParquetWriter(
                sink,
                schema_with_dictionaries(job.schema, first),
                compression=job.compression,
                version="2.6",
                store_schema=False,
                use_dictionary=_leaf_paths(job.schema, unrepeated) if unrepeated else True,
                write_statistics=_leaf_paths(job.schema, nan) if nan else True,
            )
        )
        rows = _write_group(writer, first)
        del first
        # A column has statistics in all row groups of a file, or in none.
        while sink.tell() < job.target_file_size and groups.next() and groups.nan <= nan:
            rows += _write_group(writer, groups.take())
        writer.close()
        # Not by a `metadata_collector`: if `close` fails, the stack closes again, and the collector hides the cause.
        footer = written_footer(writer.writer.metadata)
        size = sink.tell()
    return DataFile(store.uri(key), rows, size, footer=footer)


def _write_group(writer: pq.ParquetWriter, group: pa.Table) -> int:
    writer.write_table(table_with_dictionaries(group, writer.schema), row_group_size=GROUP_ROWS)
    return int(group.num_rows)


def _with_nan(group: pa.Table | None) -> frozenset[int]:
    """Return the positions of leaves with a NaN. Arrow's statistics omit NaN, so readers would skip the file."""
    if group is None:
        return frozenset()
    kinds = [kind for field in group.schema for kind in leaf_types(field.type)]
    if not any(map(pa.types.is_floating, kinds)):
        return frozenset()
    positions: set[int] = set()
    first = 0
    for column in group.columns:
        count = leaf_count(column.type)
        for number, leaf in enumerate(leaves(column)):  # chunk by chunk
            if pa.types.is_floating(leaf.type) and pc.any(pc.is_nan(leaf)).as_py():
                positions.add(first + number % count)
        first += count
    return frozenset(positions)


def _leaf_paths(schema: pa.Schema, without: frozenset[int]) -> list[str]:
    """Return Parquet's paths of the leaves, without those at some positions."""
    paths = schema.names
    if any(map(pa.types.is_nested, schema.types)):
        parquet = parquet_schema(schema)
        paths = [parquet.column(index).path for index in range(len(parquet))]
    return [path for index, path in enumerate(paths) if index not in without]


def parquet_schema(schema: pa.Schema) -> pq.ParquetSchema:
    """Return Parquet's schema of a data file."""
    sink = pa.BufferOutputStream()
    pq.write_table(no_rows(schema), sink, version="2.6", store_schema=False)
    return pq.read_metadata(pa.BufferReader(sink.getvalue())).schema


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches combined into tables of about one row group each, which bound the memory of a task."""
    gathered: list[pa.RecordBatch] = []
    rows = memory = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if gathered and rows + batch.num_rows > GROUP_ROWS:
            yield _emptied(gathered)
            rows = memory = 0
        gathered.append(batch)
        rows += batch.num_rows
        memory += batch.nbytes
        if memory >= GROUP_BYTES:
            yield _emptied(gathered)
            rows = memory = 0
    if gathered:
        yield _emptied(gathered)


def _emptied(gathered: list[pa.RecordBatch]) -> pa.Table:
    """Return the batches as one table. The list is emptied, so that their memory is released with the table's."""
    table = combined_table(gathered)
    gathered.clear()
    return table


COPIED = 8 * 2**20  # bytes at a time


def stage_files(batches: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterator[DataFile]:
    """Write batches to new encrypted files below a folder (a key prefix with a slash at its end), a row group each.

    Each file is written, encrypted, to this machine's temporary folder, and then copied to the job's storage. Without
    rows no file is written. On an error all files are removed.
    """
    written: list[str] = []
    try:
        yield from _stage(batches, job, folder, written)
    except BaseException as error:
        discard_unfinished(job.storage, written, error)
        raise


def _stage(batches: Iterable[pa.RecordBatch], job: Job, folder: str, written: list[str]) -> Iterator[DataFile]:
    import duckdb  # noqa: PLC0415 - tasks that write the lake's own files need none

    from lake_assets.base.duckdb_engine import open_engine  # noqa: PLC0415

    assert job.key is not None  # noqa: S101 - the caller checks
    store = kept_store(job.storage)
    codec = "uncompressed" if job.compression == "none" else job.compression
    with (
        masking(job.landed.storage, job.storage),
        tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary,
        open_engine(("httpfs",)) as engine,  # it has the cryptography that DuckDB needs to write
    ):
        path = Path(temporary, "staged.parquet")
        for group in row_groups(batches):
            # A COPY of several row groups keeps memory of each until it ends.
            engine.register("rows", group)
            try:
                engine.execute(
                    "COPY rows TO ? (FORMAT parquet, COMPRESSION ?, ENCRYPTION_CONFIG {footer_key_value: ?})",
                    [str(path), codec, job.key.value],
                )
            except duckdb.IOException as error:
                raise StorageError(
                    f"rows cannot be encrypted in the temporary folder {temporary}: {reason(error)}:",
                    "free space there, or set TMPDIR of Spark's workers to a larger folder.",
                ) from error
            engine.unregister("rows")
            rows, size = group.num_rows, path.stat().st_size
            del group  # frees its memory for the next one
            key = job.file_key(folder)
            written.append(store.uri(key))
            with path.open("rb") as source, write_errors(job.storage, store.uri(key)), store.create(key) as sink:
                shutil.copyfileobj(source, sink, COPIED)
            yield DataFile(store.uri(key), rows, size)
