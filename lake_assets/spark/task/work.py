"""The work of one task of a job: it reads landed objects, and writes data files. Spark only distributes the work."""

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue

import pyarrow as pa

from lake_assets.base.errors import (
    LakeAssetsError,
    SchemaDriftError,
    SourceChangedError,
    SourceError,
    StorageUnreachableError,
)
from lake_assets.config.layout.partition import Partition
from lake_assets.spark.task.bad_row_sink import DROPPED, BadRowSink, sink_of
from lake_assets.spark.task.job import DataFile, Job, LetterFile, discard_written
from lake_assets.spark.task.share_reader import SMALL_OBJECT, ShareReader
from lake_assets.spark.task.write import stage_files, write_files
from lake_assets.storage.formats.landed_rows import Share

_AHEAD = 8  # bins of a task whose requests to a remote store overlap; it encodes one after the other


@dataclass(frozen=True, slots=True)
class Bin:
    """Shares of one partition's objects, whose rows one task writes as files of their own."""

    index: int  # the partition's place in the job
    partition: Partition
    destination: str  # as in `PartitionJob`
    shares: tuple[Share, ...]
    copies: bool = False  # the shares are whole objects, to be copied if they can be data files as they are


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that cannot be a data file as it is."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Timing:
    """When and where a task was executed."""

    host: str
    began: float  # seconds since 1970, by the worker's clock
    seconds: float
    files: int  # complete ones
    rows: int  # of these files
    size: int  # of these files, in bytes
    tries: int  # of the task before this one


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task reports about a partition: a complete file, an error that would come again, or a refusal to copy.

    A complete file has rows of the lake, or rows that were left out. The last report of a task is about itself.
    """

    index: int  # the partition's place in the job; -1 for the task itself
    file: DataFile | None = None
    letter: LetterFile | None = None
    refusal: Refusal | None = None
    rows: Mapping[str, int] | None = None  # that were read, with those that do not fit, by the objects' keys
    digests: Mapping[str, str] | None = None  # of objects' content, by key
    error: LakeAssetsError | None = None
    timing: Timing | None = None


Task = Callable[[Job, Iterator[Bin]], Iterator[TaskReport]]
"""Does the work of some bins of a job. It pickles, and runs in a Python worker of Spark."""


def encode(job: Job, bins: Iterable[Bin], threads: int = 1) -> Iterator[TaskReport]:
    """Rewrite the rows of the bins as data files of the table; a small object is decoded in so many threads.

    Raises StorageUnreachableError if a storage failed; another try of the task may succeed.
    """
    pa.set_cpu_count(1)
    is_local = job.landed.storage.is_local and job.storage.is_local
    is_in_turn = is_local or job.key is not None
    readers: SimpleQueue[ShareReader] = SimpleQueue()
    for _ in range(1 if is_in_turn else _AHEAD):
        readers.put(ShareReader(job, job.schema, threads=threads, dictionaries=job.key is None))

    def work(item: Bin) -> Iterator[TaskReport]:
        sink = sink_of(job, item.partition)
        reader = readers.get()
        try:
            reader.rows.clear()
            reader.digests.clear()
            rows = reader.read(item.shares, item.partition, sink)
            yield from reported(item.index, write(rows, job, item.destination), sink)
            yield TaskReport(item.index, rows=dict(reader.rows), digests=dict(reader.digests))
        finally:
            readers.put(reader)

    yield from chain.from_iterable(map(work, bins)) if is_in_turn else _overlapping(job, work, bins)


def _overlapping(job: Job, work: Callable[[Bin], Iterator[TaskReport]], bins: Iterable[Bin]) -> Iterator[TaskReport]:
    """Yield the reports of bins in their order; of those with few bytes, some wait for their requests together."""
    ahead: deque[Future[list[TaskReport]]] = deque()
    with ThreadPoolExecutor(_AHEAD) as pool:
        try:
            for item in bins:
                is_small = sum(share.landed.size for share in item.shares) <= SMALL_OBJECT
                if is_small:
                    ahead.append(pool.submit(lambda small: list(work(small)), item))
                while len(ahead) > _AHEAD or (ahead and not is_small):
                    yield from ahead[0].result()
                    ahead.popleft()
                if not is_small:
                    yield from work(item)
            while ahead:
                yield from ahead[0].result()
                ahead.popleft()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            ended = [future.result() for future in ahead if not future.cancelled() and future.exception() is None]
            unreported = list(chain.from_iterable(ended))
            files = [report.file.uri for report in unreported if report.file is not None]
            letters = [report.letter.uri for report in unreported if report.letter is not None]
            discard_written(job, files, letters)
            raise


def write_dead_letters(job: Job, bins: Iterable[Bin], schema: pa.Schema) -> Iterator[TaskReport]:
    """Write the rows of the bins that do not fit a schema as dead letters, and nothing else."""
    pa.set_cpu_count(1)
    reader = ShareReader(job, schema)
    for item in bins:
        sink = sink_of(job, item.partition)
        # Without a row there is no file.
        files = (file for _ in reader.read(item.shares, item.partition, sink) for file in list[DataFile]())
        yield from reported(item.index, files, sink)


def examine_objects(job: Job, bins: Iterable[Bin], schema: pa.Schema, *, refuses_drift: bool) -> Iterator[TaskReport]:
    """Read each share of the bins as the job does, and report the objects that are damaged or do not fit.

    With `refuses_drift` it reports objects whose columns the table does not have yet, too.
    """
    pa.set_cpu_count(1)
    reader = ShareReader(job, schema)
    for item in bins:
        for share in item.shares:
            try:
                for _ in reader.read((share,), item.partition):
                    pass
            except StorageUnreachableError:
                raise
            except SchemaDriftError as error:
                if refuses_drift:
                    yield TaskReport(item.index, refusal=Refusal(share.landed.key, str(error)))
            except LakeAssetsError as error:
                if isinstance(error, SourceError) and not isinstance(error, SourceChangedError):
                    yield TaskReport(item.index, refusal=Refusal(share.landed.key, str(error)))
                else:
                    yield TaskReport(item.index, error=error)


def write(rows: Iterable[pa.RecordBatch], job: Job, folder: str) -> Iterable[DataFile]:
    """Write the rows as data files of the table, or as staged files."""
    return (write_files if job.key is None else stage_files)(rows, job, folder)


def reported(index: int, files: Iterable[DataFile], sink: BadRowSink = DROPPED) -> Iterator[TaskReport]:
    """Report each file, and a permanent error. A temporary error is raised, and Spark tries the task again.

    The files of the sink are complete when there are no more others; they are removed if there is an error.
    """
    try:
        for file in files:
            yield TaskReport(index, file)
        for letter in sink.files:
            yield TaskReport(index, letter=letter)
    except BaseException as error:
        sink.discard()
        if not isinstance(error, LakeAssetsError) or isinstance(error, StorageUnreachableError):
            raise
        yield TaskReport(index, error=error)


def discarding(job: Job, reports: Iterable[TaskReport], tries: int = 0) -> Iterator[TaskReport]:
    """Yield the reports of a task, and one of its time; if it fails, the files that it has reported are removed."""
    written: list[str] = []
    letters: list[str] = []
    began, start, rows, size = time.time(), time.perf_counter(), 0, 0
    try:
        for report in reports:
            if report.file is not None:
                written.append(report.file.uri)
                rows, size = rows + report.file.rows, size + report.file.size
            if report.letter is not None:
                letters.append(report.letter.uri)
            yield report
        seconds = time.perf_counter() - start
        yield TaskReport(-1, timing=Timing(socket.gethostname(), began, seconds, len(written), rows, size, tries))
    except BaseException:
        discard_written(job, written, letters)
        raise
