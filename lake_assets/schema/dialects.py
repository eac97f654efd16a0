"""What dialects of CSV have and Arrow's reader has not: formats of numbers and times."""

import re
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.config.column_types import DIRECTIVES, NumberFormat, number_format, time_format
from lake_assets.config.formats import CsvFormat
from lake_assets.schema.casts import exact_cast, is_checked

ESCAPED_NULL = "\0NULL"
"""A text in place of an escape that means NULL, where values have no quotes."""

Texts = TypeVar("Texts", pa.Array, pa.ChunkedArray)


def with_plain_escapes(text: bytes | memoryview, dialect: CsvFormat) -> bytes | memoryview:
    r"""Return a text that keeps each escape that escapes nothing, as Spark and DuckDB read it.

    Arrow's reader leaves out each single escape. This doubles those outside of quotes, and those within them that are
    before neither a quote nor another escape. Without quotes, a whole value such as `\N` that is NULL becomes
    `ESCAPED_NULL`, because its escape is left out.
    """
    escape, quote = dialect.escape, dialect.quote
    if escape is None or quote == escape or escape.encode() not in (whole := bytes(text)):
        return text
    if quote is None:
        return _escaped_nulls(dialect.delimiter, escape, *dialect.nulls).sub(ESCAPED_NULL.encode(), whole)
    quoted, escapes = _escapes(quote.encode(), dialect.delimiter.encode(), escape.encode())
    return quoted.sub(lambda match: escapes.sub(_doubled, match[0]) if len(match[0]) > 1 else match[0] * 2, whole)


@cache
def _escaped_nulls(delimiter: str, escape: str, *nulls: str) -> re.Pattern[bytes]:
    """Return the pattern of whole values that are NULL as they are written; `nulls` without an escape match no more."""
    texts = "|".join(re.escape(text) for text in nulls if escape in text) or "(?!)"
    d, e = re.escape(delimiter), re.escape(escape)
    return re.compile(rf"(?<![^{d}\n])(?<!{e}{d})(?:{texts})(?=[{d}\r\n]|\Z)".encode())


def _doubled(escape: re.Match[bytes]) -> bytes:
    return escape[0] if len(escape[0]) > 1 else escape[0] * 2


