"""JSON, objects one behind the other."""

# ruff: noqa: D102 - `LandedRows`, `Parser` and `TextSource` say what the methods do

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from lake_assets.schema.annotations import has_map
from lake_assets.schema.arrow_types import with_types_of
from lake_assets.schema.bad_rows import (
    CAST_ERRORS,
    NOTHING,
    as_json,
    converted_values,
    exact_float,
    matched_fields,
    path_of,
    split_by_type,
)
from lake_assets.schema.casts import NumberText, has_large, may_wrap, rounded_number
from lake_assets.schema.column_rules import STRICT, ColumnVerdict, Rules
from lake_assets.schema.dialects import replaced_leaves, with_times_as_text
from lake_assets.schema.misfits import wider_type
from lake_assets.storage.formats.blocks import FindEnds, Positions, TextBlock, line_breaks, object_breaks
from lake_assets.storage.formats.inferred_types import allowed_mistakes, fit, inferred, too_wide
from lake_assets.storage.formats.json_documents import documents, have_breaks, parts_of
from lake_assets.storage.formats.landed_rows import ExpectedObject, Part
from lake_assets.storage.formats.landed_text import LandedText
from lake_assets.storage.formats.records import NOT_ONE_RECORD, Block, FixSchema, Lines, Rejected, TextSource, reason_of
from lake_assets.storage.formats.text_files import PEEKED

_MANY = re.compile(rb"\n|\}[ \t\r]*\{")  # of a text that may have several objects
_WHOLE_NUMBER = re.compile("-?[0-9]+")
_WIDE, _WIDEST = pa.decimal128(38, 0), 10**38
_UNKNOWN = "unknown field"
_NO_TEXT = re.compile(r"changed from (string|null) to |changed from \w+ to string|Number too big")
_SHOWN = 200  # characters of a value
_WHOLE = re.compile(r"to u?int\d+, couldn't parse: ?-?\d+(\.0*|(\.\d*)?[eE]\+?\d+)$")
_OBJECT = re.compile(rb"[ \t\r\n]*\{")
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*+)"[ \t\r\n]*:')

_BEHAVIOURS = {ColumnVerdict.REFUSE: "error", ColumnVerdict.LEAVE_OUT: "ignore", ColumnVerdict.RESCUE: "infer"}
"""Of Arrow's reader, if a record has a field that the schema lacks."""


