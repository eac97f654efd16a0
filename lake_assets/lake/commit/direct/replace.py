"""The replacement of a partition by the direct strategy: its whole files end, the new files begin."""

from collections.abc import Sequence

from lake_assets.config.models import Lake
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.catalog.footers import read_footers
from lake_assets.lake.catalog.table import Column, Partitioning, Table, key_values, read_mapping, read_table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.catalog.whole_files import whole_files
from lake_assets.lake.commit.direct.opened import open_table
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.ledger.tables import (
    LEDGER_COLUMNS,
    MANIFEST_COLUMNS,
    LedgerRow,
    ledger_table,
    ledger_values,
    manifest_table,
    manifest_values,
)
from lake_assets.lake.session import AUTHOR, LakeSession, translated


def replace_directly(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """One try.

    Returns:
        The ledger row as it is in the ledger.

    Raises:
        NotDirectError: the partition is more than whole files, or the table is none that this strategy knows; nothing
            has changed.
        PartitionMovedError: it does not consist of the files that were to be replaced; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    with open_table(session, replacement.table) as opened:
        database, transaction = opened.database, opened.transaction
        table, partitioning = opened.table, opened.partitioning
        values = key_values(partitioning, replacement.partition)
        old = whole_files(database, table, partitioning, values)
        if replacement.replaced is not None and replacement.replaced != set(old):
            raise replacement.moved()
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
