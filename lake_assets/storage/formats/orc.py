"""The rows of an ORC object."""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import pyarrow as pa
from pyarrow import orc
from pyarrow import types as t

from lake_assets.base.errors import SchemaError
from lake_assets.schema.annotations import ORC, ORC_KEYS, annotated_type, is_opaque, opaque_type
from lake_assets.schema.arrow_types import leaf_types, shown_type
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.calendars import OldCalendar
from lake_assets.schema.casts import cast
from lake_assets.schema.fitter import Fitter
from lake_assets.storage.formats.landed_rows import BATCH_ROWS, DECODED, ExpectedObject, LandedBatch, Part, renumbered

_WORD = re.compile(r"\w+")  # of a type's name, before its precision


# Field 11 of the footer, which the writer's version follows.
_NEW_CALENDAR = re.compile(rb"X\x02(b.[ -~]*)?\Z", re.DOTALL)
_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "ZLIB": lambda data: zlib.decompress(data, -zlib.MAX_WBITS),
    "ZSTD": lambda data: bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()),
}


class LandedOrc:
    """The rows of ORC, divided into shares by its stripes.

    Arrow reads all timestamps in nanoseconds. They are microseconds here, which hold what Spark and Hive write, unless
    the table has the column in nanoseconds.
    """

    def __init__(self, file: pa.NativeFile, origin: str, _: ExpectedObject) -> None:
        self._origin = origin
        self._size = int(file.size())
        self._orc = orc.ORCFile(file)
        self.count: int | None = int(self._orc.nrows)
        kinds = [(field.name, _annotated(field)) for field in self._orc.schema]
        # Wholly, because parts of it could not be cast beside one that no column holds.
        whole = [(name, opaque_type(pa.null(), shown_type(kind)) if is_opaque(kind) else kind) for name, kind in kinds]
        self._nanos = pa.schema(whole)
        self.schema: pa.Schema = pa.schema([field.with_type(_in_micros(field.type)) for field in self._nanos])
        self._calendar = OldCalendar(days=True, is_utc=True) if self._has_old_days(file) else OldCalendar()

    def _has_old_days(self, file: pa.NativeFile) -> bool:
        """Return whether days are of the old calendar, as by default of the writer in Java; Arrow does not tell."""
        has_days = any(t.is_date(leaf) for kind in self.schema.types for leaf in leaf_types(kind))
        if self._orc.writer != "ORC_JAVA" or not has_days:
            return False
        length = self._orc.file_footer_length
        footer, parts = file.read_at(length, self._size - 1 - self._orc.file_postscript_length - length), []
        decompress = _CODECS.get(self._orc.compression)
        while decompress and footer:  # chunks, each behind its length and whether it is not compressed
            head, footer = int.from_bytes(footer[:3], "little"), footer[3:]
            chunk, footer = footer[: head >> 1], footer[head >> 1 :]
            parts.append(chunk if head & 1 else decompress(chunk))
        return _NEW_CALENDAR.search(b"".join(parts) or footer) is None

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return int(self._orc.nrows) <= BATCH_ROWS and self._size <= DECODED

    def read(
        self, part: Part, columns: Sequence[str], fitter: Fitter, *, numbered: bool
    ) -> Iterator[LandedBatch | BadRows]:
        """See `LandedRows`."""
        own = part.span(self._orc.nstripes)
        before = cache(partial(self._count_before, own.start))
        names = columns or self.schema.names[:1]
        first, letters = (before(), None) if numbered else (0, partial(renumbered, before))
        for stripe in own:
            stored = self._stripe(stripe, names)
            for start in range(0, stored.num_rows, BATCH_ROWS):
                batch = self._converted(stored.slice(start, BATCH_ROWS), fitter)
                yield LandedBatch(batch, first, letters)
                first += batch.num_rows

    def _stripe(self, stripe: int, columns: Sequence[str]) -> pa.RecordBatch:
        return self._orc.read_stripe(stripe, [self.schema.names.index(name) for name in columns])

    def _count_before(self, stripe: int) -> int:
        return sum(self._stripe(number, self.schema.names[:1]).num_rows for number in range(stripe))

    def _converted(self, rows: pa.RecordBatch, fitter: Fitter) -> pa.RecordBatch:
        """Return rows with timestamps in microseconds, where the table has them so."""
        arrays = []
        for name, values in zip(rows.schema.names, rows.columns, strict=True):
            try:
                kind = (self._nanos if name in fitter.nanos else self.schema).field(name).type
                array = values if is_opaque(kind) else cast(values, kind)
                is_old, column = self._calendar.is_old(kind), f"column {name!r} of {self._origin}"
                arrays.append(self._calendar.converted(array, column) if is_old else array)
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    f"column {name!r} of {self._origin} has a timestamp that microseconds do not hold ({error}):",
                    "round it where it is written, or declare type: TIMESTAMP_NS in `columns` for a new table.",
                ) from error
        return pa.RecordBatch.from_arrays(arrays, rows.schema.names)


def _annotated(field: pa.Field) -> pa.DataType:
    """Return the type of a column, or a part of one, by its attributes."""
    if t.is_union(field.type):
        return opaque_type(field.type, "UNION")
    texts = (text for key in ORC_KEYS if (text := (field.metadata or {}).get(key)) is not None)
    name = next((match[0] for text in texts if (match := _WORD.match(text.decode()))), None)
    return _with_parts(field.type, _annotated) if name is None else annotated_type(field.type, name, ORC)


def _in_micros(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz) if t.is_timestamp(kind) else _with_parts(kind, lambda f: _in_micros(f.type))


def _with_parts(kind: pa.DataType, of: Callable[[pa.Field], pa.DataType]) -> pa.DataType:
    """Return a type with `of` each part in place of the part."""
    if t.is_struct(kind):
        return pa.struct([pa.field(field.name, of(field)) for field in kind])
    if t.is_map(kind):
        return pa.map_(of(kind.key_field), of(kind.item_field))
    return pa.list_(of(kind.value_field)) if t.is_list(kind) else kind
