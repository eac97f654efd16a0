"""Rows of partitions as a relation of DuckDB, and a relation as a table of another library."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
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

_Read = Callable[[duckdb.DuckDBPyRelation], Any]

# What a relation can be read as, by package and class. A package is imported only by who names its class.
_EAGER: Mapping[tuple[str, str], _Read] = MappingProxyType(
    {
        ("pyarrow", "Table"): lambda relation: relation.to_arrow_table(),
        ("pandas", "DataFrame"): lambda relation: relation.df(),
        ("polars", "DataFrame"): lambda relation: relation.pl(),
    }
)
# These read while they are used, so the connection remains open until they are dropped.
_LAZY: Mapping[tuple[str, str], _Read] = MappingProxyType(
    {
        ("duckdb", "DuckDBPyRelation"): lambda relation: relation,
        ("pyarrow", "RecordBatchReader"): lambda relation: relation.to_arrow_reader(),
        ("polars", "LazyFrame"): lambda relation: relation.pl(lazy=True),
    }
)


def rows_of(
    connection: duckdb.DuckDBPyConnection,
    stream: OpenStream,
    partitions: Collection[Partition],
    columns: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """The rows of partitions, read when the relation is.

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
            raise CatalogError(
                f"the lake has no table {stream.table} yet:", "ingest a partition of the stream first."
            ) from error
        wanted = table.filter(_any_of([c.name for c in stream.config.columns], {p.values for p in partitions}))
        return wanted if columns is None else wanted.project(", ".join(map(identifier, columns)))


def is_readable_as(kind: object) -> bool:
    """Whether `read_as` can make it of a relation."""
    return _name(kind) in {*_EAGER, *_LAZY}


def is_lazy(kind: object) -> bool:
    """Whether it reads while it is used, and needs the connection until then."""
    return _name(kind) in _LAZY


def readable_kinds() -> str:
    """What `read_as` can make, for messages."""
    return ", ".join(".".join(name) for name in {**_EAGER, **_LAZY})


def read_as(relation: duckdb.DuckDBPyRelation, kind: object) -> Any:  # noqa: ANN401 - an instance of `kind`
    """The rows of a relation as this class; see `is_readable_as`."""
    return {**_EAGER, **_LAZY}[_name(kind)](relation)


def _name(kind: object) -> tuple[str, str]:
    """The package and the name of a class: of `pyarrow.lib.Table` they are `pyarrow` and `Table`."""
    package = getattr(kind, "__module__", "").split(".")[0]
    return package.removeprefix("_"), getattr(kind, "__name__", "")


def _any_of(columns: Sequence[str], wanted: Collection[tuple[PartitionValue, ...]]) -> duckdb.Expression:
    """The condition that the columns have one of these combinations of values.

    All days of two regions are `region IN (…) AND date IN (…)`: combinations that differ in the first column alone
    share a term. DuckLake prunes files by such terms.
    """
    if not wanted:
        return duckdb.ConstantExpression(value=False)
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
