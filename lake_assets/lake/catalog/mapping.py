"""The mapping of a data file's columns to the table's columns.

The first file of a table has a new mapping, and so has the first file after its columns have changed.
"""

from collections.abc import Collection, Iterator

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import Row
from lake_assets.lake.catalog.table import Column, Table
from lake_assets.lake.catalog.transaction import Transaction

Folders = frozenset[tuple[str, str]]
"""Partition columns, in lower case, each with the name of the path's folder that holds its value."""


def ensure_mapping(transaction: Transaction, table: Table, from_path: Collection[int], folders: Folders) -> int:
    """Return the id of the mapping for files that have exactly the table's columns, except those read from the path.

    Args:
        transaction: gets a new mapping if there is none.
        table: of the files.
        from_path: ids of the partition columns that are read from the file's path.
        folders: of those columns whose folder has another name than the column.
    """
    database = transaction.database
    mappings: dict[int, list[tuple[int, str, int, int | None, bool]]] = {}
    for mapping_id, *entry in database.rows(
        "SELECT m.mapping_id, n.column_id, n.source_name, n.target_field_id, n.parent_column, n.is_partition "
        f"FROM {spec.COLUMN_MAPPING} m JOIN {spec.NAME_MAPPING} n ON n.mapping_id = m.mapping_id "
        "WHERE m.table_id = ? AND m.type = 'map_by_name' ORDER BY m.mapping_id",
        [table.table_id],
    ):
        mappings.setdefault(mapping_id, []).append(tuple(entry))
    expected = {
        (column.column_id, _source_name(table, column, folders), column.parent, column.column_id in from_path)
        for column in table.columns.values()
    }
    for mapping_id, entries in mappings.items():
        targets = {number: target for number, _, target, *_ in entries}
        if expected == {
            (target, source, None if parent is None else targets.get(parent), bool(in_path))
            for _, source, target, parent, in_path in entries
        }:
            return mapping_id
    mapping_id = transaction.new_file_id()  # the extension numbers mappings and files together
    numbers: dict[int | None, int | None] = {None: None}
    rows: list[Row] = []
    for number, column in enumerate(_parents_first(table, None)):
        numbers[column.column_id] = number
        name, is_partition = _source_name(table, column, folders), column.column_id in from_path
        rows.append((mapping_id, number, name, column.column_id, numbers[column.parent], is_partition))
    database.insert(
        spec.COLUMN_MAPPING, ("mapping_id", "table_id", "type"), [(mapping_id, table.table_id, "map_by_name")]
    )
    database.insert(
        spec.NAME_MAPPING,
        ("mapping_id", "column_id", "source_name", "target_field_id", "parent_column", "is_partition"),
        rows,
    )
    return mapping_id


def _source_name(table: Table, column: Column, folders: Folders) -> str:
    """Return the name of a file's column, or of a path's folder, in DuckLake's mappings."""
    if column.parent is None:
        return dict(folders).get(column.name.lower(), column.name)
    return "list" if table.columns[column.parent].type == "list" else column.name


def _parents_first(table: Table, parent: int | None) -> Iterator[Column]:
    """Yield the columns, each before its parts."""
    for column in table.columns.values():
        if column.parent == parent:
            yield column
            yield from _parents_first(table, column.column_id)
