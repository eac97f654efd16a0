"""The replacement of a partition by the direct lane: its whole files end, the new files begin."""

from collections.abc import Collection, Sequence

from lake_assets.config.models import Lake
from lake_assets.engine import identifier
from lake_assets.errors import PartitionMovedError
from lake_assets.lake.direct.database import CatalogDatabase, NotDirectError
from lake_assets.lake.direct.footers import read_footers
from lake_assets.lake.direct.opened import open_table
from lake_assets.lake.direct.table import Column, Partitioning, Table, key_values, read_mapping, read_table
from lake_assets.lake.direct.transaction import Transaction
from lake_assets.lake.ducklake import LakeSession, translated
from lake_assets.lake.ledger import (
    LEDGER_COLUMNS,
    MANIFEST_COLUMNS,
    LedgerRow,
    ledger_table,
    ledger_values,
    manifest_table,
    manifest_values,
)
from lake_assets.lake.replacement import AUTHOR, Replacement


def replace_directly(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """One try.

    Returns:
        The ledger row as it stands in the ledger.

    Raises:
        NotDirectError: the partition is more than whole files, or the table is none that this lane knows; nothing
            has changed.
        PartitionMovedError: it does not consist of the files that were to be replaced; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    with open_table(session, replacement.table) as opened:
        database, transaction = opened.database, opened.transaction
        table, partitioning = opened.table, opened.partitioning
        values = key_values(partitioning, replacement.partition)
        old = _whole_files(database, table, partitioning, values)
        if replacement.replaced is not None and replacement.replaced != set(old):
            raise PartitionMovedError(
                f"partition {replacement.partition} of {replacement.table} was committed anew meanwhile:",
                "nothing was changed; run it again.",
            )
        transaction.end_files(table, list(old))
        if replacement.files:
            with translated(session.config):
                files = read_footers(session.connection, replacement.files, _stored_leaves(table, partitioning))
            transaction.add_files(
                table,
                partitioning,
                read_mapping(database, table, partitioning),
                opened.folder,
                [(file, values) for file in files],
            )
        row = replacement.done(rows_before=sum(old.values()), snapshot_id=transaction.snapshot_id)
        append_records(database, transaction, session.config, manifest_values(row, replacement.manifest), [row])
        transaction.finish(AUTHOR, replacement.message, replacement.extra_info)
    return row


def append_records(
    database: CatalogDatabase,
    transaction: Transaction,
    lake: Lake,
    manifest: Sequence[tuple[object, ...]],
    rows: Sequence[LedgerRow],
) -> None:
    """Append rows to manifest and ledger, as part of the transaction.

    Raises:
        NotDirectError: one of the two is not a table as we made it.
    """
    transaction.append(read_table(database, manifest_table(lake)), list(MANIFEST_COLUMNS), manifest)
    transaction.append(
        read_table(database, ledger_table(lake)), list(LEDGER_COLUMNS), [ledger_values(row) for row in rows]
    )


def _stored_leaves(table: Table, partitioning: Partitioning) -> dict[str, Column]:
    """The columns that a data file itself has."""
    by_path = {column.column_id for column in partitioning.columns}
    return {path: column for path, column in table.leaves.items() if column.column_id not in by_path}


def _whole_files(
    database: CatalogDatabase, table: Table, partitioning: Partitioning, values: Sequence[str | None]
) -> dict[int, int]:
    """The rows of each data file of the partition, by the file's id.

    Raises:
        NotDirectError: rows of the partition may lie elsewhere too, or not all rows of its files are live.
    """
    if database.rows(
        "SELECT 1 FROM ducklake_data_file WHERE table_id = ? AND end_snapshot IS NULL "
        "AND (partition_id IS NULL OR partition_id <> ?) LIMIT 1",
        [table.table_id, partitioning.partition_id],
    ):
        raise NotDirectError("the table has files of another partitioning")
    for (home,) in database.rows(
        "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", [table.table_id]
    ):
        if database.rows(f"SELECT 1 FROM {identifier(home)} WHERE end_snapshot IS NULL LIMIT 1"):  # noqa: S608
            raise NotDirectError("the catalog itself holds rows of the table")
    conditions: list[str] = []
    parameters: list[object] = [table.table_id]
    for index, value in enumerate(values):
        compared = "IS NULL" if value is None else "= ?"
        conditions.append(
            "AND data_file_id IN (SELECT data_file_id FROM ducklake_file_partition_value "  # noqa: S608 - no values
            f"WHERE table_id = ? AND partition_key_index = ? AND partition_value {compared})"
        )
        parameters += [table.table_id, index, *([] if value is None else [value])]
    files: dict[int, int] = dict(
        database.rows(
            "SELECT data_file_id, record_count FROM ducklake_data_file "  # noqa: S608 - no values
            f"WHERE table_id = ? AND end_snapshot IS NULL {' '.join(conditions)}",
            parameters,
        )
    )
    refuse_deletes(database, table, set(files))
    return files


def refuse_deletes(database: CatalogDatabase, table: Table, file_ids: Collection[int]) -> None:
    """Refuse data files of which not all rows are live.

    Raises:
        NotDirectError: rows were deleted from one of them.
    """
    deleted_from = {
        file_id
        for (file_id,) in database.rows(
            "SELECT data_file_id FROM ducklake_delete_file WHERE table_id = ? AND end_snapshot IS NULL",
            [table.table_id],
        )
    }
    if deleted_from.intersection(file_ids) or _has_inlined_deletes(database, table):
        raise NotDirectError("rows were deleted from files of the table")


def _has_inlined_deletes(database: CatalogDatabase, table: Table) -> bool:
    # The extension makes this table when it is first needed.
    home = f"ducklake_inlined_delete_{table.table_id}"
    return database.has_table(home) and bool(database.rows(f"SELECT 1 FROM {identifier(home)} LIMIT 1"))  # noqa: S608
