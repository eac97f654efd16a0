"""Checks of the user: queries that return the rows that are wrong."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb

from lake_assets.base.duckdb_engine import all_threads, identifier
from lake_assets.base.errors import CatalogError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.failures import outer_error
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.facts import NAMED, CheckResult, Facts, PreparedCheck

_REFRESHED = re.compile(r"\brefreshed\b", re.IGNORECASE)


def is_of_run(sql: str) -> bool:
    """Return whether the query reads the view `refreshed`, so that it can check single partitions."""
    return _REFRESHED.search(sql) is not None


def run_sql(facts: Facts, name: str, sql: str) -> PreparedCheck:
    """The query returns no rows.

    The lake is the current database and cannot be written. The view `refreshed` has the table's rows in the
    partitions of the run, or all its rows. A query that does not read this view reads whole tables, also after a run.
    """
    if is_of_run(sql) and facts.by_partition:
        return _checked_by_partition(facts, name, sql)
    with _session(facts, name) as lake:
        if is_of_run(sql):
            _view(facts, lake)
        result = _result(lake, name, sql)
    return PreparedCheck(lambda: result)


def _checked_by_partition(facts: Facts, name: str, sql: str) -> PreparedCheck:
    """Check each partition, whose rows are in the view `refreshed`; without a run, all if the whole fails."""
    results: dict[Partition, CheckResult] = {}
    whole: CheckResult | None = None
    partitions: Sequence[Partition] | None = facts.scope.partitions
    with _session(facts, name) as lake:
        if partitions is None:
            _view(facts, lake)
            whole = _result(lake, name, sql)
            partitions = [] if whole.passed else [p for p, last in facts.runs.items() if last.snapshot is not None]
        for partition in partitions:
            _view_of_one(lake, facts.stream, partition)
            results[partition] = _result(lake, name, sql)
    return PreparedCheck(lambda: whole or _summed(name, results), lambda: results)


def _summed(name: str, results: Mapping[Partition, CheckResult]) -> CheckResult:
    rows = sum(result.numbers["rows"] for result in results.values())
    return _result_of_rows(name, rows, [text for result in results.values() for text in result.named][:NAMED])


@contextmanager
def _session(facts: Facts, name: str) -> Iterator[LakeSession]:
    """Yield the open lake as the current database; the check's views are dropped from the engine at the end."""
    lake, stream = facts.lake, facts.stream
    with all_threads(lake.connection):
        lake.rows(f"USE {identifier(lake.alias)}")
        try:
            yield lake
        except duckdb.Error as error:
            problem = f"check {name} of stream {stream.name}: {str(error).splitlines()[0]}:"
            raise (outer_error(error, lake.config) or CatalogError(problem, "correct its SQL.")) from error
        finally:
            lake.rows("USE memory")
            lake.rows("DROP VIEW IF EXISTS temp.refreshed")
            lake.rows("DROP TABLE IF EXISTS temp.refreshed_partitions")


def _result(lake: LakeSession, name: str, sql: str) -> CheckResult:
    relation = lake.connection.sql(sql)
    ((rows,),) = relation.count("*").fetchall()
    broken = relation.limit(NAMED).fetchall() if rows else []
    return _result_of_rows(name, rows, [", ".join(map(_text, relation.columns, row)) for row in broken])


def _result_of_rows(name: str, rows: int, named: Sequence[str]) -> CheckResult:
    description = f"Rows that break the rule: {rows:,}." if rows else "No row breaks the rule."
    return CheckResult(name, rows == 0, description, numbers={"rows": rows}, named=named)


def _text(column: str, value: object) -> str:
    return f"{column}={'NULL' if value is None else value}"


def _view(facts: Facts, lake: LakeSession) -> None:
    """Create the view over the scope's partitions."""
    if facts.scope.partitions is None:
        lake.rows(f"CREATE OR REPLACE TEMP VIEW refreshed AS SELECT * FROM {facts.stream.table.sql}")  # noqa: S608
    else:
        _view_of_many(lake, facts.stream, facts.scope.partitions)


def _view_of_one(lake: LakeSession, stream: OpenStream, partition: Partition) -> None:
    """Create the view. A view has no parameters, so it uses variables, by which DuckDB prunes files too."""
    conditions = []
    for number, (column, value) in enumerate(zip(partition.columns, partition.values, strict=True)):
        if value is None:
            conditions.append(f"{identifier(column.name)} IS NULL")
        else:
            lake.rows(f"SET VARIABLE refreshed_{number} = ?", [value])
            conditions.append(f"{identifier(column.name)} = getvariable('refreshed_{number}')")
    lake.rows(
        f"CREATE OR REPLACE TEMP VIEW refreshed AS SELECT * FROM {stream.table.sql} "  # noqa: S608 - quoted names
        f"WHERE {' AND '.join(conditions) or 'TRUE'}"
    )


def _view_of_many(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> None:
    columns = [identifier(column.name) for column in stream.config.partition_columns]
    lake.rows(
        f"CREATE OR REPLACE TEMP TABLE refreshed_partitions AS SELECT {', '.join(columns)} "  # noqa: S608
        f"FROM {stream.table.sql} LIMIT 0"
    )
    places = ", ".join("?" for _ in columns)
    for partition in partitions:
        lake.rows(f"INSERT INTO temp.refreshed_partitions VALUES ({places})", list(partition.values))  # noqa: S608
    same = " AND ".join(f"r.{column} IS NOT DISTINCT FROM t.{column}" for column in columns)
    lake.rows(
        f"CREATE OR REPLACE TEMP VIEW refreshed AS SELECT t.* FROM {stream.table.sql} t "  # noqa: S608
        f"SEMI JOIN temp.refreshed_partitions r ON {same}"
    )
