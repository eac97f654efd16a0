"""Reading a task's shares of landed objects, as Arrow record batches, with memory bound by a row group."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import repeat
from threading import BoundedSemaphore

import pyarrow as pa

from lake_assets.base.errors import SchemaDriftError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.secrets import masking
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.schema.partition_values import Facts, with_added_columns, with_added_values
from lake_assets.spark.task.bad_row_sink import DROPPED, BadRowSink, Sink
from lake_assets.spark.task.job import Job
from lake_assets.storage.formats.landed_rows import WHOLE_OBJECT, LandedBatch, LandedRows, RenamedRows, Share
from lake_assets.storage.formats.parquet_files import LandedParquet, ParquetReader, readable_object
from lake_assets.storage.formats.parquet_together import TINY_OBJECT, is_plain, is_worth_it, read_together
from lake_assets.storage.manifest import digest_of
from lake_assets.storage.overlapping import LONG
from lake_assets.storage.store import Store, kept_store

SMALL_OBJECT = 8 * 2**20  # bytes; objects up to this size are fetched by one request
FETCH_AHEAD = 4 * SMALL_OBJECT  # bytes of such objects are fetched before they are read
_REQUESTS = 32  # for them at once: most of the time is network latency


class ShareReader:
    """Reads the shares of one task, of any of its job's partitions."""

    def __init__(
        self,
        job: Job,
        schema: pa.Schema,
        *,
        threads: int = 1,  # in which small objects are decoded; the rows are the same, in the same order
        dictionaries: bool = False,  # columns that an object stores as dictionaries of texts may stay dictionaries
    ) -> None:
        self._job = job
        self._landed = job.landed
        self._schema = schema
        self._known = schema if None in (job.known, job.schema) or schema != job.schema else job.known
        self._store = kept_store(job.landed.storage)
        self._threads = threads
        self._decoding = BoundedSemaphore(threads)
        # Whether small objects are fetched in threads: in a folder that costs more than it saves, unless one takes long
        self._overlaps = threads > 1 or not job.landed.storage.is_local
        self._parquet = ParquetReader(dictionaries=dictionaries and not job.landed.rules.selects)
        self._reads_together = False  # tiny objects
        self._fitter: tuple[pa.Schema, Fitter] | None = None
        self.rows: Counter[str] = Counter()  # that were read, with those that do not fit, by the objects' keys
        self.digests: dict[str, str] = {}  # of the objects' content, by key; see `Job.digests`

    def read(
        self, shares: Sequence[Share], partition: Partition, sink: BadRowSink = DROPPED
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of shares of a partition's objects, fitted to the schema, in the order of the shares.

        If the job selects rows, row groups whose statistics exclude the partition are not read. Rows that
        its rules split off are put into the sink. A SchemaDriftError has all objects among the shares whose columns the
        schema lacks, so that the table is changed once.
        """
        drift: SchemaDriftError | None = None
        with masking(self._landed.storage), closing(self._loaded(shares, partition)) as opened:
            for share, load in opened:
                with self._readable(share):
                    try:
                        loaded = load()
                    except SchemaDriftError as error:
                        drift = error if drift is None else drift.with_more(error.schemas)
                        continue
                    if drift is None:
                        with sink.of(self._store.uri(share.landed.key)) as take:
                            for batch in loaded.batches(partial(self._left_out, share.landed.key, take)):
                                self.rows[share.landed.key] += batch.num_rows
                                yield batch
                            self.rows[share.landed.key] += 0  # an object without rows is counted too
                    if share.landed.size > SMALL_OBJECT:
                        self.digests |= digest_of_file(self._job, share)
        if drift is not None:
            raise drift

    def _left_out(self, key: str, take: Sink, bad: BadRows) -> None:
        self.rows[key] += len(bad.reasons)
        take(bad)

    def _loaded(
        self, shares: Sequence[Share], partition: Partition
    ) -> Generator[tuple[Share, "Callable[[], _Loaded]"]]:
        """Yield each share with a function that opens it; small objects are fetched and decoded ahead of it."""
        small = deque(share for share in shares if share.landed.size <= SMALL_OBJECT)
        self._reads_together = is_worth_it(self._landed.form, (share.landed.size for share in small))
        ahead: deque[Future[_Loaded]] = deque()
        group: deque[Future[_Loaded]] = deque()  # that were ahead, and are read before all others
        fetched, is_single = 0, len(shares) == 1
        with _pool(_REQUESTS) as pool:

            def request() -> None:
                nonlocal fetched
                while small and len(ahead) < _REQUESTS and fetched + small[0].landed.size <= FETCH_AHEAD:
                    item = small.popleft()
                    fetched += item.landed.size
                    submit = pool.submit if self._overlaps and not is_single else _done
                    ahead.append(submit(self._load_whole, item, partition))

            for share in shares:
                request()
                if share.landed.size <= SMALL_OBJECT:
                    if not group:
                        group, ahead = ahead, group
                        request()
                        if self._reads_together:
                            self._read_together(group)
                    yield share, group.popleft().result
                    fetched -= share.landed.size
                    continue
                with self._readable(share):
                    file = self._store.open(share.landed.key)
                with file:
                    yield share, partial(self._load, share, partition, file)

    def _read_together(self, group: Iterable[Future["_Loaded"]]) -> None:
        """Read the objects of a group that wait for others of their columns; those that are left are read by Arrow."""
        waiting: defaultdict[object, list[_Loaded]] = defaultdict(list)
        for future in group:
            if future.exception() is None and (loaded := future.result()).plain is not None:
                waiting[loaded.plain[1].schema, tuple(loaded.stored)].append(loaded)
        for objects in waiting.values():
            plain = [loaded.plain for loaded in objects if loaded.plain is not None]
            batches = read_together(plain, objects[0].stored)
            for loaded, batch in zip(objects, batches or repeat(None)):  # noqa: B905 - one of them is endless
                loaded.take(batch)

    def _readable(self, share: Share) -> AbstractContextManager[None]:
        uri = self._store.uri(share.landed.key)
        return readable_object(self._landed.storage, uri, self._landed.form_of(share.landed.key).title)

    def _load_whole(self, share: Share, partition: Partition) -> "_Loaded":
        begun = time.perf_counter()
        data = self._store.get(share.landed.key, share.landed.etag)
        self._overlaps |= time.perf_counter() - begun > LONG
        if self._job.digests:
            self.digests[share.landed.key] = digest_of(data)
        file = pa.BufferReader(pa.py_buffer(data))
        if self._threads == 1:
            loaded = self._load(share, partition, file)
        else:
            with self._decoding:
                loaded = self._load(share, partition, file)
        if self._reads_together and len(data) <= TINY_OBJECT and loaded.waits(bytes(data)):
            return loaded
        if self._threads > 1:
            with self._decoding:
                loaded.decode()
        return loaded

    def _load(self, share: Share, partition: Partition, file: pa.NativeFile) -> "_Loaded":
        uri, origin = self._store.uri(share.landed.key), self._landed.origin(share.landed.key)
        rows = self._landed.open(file, share.landed.key, self._known, self._parquet)
        if rows.count == 0:  # its columns say nothing
            return _Loaded(share, rows, None, {}, frozenset())
        job, added, rules = self._job, self._landed.added, self._landed.rules
        if rules.renames:
            rows = RenamedRows(rows, rules, origin)
        facts: Facts = {
            "uri": uri,
            "modified": share.landed.last_modified,
            "written_at": job.written_at,
            "run_id": job.run_id,
        }
        constants = added.values(share.landed.key, uri, rows.schema, facts) if added else {}
        schema = with_added_columns(rows.schema, constants)
        fitter = self._fitted(schema, partition, origin)
        return _Loaded(share, rows, fitter, constants, added.numbers if added else frozenset())

    def _fitted(self, source: pa.Schema, partition: Partition, origin: str) -> Fitter:
        """Return the fitter of an object; most objects of a task have the schema of the one before."""
        known = self._fitter
        if known is not None and known[1].fits(partition) and known[0].equals(source):
            return known[1].of(origin, partition)
        fitter = Fitter(source, Target(self._known, self._landed.rules.of_landed), partition, origin)
        self._fitter = source, fitter
        return fitter


def digest_of_file(job: Job, share: Share) -> dict[str, str]:
    """Return the digest of a local file by its key, once for all of its shares; a second read of it costs little."""
    if not job.digests or share.part.number or not job.landed.storage.is_local:
        return {}
    return {share.landed.key: Store(job.landed.storage).digest(share.landed.key, share.landed.etag)}


class _Loaded:
    """An open object with the fitter of its rows; None if it has none."""

    def __init__(
        self,
        share: Share,
        rows: LandedRows,
        fitter: Fitter | None,
        constants: Mapping[str, pa.Scalar],
        numbers: frozenset[str],
    ) -> None:
        self._share = share
        self._rows = rows
        self._fitter = fitter
        self._constants = constants
        self._numbers = numbers  # the columns among them with the number of each row
        self.plain: tuple[bytes, LandedParquet] | None = None  # the object, if it is read together with others
        self._batch: pa.RecordBatch | None = None  # its rows, if it was
        self._bad: list[BadRows] = []  # among the decoded rows
        self._decoded: list[pa.RecordBatch] | None = None
        self._failure: Exception | None = None

    @property
    def stored(self) -> list[str]:
        """The columns to read that the object has itself."""
        fitter = self._fitter
        columns = [*fitter.columns, *fitter.partition_columns] if fitter is not None else []
        return [name for name in columns if name not in self._constants]

    def waits(self, data: bytes) -> bool:
        """Keep the object's bytes if it can be read together with others; returns whether it can."""
        rows, is_whole = self._rows, self._share.part == WHOLE_OBJECT
        if is_whole and isinstance(rows, LandedParquet) and rows.count and is_plain(data, rows, self.stored):
            self.plain = data, rows
        return self.plain is not None

    def take(self, batch: pa.RecordBatch | None) -> None:
        """Take the object's rows, which were read together with others; None: they were not."""
        self.plain, self._batch = None, batch

    def batches(self, bad: Sink) -> Iterator[pa.RecordBatch]:
        """Yield the share's rows, in batches; `bad` gets those that do not fit, if the job has dead letters."""
        if self._failure is not None:
            raise self._failure
        if self._decoded is None:
            yield from self._batches(bad)
            return
        for rows in self._bad:
            bad(rows)
        yield from self._decoded

    def decode(self) -> None:
        """Decode the rows now if they fit into one batch. An error is raised by `batches`."""
        try:
            if self._rows.is_small:
                self._decoded = list(self._batches(self._bad.append))
        except Exception as error:  # noqa: BLE001 - raised by `batches`
            self._failure = error

    def _read(self, fitter: Fitter) -> Iterable[LandedBatch | BadRows]:
        if self._batch is not None:
            return [LandedBatch(self._batch, 0)]
        return self._rows.read(self._share.part, self.stored, fitter, numbered=bool(self._numbers))

    def _batches(self, bad: Sink) -> Iterator[pa.RecordBatch]:
        fitter = self._fitter
        if fitter is None:
            return
        columns = [*fitter.columns, *fitter.partition_columns]
        for rows in self._read(fitter):
            if isinstance(rows, BadRows):
                bad(rows)
                continue
            read = with_added_values(rows.batch, self._constants, self._numbers, rows.first).select(columns)
            fitted, unfit = fitter.split(read, rows.first)
            if unfit is not None:
                bad(rows.letters(unfit) if rows.letters else unfit)
            if fitted.num_rows:
                yield fitted


def _done(work: Callable[[Share, Partition], _Loaded], share: Share, partition: Partition) -> Future[_Loaded]:
    """Return a future that has ended, as the work is done in this thread."""
    future: Future[_Loaded] = Future()
    try:
        future.set_result(work(share, partition))
    except Exception as error:  # noqa: BLE001 - raised by `result`
        future.set_exception(error)
    return future


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads; at the end of the block, work that has not begun is dropped."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
