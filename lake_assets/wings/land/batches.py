"""The open batches of a writer: rows by path, gathered until a limit is reached."""

import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from lake_assets.base.errors import SchemaError
from lake_assets.config.sections import Batch
from lake_assets.schema.arrow_types import leaf_types, no_rows

_PER_SECOND = 10_000


class BatchNames:
    """Generates names, each greater than the one before; safe to use from several threads.

    If the clock goes backwards, the names stay in the last second that was seen, and the sequence continues until the
    clock has caught up. All lie behind the second `after`, such as that of the last batch before a restart.
    """

    def __init__(self, node: str | None = None, *, after: int = 0, clock: Callable[[], float] = time.time) -> None:
        self.writer = f"{node or host_name()}-{secrets.token_hex(4)}"
        self.behind = 0.0
        """The most seconds by which the clock was ever behind the names."""
        self._clock = clock  # seconds since 1970
        self._second = after
        self._sequence = 0 if after else -1
        self._lock = Lock()

    @property
    def pattern(self) -> str:
        """The pattern of the names of this writer's files."""
        return f"batch_*_{self.writer}.*"

    def next(self) -> str:
        """Return the next name, without an extension."""
        with self._lock:
            now = int(self._clock())
            if now > self._second:
                self._second, self._sequence = now, 0
            else:
                self.behind = max(self.behind, float(self._second - now))
                self._sequence += 1
                if self._sequence == _PER_SECOND:
                    self._second, self._sequence = self._second + 1, 0
            return f"batch_{self._second:010d}_{self._sequence:04d}_{self.writer}"


def host_name() -> str:
    """Return the host's name with only letters, digits, `.` and `-`."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in socket.gethostname())
    return name.strip(".-")[:63] or "node"


def second_of(name: str) -> int:
    """Return the second in a file's name; 0 if it is not of a batch."""
    parts = name.split("_")
    return int(parts[1]) if len(parts) > 2 and parts[0] == "batch" and parts[1].isdigit() else 0


_SAMPLE = 1000  # rows
_FEW = 64  # distinct values


class Encoder:
    """Writes tables of one schema, which Parquet can hold, with zstd.

    In a file of a thousand rows, a column of few distinct values takes a few bits a row with a dictionary, and zstd
    makes it no smaller; a column of many distinct values gains nothing from a dictionary. So each column gets one of
    the two. This takes a third less time than both for all columns, and no more bytes.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._dictionaries: list[str] = []
        self._compression: dict[str, str] = {}
        self._leaves = [leaf for field in schema for leaf in self._leaves_of(field)]
        self._compression = dict.fromkeys(self._leaves, "zstd")

    def _leaves_of(self, field: pa.Field) -> list[str]:
        """Return the paths of a column's leaves, by which Parquet compresses them."""
        # Arrow writes the numbers of a duration without their unit.
        if not any(map(types.is_duration, leaf_types(field.type))):
            with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):
                columns = pq.read_metadata(pa.BufferReader(self.encode(no_rows(pa.schema([field]))))).schema
                return [columns.column(index).path for index in range(len(columns))]
        raise SchemaError(
            f"the records' column {field.name!r} is {field.type}, which Parquet does not have:",
            "convert it to a number or a text before. A column of JSON becomes its text if `landing.columns` declares "
            "it as string.",
        )

    def learn(self, rows: pa.Table) -> None:
        """Choose the encoding of each column by some of its rows."""
        sample = rows.slice(0, _SAMPLE)
        names = {field.name for field in sample.schema if _few(sample.column(field.name), field.type)}
        self._compression = {leaf: "none" if leaf in names else "zstd" for leaf in self._leaves}
        self._dictionaries = [name for name in sample.schema.names if name in names]

    def encode(self, rows: pa.Table) -> pa.Buffer:
        """Return the bytes of a Parquet file with these rows."""
        sink = pa.BufferOutputStream()
        pq.write_table(
            rows,
            sink,
            compression=self._compression,
            use_dictionary=self._dictionaries,
            version="2.6",
            store_schema=False,
        )
        return sink.getvalue()


