"""The statements of a transaction over DuckLake's own tables, whatever database they are in; see `lake/backends/`."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import SpecificationError
from lake_assets.lake.catalog import spec

Row = tuple[Any, ...]
PendingRows = Callable[[], list[Row]]
"""The rows that a query returns, which was sent before."""

_AT_ONCE = 500  # values in one statement
_ROWS_AT_ONCE = 10_000  # in one statement


def among(values: Sequence[object]) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield what follows `IN` in a statement for these values, with the values; of many, for several statements."""
    for start in range(0, len(values), _AT_ONCE):
        part = values[start : start + _AT_ONCE]
        yield f"({', '.join('?' for _ in part)})", part


class NotDirectError(Exception):
    """The direct strategy does not support this commit; nothing was written. The text is the reason."""


class HiddenTablesError(NotDirectError, SpecificationError):
    """The catalog's own tables cannot be used: MotherDuck shows none, or their version is unknown."""


class CatalogDatabase(ABC):
    """An open transaction. Statements mark parameters by `?`, and contain no other question mark or percent sign."""

    by_time = ""  # what follows an inlined time in a statement that compares or orders it

    def __init__(self, connection: Any, root: str) -> None:  # noqa: ANN401 - of the driver
        self._connection = connection
        self.root = root  # URI of the lake's folder, ending in a slash

    @cached_property
    def version(self) -> spec.Version:
        """The version of DuckLake's specification in this transaction.

        Raises NotDirectError if it is not among the tested ones.
        """
        versions = self.rows(spec.VERSION_QUERY)
        if (reason := spec.unknown(versions[0][0] if versions else None)) is not None:
            raise NotDirectError(reason)
        return spec.VERSIONS[versions[0][0]]

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the rows that a query returns."""
        rows: list[Row] = self._cursor(sql, parameters).fetchall()
        return rows

    def ask(self, sql: str, parameters: Sequence[object] = ()) -> PendingRows:
        """Send a query; the answer is to be fetched once, in this transaction.

        Queries that are sent before the first answer is fetched take one round trip to PostgreSQL together.
        """
        rows = self.rows(sql, parameters)
        return lambda: rows

    def rows_among(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Return the rows of a query that ends with `IN`, for these values; of many, by several statements."""
        return [row for marks, part in among(values) for row in self.rows(f"{sql} {marks}", part)]

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        cursor = self._cursor(f"SELECT * FROM {identifier(table)} LIMIT 0", ())
        cursor.fetchall()
        return [column[0] for column in cursor.description]

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run a statement that returns nothing."""
        self._cursor(sql, parameters)

    @abstractmethod
    def _cursor(self, sql: str, parameters: Sequence[object]) -> Any:  # noqa: ANN401 - of the driver
        """Return the driver's cursor after a statement."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows to a table."""

    @abstractmethod
    def update(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Set columns of a table's rows. Each of `rows` has the values of the keys of one, and of these columns."""

    def has_table(self, name: str) -> bool:
        """Return whether the catalog's database has this table."""
        return bool(self.ask_table(name)())

    @abstractmethod
    def ask_table(self, name: str) -> PendingRows:
        """Ask whether the catalog's database has this table; the answer has a row if it does."""

    def indexes(self) -> set[str]:
        """Return the names of the indexes in the catalog's database.

        Raises NotDirectError if it is better off without any.
        """
        raise NotDirectError("DuckDB refuses later changes of a table with an index")

    @abstractmethod
    def inlined(self, value: object) -> object:
        """Return a text, integer, time or None as this catalog stores it in a table of inlined rows."""

    def inlined_time(self, moment: dt.datetime) -> object:
        """Return a time that inlined times are compared with."""
        # Without zeros at its end: a time is then stored as this text, or as one with more zeros, which sorts after it.
        text = moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return text.rstrip("0").rstrip(".") + "+00"


def names_of(columns: Sequence[str]) -> str:
    """Return the names of columns in a list for a statement."""
    return ", ".join(map(identifier, columns))


def time_text(value: object) -> object:
    """Return a time as the text from which DuckDB reads a TIMESTAMPTZ; other values unchanged."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")
    return value


def set_clause(columns: Sequence[str], source: str = "") -> str:
    """Return what follows SET in a statement: each column has a parameter, or the value of a source's column."""
    return ", ".join(f"{identifier(c)} = {f'{source}.{identifier(c)}' if source else '?'}" for c in columns)
