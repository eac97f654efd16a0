"""Writing staged files inside a task: rows on their way into a lake that takes them by INSERT only.

They are encrypted by DuckDB under the run's own key, which nobody keeps: DuckDB and pyarrow cannot read each other's
encrypted Parquet, and DuckDB is who reads them.
"""

import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from lake_assets.config.secrets import masking
from lake_assets.engine import open_engine
from lake_assets.errors import SourceError
from lake_assets.spark.job import DataFile, Job
from lake_assets.storage.arrow import ArrowStore

COPIED = 8 * 2**20  # bytes at a time


def stage_files(batches: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterator[DataFile]:
    """Write batches to new encrypted files below a folder of the job's storage.

    They are made in this machine's temporary folder, where they are encrypted too, and then copied. No rows, no file.

    Args:
        batches: rows of the job's schema.
        job: says where and how to write, and under which key.
        folder: key prefix, ending in a slash.

    Raises:
        LakeAssetsError: what the batches raise.
        OSError: the store failed.
    """
    store = ArrowStore(job.storage)
    with masking(job.source, job.storage), tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary:
        for path, rows in _write(batches, job, Path(temporary, "staged")):
            key = f"{folder}{job.run_id}-{uuid.uuid4().hex}.parquet"
            size = path.stat().st_size
            with path.open("rb") as source, store.create(key) as sink:
                shutil.copyfileobj(source, sink, COPIED)
            path.unlink()
            yield DataFile(store.uri(key), rows, size)


def _write(batches: Iterable[pa.RecordBatch], job: Job, folder: Path) -> Iterator[tuple[Path, int]]:
    """The files of a local folder, each about the target size, with their rows."""
    raised: list[Exception] = []

    def watched() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except Exception as error:
            raised.append(error)  # DuckDB makes a text of it
            raise

    # httpfs has the cryptography with which DuckDB writes.
    with open_engine(("httpfs",)) as engine:
        # One thread, so that no more than one row group is in memory, as in other tasks.
        engine.execute("SET threads = 1")
        engine.register("rows", pa.RecordBatchReader.from_batches(job.schema, watched()))
        try:
            written = engine.execute(
                "COPY rows TO ? (FORMAT parquet, COMPRESSION ?, FILE_SIZE_BYTES ?, RETURN_STATS, "
                "ENCRYPTION_CONFIG {footer_key_value: ?})",
                [str(folder), _codec(job.compression), f"{job.target_file_size // 1024}KiB", job.key],
            ).fetchall()
        except duckdb.Error as error:
            if raised:
                raise raised[0] from error
            raise SourceError(f"the rows cannot be staged: {str(error).splitlines()[0]}.") from error
    for name, rows, *_ in written:
        if rows:
            yield Path(name), rows


def _codec(compression: str) -> str:
    return "uncompressed" if compression == "none" else compression
