"""Writing staged files inside a task: rows on their way into a lake that takes them by INSERT only.

They are encrypted by DuckDB under the run's own key, which nobody keeps: DuckDB and pyarrow cannot read each other's
encrypted Parquet, and DuckDB is who reads them.
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
from lake_assets.storage.failures import reason, storage_errors

COPIED = 8 * 2**20  # bytes at a time


def stage_files(batches: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterator[DataFile]:
    """Write batches to new encrypted files below a folder of the job's storage, a row group each.

    They are made in this machine's temporary folder, where they are encrypted too, and then copied. No rows, no file.
    On an error all of them are removed.

    Args:
        batches: rows of the job's schema.
        job: says where and how to write, and under which key.
        folder: key prefix, ending in a slash.

    Raises:
        StorageUnreachableError: the store failed, also after its client's own retries.
        StorageError: the store refuses or is full, or this machine's temporary folder is.
    """
    written: list[str] = []
    try:
        yield from _stage(batches, job, folder, written)
    except BaseException as error:
        discard_unfinished(job.storage, written, error)
        raise


def _stage(batches: Iterable[pa.RecordBatch], job: Job, folder: str, written: list[str]) -> Iterator[DataFile]:
    assert job.key is not None  # noqa: S101 - the caller looked
    store = ArrowStore(job.storage)
    codec = "uncompressed" if job.compression == "none" else job.compression
    with (
        masking(job.source, job.storage),
        tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary,
        open_engine(("httpfs",)) as engine,  # which has the cryptography with which DuckDB writes
    ):
        path = Path(temporary, "staged.parquet")
        for group in row_groups(batches):
            # A COPY of more keeps some memory of each row group to its end.
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
            del group  # the next one is gathered in its memory, not beside it
            key = job.file_key(folder)
            written.append(store.uri(key))
            with (
                path.open("rb") as source,
                storage_errors(job.storage, store.uri(key), "written"),
                store.create(key) as sink,
            ):
                shutil.copyfileobj(source, sink, COPIED)
            yield DataFile(store.uri(key), rows, size)
