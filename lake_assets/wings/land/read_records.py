"""Reading records: JSON lines, CSV, Arrow and Parquet, from files or a pipe, in blocks of bounded size."""

import codecs
import os
import select
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast

import pyarrow as pa
import pyarrow.ipc

from lake_assets.base.errors import LandingError
from lake_assets.base.texts import is_unicode, shown
from lake_assets.config.formats import COMPRESSED
from lake_assets.schema.annotations import is_foreign
from lake_assets.schema.arrow_types import shown_type as type_text
from lake_assets.storage.formats.blocks import Fill, TextBlock, fill_from, whole_records
from lake_assets.storage.formats.csv_text import CsvRecords
from lake_assets.storage.formats.inferred_types import inferred
from lake_assets.storage.formats.json_lines import JsonText
from lake_assets.storage.formats.parquet_files import ParquetRows
from lake_assets.storage.formats.records import ArrowRows, FixSchema, Records, TextSource
from lake_assets.storage.formats.text_files import decompressed

if TYPE_CHECKING:
    from io import BufferedIOBase

RecordForm = Literal["jsonl", "csv", "arrow", "parquet"]
Advance = Callable[[int], None]
"""Called with the number of bytes of a file that have been read since the last call, before their decompression."""

_GATHER_SECONDS = 0.2  # seconds for which a line of a pipe is held until others come

_SUFFIXES: dict[str, RecordForm] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".csv": "csv",
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}


@dataclass(frozen=True, slots=True)
class RecordSource:
    """A file or an open pipe with records, and how they are read."""

    path: str  # of a file, which may be compressed if it is a text; `-` for a pipe
    form: RecordForm
    pipe: IO[bytes] | None = None
    gather_seconds: float = 0  # for the first records of a pipe, to infer columns from more of them
    integers: Collection[str] = ()  # columns of CSV that are whole numbers also with leading zeros; others are texts


def form_of(path: str) -> RecordForm:
    """Return the form of a file by its name; standard input, `-`, is JSON lines."""
    if path == "-":
        return "jsonl"
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in COMPRESSED]
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise LandingError(f"the name of {path} does not show its format:", "give it with --format.")
    return _SUFFIXES[suffixes[-1]]


def read_records(source: RecordSource, schema: FixSchema, advance: Advance = lambda _: None) -> Iterator[Records]:
    """Yield the records of a file or pipe in its order, not parsed yet.

    `schema` takes a function that infers a schema from the first records, and returns the schema to use. `advance` is
    not called for a pipe.
    """
    path, form = source.path, source.form
    if not is_unicode(path):  # Arrow opens no such file
        raise LandingError(
            f"the name of the file {shown(path)} is not UTF-8:",
            "rename it" + (f", or pipe it in: `land STREAM --format {form} - < FILE`." if form != "parquet" else "."),
        )
    try:
        if form in {"arrow", "parquet"}:
            for batch in (_parquet if form == "parquet" else _arrow)(source, advance):
                rows = pa.Table.from_batches([batch])
                schema(partial(inferred, rows, texts=False))
                yield ArrowRows(rows, path)
        else:
            text: TextSource = JsonText(path, schema) if form == "jsonl" else CsvRecords(path, schema, source.integers)
            with _filler(source, advance) as fill:
                mark = len(codecs.BOM_UTF8)
                for block in whole_records(fill, path):
                    has_mark = mark and bytes(block.text[:mark]) == codecs.BOM_UTF8
                    yield from text.records(TextBlock(block.text[mark:], block.ends - mark) if has_mark else block)
                    mark = 0
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = str(error).split("\n", 1)[0].rstrip(".")
        is_refused = isinstance(error, OSError) and error.errno is not None
        raise LandingError(
            f"{path} cannot be read as {form}: {reason}:",
            "correct its path, or let this user read it."
            if is_refused
            else "name its format with --format, or let its writer write it again.",
        ) from error


