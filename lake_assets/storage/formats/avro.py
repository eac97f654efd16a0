"""Avro's object container files.

A file has a header with the schema, and blocks of records. Behind each of these is the file's sync marker.
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lake_assets.base.errors import CatalogError, MissingExtraError, install
from lake_assets.schema.annotations import is_opaque
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.calendars import OldCalendar
from lake_assets.schema.casts import cast
from lake_assets.schema.fitter import Fitter
from lake_assets.storage.formats import avro_types
from lake_assets.storage.formats.avro_types import AvroTexts, AvroType, column_name, encoded_number, number_at
from lake_assets.storage.formats.landed_rows import BATCH_ROWS, ExpectedObject, LandedBatch, Part, renumbered

if TYPE_CHECKING:
    import duckdb

_MAGIC = b"Obj\x01"
_METADATA = AvroType({"type": "map", "values": "bytes"}, "")
_MARKER = 16  # bytes
_HEAD = 20  # bytes of the two numbers at the begin of a block, at most
_HEADER = 64 * 2**10  # bytes that are read first
_WINDOW = 4 * 2**20  # bytes that are read at once
_MOST = 256 * 2**20  # bytes of a block, decompressed
_TOGETHER = 8 * 2**20  # bytes of blocks that are decoded together


class _AvroRecords(NamedTuple):
    """Some records: their number, and their bytes in Avro's binary encoding."""

    number: int
    data: bytes


