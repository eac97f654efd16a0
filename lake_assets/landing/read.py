"""Reading records: JSON lines, CSV, Arrow and Parquet, from files or a pipe, in blocks of bounded size."""

import os
import select
import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from lake_assets.errors import LandingError
from lake_assets.landing.schema import inferred
from lake_assets.landing.sift import Records, Rows
from lake_assets.landing.text import CsvText, JsonText, Text

Form = Literal["jsonl", "csv", "arrow", "parquet"]
FixSchema = Callable[[Callable[[], pa.Schema]], pa.Schema]

BLOCK = 4 * 2**20  # bytes of text that are parsed at a time
LONGEST_LINE = 16 * 2**20  # bytes
BATCH_ROWS = 65_536  # of a Parquet file
_BREAK = ord("\n")
_PATIENCE = 0.2  # seconds that a line of a pipe may wait for others

_SUFFIXES: dict[str, Form] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".csv": "csv",
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")


def form_of(path: str) -> Form:
    """The form of a file by its name; standard input, `-`, is JSON lines.

    Raises:
        LandingError: the name tells nothing.
    """
    if path == "-":
        return "jsonl"
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in _COMPRESSED]
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise LandingError(f"the name of {path} does not tell what it holds:", "say so with --format.")
    return _SUFFIXES[suffixes[-1]]


def read_records(
    file: IO[bytes] | None, path: str, form: Form, schema: FixSchema, patience: float
) -> Iterator[Records]:
    """The records of a file or pipe, not parsed yet, in the order in which they stand there.

    Args:
        file: an open pipe; None to open `path`, which may be compressed (gzip, zstd, bzip2, lz4) if it is a text.
        path: the file's path; `-` for a pipe.
        form: what it holds.
        schema: given a function that infers a schema from the first records, gives the schema that shall be.
        patience: seconds for which the first records of a pipe are gathered, so that more can be inferred from them.

    Raises:
        LandingError: the file cannot be read, or is not of that form.
        SchemaError: no schema can be inferred.
    """
    try:
        if form in {"arrow", "parquet"}:
            for batch in _parquet(path) if form == "parquet" else _arrow(file, path):
                rows = pa.Table.from_batches([batch])
                schema(partial(inferred, rows, texts=False))
                yield Rows(rows, path)
        else:
            text: Text = JsonText(path, schema) if form == "jsonl" else CsvText(path, schema)
            line = 1
            for block in _whole_lines(_chunks(file, patience) if file else _file_chunks(path), path):
                count = int(np.count_nonzero(np.frombuffer(block, np.uint8) == _BREAK)) + (block[-1] != _BREAK)
                yield from text.records(block, count, line)
                line += count
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, BrokenPipeError):
            raise
        what = str(error).split("\n", 1)[0].rstrip(".")
        raise LandingError(f"{path} cannot be read as {form}: {what}.", "Check the file, and --format.") from error


def _parquet(path: str) -> Iterator[pa.RecordBatch]:
    if path == "-":
        raise LandingError("Parquet cannot be read from a pipe, for its end comes first:", "give a file.")
    with pq.ParquetFile(path, pre_buffer=False) as file:
        yield from file.iter_batches(BATCH_ROWS)


def _arrow(file: IO[bytes] | None, path: str) -> Iterator[pa.RecordBatch]:
    with pa.PythonFile(file, "r") if file else pa.memory_map(path) as source:
        if file is None and source.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(source)
            yield from (reader.get_batch(index) for index in range(reader.num_record_batches))
            return
        if file is None:
            source.seek(0)
        yield from pa.ipc.open_stream(source)


def _file_chunks(path: str) -> Iterator[bytes]:
    with pa.input_stream(path, compression="detect") as file:
        yield from _to_end(file)


def _to_end(file: IO[bytes] | pa.NativeFile) -> Iterator[bytes]:
    """All of a file; the last line is ended, so that it is parsed with those before it."""
    chunk = file.read(BLOCK)
    while chunk:
        following = file.read(BLOCK)
        yield chunk if following or chunk.endswith(b"\n") else chunk + b"\n"
        chunk = following


def _chunks(file: IO[bytes], patience: float) -> Iterator[bytes]:
    """What comes through a pipe: full blocks where it comes fast, else whatever came within the patience."""
    try:
        descriptor = file.fileno()
    except OSError:  # no real file, such as a buffer in memory
        descriptor = -1
    if descriptor < 0 or stat.S_ISREG(os.fstat(descriptor).st_mode):
        yield from _to_end(file)
        return
    ended = False
    while not ended:
        chunks: list[bytes] = []
        try:
            ended = _gather(descriptor, chunks, max(patience, _PATIENCE))
        except KeyboardInterrupt:
            if chunks:
                yield b"".join(chunks)  # nobody else can read it any more
            raise
        patience = 0.0
        if chunks:
            yield b"".join(chunks)


def _gather(descriptor: int, chunks: list[bytes], patience: float) -> bool:
    """Add what comes through a pipe, up to a full block or for so many seconds; returns whether the pipe has ended."""
    size, deadline = 0, float("inf")
    while size < BLOCK:
        left = None if deadline == float("inf") else max(deadline - time.monotonic(), 0)
        if not select.select([descriptor], [], [], left)[0]:
            return False
        if not (chunk := os.read(descriptor, BLOCK - size)):
            return True
        if not chunks:
            deadline = time.monotonic() + patience
        chunks.append(chunk)
        size += len(chunk)
    return False


def _whole_lines(chunks: Iterator[bytes], path: str) -> Iterator[bytes]:
    rest: list[bytes] = []
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, chunk[:cut]])
            rest = []
        rest.append(chunk[cut:])
        if (size := sum(map(len, rest))) > LONGEST_LINE:
            raise LandingError(
                f"{path} has a line of more than {size // 2**20} MiB, so it is no file of one record a line:",
                "write each record on its own line, or name its form with --format.",
            )
    if last := b"".join(rest):
        yield last
