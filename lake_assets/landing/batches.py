"""The open batches of a writer: rows by path, gathered until a limit is reached."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.config.landing import Batch

_GATHER = 131_072  # rows that are sorted at a time, at least, while records come fast
_COPIES = 3  # most copies of all open rows while they are sorted
_PROMPT = 1.0  # seconds after which a full batch is returned, even if few records come


class Part(NamedTuple):
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

    def complete(self) -> list[Part]:
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

    def close(self) -> list[Part]:
        """Return all batches, complete or not."""
        return list(self._cut(float("inf"))) if self.rows else []

    def _code(self, path: str) -> int:
        if path not in self._code_of:
            self._code_of[path] = len(self._paths)
            self._paths.append(path)
        return self._code_of[path]

    def _cut(self, now: float) -> Iterator[Part]:
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
            yield from (Part(paths[code], piece) for piece in pieces[:ready])
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

    def _keep(self, over: list[tuple[float, str, pa.Table]]) -> Iterator[Part]:
        """Keep these rows open, in memory of their own; the oldest are returned if they would take too much of it."""
        if not over:
            return
        rows = pa.concat_tables([piece for *_, piece in over]).combine_chunks()
        if (size := rows.nbytes) > (most := self._memory / _COPIES / 2):
            over.sort(key=lambda piece: piece[0])
            while over and size > most:
                _, path, piece = over.pop(0)
                size -= piece.nbytes
                yield Part(path, piece)
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
