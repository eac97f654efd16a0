"""The least and the greatest of values that stand as text, in the order of their type.

DuckLake keeps the bounds of every column as DuckDB's text for them. Comparing such texts would put 10 before 9, so
DuckDB compares the values and writes the text; but for whole numbers and for strings, whose order Python shares.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import duckdb
import numpy as np

_DECIMAL = re.compile(r"decimal\(\d+,\s*\d+\)")

Key = TypeVar("Key", bound=Hashable)

# DuckLake's names for types, and DuckDB's; decimals are written alike. What is not here has no order that a file's
# statistics could give (nested types), or statistics of another kind (variant, geometry).
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


# A query takes a millisecond, and a commit compares the bounds of some forty columns. DuckDB orders strings by their
# bytes in UTF-8, which is the order of their code points, and so Python's.
_SHARED_ORDERS: Mapping[str, Callable[[str], Any]] = {
    "VARCHAR": str,
    **{name: int for name in ORDERED_TYPES.values() if "INT" in name},
}


class Bounds(NamedTuple):
    """The least and the greatest value as text; both None where they are not known, or where there is no value."""

    least: str | None
    greatest: str | None


def duckdb_type(ducklake_type: str) -> str | None:
    """DuckDB's name for an ordered type, or None."""
    return ducklake_type.upper() if _DECIMAL.fullmatch(ducklake_type) else ORDERED_TYPES.get(ducklake_type)


def beyond(bounds: Bounds) -> Bounds:
    """The bounds of single-precision numbers, the next such number farther out each.

    Where DuckLake looks for a number among the files, it compares the bounds with the number's text as one of double
    precision, which may lie on the other side of the number itself. So a bound that is exact loses rows.
    """
    with np.errstate(over="ignore", under="ignore"):  # beyond the greatest number lies infinity, as it should
        least, greatest = (
            None if text is None else str(np.nextafter(np.float32(text), np.float32(end)))
            for text, end in zip(bounds, ("-inf", "inf"), strict=True)
        )
    return Bounds(least, greatest)


def merged(engine: duckdb.DuckDBPyConnection, sql_type: str, pairs: Iterable[tuple[Key, Bounds]]) -> dict[Key, Bounds]:
    """The bounds of all that is given for each key; what has no bounds is passed over.

    Args:
        engine: compares.
        sql_type: the values' type, one of those that `duckdb_type` gives.
        pairs: bounds, any number for each key.

    Raises:
        duckdb.Error: a text is not of the type.
    """
    groups: dict[Key, set[Bounds]] = {}
    for key, bounds in pairs:
        groups.setdefault(key, set()).add(bounds)
    result = {key: next(iter(found)) for key, found in groups.items() if len(found) == 1}
    many = {key: found for key, found in groups.items() if len(found) > 1}
    if not many:
        return result
    order = _SHARED_ORDERS.get(sql_type)
    if order is not None:
        return result | {key: _extremes(found, order) for key, found in many.items()}
    flat = [(number, b.least, b.greatest) for number, found in enumerate(many.values()) for b in found]
    numbers, least, greatest = (list(column) for column in zip(*flat, strict=True))
    rows = engine.execute(
        f"SELECT key, min(least::{sql_type})::VARCHAR, max(greatest::{sql_type})::VARCHAR FROM "
        "(SELECT unnest(?::BIGINT[]) AS key, unnest(?::VARCHAR[]) AS least, unnest(?::VARCHAR[]) AS greatest) "
        "GROUP BY key ORDER BY key",
        [numbers, least, greatest],
    ).fetchall()
    return result | {key: Bounds(low, high) for key, (_, low, high) in zip(many, rows, strict=True)}


def _extremes(found: Iterable[Bounds], order: Callable[[str], Any]) -> Bounds:
    least = [bounds.least for bounds in found if bounds.least is not None]
    greatest = [bounds.greatest for bounds in found if bounds.greatest is not None]
    return Bounds(min(least, key=order, default=None), max(greatest, key=order, default=None))
