"""A table as the catalog describes it: its columns, its partitioning, and how its files' columns map to them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import duckdb_type
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition

# How Parquet nests what a column of these types holds, and the name that DuckLake's mapping gives it.
_INSIDE_LIST = ("list, element", "list")
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
        inside = {"list": _INSIDE_LIST[0], "map": _INSIDE_MAP + column.name}.get(parent.type, column.name)
        return f"{self._parquet_path(parent)}, {inside}"

    def top_level(self, name: str) -> Column | None:
        """The column of this name, whatever the case of its letters."""
        found = (c for c in self.columns.values() if c.parent is None and c.name.lower() == name.lower())
        return next(found, None)


def read_folder(database: CatalogDatabase, name: TableName) -> tuple[int, str, bool]:
    """A table's id, the path of its folder, and whether that is below the lake's root.

    Raises:
        NotDirectError: it does not exist.
    """
    found = database.rows(
        f"SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative FROM {spec.live_table()}",
        [name.schema, name.table],
    )
    if len(found) != 1:
        raise NotDirectError(f"the catalog has {len(found)} tables {name}")
    table_id, schema_path, schema_is_relative, path, is_relative = found[0]
    return (table_id, schema_path + path, bool(schema_is_relative)) if is_relative else (table_id, path, False)


def read_table(database: CatalogDatabase, name: TableName) -> Table:
    """The table's description.

    Raises:
        NotDirectError: it does not exist, or has columns that this strategy cannot compare or tell apart.
    """
    table_id, path, is_relative = read_folder(database, name)
    columns = {
        row[0]: Column(*row)
        for row in database.rows(
            f"SELECT column_id, column_name, column_type, parent_column FROM {spec.COLUMN} "
            "WHERE table_id = ? AND end_snapshot IS NULL ORDER BY column_order",
            [table_id],
        )
    }
    table = Table(table_id, path, is_relative, columns)
    if len(table.leaves) < len(columns.keys() - {column.parent for column in columns.values()}):
        raise NotDirectError(f"two columns of {name} have one path in Parquet, as `a, b` and the field b of a have")
    for column in table.leaves.values():
        if duckdb_type(column.type) is None:
            raise NotDirectError(f"column {column.name} of {name} is of type {column.type}")
    return table


@dataclass(frozen=True, slots=True)
class Partitioning:
    """By which columns a table's files are separated now, in the order of their keys."""

    partition_id: int
    columns: Sequence[Column]


def read_partitioning(database: CatalogDatabase, table: Table) -> Partitioning:
    """The table's partitioning.

    Raises:
        NotDirectError: it has none, or one that computes something of its columns.
    """
    keys = database.rows(
        f"SELECT c.partition_id, c.column_id, c.transform FROM {spec.PARTITION_INFO} i "
        f"JOIN {spec.PARTITION_COLUMN} c ON c.partition_id = i.partition_id AND c.table_id = i.table_id "
        "WHERE i.table_id = ? AND i.end_snapshot IS NULL ORDER BY c.partition_key_index",
        [table.table_id],
    )
    if not keys or any(transform != "identity" for *_, transform in keys):
        raise NotDirectError("the table is not partitioned by the plain values of its columns")
    return Partitioning(keys[0][0], tuple(table.columns[column_id] for _, column_id, _ in keys))


def key_values(partitioning: Partitioning, partition: Partition) -> list[str | None]:
    """The partition's values as the catalog has them, in the order of the table's keys.

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


def read_mapping(
    database: CatalogDatabase,
    table: Table,
    partitioning: Partitioning,
    inside: Collection[int] = (),
    folders: Mapping[int, str] = MappingProxyType({}),
) -> int:
    """The mapping by which DuckLake reads a file that has just the table's columns, but for the partition's.

    The extension writes it with the first file of a table, and again when the columns have changed.

    Args:
        database: the catalog.
        table: whose files are meant.
        partitioning: its own; these columns are read from the file's path.
        inside: ids of those of them that are read from the file itself.
        folders: by id, the names of the path's folders that are not named like their column.

    Raises:
        NotDirectError: there is none for the columns as they are now.
    """
    mappings: dict[int, list[tuple[int, str, int, int | None, bool]]] = {}
    for mapping_id, *entry in database.rows(
        "SELECT m.mapping_id, n.column_id, n.source_name, n.target_field_id, n.parent_column, n.is_partition "
        f"FROM {spec.COLUMN_MAPPING} m JOIN {spec.NAME_MAPPING} n ON n.mapping_id = m.mapping_id "
        "WHERE m.table_id = ? AND m.type = 'map_by_name' ORDER BY m.mapping_id",
        [table.table_id],
    ):
        mappings.setdefault(mapping_id, []).append(tuple(entry))
    by_path = {column.column_id for column in partitioning.columns} - set(inside)
    wanted = {
        (c.column_id, folders.get(c.column_id, source_name(table, c)), c.parent, c.column_id in by_path)
        for c in table.columns.values()
    }
    for mapping_id, entries in mappings.items():
        targets = {number: target for number, _, target, *_ in entries}
        entry_set = {
            (target, source, None if parent is None else targets.get(parent), bool(in_path))
            for _, source, target, parent, in_path in entries
        }
        if entry_set == wanted:
            return mapping_id
    raise NotDirectError("no file with the table's columns has been registered yet")


def source_name(table: Table, column: Column) -> str:
    """How DuckLake's mappings call a column of a file."""
    parent = None if column.parent is None else table.columns[column.parent]
    return _INSIDE_LIST[1] if parent and parent.type == "list" else column.name
