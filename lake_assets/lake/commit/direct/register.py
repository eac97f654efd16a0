"""The registration of landed files by the direct strategy: many partitions, one snapshot."""

from collections.abc import Collection, Sequence

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.database import NotDirectError, catalog_transaction
from lake_assets.lake.catalog.mapping import ensure_mapping
from lake_assets.lake.catalog.registered import registered_before
from lake_assets.lake.catalog.table import Partitioning, Table, key_values, read_partitioning, read_table
from lake_assets.lake.commit.direct.opened import OpenTable, open_table
from lake_assets.lake.commit.direct.replace import append_records
from lake_assets.lake.commit.registration import LandedFile, RegisteredBeforeError, Registration
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import AUTHOR, LakeSession, TableName
from lake_assets.layout.partition import Partition


def describe(session: LakeSession, name: TableName) -> tuple[Table, Partitioning]:
    """The table as the direct strategy knows it.

    Raises:
        NotDirectError: it is none for this strategy.
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
        NotDirectError: the table or a file is none that this strategy knows; nothing has changed.
        RegisteredBeforeError: the catalog has some of the files already; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    if registration.described is None or any(file.facts is None for file in registration.with_rows):
        raise NotDirectError("some of the files are none for the direct strategy")
    with open_table(session, registration.table) as opened:
        if opened.table != registration.described:
            raise CatalogError(
                f"the columns of {registration.table} changed while files were being registered:", "run it again."
            )
        uris = [file.uri for file in registration.files]
        if found := registered_before(opened.database.rows, opened.table.table_id, opened.folder, uris):
            raise RegisteredBeforeError(found)
        before = opened.rows_of(registration.rows)
        _add(opened, registration.with_rows)
        return finish(opened, registration, before)


def finish(opened: OpenTable, registration: Registration, rows_before: dict[Partition, int]) -> list[LedgerRow]:
    """Add the manifest and the ledger, and complete the snapshot.

    Returns:
        The ledger rows as they stand in the ledger, in the order of the registration's.
    """
    rows = registration.done(rows_before=rows_before, snapshot_id=opened.transaction.snapshot_id)
    append_records(opened.database, opened.transaction, opened.session.config, registration.manifest_rows(), rows)
    opened.transaction.finish(AUTHOR, registration.message, registration.extra_info)
    return rows


def _add(opened: OpenTable, files: Sequence[LandedFile]) -> None:
    """Add the files, those that are read alike together."""
    table, partitioning = opened.table, opened.partitioning
    values = {partition: key_values(partitioning, partition) for partition in {file.partition for file in files}}
    for alike in dict.fromkeys((file.inside, file.folders) for file in files):
        opened.transaction.add_files(
            table,
            partitioning,
            ensure_mapping(opened.database, opened.transaction, table, partitioning, *by_id(partitioning, *alike)),
            opened.folder,
            [(f.facts, values[f.partition]) for f in files if (f.inside, f.folders) == alike and f.facts is not None],
        )


def by_id(
    partitioning: Partitioning, inside: Collection[str], folders: Collection[tuple[str, str]]
) -> tuple[set[int], dict[int, str]]:
    """The ids of the columns that are read from the file, and the names of folders by the ids of their columns."""
    ids = {column.name.lower(): column.column_id for column in partitioning.columns}
    return {ids[name] for name in inside}, {ids[name]: folder for name, folder in folders}
