"""A batch by the direct strategy: the old files of all its partitions end, and their new files are added."""

from collections.abc import Mapping

from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.catalog.whole_files import whole_files_of
from lake_assets.lake.commit.batch import Batch
from lake_assets.lake.commit.direct.opened import OpenTable, open_table
from lake_assets.lake.commit.direct.replace import add_files_of, refuse_marked
from lake_assets.lake.commit.expected import refuse_moved
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition


def replace_together(session: LakeSession, batch: Batch) -> list[LedgerRow]:
    """Try once to commit a batch; returns the ledger rows as written, in the order of the replacements.

    The number of statements does not grow with the batch, but for a partition with exported changes.

    Raises:
        NotDirectError: a partition does not consist of whole files, two replacements are of the same partition, or the
            table is not supported; nothing has changed.
        MarkedFilesError: a partition may be held; nothing has changed.
        PartitionMovedError: a partition does not consist of the expected objects; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
        StorageError: a new file is gone, or the storage cannot be asked for it; nothing has changed.
    """
    with open_table(session, batch.table) as opened:
        refuse_moved(session, batch.replacements, opened.database)
        rows_before = _end_files(opened, batch)
        add_files_of(opened, batch.replacements)
        return opened.finish(batch, rows_before)


def _end_files(opened: OpenTable, batch: Batch) -> Mapping[Partition, int]:
    """End the files of the partitions that are replaced; returns the rows that each partition has."""
    values = {one.partition: tuple(key_values(opened.partitioning, one.partition)) for one in batch.replacements}
    if len(set(values.values())) < len(batch.replacements):
        raise NotDirectError("two commits of a batch are of the same partition")
    files = whole_files_of(opened.database, opened.table, opened.partitioning, list(values.values()))
    ended: list[int] = []
    for replacement in batch.replacements:
        of_partition = files[values[replacement.partition]]
        refuse_marked(replacement, of_partition)
        if not replacement.adds:
            ended += [file.file_id for file in of_partition]
    opened.transaction.end_files(opened.table, ended)
    return {partition: sum(file.rows for file in files[texts]) for partition, texts in values.items()}
