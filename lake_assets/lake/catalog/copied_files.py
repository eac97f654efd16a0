"""Entries of data files that are copies of files of the same table: they keep the facts of their originals."""

from collections.abc import Mapping, Sequence
from typing import Any

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import Bounds
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.footers import ColumnFacts
from lake_assets.lake.catalog.table import Table
from lake_assets.lake.catalog.transaction import Transaction


def add_copies(transaction: Transaction, table: Table, copies: Mapping[int, str]) -> int | None:
    """Add copies of data files to the table, with the partition, mapping and statistics of their originals.

    So readers find the columns in a copy as in its original, also those that were added, widened or renamed since.

    Args:
        transaction: the open transaction of the catalog.
        table: of the files.
        copies: the URI of each copy by the id of its original.

    Returns:
        The number of rows; None if the catalog no longer has one of the originals.

    Raises:
        NotDirectError: a file has rows of several snapshots, row ids of its own, or its own key.
    """
    database = transaction.database
    names = database.columns(spec.DATA_FILE)
    files = {file["data_file_id"]: file for file in _entries(database, spec.DATA_FILE, names, list(copies))}
    if set(files) != set(copies):
        return None
    for file in files.values():
        if file["partial_max"] is not None or file["row_id_start"] is None or file["encryption_key"] is not None:
            raise NotDirectError(f"the file {file['path']} cannot be copied as it is")
    rows: int = sum(file["record_count"] for file in files.values())
    row_id = transaction.grow(table, rows, sum(file["file_size_bytes"] for file in files.values()))
    new_ids: dict[int, int] = {}
    entries: list[Row] = []
    for file_id, uri in copies.items():
        file = files[file_id]
        new_ids[file_id] = transaction.new_file_id()
        changed = {
            "data_file_id": new_ids[file_id],
            "begin_snapshot": transaction.snapshot_id,
            "end_snapshot": None,
            "path": uri.removeprefix(table.folder),
            "path_is_relative": uri.startswith(table.folder),
            "row_id_start": row_id,
        }
        row_id += file["record_count"]
        entries.append(tuple((file | changed)[name] for name in names))
    database.insert(spec.DATA_FILE, names, entries)
    for name in (spec.FILE_PARTITION_VALUE, spec.FILE_COLUMN_STATS):
        columns = database.columns(name)
        found = _entries(database, name, columns, list(copies))
        if name == spec.FILE_COLUMN_STATS:
            found = [entry for entry in found if entry["column_id"] in table.columns]
            transaction.widen(table, _facts(table, found, len(copies)), is_first=False)
        rows_of = [tuple((e | {"data_file_id": new_ids[e["data_file_id"]]})[c] for c in columns) for e in found]
        if rows_of:
            database.insert(name, columns, rows_of)
    transaction.note("inserted_into_table", table)
    return rows


def _entries(
    database: CatalogDatabase, name: str, columns: Sequence[str], file_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the rows of one of the catalog's tables about these files."""
    rows = database.rows_among(f"SELECT {', '.join(columns)} FROM {name} WHERE data_file_id IN", file_ids)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _facts(table: Table, entries: Sequence[Mapping[str, Any]], files: int) -> dict[int, list[ColumnFacts]]:
    """Return the facts of the columns that hold values; unknown ones for a file without an entry of the column."""
    facts: dict[int, list[ColumnFacts]] = {column.column_id: [] for column in table.leaves.values()}
    for entry in entries:
        if entry["column_id"] in facts:
            bounds = Bounds(entry["min_value"], entry["max_value"])
            facts[entry["column_id"]].append(
                ColumnFacts(entry["column_size_bytes"] or 0, entry["value_count"], entry["null_count"], bounds)
            )
    unknown = ColumnFacts(0, None, None, Bounds(None, None))
    return {column_id: of_column + [unknown] * (files - len(of_column)) for column_id, of_column in facts.items()}
