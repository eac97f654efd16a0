"""Checks that the user wrote: a query that returns what is wrong."""

import duckdb

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.engine import all_threads, identifier
from lake_assets.errors import CatalogError
from lake_assets.lake.ducklake import LakeSession
from lake_assets.stream import OpenStream


def run_sql(stream: OpenStream, scope: Scope, name: str, sql: str) -> CheckResult:
    """Whether the query returns no row.

    The lake is the current database and cannot be written. The view `refreshed` has the table's rows in the
    partitions of the run, or all its rows.

    Raises:
        CatalogError: the query fails.
    """
    with stream.lake.open(read_only=True) as lake, all_threads(lake.connection):
        lake.rows(f"USE {identifier(lake.alias)}")
        try:
            _make_view(lake, stream, scope)
            relation = lake.connection.sql(sql)
            ((rows,),) = relation.count("*").fetchall()
            named = [", ".join(map(str, row)) for row in relation.limit(NAMED).fetchall()] if rows else []
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise CatalogError(f"check {name} of stream {stream.name}: {first}:", "correct its SQL.") from error
        finally:
            lake.rows("USE memory")
            lake.rows("DROP VIEW IF EXISTS temp.refreshed")
            lake.rows("DROP TABLE IF EXISTS temp.refreshed_partitions")
    description = f"Rows that break the rule: {rows:,}." if rows else "No row breaks the rule."
    return CheckResult(name, rows == 0, description, numbers={"rows": rows}, named=named)


def _make_view(lake: LakeSession, stream: OpenStream, scope: Scope) -> None:
    if scope.partitions is None:
        lake.rows(f"CREATE OR REPLACE TEMP VIEW refreshed AS SELECT * FROM {stream.table.sql}")  # noqa: S608
        return
    columns = [identifier(column.name) for column in stream.config.columns]
    lake.rows(
        f"CREATE OR REPLACE TEMP TABLE refreshed_partitions AS SELECT {', '.join(columns)} "  # noqa: S608
        f"FROM {stream.table.sql} LIMIT 0"
    )
    places = ", ".join("?" for _ in columns)
    for partition in scope.partitions:
        lake.rows(f"INSERT INTO temp.refreshed_partitions VALUES ({places})", list(partition.values))  # noqa: S608
    same = " AND ".join(f"r.{column} IS NOT DISTINCT FROM t.{column}" for column in columns)
    lake.rows(
        f"CREATE OR REPLACE TEMP VIEW refreshed AS SELECT t.* FROM {stream.table.sql} t "  # noqa: S608
        f"SEMI JOIN temp.refreshed_partitions r ON {same}"
    )
