"""`LandingWriter` lands any number of records as small Parquet files."""

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from threading import Event, RLock, Thread
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lake_assets.base.errors import LandingError, LayoutError, SchemaError
from lake_assets.base.texts import count
from lake_assets.config.column_types import arrow_schema
from lake_assets.config.sections import READABLE, Landing, ending_of, unread
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.formats.inferred_types import fit, inferred
from lake_assets.storage.formats.records import ArrowRows, Records, Rejected, validate
from lake_assets.wings.land.batches import BatchNames, CompleteBatch, Encoder, OpenBatches
from lake_assets.wings.land.buffer import Buffer
from lake_assets.wings.land.deliver import Delivery, OnArrival
from lake_assets.wings.land.destination import RecordRouter
from lake_assets.wings.land.drain import open_buffer, open_outputs, state_of

REJECTS = "_dead_letters"  # a folder of each output that no listing takes for data

_HELD_REJECTS = 8 * 2**20  # characters of rejected records that are held
_TICK = 1.0  # seconds
_GATHERING = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class LandingCounts:
    """The counts of a writer."""

    records: int
    """Records in files that have arrived at all outputs, or are in the buffer."""
    files: int
    """These files."""
    bytes: int
    rejected: int
    """Records that did not fit and are in the files of rejects."""
    rejects: tuple[str, ...]
    """The paths of these files in the first output."""
    reason: str
    """Why the first of them did not fit; empty if all fit."""
    lost: int
    """Records that have reached no output; none, unless an error was raised."""
    pending: int
    """Files in the buffer that an output lacks, also of earlier writers; a file counts once for each such output."""
    expired: int
    """Pending files whose retention has ended; they are kept."""
    warnings: tuple[str, ...]


class _Admitted(NamedTuple):
    """Rows that fit the columns, and where they come from."""

    rows: pa.Table
    paths: pa.DictionaryArray
    numbers: npt.NDArray[np.int64]  # places of the rows among those of the records
    records: Records


