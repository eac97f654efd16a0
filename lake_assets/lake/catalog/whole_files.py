"""The data files of a partition that consists of whole files."""

from collections.abc import Collection

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.inlined import inlined_rows
from lake_assets.lake.catalog.partition_files import PartitionFile, files_of_partitions
from lake_assets.lake.catalog.table import Partitioning, Table

_FEW = 500  # ids in one statement; for more files, the deletes of all files are read


def whole_files_of(
    database: CatalogDatabase, table: Table, partitioning: Partitioning, wanted: Collection[tuple[str | None, ...]]
) -> dict[tuple[str | None, ...], list[PartitionFile]]:
    """Return the data files of some partitions, by the values of each.

    Raises:
        NotDirectError: one of them may have rows in other files, or deleted rows.
    """
    refuse_other_rows(database, table.table_id, partitioning)
    files = files_of_partitions(database, table.table_id, partitioning.partition_id, wanted)
    refuse_deletes(database, table, {file.file_id for of_partition in files.values() for file in of_partition})
    return files


def refuse_other_rows(database: CatalogDatabase, table_id: int, partitioning: Partitioning) -> None:
    """Refuse a table with rows outside the files of its present partitioning.

    Raises:
        NotDirectError: the table has live files of another partitioning, or inlined rows.
    """
    if database.rows(
        f"SELECT 1 FROM {spec.DATA_FILE} WHERE table_id = ? AND end_snapshot IS NULL "
        "AND (partition_id IS NULL OR partition_id <> ?) LIMIT 1",
        [table_id, partitioning.partition_id],
    ):
        raise NotDirectError("the table has files of another partitioning")
    refuse_inlined_rows(database, table_id)


def refuse_inlined_rows(database: CatalogDatabase, table_id: int) -> None:
    """Refuse a table with inlined rows.

    Raises:
        NotDirectError: it has some in the newest snapshot.
    """
    if inlined_rows(database, table_id):
        raise NotDirectError("the table has inlined rows")


def refuse_deletes(database: CatalogDatabase, table: Table, file_ids: Collection[int]) -> None:
    """Refuse data files with deleted rows.

    Raises:
        NotDirectError: rows were deleted from one of them.
    """
    if not file_ids:
        return
    ids = sorted(file_ids) if len(file_ids) <= _FEW else []
    among = f" AND data_file_id IN ({', '.join('?' for _ in ids)})" if ids else ""
    rows = database.rows(
        f"SELECT data_file_id FROM {spec.DELETE_FILE} WHERE table_id = ? AND end_snapshot IS NULL{among}",
        [table.table_id, *ids],
    )
    if any(file_id in file_ids for (file_id,) in rows) or _has_inlined_deletes(database, table):
        raise NotDirectError("rows were deleted from files of the table")


def _has_inlined_deletes(database: CatalogDatabase, table: Table) -> bool:
    # The extension creates this table when it needs it.
    name = spec.inlined_deletes(table.table_id)
    return database.has_table(name) and bool(database.rows(f"SELECT 1 FROM {identifier(name)} LIMIT 1"))
