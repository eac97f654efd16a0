"""What every commit of the direct strategy begins with: the catalog's transaction, the next snapshot, the table."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog.database import CatalogDatabase, catalog_transaction
from lake_assets.lake.catalog.registered import partition_rows
from lake_assets.lake.catalog.table import Partitioning, Table, key_values, read_partitioning, read_table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table in a transaction of the catalog; what `transaction` notes is committed with it, or not at all."""

    session: LakeSession
    database: CatalogDatabase
    transaction: Transaction
    table: Table
    partitioning: Partitioning

    @property
    def folder(self) -> str:
        """URI of the table's folder, ending in a slash."""
        return (data_path(self.session.config) if self.table.is_relative else "") + self.table.path

    def rows_of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """How many rows each of the partitions has, before anything is changed.

        Raises:
            NotDirectError: the table is partitioned by other columns.
        """
        counts = partition_rows(self.database.rows, self.table.table_id, len(self.partitioning.columns))
        return {p: counts.get(tuple(key_values(self.partitioning, p)), 0) for p in partitions}


@contextmanager
def open_table(session: LakeSession, name: TableName) -> Iterator[OpenTable]:
    """Begin a transaction for the table; it is committed when the block ends, and rolled back when it raises.

    Raises:
        NotDirectError: the table, or the catalog, is none for this strategy.
        CatalogError: the catalog refuses, or another writer was faster.
    """
    with catalog_transaction(session) as database:
        transaction = Transaction(database, session.connection)
        table = read_table(database, name)
        yield OpenTable(session, database, transaction, table, read_partitioning(database, table))
