"""Texts in blocks of whole records, read into memory of their own."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from lake_assets.errors import SourceError
from lake_assets.formats.record_ends import BREAK, FindEnds, Positions, line_breaks


class Readable(Protocol):
    """A file that is read into buffers."""

    def readinto(self, space: memoryview, /) -> int | None:
        """Read the next bytes, and return their number: none at the end."""


Fill = Callable[[memoryview], int]
"""Reads into a buffer, all of it if the source is fast, and returns the number of bytes: none at the end."""

BLOCK = 4 * 2**20  # bytes of text that are parsed at a time
LONGEST = 16 * 2**20  # bytes of a record


class TextBlock(NamedTuple):
    """Whole records of a text."""

    text: memoryview
    ends: Positions  # the positions of these line breaks


def fill_from(file: Readable, space: memoryview) -> int:
    """Read the next bytes of a file; a line break is added to the last line, so that it is parsed with the others."""
    size = 0
    while size < len(space) and (count := file.readinto(space[size:])):
        size += count
    if 0 < size < len(space) and space[size - 1] != BREAK:
        space[size] = BREAK
        size += 1
    return size


def whole_records(fill: Fill, path: str, find_ends: FindEnds | None = None) -> Iterator[TextBlock]:
    """Yield a text in blocks of whole records, by default of lines.

    Each block is read into its own memory: a copy would cost more than parsing saves. A record that is too long, or
    does not end, is refused.
    """
    rest = b""
    while True:
        block = memoryview(pa.allocate_buffer(len(rest) + BLOCK + 1)).cast("B")
        block[: len(rest)] = rest
        size = len(rest) + fill(block[len(rest) : -1])
        is_last = size < len(block) - 1
        ended = size == len(rest)
        if ended and rest and block[size - 1] != BREAK:
            block[size] = BREAK
            size += 1
        ends = find_ends(block[:size], is_last) if find_ends else line_breaks(block[:size])
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if ended and cut < size:
            raise SourceError(
                f"the last record of {path} has a quote that is not closed:",
                "land the object again, whole, or correct it.",
            )
        if cut:
            yield TextBlock(block[:cut], ends)
        if ended:
            return
        rest = bytes(block[cut:size])
        if len(rest) > LONGEST:
            raise SourceError(
                f"{path} has a record of more than {len(rest) // 2**20} MiB, as it seems:",
                "write each record on its own line, close each quote, or give the right format.",
            )
