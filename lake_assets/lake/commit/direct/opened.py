"""The start and the end of every commit of the direct strategy."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog.database import CatalogDatabase, catalog_transaction
from lake_assets.lake.catalog.mapping import Folders, ensure_mapping
from lake_assets.lake.catalog.registered import partition_rows
from lake_assets.lake.catalog.table import Partitioning, Table, key_values, read_partitioning, read_table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.deltas import OVERTAKEN
from lake_assets.lake.ledger.tables import LEDGER, LedgerRow, append_directly, ledger_values
from lake_assets.lake.session import AUTHOR, LakeSession, TableName
from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table in an open transaction of the catalog."""

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
        """The number of rows of each partition, before anything is changed.

        Raises:
            NotDirectError: the table is partitioned by other columns, or has inlined rows.
        """
        counts = partition_rows(self.database, self.table.table_id, len(self.partitioning.columns))
        return {p: counts.get(tuple(key_values(self.partitioning, p)), 0) for p in partitions}

    def mapping(self, inside: Collection[str], folders: Folders) -> int:
        """The id of the mapping for such files; see `read_mapping`."""
        return ensure_mapping(self.database, self.transaction, self.table, self.partitioning, inside, folders)

    def finish(self, change: Change, rows_before: Mapping[Partition, int]) -> list[LedgerRow]:
        """Append the manifest and ledger rows, and write the snapshot, which has the time of exported changes.

        Returns:
            The ledger rows as written.

        Raises:
            NotDirectError: the ledger or the manifest table has other columns.
            duckdb.TransactionException: another commit has become the snapshot of the exported changes.
        """
        transaction, delta = self.transaction, change.exported
        if delta is not None and delta.snapshot_id != transaction.snapshot_id:
            raise duckdb.TransactionException(OVERTAKEN)
        rows = change.committed(rows_before, transaction.snapshot_id)
        appends = {**change.appends(rows), LEDGER: list(map(ledger_values, rows))}
        append_directly(self.session, self.database, transaction, appends)
        moment = None if delta is None else delta.committed_at
        transaction.finish(AUTHOR, change.message, change.extra_info, moment)
        return rows


@contextmanager
def open_table(session: LakeSession, name: TableName) -> Iterator[OpenTable]:
    """Begin a transaction; it is committed when the block ends, and rolled back when the block raises.

    Raises:
        NotDirectError: the direct strategy does not support the table or the catalog.
        CatalogError: the catalog refuses, or another writer was faster.
    """
    with catalog_transaction(session) as database:
        transaction = Transaction(database, session.engine)
        table = read_table(database, name)
        yield OpenTable(session, database, transaction, table, read_partitioning(database, table.table_id))