def size_of(path: str, file: IO[bytes]) -> int | None:
    """Return the bytes of a file that are to be read, for progress; None if that is not known, as for a pipe."""
    try:
        if path != "-":
            return Path(path).stat().st_size if Path(path).is_file() else None
        return os.fstat(file.fileno()).st_size - file.tell() if _is_regular(file) else None
    except OSError:
        return None


def _is_regular(file: IO[bytes]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # no real file, such as a buffer in memory
        return False


def _parquet(source: RecordSource, advance: Advance) -> Iterator[pa.RecordBatch]:
    path = source.path
    if path == "-":
        raise LandingError("Parquet cannot be read from a pipe, because readers begin at its end:", "give a file.")
    with pa.memory_map(path) as file:
        rows = ParquetRows(file, path)
        if foreign := next((field for field in rows.schema if is_foreign(field.type)), None):
            raise LandingError(
                f"column {foreign.name!r} of {path} has the type {type_text(foreign.type)}, which no lake holds:",
                "cast it to a type that a lake holds, such as VARCHAR.",
            )
        for group in range(rows.parquet.num_row_groups):
            for batch in rows.batches(group, rows.schema.names):
                yield batch
                advance(file.size() * batch.num_rows // rows.count)


def _arrow(source: RecordSource, advance: Advance) -> Iterator[pa.RecordBatch]:
    pipe = source.pipe
    with pa.PythonFile(pipe, "r") if pipe else pa.memory_map(source.path) as file:
        if pipe is None and file.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
                advance(file.size() // reader.num_record_batches)
            return
        if pipe is None:
            file.seek(0)
        batches = pa.ipc.open_stream(file)
        tell = _telling(file.tell, advance) if pipe is None or _is_regular(pipe) else lambda: None
        for batch in batches:
            tell()
            yield batch


def _telling(position: Callable[[], int], advance: Advance) -> Callable[[], None]:
    """Return a function that tells the progress how far a source has been read since it was called before."""
    before = position()

    def tell() -> None:
        nonlocal before
        now = position()
        advance(now - before)
        before = now

    return tell


@contextmanager
def _filler(source: RecordSource, advance: Advance) -> Iterator[Fill]:
    """Return the function that reads a source."""
    if (file := source.pipe) is None:
        with pa.OSFile(source.path) as raw:
            yield _advancing(partial(fill_from, decompressed(raw)), raw.tell, advance)
        return
    try:
        descriptor = file.fileno()
    except OSError:  # no real file, such as a buffer in memory
        yield partial(fill_from, cast("BufferedIOBase", file))
        return
    if _is_regular(file):
        yield _advancing(partial(fill_from, cast("BufferedIOBase", file)), file.tell, advance)
    else:
        yield _Pipe(descriptor, source.gather_seconds).fill


def _advancing(fill: Fill, position: Callable[[], int], advance: Advance) -> Fill:
    """Return the same function, which tells how far it has read."""
    tell = _telling(position, advance)

    def read(space: memoryview) -> int:
        size = fill(space)
        tell()
        return size

    return read


class _Pipe:
    """Reads a pipe: full blocks if it is fast, otherwise the bytes that came within some seconds."""

    def __init__(self, descriptor: int, gather_seconds: float) -> None:
        self._descriptor = descriptor
        self._gather_seconds = max(gather_seconds, _GATHER_SECONDS)
        self._ended = False
        self._interrupt: KeyboardInterrupt | None = None

    def fill(self, space: memoryview) -> int:
        if self._interrupt is not None:
            raise self._interrupt
        size, deadline = 0, float("inf")
        try:
            while size < len(space) and not self._ended:
                left = None if deadline == float("inf") else max(deadline - time.monotonic(), 0)
                if not select.select([self._descriptor], [], [], left)[0]:
                    break
                count = os.readv(self._descriptor, [space[size:]])
                self._ended = not count  # a terminal is read only once after its end
                if not size:
                    deadline = time.monotonic() + self._gather_seconds
                size += count
        except KeyboardInterrupt as interrupt:
            if not size:
                raise
            self._interrupt = interrupt  # raised later: these bytes cannot be read a second time
        self._gather_seconds = _GATHER_SECONDS
        return size
