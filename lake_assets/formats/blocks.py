"""Texts in blocks of whole lines, read into memory of their own."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lake_assets.errors import LandingError
from lake_assets.formats.records import BREAK

if TYPE_CHECKING:
    from io import BufferedIOBase

Fill = Callable[[memoryview], int]
"""Reads into a buffer, all of it if the source is fast, and returns the number of bytes: none at the end."""

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""Arrow's codecs by the suffix of a file's name."""
BLOCK = 4 * 2**20  # bytes of text that are parsed at a time
LONGEST_LINE = 16 * 2**20  # bytes

_TAIL = 2**16  # bytes that are searched for the last line break at a time


def fill_from(file: "pa.NativeFile | BufferedIOBase", space: memoryview) -> int:
    """Read the next bytes of a file; a line break is added to the last line, so that it is parsed with the others."""
    size = 0
    while size < len(space) and (count := file.readinto(space[size:])):
        size += count
    if 0 < size < len(space) and space[size - 1] != BREAK:
        space[size] = BREAK
        size += 1
    return size


def whole_lines(fill: Fill, path: str) -> Iterator[memoryview]:
    """Yield a source in blocks of lines that all end with a line break, also the last one.

    Each block is read into its own memory: a copy would cost more than parsing saves.
    """
    rest = b""
    while True:
        block = memoryview(pa.allocate_buffer(len(rest) + BLOCK + 1)).cast("B")
        block[: len(rest)] = rest
        size = len(rest) + fill(block[len(rest) : -1])
        ended = size == len(rest)
        if ended and rest:
            block[size] = BREAK
            size += 1
        cut = _after_last_break(block[:size])
        if cut:
            yield block[:cut]
        if ended:
            return
        rest = bytes(block[cut:size])
        if len(rest) > LONGEST_LINE:
            raise LandingError(
                f"{path} has a line of more than {len(rest) // 2**20} MiB, so it does not have one record a line:",
                "write each record on its own line, or give its format with --format.",
            )


def _after_last_break(text: memoryview) -> int:
    """Return the position behind the last line break; 0 if there is none."""
    end = len(text)
    while end:
        start = max(end - _TAIL, 0)
        if cut := bytes(text[start:end]).rfind(b"\n") + 1:
            return start + cut
        end = start
    return 0