def _few(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether a column of sample rows has few distinct values."""
    if types.is_boolean(kind):
        return True
    if types.is_nested(kind) or len(column) < _SAMPLE:
        return False
    return int(pc.count_distinct(column, mode="all").as_py()) <= _FEW


_GATHER = 131_072  # rows that are sorted at a time, at least, while records come fast
_COPIES = 3  # most copies of all open rows while they are sorted
_PROMPT = 1.0  # seconds after which a full batch is returned, even if few records come


class CompleteBatch(NamedTuple):
    """A complete batch: rows of one path in their order."""

    path: str
    rows: pa.Table


class OpenBatches:
    """Rows whose batches are not complete yet.

    Tens of thousands of rows are gathered, sorted by path at once, and cut into whole batches; the rest stays sorted
    until more rows come. So a row is sorted once, its cost does not depend on the number of paths, and neither does
    the memory.
    """

    def __init__(self, limits: Batch, memory: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._memory = memory  # bytes of Arrow memory for all of them. Above it, the oldest batches are closed early.
        self._clock = clock  # monotonic seconds
        self._tables: list[pa.Table] = []  # the rest of the last cut, if there is any, and the fresh rows
        self._codes: list[npt.NDArray[np.int64]] = []  # the fresh rows'
        self._held: dict[int, pa.Table] = {}  # the rest of the last cut, by code
        self._paths: list[str] = []  # by code
        self._code_of: dict[str, int] = {}
        self._opened: dict[int, float] = {}  # the time of the oldest row of each path
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._over = 0  # rows
        self._fresh = 0  # rows
        self._bytes = 0
        self._since = 0.0  # the time of the oldest fresh row

    @property
    def rows(self) -> int:
        """The number of open rows."""
        return self._over + self._fresh

    def add(self, rows: pa.Table, paths: pa.DictionaryArray) -> None:
        """Add rows, with the path of each."""
        if not rows.num_rows:
            return
        now = self._clock()
        codes = np.array([self._code(path) for path in paths.dictionary.to_pylist()], np.int64)
        taken = codes[paths.indices.to_numpy()]
        counts = np.bincount(taken, minlength=len(self._paths))
        for code in np.flatnonzero(counts).tolist():
            self._opened.setdefault(code, now)
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        if not self._fresh:
            self._since = now
        self._tables.append(rows)
        self._codes.append(taken)
        self._fresh += rows.num_rows
        self._bytes += rows.nbytes

    def complete(self) -> list[CompleteBatch]:
        """Return the batches that are complete, if there may be enough of them to sort the rows."""
        if not self.rows:
            return []
        now = self._clock()
        full = bool(self._counts.max(initial=0) >= self._limits.records)
        if (
            self._fresh >= max(_GATHER, self._over, self._limits.records)
            or self._bytes >= min(self._memory / _COPIES, self._limits.bytes * len(self._opened))
            or (full and now - self._since >= _PROMPT)
            or min(self._opened.values()) <= now - self._limits.age
        ):
            return list(self._cut(now))
        return []

    def close(self) -> list[CompleteBatch]:
        """Return all batches, complete or not."""
        return list(self._cut(float("inf"))) if self.rows else []

    def _code(self, path: str) -> int:
        if path not in self._code_of:
            self._code_of[path] = len(self._paths)
            self._paths.append(path)
        return self._code_of[path]

    def _cut(self, now: float) -> Iterator[CompleteBatch]:
        """Cut all rows into whole batches; the rest stays open."""
        held, fresh = self._held, self._sorted()
        opened, since, paths = self._opened, self._since, self._paths
        self._clear()
        over: list[tuple[float, str, pa.Table]] = []
        for code in sorted(held.keys() | fresh.keys()):
            oldest = opened[code]
            old = oldest <= now - self._limits.age
            if code not in fresh and not old:
                over.append((oldest, paths[code], held[code]))
                continue
            part = pa.concat_tables(rows[code] for rows in (held, fresh) if code in rows)
            wide = part.nbytes >= self._limits.bytes / 2
            pieces = list(self._pieces(part) if wide else self._slices(part))
            # The pieces before a whole one are complete too, because the rows of a path stay in order.
            whole = [number for number, piece in enumerate(pieces, 1) if self._is_whole(piece, wide=wide)]
            ready = len(pieces) if old else max(whole, default=0)
            yield from (CompleteBatch(paths[code], piece) for piece in pieces[:ready])
            over += ((oldest if len(pieces) == 1 else since, paths[code], piece) for piece in pieces[ready:])
        yield from self._keep(over)

    def _is_whole(self, rows: pa.Table, *, wide: bool) -> bool:
        """Return whether rows are a whole batch by their number, or by their bytes if they are wide."""
        return len(rows) == self._limits.records or (wide and bool(rows.nbytes >= self._limits.bytes / 2))

    def _sorted(self) -> dict[int, pa.Table]:
        """Return the fresh rows by the code of their path."""
        if not self._codes:
            return {}
        rows, codes = pa.concat_tables(self._tables[-len(self._codes) :]), np.concatenate(self._codes)
        counts = np.bincount(codes, minlength=len(self._paths))
        if np.count_nonzero(counts) > 1:
            # NumPy sorts 16-bit numbers by counting. `take` is no slower for many chunks, but copying them would be.
            few = codes.astype(np.uint16) if len(self._paths) <= np.iinfo(np.uint16).max else codes
            rows = pc.take(rows, pa.array(np.argsort(few, kind="stable")), boundscheck=False)
        ends = np.cumsum(counts)
        return {code: rows.slice(ends[code] - counts[code], counts[code]) for code in np.flatnonzero(counts).tolist()}

    def _slices(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows in slices of the batch size; the last may be smaller."""
        for start in range(0, len(rows), self._limits.records):
            yield rows.slice(start, self._limits.records)

    def _pieces(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows in pieces within both limits."""
        for piece in self._slices(rows):
            yield from self._halves(piece)

    def _halves(self, rows: pa.Table) -> Iterator[pa.Table]:
        if rows.nbytes <= self._limits.bytes or len(rows) == 1:
            yield rows
            return
        middle = len(rows) // 2
        yield from self._halves(rows.slice(0, middle))
        yield from self._halves(rows.slice(middle))

    def _keep(self, over: list[tuple[float, str, pa.Table]]) -> Iterator[CompleteBatch]:
        """Keep these rows open, in memory of their own; the oldest are returned if they would take too much of it."""
        if not over:
            return
        rows = pa.concat_tables([piece for *_, piece in over]).combine_chunks()
        if (size := rows.nbytes) > (most := self._memory / _COPIES / 2):
            over.sort(key=lambda piece: piece[0])
            while over and size > most:
                _, path, piece = over.pop(0)
                size -= piece.nbytes
                yield CompleteBatch(path, piece)
            yield from self._keep(over)
            return
        start = 0
        for opened, path, piece in over:
            kept, start, code = rows.slice(start, len(piece)), start + len(piece), self._code(path)
            self._opened[code] = min(opened, self._opened.get(code, opened))
            self._held[code] = pa.concat_tables([self._held[code], kept]) if code in self._held else kept
        self._tables = [rows]
        self._counts = np.array([len(piece) for piece in self._held.values()], np.int64)
        self._over, self._bytes = rows.num_rows, rows.nbytes

    def _clear(self) -> None:
        self._tables, self._codes, self._paths, self._code_of, self._opened = [], [], [], {}, {}
        self._held, self._counts = {}, np.zeros(0, np.int64)
        self._over = self._fresh = self._bytes = 0