class LandingWriter:
    """Lands a stream's records: splits them by its layout, and writes them in batches as files that never change.

    Use it in a `with`: at its end, also after an exception, all records that were written are landed. A record is safe
    at every output, or in the buffer if the stream has one, when `flush` or `close` has returned without an error.
    Several threads may share a writer.

    Args:
        name: of the stream.
        stream: its config.
        clock: seconds since 1970, for names and for `now()` in layouts.

    Raises:
        LandingError: the buffer or a local output cannot be made, or the stream's `files` match no landed file.
    """

    def __init__(self, name: str, stream: StreamConfig, *, clock: Callable[[], float] = time.time) -> None:
        self._stream = stream
        self._options = options = stream.landing or Landing()
        self._clock = clock
        outputs = open_outputs(stream, options)
        self._ending = ending_of(stream.files)
        if self._ending is None:
            raise LandingError(f"{unread(stream.files)}:", READABLE)
        self._buffer = open_buffer(name, stream) if options.buffer else None
        after = self._buffer.last_second() if self._buffer else 0
        self._names = BatchNames(options.node, after=after, clock=clock)
        self._delivery = Delivery(outputs, self._names.pattern, self._buffer)
        self._root = outputs[0].store.root.rstrip("/")
        self._batches = OpenBatches(options.batch, options.memory)
        self._rejects: list[Rejected] = []
        self._rejects_size = 0  # characters
        self._rejects_since = 0.0
        self._reason = ""  # the first one's
        self._schema: pa.Schema | None = None
        self._is_fixed = False  # the columns, for later runs too
        self._taken = self._landed = self._rejected = self._landed_rejects = 0
        self._files = self._bytes = 0  # of landed records
        self._reject_files: list[str] = []
        self._partial: Counter[Sequence[str]] = Counter()  # records by the only outputs that they have reached
        self._lock = RLock()
        self._closed = Event()
        self._failure: BaseException | None = None
        self._ticker = Thread(target=self._tick, name="land-tick", daemon=True)
        self._ticker.start()

    @property
    def gather_seconds(self) -> float:
        """Seconds for which the first records of a pipe are gathered, to infer their columns from more of them."""
        return 0.0 if self._options.columns else min(self._options.batch.age, _GATHERING)

    @property
    def integers(self) -> frozenset[str]:
        """The columns that the stream reads as whole numbers from paths or rows."""
        columns = (*self._stream.partition_columns, *self._stream.path_typed)
        return frozenset(column.name for column in columns if column.type == "integer")

    def schema(self, infer: Callable[[], pa.Schema]) -> pa.Schema:
        """Return the records' columns: the config's, else those that the buffer has fixed, else the result of `infer`.

        They never change after the first call. The buffer fixes inferred columns when the first record fits them and
        the stream, so an input of which nothing lands fixes none.

        Raises:
            SchemaError: Parquet cannot hold them, or they are partition columns only.
            LayoutError: the layout needs another column.
        """
        with self._lock:
            if self._schema is None:
                columns = self._options.columns
                fixed = self._buffer.schema() if self._buffer and columns is None else None
                if fixed is not None:
                    with self._fixed_before():
                        self._use(fixed)
                else:
                    self._use(infer() if columns is None else arrow_schema(columns))
                self._is_fixed = self._buffer is None or columns is not None or fixed is not None
            assert self._schema is not None  # noqa: S101 - by the lines above
            return self._schema

    def _use(self, schema: pa.Schema) -> None:
        self._destination = RecordRouter(self._stream, schema)
        self._encoder = Encoder(self._destination.file_schema)
        self._schema = schema

    @contextmanager
    def _fixed_before(self) -> Iterator[None]:
        """Add to an error of columns that an earlier landing has fixed the file that they come from."""
        try:
            yield
        except (SchemaError, LayoutError) as error:
            if self._buffer is None or self._options.columns is not None or not self._buffer.schema_file.exists():
                raise
            raise type(error)(error.problem, _fixed_in(self._buffer)) from error

    def write(self, rows: pa.Table | pa.RecordBatch | pa.RecordBatchReader, *, source: str = "write") -> None:
        """Land rows. A row that does not fit is rejected.

        Args:
            rows: with the schema's columns in any order; one that is missing is NULL.
            source: the origin of the rows, which the files of rejects name.

        Raises:
            SchemaError: a column is not in the schema, or of a type that never fits; or, of most of the first
                records, their own column says another partition than the layout.
            StorageError: an earlier batch did not reach an output, and there is no buffer.
            LandingError: the buffer cannot be written.
        """
        parts: Iterable[pa.RecordBatch | pa.Table] = rows if isinstance(rows, pa.RecordBatchReader) else [rows]
        for part in parts:
            table = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
            self.schema(partial(inferred, table, texts=False))
            self.accept(ArrowRows(table, source))

    def accept(self, records: Records) -> None:
        """Write records from `read_records`, as `write` does."""
        with self._lock:
            self._check()
            schema = self._schema
            if schema is None:
                raise LandingError("the records' columns are not known yet:", "call `schema` before `accept`.")
            now = dt.datetime.fromtimestamp(self._clock(), dt.UTC)

            def admit(part: Records, table: pa.Table) -> _Admitted:
                with self._fixed_before():
                    rows = fit(table, self._schema or schema)
                return _Admitted(rows, self._destination.paths(rows, now), np.arange(len(rows)), part)

            for result in validate(records, admit):
                if isinstance(result, Rejected):
                    self._reject(result)
                else:
                    self._add(result, now)
            self._send(self._batches.complete())

    def flush(self) -> None:
        """Close the open batches, and block until all records have landed, or are in the buffer.

        Raises:
            StorageError: a batch did not reach an output, and there is no buffer.
            LandingError: the buffer cannot be written.
        """
        with self._lock:
            self._check()
            self._send(self._batches.close())
            self._send_rejects()
        self._delivery.flush()

    def close(self) -> LandingCounts:
        """Flush; then try once to upload the pending batches of the buffer, and end.

        Raises:
            StorageError, LandingError: as `flush`.
        """
        if not self._closed.is_set():
            self._closed.set()
            self._ticker.join()
            try:
                self.flush()
            finally:
                self._delivery.close()
                if self._buffer:
                    self._buffer.expire()
        return self.landed()

    def landed(self) -> LandingCounts:
        """Return the counts so far."""
        state = state_of(self._buffer) if self._buffer else None
        warnings = []
        if self._names.behind > 1:
            warnings.append(
                f"the clock went {self._names.behind:.0f} s backwards, now or since the last batch was written: "
                "file names wait for it to catch up"
            )
        for roots, records in self._partial.items():
            warnings.append(
                f"{count(records, 'record')} reached {' and '.join(roots)} only, and would be there twice if landed "
                f"again: copy the files {self._names.pattern} from there to the other outputs"
            )
        return LandingCounts(
            self._landed,
            self._files,
            self._bytes,
            self._landed_rejects,
            tuple(self._reject_files),
            self._reason,
            self._taken + self._rejected - self._landed - self._landed_rejects - self._partial.total(),
            state.pending if state else 0,
            state.expired if state else 0,
            tuple(warnings),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._delivery.check()

    def _add(self, admitted: "_Admitted", now: dt.datetime) -> None:
        faults = self._destination.faults(admitted.paths)
        if any(faults):
            codes = admitted.paths.indices.to_numpy()
            is_outside = np.array([fault is not None for fault in faults])[codes]
            rows, paths, why = admitted.rows, admitted.paths, self._destination.reason
            admitted = self._without(admitted, is_outside, lambda row: why(paths[row].as_py(), rows.slice(row, 1)))
        admitted = self._fix(admitted, now)
        if refused := self._destination.refused_rows(admitted.rows, admitted.paths):
            if not self._taken and 2 * refused.rows.sum() > admitted.rows.num_rows:
                # The column has another meaning; these are not a few wrong values.
                raise SchemaError(refused.problem, refused.hint)
            reason = refused.problem.rstrip(":")
            admitted = self._without(admitted, refused.rows, lambda _: reason)
        admitted = self._fix(admitted, now)
        self._taken += admitted.rows.num_rows
        self._batches.add(admitted.rows.select(self._destination.columns), admitted.paths)

    def _without(
        self, admitted: "_Admitted", is_rejected: npt.NDArray[np.bool_], reason: Callable[[int], str]
    ) -> "_Admitted":
        """Reject some rows, each with its reason; returns the others."""
        rows, paths, numbers, records = admitted
        for row in np.flatnonzero(is_rejected).tolist():
            self._reject(records.at(int(numbers[row])).rejected(ValueError(reason(row))))
        others = pa.array(~is_rejected)
        return _Admitted(rows.filter(others), paths.filter(others), numbers[~is_rejected], records)

    def _fix(self, admitted: "_Admitted", now: dt.datetime) -> "_Admitted":
        """Fix the columns by the first rows that fit; they are those of another process if that was faster."""
        rows = admitted.rows
        if self._is_fixed or not rows.num_rows:
            return admitted
        assert self._buffer is not None  # noqa: S101 - without one there is nothing to fix
        fixed = self._buffer.fix_schema(rows.schema)
        self._is_fixed = True
        if fixed.equals(rows.schema):
            return admitted
        self._use(fixed)
        try:
            with self._fixed_before():
                rows = fit(rows, fixed)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"the records do not fit the columns that another process has fixed meanwhile: {error}:",
                _fixed_in(self._buffer),
            ) from error
        return admitted._replace(rows=rows, paths=self._destination.paths(rows, now))

    def _send(self, parts: list[CompleteBatch]) -> None:
        parts = [CompleteBatch(path, self._destination.file_rows(path, rows)) for path, rows in parts]
        if parts:
            self._encoder.learn(max(parts, key=lambda part: part.rows.num_rows).rows)
        for path, rows in parts:
            key = f"{path}/{self._names.next()}{self._ending}".lstrip("/")
            self._delivery.send(key, partial(self._encoder.encode, rows), self._count(rows.num_rows))

    def _reject(self, record: Rejected) -> None:
        if not self._rejects:
            self._rejects_since = time.monotonic()
        self._rejects.append(record)
        self._reason = self._reason or record.reason
        self._rejected += 1
        self._rejects_size += len(record.record)
        if len(self._rejects) >= self._options.batch.records or self._rejects_size > _HELD_REJECTS:
            self._send_rejects()

    def _send_rejects(self) -> None:
        if not self._rejects:
            return
        rejects, self._rejects, self._rejects_size = self._rejects, [], 0
        text = "".join(json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in rejects)
        body = text.encode("utf-8", errors="backslashreplace")
        key = f"{REJECTS}/{self._names.next()}.jsonl"

        def count_rejects(only: Sequence[str], _: int) -> None:
            if only:
                self._partial[only] += len(rejects)
            else:
                self._landed_rejects += len(rejects)
                self._reject_files.append(f"{self._root}/{key}")

        self._delivery.send(key, lambda: body, count_rejects)

    def _count(self, rows: int) -> OnArrival:
        def count_records(only: Sequence[str], size: int) -> None:
            if only:
                self._partial[only] += rows
                return
            self._landed += rows
            self._files += 1
            self._bytes += size

        return count_records

    def _tick(self) -> None:
        """Close batches that have reached their age, also while no records come."""
        while not self._closed.wait(min(_TICK, self._options.batch.age / 4)):
            try:
                with self._lock:
                    self._send(self._batches.complete())
                    if self._rejects and time.monotonic() - self._rejects_since >= self._options.batch.age:
                        self._send_rejects()
            except BaseException as error:  # noqa: BLE001 - raised by the next call
                self._failure = error
                return


def _fixed_in(buffer: Buffer) -> str:
    """Return how to correct columns that another landing has fixed."""
    return (
        f"the columns are those of {buffer.schema_file}, which an earlier landing has fixed; land records that have "
        "them, or declare the right ones as landing.columns in the config."
    )