class _AvroFile:
    """An open container file.

    `known` is as of `avro_types.columns`. A damaged header is an ArrowInvalid, and a column that cannot be one of a
    table a SchemaError.
    """

    def __init__(self, file: pa.NativeFile, origin: str, known: pa.Schema) -> None:
        self._file = file
        self._size = int(file.size())
        self._window, self._at = b"", 0
        header, size = self._header(_HEADER), _HEADER
        while header is None:
            if size >= self._size:
                raise pa.ArrowInvalid("its header does not end")
            size *= 4
            header = self._header(size)
        self.metadata, self._begin = header
        self._marker = bytes(self._read(self._begin - _MARKER, _MARKER))
        codec = self.metadata.get("avro.codec", b"null").decode("utf-8", "replace")
        if codec not in _CODECS:
            raise pa.ArrowInvalid(f"it has the unknown codec {codec!r}")
        self._decompress = _CODECS[codec]
        try:
            schema = json.loads(self.metadata["avro.schema"])
            self.schema, self._stored, self._texts = avro_types.avro_columns(schema, origin, known)
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise pa.ArrowInvalid(f"its schema is none of Avro's ({type(error).__name__}: {error})") from error

    @property
    def has_blocks(self) -> bool:
        """Whether there may be a record."""
        return self._begin < self._size

    def records(self, begin: int, end: int) -> Iterator[_AvroRecords]:
        """Yield the records of the blocks that begin in some of the file's bytes, those of some blocks at a time."""
        count, parts, size = 0, [], 0
        for rows, position, stored in self._blocks(self._first_block(begin, end), end):
            data = self._decompressed(bytes(self._read(position, stored)))
            parts.append(data := self._texts.encoded(rows, data) if self._texts else data)
            count, size = count + rows, size + len(data)
            if size >= _TOGETHER:
                yield _AvroRecords(count, b"".join(parts))
                count, parts, size = 0, [], 0
        if count:
            yield _AvroRecords(count, b"".join(parts))

    def count_before(self, position: int) -> int:
        """Return the number of records of the blocks that begin before a position; the file is read up to there."""
        return sum(rows for rows, _, _ in self._blocks(self._begin, position))

    def stored(self, records: _AvroRecords) -> bytes:
        """Return records as a file without compression and logical types."""
        marker = bytes(_MARKER)
        metadata = {b"avro.schema": json.dumps(self._stored).encode(), b"avro.codec": b"null"}
        texts = b"".join(encoded_number(len(text)) + text for pair in metadata.items() for text in pair)
        block = encoded_number(records.number) + encoded_number(len(records.data))
        return b"".join((_MAGIC, encoded_number(len(metadata)), texts, b"\0", marker, block, records.data, marker))

    def _header(self, size: int) -> tuple[dict[str, bytes], int] | None:
        """Return the metadata and the position of the first block, by the first bytes; None if these are too few."""
        head = self._read(0, size)
        if bytes(head[: len(_MAGIC)]) != _MAGIC:
            raise pa.ArrowInvalid("it does not begin as a container file of Avro")
        try:
            metadata, at = AvroTexts().value_at(_METADATA, head, len(_MAGIC))
        except (IndexError, UnicodeDecodeError):
            return None
        return (metadata, at + _MARKER) if at + _MARKER <= len(head) else None

    def _blocks(self, position: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the blocks from one on that begin before the end: the records, position and size of each."""
        while position < min(end, self._size):
            head = self._read(position, _HEAD)
            try:
                count, at = number_at(head, 0)
                size, at = number_at(head, at)
            except IndexError:
                raise _damaged(position) from None
            marker = position + at + size
            if count < 0 or size < 0 or self._read(marker, _MARKER) != self._marker:
                raise _damaged(position)
            yield count, position + at, size
            position = marker + _MARKER

    def _first_block(self, begin: int, end: int) -> int:
        """Return the position of the first block that begins in some bytes; their end if none does."""
        if begin <= self._begin:
            return self._begin
        for at in range(begin - _MARKER, end - _MARKER, _WINDOW):
            size = min(_WINDOW + _MARKER - 1, end - 1 - at)
            if (offset := bytes(self._read(at, size)).find(self._marker)) >= 0:
                return at + offset + _MARKER
        return end

    def _decompressed(self, data: bytes) -> bytes:
        try:
            block = self._decompress(data)
        except (zlib.error, lzma.LZMAError, EOFError, IndexError, OSError) as error:
            raise pa.ArrowInvalid(f"a block cannot be decompressed: {error}") from error
        if len(block) > _MOST:
            raise pa.ArrowInvalid(f"it has a block of more than {_MOST:,} bytes")
        return block

    def _read(self, position: int, size: int) -> memoryview:
        """Return bytes of the file, or fewer at its end; they are read in windows."""
        if position < self._at or position + size > self._at + len(self._window):
            if position >= self._size:
                return memoryview(b"")
            self._window, self._at = self._file.read_at(max(size, _WINDOW), position), position
        start = position - self._at
        return memoryview(self._window)[start : start + size]


def _damaged(position: int) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"the block at byte {position:,} is truncated or damaged")


def _snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _MOST:
        raise EOFError("it is too large")
    block: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(data[-4:]):
        raise EOFError("its checksum differs")
    return block


def _zstandard(data: bytes) -> bytes:
    return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(_MOST + 1))


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _MOST + 1),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, _MOST + 1),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data, _MOST + 1),
}


_SMALL = 2 * 2**20  # bytes of an object; larger ones are decoded as they are read


class LandedAvro:
    """The rows of Avro, divided into shares by the blocks that begin in their bytes.

    The columns of the table may have those of the object by their aliases.
    """

    def __init__(self, file: pa.NativeFile, origin: str, expected: ExpectedObject) -> None:
        self._size = int(file.size())
        self._origin = origin
        self._avro = _AvroFile(file, origin, expected.columns)
        self._calendar = OldCalendar.of({key.encode(): value for key, value in self._avro.metadata.items()})
        self.schema: pa.Schema = self._avro.schema
        self.count: int | None = None if self._avro.has_blocks else 0

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return self._size <= _SMALL

    def read(
        self,
        part: Part,
        columns: Sequence[str],
        fitter: Fitter,  # noqa: ARG002 - all rows of a block are decoded
        *,
        numbered: bool,
    ) -> Iterator[LandedBatch | BadRows]:
        """See `LandedRows`."""
        own = part.span(self._size)
        before = cache(partial(self._avro.count_before, own.start))
        first, letters = (before(), None) if numbered else (0, partial(renumbered, before))
        for records in self._avro.records(own.start, own.stop):
            for batch in self._decoded(records, columns or self.schema.names[:1]):
                yield LandedBatch(batch, first, letters)
                first += batch.num_rows

    def _decoded(self, records: _AvroRecords, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import duckdb  # noqa: PLC0415 - tasks of other formats need none

        schema = pa.schema([self.schema.field(name) for name in columns])
        names = ", ".join(column_name(self.schema.names.index(name)) for name in columns)
        count = 0
        query = f"SELECT {names} FROM read_avro(?)"  # noqa: S608 - names of this file
        try:
            with NamedTemporaryFile(suffix=".avro") as file, _engine().cursor() as cursor:
                file.write(self._avro.stored(records))
                file.flush()
                for batch in cursor.execute(query, [file.name]).to_arrow_reader(BATCH_ROWS):
                    count += batch.num_rows
                    yield pa.RecordBatch.from_arrays(list(map(self._typed, batch.columns, schema)), schema.names)
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise pa.ArrowInvalid(f"a record is damaged: {str(error).splitlines()[0]}") from error
        if count != records.number:
            raise pa.ArrowInvalid(f"a record is damaged: {count:,} of {records.number:,} rows can be decoded")

    def _typed(self, values: pa.Array, field: pa.Field) -> pa.Array:
        if is_opaque(field.type):
            return values
        array = cast(values, field.type)
        is_old, column = self._calendar.is_old(field.type), f"column {field.name!r} of {self._origin}"
        return self._calendar.converted(array, column) if is_old else array


@cache
def _engine() -> "duckdb.DuckDBPyConnection":
    """Return this process's engine. It may have to download an extension."""
    from lake_assets.base.duckdb_engine import open_engine  # noqa: PLC0415

    try:
        return open_engine(("avro",))
    except CatalogError as error:
        raise MissingExtraError(
            f"format: avro needs DuckDB's extension avro where tasks run ({error.problem.rstrip(':')}):",
            f"{install('avro')}.",
        ) from error
