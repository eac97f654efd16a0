"""Rows of partitions as a relation of DuckDB, and a relation as a table of another library."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Any

import duckdb

from lake_assets.duckdb_engine import identifier
from lake_assets.errors import CatalogError
from lake_assets.lake.failures import translated
from lake_assets.layout.partition import Partition, PartitionValue
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class RowsClass:
    """A class that rows are read as.

    Attributes:
        read: makes an instance of a relation.
        is_lazy: the instance reads while it is used, so the connection remains open until it is dropped.
    """

    read: Callable[[duckdb.DuckDBPyRelation], Any]
    is_lazy: bool = False


# By package and class. A package is imported only by who names its class.
ROWS_CLASSES: Mapping[str, RowsClass] = MappingProxyType(
    {
        "pyarrow.Table": RowsClass(lambda relation: relation.to_arrow_table()),
        "pandas.DataFrame": RowsClass(lambda relation: relation.df()),
        "polars.DataFrame": RowsClass(lambda relation: relation.pl()),
        "duckdb.DuckDBPyRelation": RowsClass(lambda relation: relation, is_lazy=True),
        "pyarrow.RecordBatchReader": RowsClass(lambda relation: relation.to_arrow_reader(), is_lazy=True),
        "polars.LazyFrame": RowsClass(lambda relation: relation.pl(lazy=True), is_lazy=True),
    }
)


def rows_class(kind: object) -> RowsClass | None:
    """Return how rows are read as a class, such as `pyarrow.lib.Table`; None if they are not."""
    package = getattr(kind, "__module__", "").split(".")[0].removeprefix("_")
    return ROWS_CLASSES.get(f"{package}.{getattr(kind, '__name__', '')}")


def rows_of(
    connection: duckdb.DuckDBPyConnection,
    stream: OpenStream,
    partitions: Collection[Partition],
    columns: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return the rows of partitions, read when the relation is.

    Args:
        connection: the stream's lake is attached to it.
        stream: has the partitions.
        partitions: any number; none have no rows.
        columns: to read, in this order; all of the table when None.

    Raises:
        CatalogError: the lake has no such table or column.
    """
    with translated(stream.lake_config):
        try:
            table = connection.table(stream.table.sql)
        except duckdb.CatalogException as error:
            raise CatalogError(f"the lake has no table {stream.table} yet:", "ingest a partition first.") from error
        wanted = table.filter(_any_of([c.name for c in stream.config.columns], {p.values for p in partitions}))
        return wanted if columns is None else wanted.project(", ".join(map(identifier, columns)))


def _any_of(columns: Sequence[str], wanted: Collection[tuple[PartitionValue, ...]]) -> duckdb.Expression:
    """Return the condition that the columns have one of these combinations of values.

    All days of two regions are `region IN (…) AND date IN (…)`: combinations that differ in the first column alone
    share a term. DuckLake prunes files by such terms.
    """
    if not wanted or not columns:
        return duckdb.ConstantExpression(value=bool(wanted))
    column = duckdb.ColumnExpression(columns[0])
    if len(columns) == 1:
        return _equals_any(column, [value for (value,) in wanted])
    rests: dict[PartitionValue, set[tuple[PartitionValue, ...]]] = defaultdict(set)
    for first, *rest in wanted:
        rests[first].add(tuple(rest))
    firsts: dict[frozenset[tuple[PartitionValue, ...]], list[PartitionValue]] = defaultdict(list)
    for first, of_first in rests.items():
        firsts[frozenset(of_first)].append(first)
    terms = (_equals_any(column, values) & _any_of(columns[1:], rest) for rest, values in firsts.items())
    return reduce(or_, terms)


def _equals_any(column: duckdb.Expression, values: Sequence[PartitionValue]) -> duckdb.Expression:
    constants = [duckdb.ConstantExpression(value) for value in values if value is not None]
    terms = [column == constants[0]] if len(constants) == 1 else [column.isin(*constants)] if constants else []
    if None in values:
        terms.append(column.isnull())
    return reduce(or_, terms)
