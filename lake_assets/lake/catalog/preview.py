"""The first rows of a partition, read from its own data files.

A query of the table would find these files too, but on a SQLite catalog DuckLake reads the statistics of all files of
the table for it.
"""

from collections.abc import Sequence

from lake_assets.duckdb_engine import glob_literal, identifier, literal
from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.database import NotDirectError, Row, catalog_reading
from lake_assets.lake.catalog.history import columns_since
from lake_assets.lake.catalog.scoped_files import scoped_files
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.catalog.table_files import CatalogFile
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition


def preview_of_files(
    session: LakeSession,
    table: TableName,
    partition: Partition,
    columns: Sequence[tuple[str, str]],
    rows: int,
    characters: int,
) -> list[Row] | None:
    """The first rows of a partition as texts, in the order of the columns.

    Args:
        session: the open lake.
        table: of the partition.
        partition: its values are those of its columns, whether the files have these or not.
        columns: names and DuckDB types of the table's columns, in their order.
        rows: at most.
        characters: of one value at most.

    Returns:
        The rows; None if only a query of the table gives them: rows were deleted or inlined, the columns have changed
        since the files were written, the files lack columns, or the lake accepts rows by INSERT only.
    """
    try:
        with catalog_reading(session) as database:
            files = scoped_files(session, database, table, [partition])
            live = files.live(partition)
            if not live or files.deletes:
                return None
            table_id, *_ = read_folder(database, table)
            if columns_since(database, table_id, min(file.begin_snapshot for file in live)).changes:
                return None
    except NotDirectError:
        return None
    values = {
        column.name.lower(): None if value is None else str(value)
        for column, value in zip(partition.columns, partition.values, strict=True)
    }
    texts = ", ".join(_text(name, sql, values, characters) for name, sql in columns)
    uris = [glob_literal(uri) for uri in _first(live, rows)]
    try:
        return session.rows(
            f"SELECT {texts} FROM read_parquet(?, hive_partitioning = false) LIMIT {rows}",
            [uris],
        )
    except CatalogError:
        return None


def _first(files: Sequence[CatalogFile], rows: int) -> list[str]:
    """The URIs of the first files that have so many rows together."""
    uris: list[str] = []
    for file in files:
        if rows <= 0:
            break
        uris.append(file.uri)
        rows -= file.rows
    return uris


def _text(name: str, sql: str, values: dict[str, str | None], characters: int) -> str:
    if name.lower() not in values:
        return f"left(CAST({identifier(name)} AS {sql})::VARCHAR, {characters})"
    value = values[name.lower()]
    return "NULL" if value is None else f"left(CAST({literal(value)} AS {sql})::VARCHAR, {characters})"
