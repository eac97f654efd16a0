"""Staged files, written inside a task for a lake that takes rows by INSERT only.

DuckDB encrypts them with a key that exists only during the run. DuckDB also reads them, because DuckDB and pyarrow
cannot read each other's encrypted Parquet.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from lake_assets.config.secrets import masking
from lake_assets.duckdb_engine import open_engine
from lake_assets.errors import StorageError
from lake_assets.parquet.attempt import discard_unfinished
from lake_assets.parquet.job import DataFile, Job
from lake_assets.parquet.write import row_groups
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.storage_errors import reason, storage_errors

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
    assert job.key is not None  # noqa: S101 - the caller checks
    store = ArrowStore(job.storage)
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
            with (
                path.open("rb") as source,
                storage_errors(job.storage, store.uri(key), "write"),
                store.create(key) as sink,
            ):
                shutil.copyfileobj(source, sink, COPIED)
            yield DataFile(store.uri(key), rows, size)
