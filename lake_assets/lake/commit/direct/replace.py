"""The replacement of a partition by the direct strategy: its files end, and new files are added."""

from lake_assets.lake.catalog.footers import read_footers
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.catalog.whole_files import whole_files
from lake_assets.lake.commit.direct.opened import open_table
from lake_assets.lake.commit.replacement import Replacement
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession


def replace_directly(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """Try once to replace a partition; returns the ledger row as written.

    Raises:
        NotDirectError: the partition does not consist of whole files, or the table is not supported; nothing has
            changed.
        PartitionMovedError: the partition does not consist of the files to be replaced; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    with open_table(session, replacement.table) as opened:
        table, partitioning = opened.table, opened.partitioning
        values = key_values(partitioning, replacement.partition)
        old = whole_files(opened.database, table, partitioning, values)
        if replacement.replaced is not None and replacement.replaced != set(old):
            raise replacement.moved()
        opened.transaction.end_files(table, list(old))
        if replacement.files:
            with translated(session.config):
                # A file that was copied may have the partition columns too.
                in_path = {column.name.lower() for column in partitioning.columns}
                leaves = partitioning.stored_leaves(table)
                files = read_footers(session.engine, replacement.files, leaves, in_path)
            mapping_id = opened.mapping((), frozenset())
            opened.transaction.add_files(
                table, partitioning, mapping_id, opened.folder, [(file, values) for file in files]
            )
        (row,) = opened.finish(replacement, {replacement.partition: sum(old.values())})
    return row
