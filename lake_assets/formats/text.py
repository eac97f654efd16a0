"""Texts of one record a line, parsed by Arrow: JSON lines and CSV."""

import csv
import json
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj

from lake_assets.errors import LandingError, SchemaError
from lake_assets.formats.records import NOT_ONE_RECORD, Block, Positions, Records, line_breaks
from lake_assets.formats.schema import as_text, has_codes, inferred, too_wide, wide_integer, wide_integers

_BOM = b"\xef\xbb\xbf"
_CLOSE, _OPEN = b"}{"
_SAMPLE = 2**20  # bytes from which a schema is inferred


class Text(ABC):
    """One source of text; parses its lines and knows its columns once these are fixed.

    Args:
        source: its path, or `-`.
        schema: see `read_records`.
    """

    blank = b"\r"

    def __init__(self, source: str, schema: Callable[[Callable[[], pa.Schema]], pa.Schema]) -> None:
        self.source = source
        self._schema_of = schema
        self._schema: pa.Schema | None = None
        self._line = 1

    @abstractmethod
    def records(self, block: memoryview) -> Iterator[Records]:
        """Return the records of the source's next lines, each with its line break."""

    @abstractmethod
    def read(self, text: memoryview, breaks: Positions) -> pa.Table:
        """See `Parser`."""

    def explain(self, line: bytes) -> str | None:  # noqa: ARG002 - for the forms that override it
        """See `Parser`."""
        return None

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
    """One JSON object a line."""

    blank = b" \t\r"

    def records(self, block: memoryview) -> Iterator[Records]:
        """See `Text`."""
        if self._line == 1 and block[: len(_BOM)] == _BOM:
            block = block[len(_BOM) :]
        breaks, line = line_breaks(block), self._line
        self._line += len(breaks)
        if self._schema is None:
            if not bytes(block).strip():
                return  # nothing to infer from yet
            self._schema = self._schema_of(lambda: self._infer(bytes(block[: _sample(breaks)])))
        yield Block(block, breaks, line, self)

    @cached_property
    def _options(self) -> pj.ParseOptions:
        schema = as_text(self._schema or pa.schema([]))
        return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")

    def read(self, text: memoryview, breaks: Positions) -> pa.Table:
        """See `Parser`."""
        # Otherwise a line of two and a record on two lines could make up for each other in the count of rows.
        if not _between_records(text, breaks):
            raise pa.ArrowInvalid(NOT_ONE_RECORD)
        return _parse_json(text, self._options)

    def explain(self, line: bytes) -> str | None:
        """See `Parser`."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            return f"no JSON: {error}"
        if not isinstance(record, dict):
            return f"a JSON {type(record).__name__}, and not an object"
        known = self._schema.names if self._schema is not None else ()
        unknown = [name for name in record if name not in known]
        return f"unknown field {unknown[0]!r}" if unknown else None

    def _infer(self, sample: bytes) -> pa.Schema:
        schema = self._infer_first(self._objects(sample))
        if schema is None:
            raise LandingError(
                f"none of the first lines of {self.source} is a JSON object:", "check the file, and --format."
            )
        return schema

    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        text = b"\n".join(lines)
        first = _parse_json(text, pj.ParseOptions())
        texts = pj.ParseOptions(explicit_schema=as_text(first.schema))
        names = dict.fromkeys(name for line in lines for name in json.loads(line))
        return inferred(_parse_json(text, texts).select(list(names)), texts=True)

    def _objects(self, text: bytes) -> list[bytes]:
        """Return the lines that are JSON objects, without values of another kind than most of their field.

        Arrow's reader overflows its stack at deeply nested arrays; Python's raises an error.

        Raises:
            SchemaError: one has a whole number that no inferred type can hold.
        """
        records: list[tuple[bytes, dict[str, object]]] = []
        kinds: defaultdict[str, Counter[type]] = defaultdict(Counter)
        for line in text.split(b"\n"):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                for name, value in record.items():
                    if (number := wide_integer(value)) is not None:
                        raise too_wide(name, self.source, number)
                    kinds[name][_kind(value)] += value is not None
                records.append((line, record))
        # Of as many texts as others, the texts are the mistakes, such as `n/a`.
        usual = {name: max(counts, key=lambda kind: (counts[kind], kind is not str)) for name, counts in kinds.items()}
        return [_without_unusual(line, record, usual) for line, record in records]


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


def _without_unusual(line: bytes, record: Mapping[str, object], usual: Mapping[str, type]) -> bytes:
    """Return the line of a record without its values that are not of these kinds."""
    kept = {name: value for name, value in record.items() if value is None or _kind(value) is usual[name]}
    return line if len(kept) == len(record) else json.dumps(kept).encode()


class CsvText(Text):
    """Comma-separated values (RFC 4180) below a line of names; a value has no line break, an empty one is NULL.

    Args:
        source: as of `Text`.
        schema: as of `Text`.
        integers: names of columns whose numbers are not codes.
    """

    _names: list[str] | None = None

    def __init__(
        self, source: str, schema: Callable[[Callable[[], pa.Schema]], pa.Schema], integers: Collection[str] = ()
    ) -> None:
        super().__init__(source, schema)
        self._integers = integers

    def records(self, block: memoryview) -> Iterator[Records]:
        """See `Text`; the first line has the names."""
        if self._names is None:
            header = bytes(block).split(b"\n", 1)[0]
            block, self._line = block[len(header) + 1 :], 2
            self._names = next(csv.reader([header.removeprefix(_BOM).decode("utf-8", "replace").strip()]), [])
        records = Block(block, line_breaks(block), self._line, self)
        self._line += len(records)
        if not bytes(block).strip():
            return
        if self._schema is None:
            schema = self._schema_of(lambda: self._infer(records))
            self._schema = pa.schema([field for field in as_text(schema) if field.name in self._names])
        yield records

    def read(self, text: memoryview, breaks: Positions) -> pa.Table:  # noqa: ARG002 - a row ends where its line does
        """See `Parser`."""
        return self._parse(text, self._schema)

    def _infer(self, block: Block) -> pa.Schema:
        schema = self._infer_first([line for _, line in block.lines().lines])
        if schema is None:
            raise LandingError(f"none of the first lines of {self.source} fits its line of names:", "check the file.")
        return schema

    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        text = b"\n".join(lines)
        fields = list(as_text(self._parse(text, None).schema))
        numbers = [field for field in fields if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
        texts = self._parse(text, pa.schema([field.with_type(pa.string()) for field in numbers]))
        for index, (field, column) in enumerate(zip(fields, texts.columns, strict=True)):
            if field in numbers and field.name not in self._integers and has_codes(column, long=False):
                fields[index] = field.with_type(pa.string())
            elif pa.types.is_floating(field.type):
                for number in wide_integers(column):
                    raise too_wide(field.name, self.source, number)
        return inferred(self._parse(text, pa.schema(fields)), texts=True, numbers=True)

    def _parse(self, text: bytes | memoryview, types: pa.Schema | None) -> pa.Table:
        try:
            return pc.read_csv(
                pa.BufferReader(text),
                pc.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1),
                pc.ParseOptions(newlines_in_values=False),
                pc.ConvertOptions(
                    column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
                ),
            )
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(f"CSV cannot hold a column of this schema: {error}.", "Use JSON lines.") from error


def _sample(breaks: Positions) -> int:
    """Return the size of the first lines, up to the first one that ends beyond the sample; of all if none does."""
    return int(breaks[min(int(np.searchsorted(breaks, _SAMPLE)), len(breaks) - 1)]) + 1


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
