"""A table as the catalog describes it: its columns and its partitioning."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import duckdb_type
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition

# How Parquet nests the parts of a list or map.
_INSIDE_LIST = "list, element"
_INSIDE_MAP = "key_value, "


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a part of a nested one."""

    column_id: int
    name: str
    type: str  # DuckLake's name of it
    parent: int | None


@dataclass(frozen=True)
class Table:
    """A table of the lake, as of the last snapshot."""

    table_id: int
    path: str  # of its folder, below the lake's root unless `is_relative` is unset; ends in a slash
    is_relative: bool
    columns: Mapping[int, Column]

    @cached_property
    def leaves(self) -> Mapping[str, Column]:
        """The columns that hold values, by the path that Parquet gives them."""
        parents = {column.parent for column in self.columns.values()}
        return {self._parquet_path(c): c for c in self.columns.values() if c.column_id not in parents}

    def _parquet_path(self, column: Column) -> str:
        if column.parent is None:
            return column.name
        parent = self.columns[column.parent]
        inside = {"list": _INSIDE_LIST, "map": _INSIDE_MAP + column.name}.get(parent.type, column.name)
        return f"{self._parquet_path(parent)}, {inside}"

    def top_level(self, name: str) -> Column | None:
        """Return the column of this name; upper and lower case are the same."""
        matching = (c for c in self.columns.values() if c.parent is None and c.name.lower() == name.lower())
        return next(matching, None)


def read_folder(database: CatalogDatabase, name: TableName) -> tuple[int, str, bool]:
    """Return a table's id, the path of its folder, and whether that is below the lake's root.

    Raises:
        NotDirectError: it does not exist.
    """
    rows = database.rows(
        f"SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative FROM {spec.live_table()}",
        [name.schema, name.table],
    )
    if len(rows) != 1:
        raise NotDirectError(f"the catalog has {len(rows)} tables {name}")
    table_id, schema_path, schema_is_relative, path, is_relative = rows[0]
    return (table_id, schema_path + path, bool(schema_is_relative)) if is_relative else (table_id, path, False)


def find_table(database: CatalogDatabase, name: TableName) -> int | None:
    """Return the id of a table; None if it does not exist."""
    ids = database.rows(f"SELECT t.table_id FROM {spec.live_table()}", [name.schema, name.table])
    return ids[0][0] if len(ids) == 1 else None


def read_columns(database: CatalogDatabase, table_id: int) -> list[Column]:
    """Return the columns of a table and the parts of nested ones, in their order."""
    rows = database.rows(
        f"SELECT column_id, column_name, column_type, parent_column FROM {spec.COLUMN} "
        "WHERE table_id = ? AND end_snapshot IS NULL ORDER BY column_order",
        [table_id],
    )
    return [Column(*row) for row in rows]


def read_table(database: CatalogDatabase, name: TableName) -> Table:
    """Return the table's description.

    Raises:
        NotDirectError: the table does not exist, or has columns of an unsupported type or with the same path.
    """
    table_id, path, is_relative = read_folder(database, name)
    columns = {column.column_id: column for column in read_columns(database, table_id)}
    table = Table(table_id, path, is_relative, columns)
    if len(table.leaves) < len(columns.keys() - {column.parent for column in columns.values()}):
        raise NotDirectError(f"two columns of {name} have one path in Parquet, as `a, b` and the field b of a have")
    for column in table.leaves.values():
        if duckdb_type(column.type) is None:
            raise NotDirectError(f"column {column.name} of {name} is of type {column.type}")
    return table


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The columns by which a table's files are partitioned now, in the order of their keys."""

    partition_id: int
    columns: Sequence[Column]

    def read_from_path(self, inside: Collection[str] = ()) -> set[int]:
        """Return the ids of the columns that readers take from a file's path.

        Args:
            inside: names in lower case of the columns that readers take from the file instead.
        """
        return {column.column_id for column in self.columns if column.name.lower() not in inside}

    def stored_leaves(self, table: Table, inside: Collection[str] = ()) -> dict[str, Column]:
        """Return the table's leaves that a data file must have; `inside` as in `read_from_path`."""
        from_path = self.read_from_path(inside)
        return {path: column for path, column in table.leaves.items() if column.column_id not in from_path}


def read_partitioning(database: CatalogDatabase, table_id: int) -> Partitioning:
    """Return the partitioning of a table.

    Raises:
        NotDirectError: the table has none, or one that transforms its columns.
    """
    keys = database.rows(
        "SELECT i.partition_id, k.transform, c.column_id, c.column_name, c.column_type, c.parent_column "
        f"FROM {spec.PARTITION_INFO} i "
        f"JOIN {spec.PARTITION_COLUMN} k ON k.partition_id = i.partition_id AND k.table_id = i.table_id "
        f"JOIN {spec.COLUMN} c ON c.column_id = k.column_id AND c.table_id = i.table_id "
        "WHERE i.table_id = ? AND i.end_snapshot IS NULL AND c.end_snapshot IS NULL ORDER BY k.partition_key_index",
        [table_id],
    )
    if not keys or any(transform != "identity" for _, transform, *_ in keys):
        raise NotDirectError("the table is not partitioned by the plain values of its columns")
    return Partitioning(keys[0][0], tuple(Column(*column) for _, _, *column in keys))


def key_values(partitioning: Partitioning, partition: Partition) -> list[str | None]:
    """Return the partition's values as texts of the catalog, in the order of the table's keys.

    Raises:
        NotDirectError: the table is partitioned by other columns.
    """
    texts = {
        column.name.lower(): None if value is None else str(value)
        for column, value in zip(partition.columns, partition.values, strict=True)
    }
    names = [column.name.lower() for column in partitioning.columns]
    if set(names) != set(texts):
        raise NotDirectError(f"the table is partitioned by {', '.join(names)}, the stream by {', '.join(texts)}")
    return [texts[name] for name in names]