@cache
def _escapes(quote: bytes, delimiter: bytes, escape: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return the patterns of a quoted value or an escape elsewhere, and of an escape within quotes."""
    q, d, e = map(re.escape, (quote, delimiter, escape))
    value = rb"(?<![^%b\n])%b(?:[^%b%b]|%b.|%b%b)*+%b?" % (d, q, q, e, e, q, q, q)
    return re.compile(rb"%b|%b" % (value, e), re.DOTALL), re.compile(rb"%b[%b%b]?" % (e, q, e), re.DOTALL)


def read_texts(texts: Texts, form: str, kind: pa.DataType) -> Texts:
    """Return the values of texts in a format of a column, which is that of a time or of a number."""
    return read_times(texts, form, kind) if t.is_temporal(kind) else _read_numbers(texts, number_format(form), kind)


def read_times(texts: Texts, form: str, kind: pa.DataType) -> Texts:
    """Return dates, times or timestamps that are written as `strptime` has it."""
    pattern, rest = _time_pattern(form)
    if rest == form:
        _refuse(texts, pc.invert(pc.match_substring_regex(texts, pattern=pattern)))
        local = pc.strptime(texts, format=form, unit="us")
        _check_days(texts, local, pattern)
        return _of_kind(texts, local, kind)
    parts = _matched(texts, pattern)
    names = parts.type.names
    rest_texts = pc.binary_join_element_wise(*(pc.struct_field(parts, n) for n in names if n.startswith("text")), "")
    local = pc.strptime(rest_texts, format=rest, unit="us")
    _check_days(texts, local, pattern)
    micros = local.cast(pa.int64())
    if "fraction" in names:
        micros = pc.add(micros, pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0").cast(pa.int64()))
    if "offset" in names:
        if not (t.is_timestamp(kind) and kind.tz):
            raise pa.ArrowInvalid(f"{kind} has no offset from UTC, which the format {form!r} reads")
        digits = pc.replace_substring(pc.replace_substring(pc.struct_field(parts, "offset"), "Z", "+0000"), ":", "")
        hours, minutes = (pc.utf8_slice_codeunits(digits, start, start + 2).cast(pa.int64()) for start in (1, 3))
        offset = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
        micros = pc.subtract(micros, pc.if_else(pc.starts_with(digits, "-"), pc.negate(offset), offset))
    return _of_kind(texts, micros.cast(pa.timestamp("us")), kind)


def _of_kind(texts: Texts, times: Texts, kind: pa.DataType) -> Texts:
    """Return times as a type; refuse those of which a DATE would lose the time of day."""
    values = times.cast(kind)
    if t.is_date(kind):
        _refuse(texts, pc.not_equal(values.cast(times.type), times), ", whose time of day a DATE would lose")
    return values


def _check_days(texts: Texts, times: Texts, pattern: str) -> None:
    """Refuse days that their months do not have, which strptime takes as the first ones of the next month."""
    if "(?P<day>" not in pattern:
        return
    is_early = pc.less_equal(pc.day(times), 3)
    some = texts.filter(is_early)
    days = pc.struct_field(_matched(some, pattern), "day").cast(pa.int64())
    _refuse(some, pc.not_equal(days, pc.day(times.filter(is_early))))


_BLANKS, _BLANK = re.compile(r"(?:\\\s)+"), r"\\s+"  # as those of strptime


@cache
def _time_pattern(form: str) -> tuple[str, str]:
    """Return the pattern of a format of times, with groups for what Arrow does not read, and the format of the rest."""
    pattern, texts = "", ""
    parts = time_format(form, pa.timestamp("us", "UTC"))
    for number, part in enumerate(parts):
        if group := {"%f": "fraction", "%z": "offset"}.get(part):
            pattern += f"(?P<{group}>{DIRECTIVES[part]})"
        else:
            pattern += f"(?P<text{number}>{DIRECTIVES.get(part) or _BLANKS.sub(_BLANK, re.escape(part))})"
            texts += part
    return rf"^\s*{pattern}\s*$", texts


def _read_numbers(texts: Texts, form: NumberFormat, kind: pa.DataType) -> Texts:
    """Return numbers that are written in a format.

    Thousands that are not between groups of three digits are not in the format.
    """
    parts = _matched(texts, _pattern(form))
    sign, digits = (pc.struct_field(parts, name) for name in ("sign", "digits"))
    if form.thousands is not None:
        digits = pc.replace_substring(digits, form.thousands, "")
    numbers = pc.binary_join_element_wise(sign, pc.replace_substring(digits, form.decimal, "."), "")
    if isinstance(numbers, pa.ChunkedArray):
        numbers = numbers.combine_chunks()
    return exact_cast(numbers, kind) if is_checked(numbers.type, kind) else numbers.cast(kind)


def _matched(texts: Texts, pattern: str) -> Texts:
    """Return the parts of texts by the groups of a pattern, which matches all of them."""
    parts = pc.extract_regex(texts, pattern=pattern)
    _refuse(texts, pc.and_(pc.is_valid(texts), pc.is_null(parts)))
    return parts


def _refuse(texts: Texts, wrong: Texts, why: str = "") -> None:
    """Refuse the first of some texts."""
    if pc.any(wrong).as_py():
        raise pa.ArrowInvalid(f"invalid value {texts.filter(wrong)[0].as_py()!r}{why}")


def _pattern(form: NumberFormat) -> str:
    decimal, prefix, suffix = map(re.escape, (form.decimal, form.prefix, form.suffix))
    groups = r"\d+" if form.thousands is None else rf"(?:\d{{1,3}}(?:{re.escape(form.thousands)}\d{{3}})+|\d+)"
    number = rf"(?:{groups}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?"
    before, behind = (rf"(?:{text})?" if text else "" for text in (prefix, suffix))
    return rf"^\s*{before}\s*(?P<sign>-?)\+?{before}\s*(?P<digits>{number})\s*{behind}\s*$"


class DialectTypes:
    """The values of a dialect as their columns' types, as far as Arrow's reader and its casts do not read them."""

    def __init__(self, dialect: CsvFormat) -> None:
        self._thousands = dialect.thousands
        self._decimal = dialect.decimal
        self._formats = [
            (is_kind, form)
            for is_kind, form in ((t.is_date, dialect.date_format), (t.is_timestamp, dialect.timestamp_format))
            if form is not None
        ]

    def parsed(self, schema: pa.Schema) -> pa.Schema:
        """Return the types to parse a text by, as `with_times_as_text`; numbers with thousands are texts too."""
        return pa.schema(
            [
                field.with_type(pa.string()) if self._has_thousands(field.type) else field
                for field in with_times_as_text(schema)
            ]
        )

    def read(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return the rows with the values of the dialect as their columns' types in the schema; others stay texts."""
        if self._thousands is None and not self._formats:
            return rows
        columns = [
            self._read(name, column, schema.field(name).type) if name in schema.names else column
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        ]
        return pa.table(columns, rows.schema.names)

    def inferred(self, rows: pa.Table) -> dict[str, pa.Field]:
        """Return the columns of texts that are all numbers with thousands, or times in the dialect's formats."""
        kinds = [pa.int64(), pa.float64()] if self._thousands is not None else []
        kinds += [
            pa.date32() if is_kind is t.is_date else pa.timestamp("us", "UTC" if "%z" in form else None)
            for is_kind, form in self._formats
        ]
        fields: dict[str, pa.Field] = {}
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if t.is_string(column.type) and column.null_count < len(column):
                kind = next((kind for kind in kinds if self._fits(name, column, kind)), None)
                fields |= {name: pa.field(name, kind)} if kind is not None else {}
        return fields

    def _fits(self, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> bool:
        try:
            self._read(name, column, kind)
        except pa.ArrowInvalid:
            return False
        return True

    def _has_thousands(self, kind: pa.DataType) -> bool:
        return self._thousands is not None and any(
            is_kind(kind) for is_kind in (t.is_integer, t.is_floating, t.is_decimal)
        )

    def _read(self, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
        try:
            if self._has_thousands(kind):
                return _read_numbers(column, NumberFormat(self._decimal, self._thousands), kind)
            form = next((form for is_kind, form in self._formats if is_kind(kind)), None)
            return column if form is None else read_times(column, form, kind)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"{name}: {error}") from error


def with_times_as_text(schema: pa.Schema) -> pa.Schema:
    """Return the schema to parse texts by: dates and timestamps stay texts, and `fit` reads them strictly.

    Arrow's JSON reader takes a timestamp with or without a zone for either, and a date only as a number of days.
    """
    return pa.schema(
        [(f.name, replaced_leaves(f.type, lambda kind: pa.string() if t.is_temporal(kind) else kind)) for f in schema]
    )


def replaced_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return the type with `leaf` applied to each type in it that is not nested."""
    if t.is_dictionary(kind):
        return replaced_leaves(kind.value_type, leaf)
    if t.is_list(kind):
        return pa.list_(replaced_leaves(kind.value_type, leaf))
    if t.is_struct(kind) and kind.num_fields:
        return pa.struct([(field.name, replaced_leaves(field.type, leaf)) for field in kind])
    return leaf(kind)
