"""The mapping of a file's columns to the table's, written where the extension has not written it yet."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.table import Column, Partitioning, Table, read_mapping, source_name
from lake_assets.lake.catalog.transaction import Transaction


def ensure_mapping(
    database: CatalogDatabase,
    transaction: Transaction,
    table: Table,
    partitioning: Partitioning,
    inside: Collection[int] = (),
    folders: Mapping[int, str] = MappingProxyType({}),
) -> int:
    """The id of the mapping that `read_mapping` looks for; a new one where there is none."""
    try:
        return read_mapping(database, table, partitioning, inside, folders)
    except NotDirectError:
        mapping_id = transaction.new_file_id()  # the extension numbers mappings and files together
    by_path = {column.column_id for column in partitioning.columns} - set(inside)
    numbers: dict[int | None, int | None] = {None: None}
    rows: list[Row] = []
    for number, column in enumerate(_walk(table, None)):
        numbers[column.column_id] = number
        is_partition = column.column_id in by_path
        name = folders.get(column.column_id, source_name(table, column))
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


def _walk(table: Table, parent: int | None) -> Iterator[Column]:
    """The columns, each before its parts."""
    for column in table.columns.values():
        if column.parent == parent:
            yield column
            yield from _walk(table, column.column_id)
