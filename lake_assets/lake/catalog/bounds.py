"""The least and greatest of values that are given as text, in the order of their type.

DuckLake stores the bounds of a column as DuckDB's texts. A comparison of texts would put 10 before 9, so DuckDB
compares the values, except those that Python orders in the same way.
"""

import math
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from lake_assets.base.duckdb_engine import expressions
from lake_assets.lake.catalog import spec

if TYPE_CHECKING:
    from lake_assets.lake.catalog.catalog_database import CatalogDatabase

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)", re.IGNORECASE)

EntryKey = TypeVar("EntryKey", bound=Hashable)

# DuckLake's and DuckDB's names of types; those of decimals are the same. Nested types have no order, and the statistics
# of variants and geometries are of another kind.
ORDERED_TYPES = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "varchar": "VARCHAR",
    "blob": "BLOB",
    "uuid": "UUID",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_s": "TIMESTAMP_S",
    "timestamp_ms": "TIMESTAMP_MS",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz": "TIMESTAMPTZ",
}

# DuckLake uses a table's bounds of these only where `contains_nan` is false, which nobody writes beside unknown bounds.
FLOATS = frozenset({"float32", "float64"})
_TEXTS = frozenset({"varchar", "blob"})
MAY_BE_UNKNOWN = FLOATS | _TEXTS  # DuckLake answers no `min` and `max` from the bounds of these


class Bounds(NamedTuple):
    """The least and the greatest value as text; both None if they are unknown or there is no value."""

    least: str | None
    greatest: str | None


_BYTE = re.compile(r"\\x([0-9A-F]{2})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:\+00(?::00)?)?")


def _number(text: str) -> float:
    if math.isnan(number := float(text)):
        raise ValueError(text)  # DuckDB orders it after all others
    return number


def _text_of_form(form: re.Pattern[str]) -> Callable[[str], str]:
    def order(text: str) -> str:
        if form.fullmatch(text) is None:
            raise ValueError(text)
        return text

    return order


def _moment(text: str) -> str:
    if (match := _MOMENT.fullmatch(text)) is None:
        raise ValueError(text)
    return f"{match[1]}.{match[2] or '':0<9}"


# A query takes a millisecond, and a commit compares the bounds of some forty columns. DuckDB and Python both order
# strings by their code points. Each function raises ValueError for a text that only DuckDB can compare.
_SHARED_ORDERS: Mapping[str, Callable[[str], Any]] = {
    "BOOLEAN": str,
    "VARCHAR": str,
    "UUID": str,
    "BLOB": lambda text: _BYTE.sub(lambda byte: chr(int(byte[1], 16)), text),
    "TIME": _text_of_form(_TIME),
    "TIMESTAMP WITH TIME ZONE": _moment,  # as DuckDB names it in files
    "FLOAT": _number,
    "DOUBLE": _number,
    "DATE": _text_of_form(_DATE),
    **{name: _moment for name in ORDERED_TYPES.values() if name.startswith("TIMESTAMP")},
    **{name: int for name in ORDERED_TYPES.values() if "INT" in name},
}


def _order(sql_type: str) -> Callable[[str], Any] | None:
    return Decimal if _DECIMAL.fullmatch(sql_type) else _SHARED_ORDERS.get(sql_type)


def duckdb_type(ducklake_type: str) -> str | None:
    """Return DuckDB's name for an ordered type, or None."""
    return ducklake_type.upper() if _DECIMAL.fullmatch(ducklake_type) else ORDERED_TYPES.get(ducklake_type)


def in_order(sql_type: str, bounds: Bounds) -> bool:
    """Return whether the least value is not greater than the greatest, in the order of DuckDB's type.

    Some writers compare unsigned numbers as signed ones. A row that is outside of such bounds is found by no condition.
    """
    least, greatest = bounds
    if least == greatest or least is None or greatest is None:
        return True
    if (order := _order(sql_type)) is None:
        return True
    with suppress(ValueError):
        return bool(order(least) <= order(greatest))
    sql = f"SELECT coalesce(TRY_CAST(? AS {sql_type}) <= TRY_CAST(? AS {sql_type}), false)"
    ((is_ordered,),) = expressions().execute(sql, [least, greatest]).fetchall()
    return bool(is_ordered)


