"""What a user sees of a partition: its table's columns, its number of rows, and the first rows of its data files.

A query of the table would find these too. But DuckDB would attach the lake for it, and DuckLake reads the statistics of
all files of the table for a query with conditions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lake_assets.base.duckdb_engine import expressions, glob_literal, identifier, literal
from lake_assets.base.errors import CatalogError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.past_partitions import LIVE, CatalogFile, past_table
from lake_assets.lake.catalog.table import column_types, columns_since, read_columns, read_folder
from lake_assets.lake.failures import translated
from lake_assets.lake.session import LakeSession, PartitionedTable, TableName

PREVIEW_ROWS = 10
PREVIEW_CHARACTERS = 80  # of one value; one more is read, to show that it is longer


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition in the lake."""

    columns: tuple[tuple[str, str], ...]  # name and DuckDB type, in the table's order
    rows: int
    preview: tuple[tuple[str | None, ...], ...] | None  # the first rows as texts; None: not read
    descriptions: Mapping[str, str] = field(default_factory=dict)  # of columns, by their names in small letters

    def without_preview(self, rows: int | None) -> "PartitionView | None":
        """Return the view of another partition of the same table, of which only the number of rows is known."""
        return None if rows is None else PartitionView(self.columns, rows, None, self.descriptions)


def view_of_files(session: LakeSession, table: TableName, partition: Partition) -> PartitionView | None:
    """Return a partition as the catalog's own tables describe it; DuckDB does not attach the lake.

    The partition's values are those of its columns, whether the files have these or not. The preview is None if only a
    query of the table gives it: the columns have changed since the files were written, or the files lack columns. The
    whole view is None if only queries give it: there is no table, it has columns of unknown types, rows were deleted or
    inlined, or the lake accepts rows only through INSERT.
    """
    past = past_table(session, PartitionedTable(table, partition.columns), [partition], LIVE).of(partition)
    if not past.is_whole(LIVE):
        return None
    live = past.live
    try:
        with session.read() as database:
            table_id, *_ = read_folder(database, table)
            types = column_types(read_columns(database, table_id))
            if types is None:
                return None
            oldest = min((file.begin_snapshot for file in live), default=0)
            has_changed = bool(live and columns_since(database, table_id, oldest).changes)
    except NotDirectError:
        return None
    columns = _described(session, types)
    preview = None if has_changed else _preview(session, live, partition, columns)
    return PartitionView(columns, past.rows(), preview)


def _described(session: LakeSession, types: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the columns with the names of their types as DuckDB's DESCRIBE writes them."""
    nulls = ", ".join(f"CAST(NULL AS {sql}) AS {identifier(name)}" for name, sql in types.items())
    with translated(session.config):
        described = expressions().execute(f"DESCRIBE SELECT {nulls}").fetchall()
    return tuple((name, sql) for name, sql, *_ in described)


def _preview(
    session: LakeSession, files: Sequence[CatalogFile], partition: Partition, columns: Sequence[tuple[str, str]]
) -> tuple[tuple[str | None, ...], ...] | None:
    """Return the first rows of the files as texts, in the order of the columns."""
    if not files:
        return ()
    values = {
        column.name.lower(): None if value is None else str(value)
        for column, value in zip(partition.columns, partition.values, strict=True)
    }
    texts = ", ".join(_text(name, sql, values) for name, sql in columns)
    uris = [glob_literal(uri) for uri in _first(files, PREVIEW_ROWS)]
    query = f"SELECT {texts} FROM read_parquet(?, hive_partitioning = false) LIMIT {PREVIEW_ROWS}"
    try:
        with translated(session.config):
            return tuple(session.engine.execute(query, [uris]).fetchall())
    except CatalogError:
        return None


def _first(files: Sequence[CatalogFile], rows: int) -> list[str]:
    """Return the URIs of the first files that have so many rows together."""
    uris: list[str] = []
    for file in files:
        if rows <= 0:
            break
        uris.append(file.uri)
        rows -= file.rows
    return uris


def _text(name: str, sql: str, values: dict[str, str | None]) -> str:
    if name.lower() not in values:
        return f"left(CAST({identifier(name)} AS {sql})::VARCHAR, {PREVIEW_CHARACTERS + 1})"
    value = values[name.lower()]
    return "NULL" if value is None else f"left(CAST({literal(value)} AS {sql})::VARCHAR, {PREVIEW_CHARACTERS + 1})"
