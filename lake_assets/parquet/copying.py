"""The work of a task that copies landed objects which can be data files of the table as they are."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from lake_assets.config.secrets import masking
from lake_assets.config.storages import LocalStorage
from lake_assets.errors import SchemaError
from lake_assets.escapes import visible_name
from lake_assets.parquet import footers
from lake_assets.parquet.as_is import Candidate, UnfitError
from lake_assets.parquet.attempt import discard, discard_unfinished
from lake_assets.parquet.job import DataFile, Job
from lake_assets.parquet.landed_rows import Share
from lake_assets.parquet.parquet_files import TAIL, ParquetRows
from lake_assets.parquet.read import readable
from lake_assets.parquet.shares import FETCHED, digest_of_file
from lake_assets.parquet.task import Bin, Refusal, Report, encode, reported
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import Original
from lake_assets.storage.server_copies import copy_object
from lake_assets.storage.store import Store
from lake_assets.storage.web import RangeFile

_COPIES = 16  # at a time in a task: mostly network latency, or the disk's
_WHOLE = FETCHED // _COPIES  # bytes of an object that is fetched by one request


def copy_or_encode(job: Job, bins: Iterable[Bin], threads: int = 1) -> Iterator[Report]:
    """Copy the objects of the bins that say so, and rewrite the rows of the others; arguments as of `encode`."""
    copied: list[Bin] = []

    def others() -> Iterator[Bin]:
        for item in bins:
            if item.copies:
                copied.append(item)
            else:
                yield item

    yield from encode(job, others(), threads)
    for item in copied:
        notes = _Notes()
        yield from reported(item.index, _files(job, item, notes))
        if notes.rows:
            yield Report(item.index, rows=notes.rows, digests=notes.digests)
        yield from (Report(item.index, refusal=refusal) for refusal in notes.refusals)


@dataclass
class _Notes:
    """What is known of the objects of a bin."""

    refusals: list[Refusal] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)  # by key
    digests: dict[str, str] = field(default_factory=dict)  # by key


def _files(job: Job, item: Bin, notes: _Notes) -> Iterator[DataFile]:
    """Yield the copies of a bin's objects, and note their rows; an object without rows needs none."""
    with ThreadPoolExecutor(_COPIES) as pool:
        futures = [pool.submit(_copy, job, item, share) for share in item.shares]
        try:
            for future, share in zip(futures, item.shares, strict=True):
                result = future.result()
                if isinstance(result, Refusal):
                    notes.refusals.append(result)
                    continue
                notes.rows[share.key] = 0 if result is None else result.rows
                notes.digests |= digest_of_file(job, share)
                if result is not None:
                    yield result
        except BaseException:
            pool.shutdown(cancel_futures=True)
            done = [future.result() for future in futures if not future.cancelled() and future.exception() is None]
            discard(job.storage, [result.uri for result in done if isinstance(result, DataFile)])
            raise


def _copy(job: Job, item: Bin, share: Share) -> DataFile | Refusal | None:
    assert job.copies is not None  # noqa: S101 - the caller copies
    source = Store(job.landed.storage)
    uri = source.uri(share.key)
    origin = f"the object {visible_name(uri)}"
    with masking(job.landed.storage), readable(job.landed.storage, uri), _opened(source, share) as file:
        rows = ParquetRows(file, origin)
        try:
            file.seek(share.size - TAIL)
            length = int.from_bytes(file.read(4), "little")
            candidate = Candidate(rows, share.size, length, job, item.partition, origin)
            footer = _footer(file, share.size, length)
            candidate.check_values(reads_pages=job.copies.reads_pages)
        except UnfitError as error:
            return Refusal(share.key, str(error))
        except SchemaError as error:
            if job.letters is None:
                raise
            return Refusal(share.key, str(error))  # the encoding job separates its rows
    if not candidate.num_rows:
        return None
    key = job.file_key(item.destination)
    copy = f"{job.storage.root}/{key}"
    try:
        original = Original(share.key, share.etag, share.size)
        copy_object(job.landed.storage, original, job.storage, key, may_link=job.copies.may_link)
    except BaseException as error:
        discard_unfinished(job.storage, [copy], error)
        raise
    return DataFile(copy, candidate.num_rows, share.size, is_copy=True, footer=footer)


def _footer(file: pa.NativeFile, size: int, length: int) -> bytes | None:
    """Return the footer of an object, for the commit of its copy; None if it is large."""
    if length > footers.MOST:
        return None
    file.seek(size - TAIL - length)
    return footers.of_bytes(file.read(length))


def _opened(store: Store, share: Share) -> pa.NativeFile:
    """Return the object for random access, only while it has the ETag of the listing."""
    if isinstance(store.storage, LocalStorage):
        found = store.find(share.key)
        if found is None or found.etag != share.etag:
            raise store.changed(share.key)
        return ArrowStore(store.storage).open(share.key)  # the copy compares the file before and after
    if share.size <= _WHOLE:
        return pa.BufferReader(pa.py_buffer(store.get(share.key, share.etag)))
    ranges = RangeFile(share.size, lambda start, end: store.get_range(share.key, share.etag, start, end).to_bytes())
    return pa.PythonFile(ranges, mode="r")
