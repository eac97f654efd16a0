"""The registration of landed files by the direct lane: many partitions, one snapshot."""

from collections.abc import Sequence

from lake_assets.errors import CatalogError
from lake_assets.lake.attach import data_path
from lake_assets.lake.direct.database import CatalogDatabase, NotDirectError, catalog_transaction
from lake_assets.lake.direct.mapping import ensure_mapping
from lake_assets.lake.direct.registered import partition_rows, registered_before
from lake_assets.lake.direct.replace import append_records, key_values
from lake_assets.lake.direct.table import Partitioning, Table, read_partitioning, read_table
from lake_assets.lake.direct.transaction import Transaction
from lake_assets.lake.ducklake import LakeSession, TableName
from lake_assets.lake.ledger import LedgerRow
from lake_assets.lake.registration import LandedFile, RegisteredBeforeError, Registration
from lake_assets.lake.replacement import AUTHOR
from lake_assets.partition import Partition


def describe(session: LakeSession, name: TableName) -> tuple[Table, Partitioning]:
    """The table as the direct lane knows it.

    Raises:
        NotDirectError: it is none for this lane.
        CatalogError: the catalog cannot be read.
    """
    with catalog_transaction(session) as database:
        table = read_table(database, name)
        return table, read_partitioning(database, table)


def register_directly(session: LakeSession, registration: Registration) -> list[LedgerRow]:
    """One try.

    Returns:
        The ledger rows as they stand in the ledger, in the order of the registration's.

    Raises:
        NotDirectError: the table or a file is none that this lane knows; nothing has changed.
        RegisteredBeforeError: the catalog has some of the files already; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    if registration.described is None or any(file.facts is None for file in registration.with_rows):
        raise NotDirectError("some of the files are none for the direct lane")
    with catalog_transaction(session) as database:
        transaction = Transaction(database, session.connection)
        table = read_table(database, registration.table)
        if table != registration.described:
            raise CatalogError(
                f"the columns of {registration.table} changed while files were being registered:", "run it again."
            )
        partitioning = read_partitioning(database, table)
        folder = (data_path(session.config) if table.is_relative else "") + table.path
        uris = [file.uri for file in registration.files]
        if found := registered_before(database.rows, table.table_id, folder, uris):
            raise RegisteredBeforeError(found)
        counts = partition_rows(database.rows, table.table_id, len(partitioning.columns))
        _add(database, transaction, table, partitioning, folder, registration.with_rows)
        before = {p: counts.get(tuple(key_values(partitioning, p)), 0) for p in registration.rows}
        return finish(session, database, transaction, registration, before)


def finish(
    session: LakeSession,
    database: CatalogDatabase,
    transaction: Transaction,
    registration: Registration,
    rows_before: dict[Partition, int],
) -> list[LedgerRow]:
    """Add the manifest and the ledger, and complete the snapshot.

    Returns:
        The ledger rows as they stand in the ledger, in the order of the registration's.
    """
    rows = registration.done(rows_before=rows_before, snapshot_id=transaction.snapshot_id)
    append_records(database, transaction, session.config, registration.manifest_rows(), rows)
    transaction.finish(AUTHOR, registration.message, registration.extra_info)
    return rows


def _add(
    database: CatalogDatabase,
    transaction: Transaction,
    table: Table,
    partitioning: Partitioning,
    folder: str,
    files: Sequence[LandedFile],
) -> None:
    """Add the files, those that are read alike together."""
    values = {partition: key_values(partitioning, partition) for partition in {file.partition for file in files}}
    for inside in dict.fromkeys(file.inside for file in files):
        ids = {column.column_id for column in partitioning.columns if column.name.lower() in inside}
        transaction.add_files(
            table,
            partitioning,
            ensure_mapping(database, transaction, table, partitioning, ids),
            folder,
            [(f.facts, values[f.partition]) for f in files if f.inside == inside and f.facts is not None],
        )
