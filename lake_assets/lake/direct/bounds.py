"""The least and the greatest of values that stand as text, in the order of their type.

DuckLake keeps the bounds of every column as DuckDB's text for them. Comparing such texts would put 10 before 9, so
DuckDB compares the values and writes the text.
"""

import re
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

import duckdb

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


class Bounds(NamedTuple):
    """The least and the greatest value as text; both None where they are not known, or where there is no value."""

    least: str | None
    greatest: str | None


def duckdb_type(ducklake_type: str) -> str | None:
    """DuckDB's name for an ordered type, or None."""
    return ducklake_type.upper() if _DECIMAL.fullmatch(ducklake_type) else ORDERED_TYPES.get(ducklake_type)


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
    flat = [(number, b.least, b.greatest) for number, found in enumerate(many.values()) for b in found]
    numbers, least, greatest = (list(column) for column in zip(*flat, strict=True))
    rows = engine.execute(
        f"SELECT key, min(least::{sql_type})::VARCHAR, max(greatest::{sql_type})::VARCHAR FROM "  # noqa: S608 - a known type
        "(SELECT unnest(?::BIGINT[]) AS key, unnest(?::VARCHAR[]) AS least, unnest(?::VARCHAR[]) AS greatest) "
        "GROUP BY key ORDER BY key",
        [numbers, least, greatest],
    ).fetchall()
    return result | {key: Bounds(low, high) for key, (_, low, high) in zip(many, rows, strict=True)}
