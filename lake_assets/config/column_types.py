"""The types of columns as texts: as DuckLake and DuckDB name them, or shorter."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

import pyarrow as pa
from pyarrow import types as t
from pydantic import AfterValidator

COLUMN_TYPES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
    }
)

_OTHERS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "utinyint": pa.uint8(),
        "usmallint": pa.uint16(),
        "uinteger": pa.uint32(),
        "ubigint": pa.uint64(),
        "time": pa.time64("us"),
        "timestamp_ns": pa.timestamp("ns"),
        "blob": pa.binary(),
        "uuid": pa.uuid(),
    }
)
_ALIASES = {
    "varchar": "string",
    "text": "string",
    "bool": "boolean",
    "int": "integer",
    "real": "float",
    "timestamp with time zone": "timestamptz",
}
_TYPES = {**COLUMN_TYPES, **_OTHERS}

_MAX_DEPTH = 20
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d{1,2}),\s*(\d{1,2})\)", re.IGNORECASE)
_NESTED = re.compile(r"(struct|map)\s*\((.*)\)", re.IGNORECASE)
_FIELD = re.compile(r'("(?:[^"]|"")+"|[^\s"]+) (.+)')
_SPLIT = re.compile(r'"(?:[^"]|"")*"|[(),]|[^"(),]+')


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of a column type, which is that of a data file for DuckLake's type of this name.

    A type is a key of `COLUMN_TYPES`, another name of DuckDB, `decimal(p,s)`, `struct(name T, …)`, `map(T, T)`, or a
    list `T[]`. Others are a ValueError.
    """
    return _type(" ".join(text.split()), 0)


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the schema of columns, given their types by their names."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])


def _type(text: str, depth: int) -> pa.DataType:
    if depth > _MAX_DEPTH:
        raise ValueError(f"a column type has more than {_MAX_DEPTH} nested lists: write fewer []")
    if text.endswith("[]"):
        return pa.list_(_type(text.removesuffix("[]").rstrip(), depth + 1))
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    if match := _NESTED.fullmatch(text):
        parts = list(_parts(match[2]))
        fields = [field for part in parts if (field := _FIELD.fullmatch(part))]
        if match[1].lower() == "map" and len(parts) == 2:
            return pa.map_(*(_type(part, depth + 1) for part in parts))
        if match[1].lower() == "struct" and len(fields) == len(parts):
            return pa.struct([(_unquoted(field[1]), _type(field[2], depth + 1)) for field in fields])
    name = _ALIASES.get(text.lower(), text.lower())
    if name not in _TYPES:
        nested = "struct(name type, …), map(type, type), or type[]"
        raise ValueError(f"{text!r} is not a column type: use {', '.join(_TYPES)}, decimal(p,s), {nested}")
    return _TYPES[name]


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a text between its commas that are neither in brackets nor in quotes."""
    part, depth = "", 0
    for piece in _SPLIT.findall(text):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += piece
    yield part.strip()


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


class NumberFormat(NamedTuple):
    """How numbers are written."""

    decimal: str = "."  # before the decimals
    thousands: str | None = None  # between groups of three digits
    prefix: str = ""  # before the digits; it may lack
    suffix: str = ""  # behind them; it may lack


_NUMBER_FORMAT = re.compile(
    r"(?P<prefix>[^#0-9]*?)(?:#(?P<thousands>[^#0-9A-Za-z])##|#*)0+(?:(?P<decimal>[.,])[0#]+)?(?P<suffix>[^#0-9]*)"
)


def number_format(text: str) -> NumberFormat:
    """Return the format that a pattern shows: `#,##0.00`, `#.##0,00 €`, `0,0`."""
    match = _NUMBER_FORMAT.fullmatch(text)
    if match is None or match["thousands"] == (match["decimal"] or "."):
        raise ValueError(f"{text!r} is no format of numbers: write one such as '#,##0.00' or '#.##0,00 EUR'")
    return NumberFormat(match["decimal"] or ".", match["thousands"], match["prefix"].strip(), match["suffix"].strip())


_TWO = r"\d{1,2}"
_DAY = rf"(?P<day>{_TWO})"
_SECOND = r"[0-5]?\d"  # strptime takes 60 as the next minute
_NAME = r"\pL+\.?"
DIRECTIVES = {
    "%Y": r"\d{4}", "%y": _TWO, "%m": _TWO, "%b": _NAME, "%B": _NAME, "%h": _NAME, "%d": _DAY, "%e": rf" ?{_DAY}",
    "%F": rf"\d{{4}}-{_TWO}-{_DAY}", "%D": f"{_TWO}/{_DAY}/{_TWO}", "%a": _NAME, "%A": _NAME, "%H": _TWO, "%I": _TWO,
    "%M": _TWO, "%S": _SECOND, "%p": "[AaPp][Mm]", "%T": f"{_TWO}:{_TWO}:{_SECOND}", "%R": f"{_TWO}:{_TWO}",
    "%f": r"\d{1,6}", "%z": r"Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d", "%%": "%",
}  # fmt: skip
"""The directives of a format of times, as those of `strptime`, and the texts of each, with the group `day`."""
_DAYS = ("%d", "%e", "%F", "%D")
_OF_DATES = (*_DAYS, "%Y", "%y", "%m", "%b", "%B", "%h", "%a", "%A")


def time_format(text: str, kind: pa.DataType) -> list[str]:
    """Return the directives of a format of times, and the texts between them."""
    parts = re.findall(r"%.?|[^%]+", text)
    directives = [part for part in parts if part.startswith("%")]
    if not set(directives) - {"%f", "%z", "%%"}:
        raise ValueError(f"format {text!r} has no directive of a day or an hour: write one such as '%d.%m.%Y'")
    if unknown := next((name for name in directives if name not in DIRECTIVES), None):
        raise ValueError(f"format {text!r} has {unknown}, which is not read: write {', '.join(DIRECTIVES)}")
    for names in (("%f",), ("%z",), _DAYS):
        if len(twice := [name for name in directives if name in names]) > 1:
            raise ValueError(f"format {text!r} has {' and '.join(twice)}: remove one")
    if "%z" in directives and not (t.is_timestamp(kind) and kind.tz):
        raise ValueError(f"format {text!r} has %z, an offset from UTC, so only a TIMESTAMPTZ is read by it")
    if t.is_time(kind) and (day := next((name for name in directives if name in _OF_DATES), None)):
        raise ValueError(f"format {text!r} has {day}, which a TIME has not: declare a TIMESTAMP")
    return parts


def _check_type(text: str) -> str:
    arrow_type(text)
    return text


ColumnType = Annotated[str, AfterValidator(_check_type)]
