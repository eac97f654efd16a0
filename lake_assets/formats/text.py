"""Texts of records, parsed by Arrow: JSON lines and CSV."""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
from pyarrow import compute

from lake_assets.config.formats import CsvFormat
from lake_assets.errors import LandingError, SchemaError
from lake_assets.formats.blocks import TextBlock
from lake_assets.formats.dialects import DialectTypes, ShortRecords, header_names, with_plain_escapes
from lake_assets.formats.record_ends import FindEnds, Positions, Quotes, line_breaks
from lake_assets.formats.records import NOT_ONE_RECORD, Block, Lines, Rejected, reason_of
from lake_assets.formats.rescue import NOTHING, NumberText, converted, dumped, exact_float, leftover, merged
from lake_assets.formats.schema import BLANKS, as_text, fit, has_codes, inferred, too_wide, wide_integer, wide_integers

_BOM = b"\xef\xbb\xbf"
_CLOSE, _OPEN = b"}{"
_SAMPLE = 2**20  # bytes from which a schema is inferred
_WIDE, _WIDEST = pa.decimal128(38, 0), 10**38
_LANDED = CsvFormat()
_UNKNOWN = "unknown field"
_MISREAD = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?(?:CSV conversion error to ([^:]+): )?(.*)")
_MISCOUNTED = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")

FixSchema = Callable[[Callable[[], pa.Schema]], pa.Schema]
"""Takes a function that infers a schema from the first records, and returns the schema of all records."""

Unknown = Literal["error", "ignore", "infer"]
"""What becomes of a field that the schema lacks: an error of its record, nothing, or a value in the column `rescue`."""


