"""The restore of a partition by the direct strategy: its files end, and copies of earlier files are added."""

from lake_assets.lake.catalog.copied_files import add_copies
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.catalog.whole_files import whole_files
from lake_assets.lake.commit.direct.opened import open_table
from lake_assets.lake.commit.direct.replace import check_stored
from lake_assets.lake.commit.restoration import Release, Restoration
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.parquet.job import DataFile


def restore_directly(session: LakeSession, restoration: Restoration) -> LedgerRow:
    """Try once to replace a partition by copies of files of an earlier snapshot; returns the ledger row as written.

    Raises:
        NotDirectError: the partition does not consist of whole files now, or the table or a file is not supported;
            nothing has changed.
        CatalogError: the snapshot has expired, the catalog refuses, or another writer was faster; nothing has changed.
        StorageError: a copy is gone, or the storage cannot be asked for it; nothing has changed.
    """
    with open_table(session, restoration.table) as opened:
        values = key_values(opened.partitioning, restoration.partition)
        old = whole_files(opened.database, opened.table, opened.partitioning, values)
        opened.transaction.end_files(opened.table, list(old))
        if restoration.copies:
            check_stored(session, [DataFile(copy.uri, 0, copy.size) for copy in restoration.copies])
            copies = {copy.file_id: copy.uri for copy in restoration.copies}
            with translated(session.config):
                rows = add_copies(opened.database, opened.transaction, opened.table, opened.folder, copies)
            if rows is None:
                raise restoration.gone()
        (row,) = opened.finish(restoration, {restoration.partition: sum(file.rows for file in old.values())})
    return row


def release_directly(session: LakeSession, release: Release) -> LedgerRow:
    """Try once to end the hold of a partition; returns the ledger row as written.

    Raises:
        NotDirectError: the table is not supported; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    with open_table(session, release.table) as opened:
        (row,) = opened.finish(release, {release.partition: release.row.rows_before or 0})
    return row