class JsonText(TextSource):
    """JSON objects, as a rule one a line."""

    blank = b" \t\r\n"

    def __init__(
        self,
        source: str,
        schema: pa.Schema | FixSchema,
        rules: Rules | None = None,
        unknown: ColumnVerdict = ColumnVerdict.REFUSE,
    ) -> None:
        super().__init__(source, schema, rules)
        self._unknown = unknown  # what becomes of a field that the schema lacks: of `_BEHAVIOURS`
        self._reserved = STRICT.reserved if rules is None else rules.reserved  # of them, those that are refused always
        self._omitted = STRICT.omitted if rules is None else rules.omitted  # of them, those that are left out
        self._wide: set[str] = set()  # columns with numbers beyond 64 bits

    @property
    def find_ends(self) -> FindEnds:
        return object_breaks

    def ends_from_anywhere(self, text: memoryview, *, is_long: bool) -> Positions | None:  # noqa: ARG002 - as of `TextSource`
        # Blanks before the first line break do not tell what is before them.
        first = bytes(text).find(b"\n")
        return object_breaks(text, is_last=False) if bytes(text[:first]).strip() or first < 0 else None

    def split(self, record: bytes) -> Sequence[tuple[int, bytes]]:
        return parts_of(record) if _MANY.search(record) else [(0, record)]

    def records(self, block: TextBlock) -> Iterator[Block]:
        text, ends = block
        records = Block(text, ends, self._line, self)
        self._line += len(line_breaks(text))
        if self._schema is not None or bytes(text).strip():  # otherwise there is nothing to infer from yet
            self._fixed(records)
            yield records

    @cached_property
    def _options(self) -> pj.ParseOptions:
        unknown = ColumnVerdict.RESCUE if self._omitted and self._unknown is ColumnVerdict.REFUSE else self._unknown
        behaviour = "ignore" if self._maps else _BEHAVIOURS[unknown]
        return pj.ParseOptions(explicit_schema=self._texts, unexpected_field_behavior=behaviour)

    @cached_property
    def _texts(self) -> pa.Schema:
        return with_times_as_text(pa.schema([field for field in self._schema or () if field.name not in self._maps]))

    @cached_property
    def _maps(self) -> frozenset[str]:
        """The columns with maps, for which Arrow's reader has no type."""
        return frozenset(field.name for field in self._schema or () if has_map(field.type))

    def read(self, text: memoryview, ends: Positions) -> pa.Table:
        # Otherwise a line of two and a record on two lines could make up for each other in the count of rows.
        if not np.array_equal(ends, object_breaks(text, is_last=True)):
            raise pa.ArrowInvalid(NOT_ONE_RECORD)
        if _OBJECT.match(text) is None:  # the others begin behind `}`; Arrow ends the process for a single null
            _object_of(bytes(text))
        if self._schema is None:
            return _parse_json(text, self._options)
        rows = None
        try:
            if self._unknown is not ColumnVerdict.LEAVE_OUT or not self.folds(text):
                rows = self._parsed(text, ends)
                if (known := self._known(rows)) is not None:
                    return known
        except pa.ArrowInvalid as error:
            if self._rescue is None and not _NO_TEXT.search(str(error)) and not self.folds(text):
                raise
        return self._by_records(text, ends, rows)

    def _known(self, rows: pa.Table) -> pa.Table | None:
        """Return the rows of Arrow's reader in the schema's form; None if they may lack what a record has."""
        names = self._texts.names
        rows = rows.select([name for name in rows.column_names if name in names or name.lower() not in self._omitted])
        if self._maps or not rows.schema.equals(self._texts):
            return None
        return rows if self._rescue is None else fit(rows, self._schema)

    def folds(self, text: memoryview) -> bool:
        """Return whether a text has a field that is a known one in another case, at any depth, as it may be."""
        for key in set(_KEY.findall(text)):
            name = json.loads(b'"%b"' % key) if b"\\" in key else key.decode("utf-8", "replace")
            if self._spelled.get(name.lower(), {name}) != {name}:
                return True
        return False

    @cached_property
    def _spelled(self) -> dict[str, set[str]]:
        """The names of fields at all depths, by those in lower case."""
        spellings = defaultdict[str, set[str]](set)
        for name in _names_in(pa.struct(list(self._schema or ()))):
            spellings[name.lower()].add(name)
        return spellings

    def _parsed(self, text: memoryview, ends: Positions) -> pa.Table:
        """Return the rows by Arrow's reader, and whole numbers such as 10.0 for columns of these, none rounded."""
        try:
            rows = _parse_json(text, self._options)
        except pa.ArrowInvalid as error:
            if not _WHOLE.search(str(error)):
                raise
            doubles = [field.with_type(replaced_leaves(field.type, _with_fraction)) for field in self._texts]
            behavior = self._options.unexpected_field_behavior
            options = pj.ParseOptions(explicit_schema=pa.schema(doubles), unexpected_field_behavior=behavior)
            rows = _parse_json(text, options)
            if any(map(has_large, rows.columns)):
                raise
            kinds = [
                kind if name not in self._texts.names else self._texts.field(name).type
                for name, kind in zip(rows.column_names, rows.schema.types, strict=True)
            ]
            rows = rows.cast(pa.schema(list(zip(rows.column_names, kinds, strict=True))))
        if any(map(has_large, rows.columns)) or may_wrap(text, self._texts.types, ":,["):
            for record in self._objects(text, ends):
                for field in self._schema or ():
                    if (number := rounded_number(record.get(field.name), field.type)) is not None:
                        raise pa.ArrowInvalid(f"{field.name}: {number} would be rounded to {field.type}")
        return rows

    def _objects(self, text: memoryview, ends: Positions) -> Iterator[dict[str, object]]:
        starts = np.append(0, ends[:-1] + 1).tolist()
        return (_object_of(bytes(text[start:end])) for start, end in zip(starts, ends.tolist(), strict=True))

    def _by_records(self, text: memoryview, ends: Positions, rows: pa.Table | None) -> pa.Table:
        """Return the rows, with the fields and values that do not fit in the column `rescue`; it takes some time.

        Some columns of `rows`, which Arrow's reader has given, may be of other types.
        """
        assert self._schema is not None  # noqa: S101 - the caller checks
        keeps = self._unknown is ColumnVerdict.RESCUE
        kept: list[dict[str, object]] = []
        records = []
        for record in self._objects(text, ends):
            known, others = matched_fields(record, self._schema.names, keeps=keeps)
            others = {
                name: value for name, value in others.items() if value is not None and name.lower() not in self._omitted
            }
            for name in others:
                if self._unknown is ColumnVerdict.REFUSE or name.lower() in self._reserved:
                    raise pa.ArrowInvalid(f"{_UNKNOWN} {name!r}")
            records.append(known)
            kept.append(others if keeps else {})
        rows = None if rows is None or self.folds(text) else rows
        columns = []
        for field in self._schema:
            values = [record.get(field.name) for record in records]
            if rows is not None and not pa.types.is_nested(field.type) and field.name in rows.column_names:
                try:
                    columns.append(fit(rows.select([field.name]), pa.schema([field])).column(0))
                    continue
                except pa.ArrowInvalid:
                    pass
            parts = [split_by_type(value, field.type, keeps=keeps) for value in values]
            known_parts = [_with_texts(part, field.type) for part, _ in parts]
            wrong = [row for row, part in enumerate(known_parts) if not _may_be(part, field.type)]
            fitting = [part if _may_be(part, field.type) else None for part in known_parts]
            column, unfit = converted_values(len(values), partial(_of_values, field, fitting), field.type)
            unfit += wrong
            columns.append(column)
            if unfit and self._rescue is None:
                raise pa.ArrowInvalid(f"{field.name}: a value is no {field.type}")
            refused = set(unfit)
            for row, value in enumerate(values):
                rest = value if row in refused else parts[row][1]
                if rest is NOTHING or (row not in refused and self._unknown is ColumnVerdict.LEAVE_OUT):
                    continue
                if row not in refused and self._unknown is ColumnVerdict.REFUSE:
                    path = path_of({field.name: rest}, pa.struct([field]))
                    raise pa.ArrowInvalid(f"{_UNKNOWN} {path!r}")
                kept[row][field.name] = rest
        if self._rescue is None:
            return pa.table(columns, schema=self._schema)
        texts = pa.array([as_json(fields) if fields else None for fields in kept], pa.string())
        return pa.table([*columns, texts], schema=self._schema.append(pa.field(self._rescue, pa.string())))

    def explain(self, record: bytes, error: Exception) -> str:
        try:
            fields = json.loads(record)
        except (ValueError, RecursionError) as problem:
            return f"no JSON: {problem}"
        if not isinstance(fields, dict):
            return _no_object(fields)
        reason, whole = reason_of(error), pa.struct(list(self._schema or ()))
        if self._unknown is ColumnVerdict.REFUSE and reason.startswith((_UNKNOWN, "unexpected field")):
            landed = {name: value for name, value in fields.items() if name.lower() not in self._omitted}
            _, rest = split_by_type(landed, whole)
            return f"{_UNKNOWN} {path_of(rest, whole)!r}" if isinstance(rest, dict) else reason
        try:
            fields, _ = matched_fields(_object_of(record), whole.names, keeps=False)  # with its numbers as they are
        except pa.ArrowInvalid as problem:
            return str(problem)
        for field in whole:
            try:
                value = _with_texts(fields.get(field.name), field.type)
                if value is None or _may_be(value, field.type):
                    _of_values(field, [value], 0, 1)
                    continue
            except CAST_ERRORS:
                pass
            return f"field {field.name!r} has the value {json.dumps(value)[:_SHOWN]}, which {field.type} cannot hold"
        return reason

    def _infer_all(self, lines: Sequence[bytes]) -> pa.Schema:
        text = b"\n".join(lines)
        first = _parse_json(text, pj.ParseOptions()).schema
        kinds = pa.schema([field.with_type(_WIDE) if field.name in self._wide else field for field in first])
        texts = pj.ParseOptions(explicit_schema=with_times_as_text(kinds))
        names = dict.fromkeys(name for line in lines for name in json.loads(line))
        return inferred(_parse_json(text, texts).select(list(names)), texts=True, nulls=self._rules is not None)

    def _admitted(self, records: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines that are JSON objects, without values of another kind than most of their field.

        A field, at any depth, of which more values have other kinds is one of texts: these are its JSON. Arrow's reader
        overflows its stack at deeply nested arrays; Python's raises an error. A whole number to land that no inferred
        type can hold is a SchemaError; for a table it is a text.
        """
        samples: tuple[_Sample, _Sample] = ([], defaultdict(Counter)), ([], defaultdict(Counter))
        names: dict[str, Any] = {}
        for line in records:
            try:
                record = _folded(json.loads(line, parse_float=_finite, parse_int=_within_64_bits), names)
                if not isinstance(record, dict):
                    continue
                for name, value in record.items():
                    wide = next((int(text) for text in _number_texts(value) if _WHOLE_NUMBER.fullmatch(text)), None)
                    if wide is not None and self._rules is None:
                        raise too_wide(name, self.source, wide)
                    if wide is not None and isinstance(value, NumberText) and abs(wide) < _WIDEST:
                        self._wide.add(name)
                        record[name] = wide
                sample, kinds = samples[any(_number_texts(record))]
                _count(record, (), kinds)
            except (ValueError, RecursionError):
                continue
            sample.append(record)
        # A record with a number beyond all types is a bad row, and says nothing about the others.
        sample, kinds = samples[0] if samples[0][0] else samples[1]
        usual = {path: _usual(counts) for path, counts in kinds.items()}
        return [json.dumps(_of_kinds(record, (), usual)).encode() for record in sample]


def _folded(value: object, names: dict[str, Any]) -> object:
    """Return a value whose fields have the names of those before them that differ in case only."""
    if isinstance(value, list):
        return [_folded(element, names) for element in value]
    if not isinstance(value, dict):
        return value
    fields: dict[str, object] = {}
    for name, field in value.items():
        first_name, within = names.setdefault(name.lower(), (name, {}))
        if fields.get(first_name) is None:
            fields[first_name] = _folded(field, within)
    return fields


def _names_in(kind: pa.DataType) -> Iterator[str]:
    """Yield the names of the fields of a type, at any depth."""
    for field in [] if not pa.types.is_nested(kind) else map(kind.field, range(kind.num_fields)):
        if pa.types.is_struct(kind):
            yield field.name
        yield from _names_in(field.type)


def _within_64_bits(text: str) -> int | NumberText:
    """Return a whole number of JSON; as text if it is beyond 64 bits, for Arrow would infer an inexact double."""
    return number if -(2**63) <= (number := int(text)) < 2**63 else NumberText(text)


def _finite(text: str) -> float | NumberText:
    """Return a number of JSON; as text if it is beyond all types, such as 1e999."""
    return NumberText(text) if math.isinf(number := float(text)) else number


def _number_texts(value: object) -> Iterator[NumberText]:
    if isinstance(value, NumberText):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _number_texts(part)


def _with_fraction(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_integer(kind) else kind


def _kind(value: object) -> type:
    return {int: float, NumberText: str}.get(type(value), type(value))


_Path = tuple[str | None, ...]
"""The names of fields around a value; None is for the elements of a list."""
_Kinds = defaultdict[_Path, Counter[type]]
_Sample = tuple[list[dict[str, object]], _Kinds]


def _count(value: object, path: _Path, kinds: _Kinds) -> None:
    """Count the kinds of a value and its parts, by their paths."""
    if value is not None:
        kinds[path][_kind(value)] += 1
    fields = value.items() if isinstance(value, dict) else ()
    elements = value if isinstance(value, list) else ()
    for name, part in (*fields, *((None, element) for element in elements)):
        _count(part, (*path, name), kinds)


def _usual(counts: Counter[type]) -> type | None:
    """Return the kind that most values have; None if too many have others for these to be mistakes."""
    total = sum(counts.values())
    # Of as many texts as numbers or booleans, the texts are the mistakes, such as `n/a`.
    usual = max(counts, key=lambda kind: (counts[kind], kind is not str))
    texts = counts[str] if usual in (float, bool) else 0
    return usual if total - counts[usual] - texts <= allowed_mistakes(total) else None


def _of_kinds(value: object, path: _Path, usual: Mapping[_Path, type | None]) -> object:
    """Return a value without its parts of other kinds than the usual ones; those of a mixed field are texts."""
    if value is None:
        return None
    if (kind := usual[path]) is None:
        return value if isinstance(value, str) else json.dumps(value)
    if _kind(value) is not kind:
        return None
    if isinstance(value, dict):
        return {name: _of_kinds(part, (*path, name), usual) for name, part in value.items()}
    return [_of_kinds(part, (*path, None), usual) for part in value] if isinstance(value, list) else value


def _with_texts(value: object, kind: pa.DataType) -> object:
    """Return a value of JSON, with the JSON of each part that is no text where the type has a text."""
    if value is None or (pa.types.is_null(kind) and value == {}):
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) and not isinstance(value, NumberText) else _json_of(value)
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
        return {name: _with_texts(part, types[name]) if name in types else part for name, part in value.items()}
    if isinstance(value, dict) and pa.types.is_map(kind):
        return {name: _with_texts(part, kind.item_type) for name, part in value.items()}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_with_texts(part, kind.value_type) for part in value]
    return value


def _json_of(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_json_of(name)}: {_json_of(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_json_of, value))}]"
    return str(value) if isinstance(value, NumberText) else json.dumps(value, ensure_ascii=False)


def _may_be(value: object, kind: pa.DataType) -> bool:
    """Return whether a value of JSON may be one of a type, by what it is."""
    if rounded_number(value, kind) is not None:
        return False
    if value is None or pa.types.is_nested(kind):
        return True
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and bool(pa.types.is_boolean(kind))
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if isinstance(value, int | float | NumberText):
        return bool(is_number or pa.types.is_decimal(kind))
    return isinstance(value, str) and not bool(is_number)


def _of_values(field: pa.Field, values: Sequence[object], start: int, stop: int) -> pa.Array:
    """Return some values of JSON as the type of a field."""
    values = values[start:stop]
    if has_map(field.type):
        return _nested(field.type, values)
    if pa.types.is_floating(field.type):
        values = [float(value) if isinstance(value, NumberText) else value for value in values]
    if pa.types.is_integer(field.type):
        values = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    schema = pa.schema([field])
    lines = "".join(json.dumps({field.name: value}) + "\n" for value in values).encode()
    options = pj.ParseOptions(explicit_schema=with_times_as_text(schema), unexpected_field_behavior="ignore")
    return fit(_parse_json(lines, options), schema).column(0).combine_chunks()


def _nested(kind: pa.DataType, values: Sequence[object]) -> pa.Array:
    """Return values of JSON as a type that has maps, part by part."""
    form = list if pa.types.is_list(kind) else dict
    if not all(value is None or isinstance(value, form) for value in values):
        raise pa.ArrowInvalid(f"a value is no {kind}")
    is_null = pa.array([value is None for value in values])
    known: list[Any] = [form() if value is None else value for value in values]
    if pa.types.is_struct(kind):
        parts = [_of_values(part, [fields.get(part.name) for fields in known], 0, len(known)) for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=is_null)
    offsets = pa.array(np.cumsum([0, *map(len, known)]), pa.int32())
    items = [item for value in known for item in (value.values() if isinstance(value, dict) else value)]
    part = kind.item_type if pa.types.is_map(kind) else kind.value_type
    converted = _of_values(pa.field("item", part), items, 0, len(items)) if items else pa.nulls(0, part)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, converted, mask=is_null).cast(kind)
    keys = pa.array([key for value in known for key in value], pa.string()).cast(kind.key_type)
    return pa.MapArray.from_arrays(offsets, keys, converted, mask=is_null).cast(kind)


def _no_object(value: object) -> str:
    return f"a JSON {'null' if value is None else type(value).__name__}, and not an object"


def _object_of(line: bytes) -> dict[str, object]:
    """Return a record of JSON. One that has a field twice is refused."""

    def unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        if len(fields := dict(pairs)) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r} is there twice")
        return fields

    try:
        record = json.loads(line, object_pairs_hook=unique, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise pa.ArrowInvalid(str(error)) from error
    if not isinstance(record, dict):
        raise pa.ArrowInvalid(_no_object(record))
    return record


def _parse_json(text: bytes | memoryview, options: pj.ParseOptions) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=options,
    )


class LandedJson(LandedText):
    """The rows of JSON; a field that an object lacks is NULL."""

    def __init__(self, file: pa.NativeFile, origin: str, expected: ExpectedObject) -> None:
        self.schema, rules = expected.columns, expected.rules
        has_known = len(self.schema) > 0
        self._is_known = False  # whether all columns are
        self._keeps = rules.unknown is ColumnVerdict.RESCUE and has_known
        super().__init__(file, origin, expected)
        self._has_breaks = have_breaks(self._opened().peek())
        self._is_stored &= self._has_breaks
        leaves_out = rules.unknown is ColumnVerdict.LEAVE_OUT and has_known
        self._unknown = ColumnVerdict.LEAVE_OUT if leaves_out else ColumnVerdict.REFUSE
        if not (has_known and self._fits()) and (sample := self._sample()) is not None:
            self.schema = self._with_new_columns(sample)
        self._is_known = True
        if self._keeps:
            self._unknown = ColumnVerdict.RESCUE

    def _fits(self) -> bool:
        """Return whether the first records have known columns only; by fewer than a sample, which costs a parse."""
        text = self._opened().peek()
        is_all = len(text) < PEEKED
        begin = memoryview(text + b"\n" if is_all and not text.endswith(b"\n") else text)
        ends = object_breaks(begin, is_all)
        if not self._has_breaks or not len(ends):
            return False
        parser = self._parser(self.schema)
        try:
            Block(begin[: int(ends[-1]) + 1], ends, 1, parser).parse()
        except (pa.ArrowInvalid, ValueError):
            return False
        return not parser.folds(begin)

    def _with_new_columns(self, records: Block | Lines) -> pa.Schema:
        """Return the known columns, named as the records have them, and those that only the records have.

        If these are kept beside the columns, as they are landed, only those are returned that decide the partition.
        """
        inferred = self._inferred(records)
        known = {field.name.lower(): field for field in with_types_of(self.schema, [inferred])}
        others = known.keys() | self._rules.reserved if self._keeps else None
        for field in inferred:
            if field.name.lower() in self._rules.omitted or (others is not None and field.name.lower() not in others):
                continue
            own = known.get(field.name.lower(), field).type
            kind = wider_type(own, field.type) if pa.types.is_nested(own) and not self._keeps else None
            known[field.name.lower()] = pa.field(field.name, kind or own)
        return pa.schema(known.values())

    def _may_be_new(self, rejected: Rejected) -> bool:
        has_unknown = rejected.reason.startswith((_UNKNOWN, "unexpected field"))
        return super()._may_be_new(rejected) or (self._rules.grows and has_unknown)

    def _parser(self, schema: pa.Schema) -> JsonText:  # noqa: ARG002 - a field that is not read must be known too
        rules = self._rules if self._is_known else replace(self._rules, rescue=None)
        return JsonText(self._origin, self.schema, rules, self._unknown)

    def _records(self, parser: TextSource, part: Part) -> Iterator[Block | Lines]:
        if self._has_breaks:
            for block in self._blocks(parser, part):
                yield from parser.records(block)
        elif not part.number:
            yield from documents(self._opened(), parser)
