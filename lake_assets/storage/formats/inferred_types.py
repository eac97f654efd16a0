"""The columns of landed files: declared, or inferred from the first records and then fixed."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import isinf

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lake_assets.base.errors import SchemaError
from lake_assets.schema.casts import exact_cast, is_checked
from lake_assets.schema.dialects import replaced_leaves

# The types that texts may have, the narrowest first; every value of the sample must fit.
_TEXTS = (pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"))

_WHOLE, _DAY = r"-?(0|[1-9][0-9]*)", r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = rf"{_DAY}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,6}}0*)?)?"
_NUMBER_FORMS = {pa.int64(): _WHOLE, pa.float64(): rf"{_WHOLE}(\.[0-9]*)?([eE][+-]?[0-9]+)?"}
_TIME_FORMS = {pa.date32(): _DAY, pa.timestamp("us", "UTC"): rf"{_TIME}(Z|[+-][0-9:]+)", pa.timestamp("us"): _TIME}
_SURE = 4  # values, from which on a single one of another form is taken for a mistake
_HEX = r"0[xX][0-9a-fA-F]+"
_NUMBER = rf"^([+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|{_HEX})$"
_CODE = r"^(\+|-?0[0-9xX])"  # of a number
_NO_MICROS = r"(\.[0-9]{6})0+"
_DIGITS, _DECIMAL_DIGITS = 18, 15  # that a whole number of 64 bits, and a double, keep for certain
BLANKS = " \t"  # that Arrow leaves out around numbers of CSV


_LANDED_AS = {
    pa.null(): pa.string(),
    # Parquet has days only, and Arrow writes the milliseconds of a date cut to them.
    pa.date64(): pa.date32(),
    # Arrow can neither sort nor split views within other types.
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def inferred(sample: pa.Table, *, texts: bool, numbers: bool = False, nulls: bool = False) -> pa.Schema:
    """Return the schema of some first records.

    A column without values becomes a string; with `nulls` it, a field or an element keeps no type, and neither has a
    struct without fields. Integers have 64 bits. A column of which a tenth of the values or fewer are mistakes gets the
    type of the others, unless some of its values are codes.

    `texts`: strings that are dates, timestamps with a zone, or timestamps without one become these. `numbers`: strings
    may be numbers too, because the text does not tell them from strings, as in CSV.
    """
    landed_as = _LANDED_AS | ({pa.null(): pa.null(), pa.struct([]): pa.null()} if nulls else {})
    kinds = [replaced_leaves(f.type, lambda kind: landed_as.get(kind, kind)) for f in sample.schema]
    if texts:
        forms = _TIME_FORMS | (_NUMBER_FORMS if numbers else {})
        kinds = [
            _temporal(column) or _mostly(column, forms) or kind
            for column, kind in zip(sample.columns, kinds, strict=True)
        ]
    return pa.schema(list(zip(sample.schema.names, kinds, strict=True)))


def wide_integers(texts: pa.ChunkedArray) -> Iterator[int]:
    """Yield the whole numbers beyond 64 bits among some texts, for which Arrow would infer inexact doubles."""
    texts = pc.utf8_trim(texts, BLANKS)
    long = pc.match_substring_regex(texts, r"^[+-]?[0-9]{19,}$")
    yield from (number for number in map(int, texts.filter(long).to_pylist()) if not -(2**63) <= number < 2**63)


def has_codes(texts: pa.ChunkedArray, *, long: bool) -> bool:
    """Return whether some texts are numbers that are codes, such as 007 or +49: a number's type would not keep them.

    With `long`, numbers of so many digits that their type does not keep them are codes too.
    """
    texts = pc.utf8_trim(texts, BLANKS)
    numbers = texts.filter(pc.match_substring_regex(texts, _NUMBER))
    if pc.any(pc.match_substring_regex(numbers, _CODE)).as_py():
        return True
    if not long:
        return False
    digits = pc.utf8_length(pc.utf8_ltrim(pc.replace_substring_regex(numbers, "[eE].*|[^0-9]", ""), "0"))
    is_decimal = pc.match_substring_regex(numbers, "[.eE]")
    if pc.any(pc.and_(pc.invert(is_decimal), pc.greater(digits, _DIGITS))).as_py():
        return True
    decimals = numbers.filter(pc.and_(is_decimal, pc.greater(digits, _DECIMAL_DIGITS))).unique()
    return not all(map(_is_double, decimals.to_pylist()))


def _is_double(text: str) -> bool:
    """Return whether a number is a double as programs write it: with as few digits as tell it from others, or more."""
    double = float(text)
    if double == 0 or isinf(double):
        return False  # its exponent may also be too large for a Decimal
    number = Decimal(text)
    digits = len(number.as_tuple().digits)
    return number in {Decimal(repr(double)), Decimal(f"{double:.{digits - 1}e}")}


def too_wide(name: str, source: str, number: int) -> SchemaError:
    """Return the error for a column whose type cannot be inferred without changing this number."""
    return SchemaError(
        f"the field {name!r} of {source} has the whole number {number}, which is beyond 64 bits:",
        f"declare it in landing.columns, such as {name}: decimal(38,0).",
    )


def _temporal(column: pa.ChunkedArray) -> pa.DataType | None:
    """Return the temporal type of a column of strings; None if it has none."""
    if not types.is_string(column.type):
        return None
    values = column.filter(pc.not_equal(column, ""))
    for kind in _TEXTS if len(values) else ():
        try:
            values[:1].cast(kind)
            values.cast(kind)
        except pa.ArrowInvalid:
            continue
        return kind
    return None


def allowed_mistakes(count: int) -> int:
    """Return how many of so many values may be of another form than the type of their column."""
    return max(count // 10, int(count >= _SURE))


def _mostly(column: pa.ChunkedArray, forms: Mapping[pa.DataType, str]) -> pa.DataType | None:
    """Return the first type whose form most strings of a column have; None if too many have another."""
    if not types.is_string(column.type):
        return None
    values = column.filter(pc.not_equal(column, ""))
    mistakes = allowed_mistakes(len(values))
    is_text, numbers = has_codes(values, long=True), pc.utf8_trim(values, BLANKS)
    for kind, form in forms.items():
        if is_text and kind in _NUMBER_FORMS:
            continue
        texts = numbers if kind in _NUMBER_FORMS else values
        others = len(values) - (pc.sum(pc.match_substring_regex(texts, f"^({form})$")).as_py() or 0)
        if others <= mistakes < len(values):
            return kind
    return None


def fit(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows in the schema's columns, order and types; a column that is missing is NULL.

    A value that does not fit without loss is an ArrowInvalid.
    """
    if rows.schema.equals(schema):
        return rows
    for name in rows.schema.names:
        if len(schema.get_all_field_indices(name)) != 1 or len(rows.schema.get_all_field_indices(name)) != 1:
            raise SchemaError(
                f"the input has the column {name!r}, which the stream's records do not have once:",
                f"their columns are {', '.join(schema.names)}; leave the others out, or declare them in the config.",
            )
    columns = []
    for field in schema:
        if field.name not in rows.schema.names:
            columns.append(pa.chunked_array([pa.nulls(len(rows), field.type)]))
            continue
        column = rows.column(field.name)
        try:
            columns.append(column if column.type == field.type else _cast(column, field.type))
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"the input's column {field.name!r} is of type {column.type}, which never fits {field.type}:",
                "convert it before, or declare another type in the config.",
            ) from error
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"{field.name}: {error}") from error
    return pa.table(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column; refuse what Arrow's casts do silently: they drop zones, times of day and fields.

    A value that is not the same is an ArrowInvalid.
    """
    if _differ(column.type, kind):
        raise pa.ArrowTypeError(f"{column.type} is not {kind}")
    if is_checked(column.type, kind) and types.is_string(column.type):
        return pa.chunked_array([exact_cast(column.combine_chunks(), kind)])
    try:
        result = column.cast(kind)
    except pa.ArrowInvalid:
        if not (types.is_string(column.type) and types.is_timestamp(kind)):
            raise
        result = pc.replace_substring_regex(column, _NO_MICROS, r"\1").cast(kind)
    if _loses(column.type, kind) and not result.cast(column.type).equals(column):
        raise pa.ArrowInvalid(f"a value of type {column.type} does not fit {kind}")
    if infinities(result) != infinities(column):
        raise pa.ArrowInvalid(f"a number is too large for {kind}")
    return result


def infinities(column: pa.ChunkedArray) -> int:
    """Return how many numbers of a column that is not nested are infinite."""
    if not types.is_floating(column.type):
        return 0
    return int(pc.sum(pc.is_inf(column)).as_py() or 0)


def _differ(source: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether types have different meanings, although Arrow casts between their stored forms."""
    if types.is_dictionary(source):
        return _differ(source.value_type, kind)
    if types.is_struct(source) and types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        return any(field.name not in fields or _differ(field.type, fields[field.name]) for field in source)
    if types.is_list(source) and types.is_list(kind):
        return _differ(source.value_type, kind.value_type)
    if types.is_timestamp(source) and types.is_timestamp(kind):
        return (source.tz is None) != (kind.tz is None)
    numbers = (types.is_integer, types.is_boolean)
    return bool(
        (types.is_temporal(source) and any(is_kind(kind) for is_kind in numbers))
        or (types.is_temporal(kind) and any(is_kind(source) for is_kind in numbers))
    )


def _loses(source: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether Arrow's cast rounds or cuts values silently; for floats to narrower floats that is intended."""
    return bool(
        (types.is_timestamp(source) and types.is_date(kind))
        or (types.is_floating(source) and types.is_decimal(kind))
        or (types.is_integer(source) and types.is_boolean(kind))
    )