class Text(ABC):
    """One source of text; parses its lines and knows its columns once these are fixed.

    Args:
        source: its path, or `-`.
        schema: of the records, or how it is fixed, as of `read_records`.
        for_table: infer types for a table: none of columns without values, and decimals of numbers beyond 64 bits.
        rescue: the column that rows of `read` get with what does not fit, if there is any; None: it is an error.
    """

    blank = b"\r"

    def __init__(
        self, source: str, schema: pa.Schema | FixSchema, *, for_table: bool = False, rescue: str | None = None
    ) -> None:
        self.source = source
        self._rescue = rescue
        self._for_table = for_table
        self._fix = schema if callable(schema) else None
        self._schema: pa.Schema | None = None if callable(schema) else schema
        self._line = 1

    @property
    def quotes(self) -> Quotes | None:
        """How a record may have line breaks; None if it has none."""
        return None

    @property
    def find_ends(self) -> FindEnds:
        """Finds the ends of records."""
        return self.quotes.ends if self.quotes else line_breaks

    def ends_from_anywhere(self, text: memoryview, *, is_long: bool) -> Positions | None:
        """Return the ends of the records of a text that begins anywhere, as of `Quotes`."""
        return self.quotes.ends_from_anywhere(text, is_long=is_long) if self.quotes else line_breaks(text[1:]) + 1

    def _fixed(self, records: "Block | Lines") -> pa.Schema:
        """Return the schema of all records, given the first ones."""
        if self._schema is None:
            assert self._fix is not None  # noqa: S101 - one of both is given
            self._schema = self._fix(lambda: self.infer(records))
        return self._schema

    @abstractmethod
    def records(self, block: TextBlock) -> Iterator[Block | Lines]:
        """Return the source's next records."""

    @abstractmethod
    def read(self, text: memoryview, ends: Positions) -> pa.Table:
        """See `Parser`."""

    def explain(self, record: bytes, error: Exception) -> str:  # noqa: ARG002 - for the forms that override it
        """See `Parser`."""
        return reason_of(error)

    def infer(self, records: Block | Lines) -> pa.Schema:
        """Return the columns that records have, by the first of them that agree.

        Raises:
            LandingError: none of them fits.
            SchemaError: a number is too large for each type that could be inferred.
        """
        schema, size, first = None, 0, list[bytes]()
        for _, record in (records if isinstance(records, Lines) else records.lines()).lines:
            first.append(record)
            size += len(record)
            if size >= _SAMPLE:
                break
        schema = self._infer_first(self._admitted(first))
        if schema is None:
            raise LandingError(
                f"none of the first records of {self.source} can be read:", "check the file, and its format."
            )
        return schema

    def _admitted(self, records: Sequence[bytes]) -> Sequence[bytes]:
        """Return the records from which a schema is inferred."""
        return records

    @abstractmethod
    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        """Return the schema of these lines; raises ArrowInvalid if two of them disagree."""

    def _infer_first(self, lines: Sequence[bytes]) -> pa.Schema | None:
        """Return the schema of the first of these lines that agree; None if there is no line."""
        while lines:
            try:
                return self._infer_all(lines)
            except pa.ArrowInvalid:
                lines = lines[: len(lines) // 2]
        return None


class JsonText(Text):
    """One JSON object a line.

    Args:
        source, schema, for_table, rescue: as of `Text`.
        unknown: what becomes of a record with a field that the schema lacks.
        omitted: such fields that are left out, in lower case.
        reserved: such fields that are refused in any case, in lower case.
    """

    blank = b" \t\r"

    def __init__(
        self,
        source: str,
        schema: pa.Schema | FixSchema,
        *,
        unknown: Unknown = "error",
        omitted: Collection[str] = (),
        for_table: bool = False,
        rescue: str | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        super().__init__(source, schema, for_table=for_table, rescue=rescue)
        self._unknown = unknown
        self._reserved = reserved
        self._omitted = omitted
        self._wide: set[str] = set()  # columns with numbers beyond 64 bits

    def records(self, block: TextBlock) -> Iterator[Block]:
        """See `Text`."""
        text, ends = block
        if self._line == 1 and text[: len(_BOM)] == _BOM:
            text, ends = text[len(_BOM) :], ends - len(_BOM)
        records = Block(text, ends, self._line, self)
        self._line += len(ends)
        if self._schema is not None or bytes(text).strip():  # otherwise there is nothing to infer from yet
            self._fixed(records)
            yield records

    @cached_property
    def _options(self) -> pj.ParseOptions:
        unknown = "infer" if self._omitted and self._unknown == "error" else self._unknown
        return pj.ParseOptions(
            explicit_schema=self._texts, unexpected_field_behavior="ignore" if self._maps else unknown
        )

    @cached_property
    def _texts(self) -> pa.Schema:
        return as_text(pa.schema([field for field in self._schema or () if field.name not in self._maps]))

    @cached_property
    def _maps(self) -> frozenset[str]:
        """The columns that Arrow's reader has no type for."""
        return frozenset(field.name for field in self._schema or () if pa.types.is_map(field.type))

    def read(self, text: memoryview, ends: Positions) -> pa.Table:
        """See `Parser`."""
        # Otherwise a line of two and a record on two lines could make up for each other in the count of rows.
        if not _between_records(text, ends):
            raise pa.ArrowInvalid(NOT_ONE_RECORD)
        if self._schema is None or (self._rescue is None and not self._maps):
            return self._known(_parse_json(text, self._options))
        rows = None
        try:
            rows = _parse_json(text, self._options)
            if rows.schema.equals(self._texts) and not self._maps:
                return fit(rows, self._schema)
        except pa.ArrowInvalid:
            if self._rescue is None:
                raise
        return self._by_records(text, ends, rows)

    def _by_records(self, text: memoryview, ends: Positions, rows: pa.Table | None) -> pa.Table:
        """Return the rows, with the fields and values that do not fit in the column `rescue`; it takes some time.

        Args:
            text: as of `read`.
            ends: as of `read`.
            rows: those that Arrow has read, of which some columns may be of other types; None if it could not.

        Raises:
            ArrowInvalid: a record is no object, has a field twice, or one that is to be refused.
        """
        assert self._schema is not None  # noqa: S101 - the caller checks
        starts = np.append(0, ends[:-1] + 1).tolist()
        records = [_object_of(bytes(text[start:end])) for start, end in zip(starts, ends.tolist(), strict=True)]
        names = set(self._schema.names)
        kept: list[dict[str, object]] = []
        for record in records:
            unknown = {name: one for name, one in record.items() if name not in names and one is not None}
            unknown = {name: one for name, one in unknown.items() if name.lower() not in self._omitted}
            for name in unknown:
                if self._unknown == "error" or name.lower() in self._reserved:
                    raise pa.ArrowInvalid(f"{_UNKNOWN} {name!r}")
            kept.append(unknown if self._unknown == "infer" else {})
        columns = []
        for field in self._schema:
            values = [record.get(field.name) for record in records]
            if rows is not None and not pa.types.is_nested(field.type) and field.name in rows.column_names:
                try:
                    columns.append(fit(rows.select([field.name]), pa.schema([field])).column(0))
                    continue
                except pa.ArrowInvalid:
                    pass
            others = [row for row, value in enumerate(values) if not _may_be(value, field.type)]
            known = [None if not _may_be(value, field.type) else value for value in values] if others else values
            column, unfit = converted(len(values), partial(_of_values, field, known), field.type)
            unfit += others
            columns.append(column)
            if unfit and self._rescue is None:
                raise pa.ArrowInvalid(f"{field.name}: a value is no {field.type}")
            refused = set(unfit)
            for row, value in enumerate(values):
                rest = value if row in refused else leftover(value, field.type)
                if rest is not NOTHING and (row in refused or self._unknown == "infer"):
                    kept[row][field.name] = rest
        if self._rescue is None:
            return pa.table(columns, schema=self._schema)
        texts = pa.array([dumped(one) if one else None for one in kept], pa.string())
        return pa.table([*columns, texts], schema=self._schema.append(pa.field(self._rescue, pa.string())))

    def _known(self, rows: pa.Table) -> pa.Table:
        """Return the known columns of the rows; refuses others that are not to be left out."""
        if not self._omitted:
            return rows
        for name in rows.schema.names:
            if name not in self._texts.names and name.lower() not in self._omitted:
                raise pa.ArrowInvalid(f"{_UNKNOWN} {name!r}")
        rows = rows.select(self._texts.names)
        if not rows.schema.equals(self._texts):
            raise pa.ArrowInvalid(f"{_UNKNOWN} within another one")
        return rows

    def explain(self, record: bytes, error: Exception) -> str:
        """See `Parser`."""
        try:
            found = json.loads(record)
        except (ValueError, RecursionError) as problem:
            return f"no JSON: {problem}"
        if not isinstance(found, dict):
            return f"a JSON {type(found).__name__}, and not an object"
        known = self._schema.names if self._schema is not None else ()
        known = {*known, *(name for name in found if name.lower() in self._omitted)}
        unknown = [name for name in found if name not in known] if self._unknown == "error" else []
        return f"{_UNKNOWN} {unknown[0]!r}" if unknown else reason_of(error)

    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        text = b"\n".join(lines)
        first = _parse_json(text, pj.ParseOptions()).schema
        kinds = pa.schema([field.with_type(_WIDE) if field.name in self._wide else field for field in first])
        texts = pj.ParseOptions(explicit_schema=as_text(kinds))
        names = dict.fromkeys(name for line in lines for name in json.loads(line))
        return inferred(_parse_json(text, texts).select(list(names)), texts=True, nulls=self._for_table)

    def _admitted(self, records: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines that are JSON objects, without values of another kind than most of their field.

        Arrow's reader overflows its stack at deeply nested arrays; Python's raises an error.

        Raises:
            SchemaError: one has a whole number that no inferred type can hold.
        """
        objects: list[tuple[bytes, dict[str, object]]] = []
        kinds: defaultdict[str, Counter[type]] = defaultdict(Counter)
        for line in records:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and (wide := _wide_of(record)) is not None:
                for name, number in wide.items():
                    value = record[name]
                    if not (self._for_table and isinstance(value, int) and abs(value) < _WIDEST):
                        raise too_wide(name, self.source, number)
                    self._wide.add(name)
                for name, value in record.items():
                    kinds[name][_kind(value)] += value is not None
                objects.append((line, record))
        # Of as many texts as others, the texts are the mistakes, such as `n/a`.
        usual = {name: max(counts, key=lambda kind: (counts[kind], kind is not str)) for name, counts in kinds.items()}
        return [_without_unusual(line, record, usual) for line, record in objects]


def is_of_unknown(rejected: Rejected) -> bool:
    """Return whether a record of JSON was rejected for a field that the schema lacks."""
    return rejected.reason.startswith((_UNKNOWN, "unexpected field"))


def _wide_of(record: Mapping[str, object]) -> dict[str, int] | None:
    """Return the whole numbers beyond 64 bits, by their field; None if the record is nested too deeply to be read."""
    try:
        return {name: number for name, value in record.items() if (number := wide_integer(value)) is not None}
    except RecursionError:
        return None


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


def _without_unusual(line: bytes, record: Mapping[str, object], usual: Mapping[str, type]) -> bytes:
    """Return the line of a record without its values that are not of these kinds."""
    kept = {name: value for name, value in record.items() if value is None or _kind(value) is usual[name]}
    return line if len(kept) == len(record) else json.dumps(kept).encode()


class CsvText(Text):
    """Comma-separated values (RFC 4180), or a dialect of them.

    Args:
        source, schema, rescue: as of `Text`.
        integers: names of columns whose numbers are not codes.
        dialect: of the text, which has been decoded; its lines to skip and its byte order mark are left out.
        names: of the columns; those of its first record when None.
        wanted: names of the columns that are read; None: all of the schema.
        for_table: as of `Text`.
    """

    def __init__(
        self,
        source: str,
        schema: pa.Schema | FixSchema,
        integers: Collection[str] = (),
        *,
        dialect: CsvFormat = _LANDED,
        names: Sequence[str] | None = None,
        wanted: Collection[str] | None = None,
        for_table: bool = False,
        rescue: str | None = None,
    ) -> None:
        super().__init__(source, schema, for_table=for_table, rescue=rescue)
        self._integers = integers
        self._dialect = dialect
        self._names = names
        self._wanted = wanted
        self._types = DialectTypes(dialect)

    @cached_property
    def quotes(self) -> Quotes | None:
        """See `Text`."""
        dialect = self._dialect
        if dialect.quote is None:
            return None
        escape = None if dialect.escape is None else dialect.escape.encode()
        return Quotes(dialect.quote.encode(), dialect.delimiter.encode(), escape)

    def records(self, block: TextBlock) -> Iterator[Block | Lines]:
        """See `Text`; the first record has the names unless they are known."""
        text, ends = block
        if self._names is None:
            header = bytes(text[: int(ends[0])])
            self._names = header_names(header, self._dialect, self.source)
            text, ends = text[len(header) + 1 :], ends[1:] - len(header) - 1
            self._line += header.count(b"\n") + 1
        found = Block(text, ends, self._line, self)
        self._line += len(line_breaks(text))
        comment = self._dialect.comment
        records = found if comment is None else self._without_comments(found, comment.encode())
        if not len(records) or not bytes(text).strip():
            return
        if self._schema is None:
            self._schema = pa.schema([field for field in self._fixed(records) if field.name in self._names])
        yield records

    def _without_comments(self, block: Block, comment: bytes) -> Block | Lines:
        starts = np.append(0, block.ends[:-1] + 1)
        if not (np.frombuffer(block.text, np.uint8)[starts] == ord(comment)).any():
            return block
        return Lines([line for line in block.lines().lines if not line[1].startswith(comment)], self)

    def read(self, text: memoryview, ends: Positions) -> pa.Table:  # noqa: ARG002 - a row ends where its record does
        """See `Parser`."""
        schema = self._schema or pa.schema([])
        try:
            rows = self._types.read(self._parse(text, self._types.parsed(schema)), schema)
            return (
                rows
                if self._rescue is None
                else fit(rows, pa.schema([schema.field(name) for name in rows.column_names]))
            )
        except pa.ArrowInvalid:
            if self._rescue is None:
                raise
        return self._rescued(self._parse(text, pa.schema([field.with_type(pa.string()) for field in schema])), schema)

    def _rescued(self, texts: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return the rows of texts, with the values that do not fit in the column `rescue`."""
        kept: defaultdict[int, dict[str, object]] = defaultdict(dict)
        columns = []
        for name, column in zip(texts.column_names, texts.columns, strict=True):
            field, values = schema.field(name), column.combine_chunks()
            found, unfit = converted(len(values), partial(self._of_texts, field, values), field.type)
            columns.append(found)
            for row in unfit:
                kept[row][name] = values[row].as_py()
        fields = [schema.field(name) for name in texts.column_names]
        rescued = merged(pa.nulls(len(texts), pa.string()), kept)
        return pa.table([*columns, rescued], schema=pa.schema([*fields, pa.field(str(self._rescue), pa.string())]))

    def _of_texts(self, field: pa.Field, values: pa.Array, start: int, stop: int) -> pa.Array:
        schema, part = pa.schema([field]), values.slice(start, stop - start)
        is_number = any(kind(field.type) for kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
        if is_number:
            part = compute.utf8_trim(part, BLANKS)
        rows = self._types.read(pa.table([part], schema=pa.schema([field.with_type(part.type)])), schema)
        return fit(rows, schema).column(0).combine_chunks()

    def explain(self, record: bytes, error: Exception) -> str:  # noqa: ARG002 - as of `Text`
        """See `Parser`."""
        reason = reason_of(error)
        if match := _MISREAD.match(reason):
            name = f"column {(self._names or ())[int(match[1])]!r}"
            return f"{name}, of type {match[2]}, has an {match[3]}" if match[2] else f"{name}: {match[3]}"
        if match := _MISCOUNTED.match(reason):
            return f"it has {match[2]} values, and there are {match[1]} columns"
        if reason == NOT_ONE_RECORD:
            return "a quote is not closed, or a line ends with a carriage return alone"
        return reason

    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        text = b"\n".join(lines)
        fields = list(as_text(self._parse(text, None).schema))
        numbers = [field for field in fields if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
        texts = self._parse(text, pa.schema([field.with_type(pa.string()) for field in numbers]))
        columns = {field.name: texts.column(field.name) for field in numbers}
        for index, field in enumerate(fields):
            column = columns.get(field.name)
            if column is not None and field.name not in self._integers and has_codes(column, long=False):
                fields[index] = field.with_type(pa.string())
            elif column is not None and pa.types.is_floating(field.type):
                for number in wide_integers(column):
                    if not self._for_table:
                        raise too_wide(field.name, self.source, number)
                    fields[index] = field.with_type(pa.string())
        rows = self._parse(text, pa.schema(fields))
        known = self._types.inferred(rows)
        return pa.schema(
            [known.get(field.name, field) for field in inferred(rows, texts=True, numbers=True, nulls=self._for_table)]
        )

    def _parse(self, text: bytes | memoryview, types: pa.Schema | None) -> pa.Table:
        return self._parse_escaped(with_plain_escapes(text, self._dialect), types)

    def _parse_escaped(self, text: bytes | memoryview, types: pa.Schema | None) -> pa.Table:
        dialect, short = self._dialect, ShortRecords(self._dialect)
        try:
            rows = pc.read_csv(
                pa.BufferReader(text),
                pc.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1),
                pc.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote or False,
                    escape_char=dialect.escape or False,
                    newlines_in_values=True,
                    invalid_row_handler=short.take if dialect.ragged == "pad" else None,
                ),
                pc.ConvertOptions(
                    column_types=types,
                    null_values=list(dialect.nulls),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=dialect.quoted_nulls,
                    decimal_point=dialect.decimal,
                    include_columns=self._wanted,
                ),
            )
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(f"CSV cannot hold a column of this schema: {error}.", "Use JSON lines.") from error
        return short.merged(rows, lambda padded: self._parse_escaped(padded, rows.schema))


def _may_be(value: object, kind: pa.DataType) -> bool:
    """Return whether a value of JSON may be one of a type, by what it is."""
    if value is None or pa.types.is_nested(kind):
        return True
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and bool(pa.types.is_boolean(kind))
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if isinstance(value, int | float | NumberText):
        return bool(is_number or pa.types.is_decimal(kind))
    return isinstance(value, str) and not bool(is_number)


def _of_values(field: pa.Field, values: Sequence[object], start: int, stop: int) -> pa.Array:
    """Return some values of JSON as the type of a field.

    Raises:
        ArrowInvalid: one of them is not of the type.
    """
    values = values[start:stop]
    if pa.types.is_map(field.type):
        return _maps_of(field.type, values)
    if pa.types.is_floating(field.type):
        values = [float(value) if isinstance(value, NumberText) else value for value in values]
    schema = pa.schema([field])
    lines = "".join(json.dumps({field.name: value}) + "\n" for value in values).encode()
    options = pj.ParseOptions(explicit_schema=as_text(schema), unexpected_field_behavior="ignore")
    return fit(_parse_json(lines, options), schema).column(0).combine_chunks()


def _maps_of(kind: pa.MapType, values: Sequence[object]) -> pa.Array:
    """Return objects of JSON as maps."""
    if not all(value is None or isinstance(value, dict) for value in values):
        raise pa.ArrowInvalid("a value is no object")
    maps = [value if isinstance(value, dict) else {} for value in values]
    items = [item for one in maps for item in one.values()]
    offsets = np.cumsum([0, *map(len, maps)]).astype(np.int32)
    keys = pa.array([key for one in maps for key in one], pa.string()).cast(kind.key_type)
    found = (
        _of_values(pa.field("value", kind.item_type), items, 0, len(items)) if items else pa.nulls(0, kind.item_type)
    )
    is_null = pa.array([value is None for value in values])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, found, mask=is_null).cast(kind)


def _object_of(line: bytes) -> dict[str, object]:
    """Return a record of JSON.

    Raises:
        ArrowInvalid: it is no object, or has a field twice.
    """

    def unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a field is there twice")
        return found

    try:
        found = json.loads(line, object_pairs_hook=unique, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise pa.ArrowInvalid(str(error)) from error
    if not isinstance(found, dict):
        raise pa.ArrowInvalid(f"a JSON {type(found).__name__}, and not an object")
    return found


def _between_records(text: memoryview, breaks: Positions) -> bool:
    """Return whether each line break but the last is between `}` and `{`, as none within a JSON object is."""
    characters, breaks = np.frombuffer(text, np.uint8), breaks[:-1]
    return bool((characters[breaks - 1] == _CLOSE).all() and (characters[breaks + 1] == _OPEN).all())


def _parse_json(text: bytes | memoryview, options: pj.ParseOptions) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=options,
    )