def of_unknown_values(ducklake_type: str) -> Bounds:
    """Return what the catalog keeps for a column of a whole table of which some values have unknown bounds.

    Both NULL is DuckLake's form for "no value yet", which the next `INSERT` of any client replaces by its own bounds.
    A least text alone remains; DuckDB uses it for conditions only, and not as an answer of `min` or `max`.
    """
    return Bounds("", None) if ducklake_type in _TEXTS else Bounds(None, None)


def bounds_of_files(
    database: "CatalogDatabase", table_id: int, column_ids: Collection[int]
) -> list[tuple[int, Bounds]]:
    """Return the different bounds of these columns' values in any file, also None for unknown ones."""
    if not column_ids:
        return []
    rows = database.rows(
        f"SELECT DISTINCT column_id, min_value, max_value FROM {spec.FILE_COLUMN_STATS} WHERE table_id = ? "
        f"AND (value_count IS NULL OR value_count > 0) AND column_id IN ({', '.join('?' for _ in column_ids)})",
        [table_id, *column_ids],
    )
    return [(column_id, Bounds(*bounds)) for column_id, *bounds in rows]


def beyond(bounds: Bounds) -> Bounds:
    """Return the bounds of single-precision numbers, each moved outward to the next such number.

    DuckLake compares bounds with a number's text in double precision, which may be greater or less than the number
    itself. So DuckLake would skip files with exact bounds.
    """
    with np.errstate(over="ignore", under="ignore"):  # the number after the greatest is infinity
        least, greatest = (
            None if text is None else str(np.nextafter(np.float32(text), np.float32(end)))
            for text, end in zip(bounds, ("-inf", "inf"), strict=True)
        )
    return Bounds(least, greatest)


def merged(values: Iterable[tuple[EntryKey, str, Bounds]]) -> dict[EntryKey, Bounds]:
    """Return the common bounds of each key; unknown bounds are ignored.

    Each has DuckLake's name of the values' type; a text that is not of it is a duckdb.Error.
    """
    by_type: dict[str, dict[EntryKey, set[Bounds]]] = {}
    for key, ducklake_type, bounds in values:
        sql_type = duckdb_type(ducklake_type)
        assert sql_type is not None  # noqa: S101 - read_table refuses others
        by_type.setdefault(sql_type, {}).setdefault(key, set()).add(bounds)
    result: dict[EntryKey, Bounds] = {}
    for sql_type, groups in by_type.items():
        result |= _merged_of_type(sql_type, groups)
    return result


def _merged_of_type(sql_type: str, groups: Mapping[EntryKey, set[Bounds]]) -> dict[EntryKey, Bounds]:
    result = {key: next(iter(group)) for key, group in groups.items() if len(group) == 1}
    many = {key: group for key, group in groups.items() if len(group) > 1}
    if not many:
        return result
    if (order := _order(sql_type)) is not None:
        with suppress(ValueError):
            return result | {key: _extremes(group, order) for key, group in many.items()}
    flat = [(number, b.least, b.greatest) for number, group in enumerate(many.values()) for b in group]
    numbers, least, greatest = (list(column) for column in zip(*flat, strict=True))
    rows = (
        expressions()
        .execute(
            # The texts themselves: DuckDB writes times of far years as others than it reads.
            f"SELECT key, arg_min(least, least::{sql_type}), arg_max(greatest, greatest::{sql_type}) FROM "
            "(SELECT unnest(?::BIGINT[]) AS key, unnest(?::VARCHAR[]) AS least, unnest(?::VARCHAR[]) AS greatest) "
            "GROUP BY key ORDER BY key",
            [numbers, least, greatest],
        )
        .fetchall()
    )
    return result | {key: Bounds(low, high) for key, (_, low, high) in zip(many, rows, strict=True)}


def _extremes(group: Iterable[Bounds], order: Callable[[str], Any]) -> Bounds:
    least = [bounds.least for bounds in group if bounds.least is not None]
    greatest = [bounds.greatest for bounds in group if bounds.greatest is not None]
    return Bounds(min(least, key=order, default=None), max(greatest, key=order, default=None))
