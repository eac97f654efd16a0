"""The direct strategy: DuckLake's specification written into the catalog's own tables."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from lake_assets.errors import CatalogError, StorageError
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_transaction
from lake_assets.lake.catalog.file_entries import add_copies, ensure_mapping, live_file_ids, registered_before
from lake_assets.lake.catalog.file_facts import read_footers
from lake_assets.lake.catalog.partition_files import (
    files_of_partitions,
    partition_rows,
    refuse_deletes,
    whole_files_of,
)
from lake_assets.lake.catalog.table import Key, Partitioning, Table, key_values, read_partitioning, read_table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.commit.change import (
    Change,
    EarlierRows,
    Landed,
    LandedFile,
    RegisteredBeforeError,
    Renewed,
    Written,
    appended,
    committed_rows,
    message,
)
from lake_assets.lake.commit.deltas import OVERTAKEN
from lake_assets.lake.commit.requirements import refuse_drift, refuse_other_files
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import LedgerRow, append_directly
from lake_assets.lake.session import AUTHOR, LakeSession, TableName
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import DataFile
from lake_assets.storage.store import Store

_REQUESTS = 16  # in parallel: most of the time is network latency


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table in an open transaction of the catalog."""

    session: LakeSession
    database: CatalogDatabase
    transaction: Transaction
    table: Table
    partitioning: Partitioning

    def values(self, partition: Partition) -> Key:
        """Return the partition's values as texts of the catalog.

        Raises:
            NotDirectError: the table is partitioned by other columns.
        """
        return key_values(self.partitioning, partition)

    def rows_of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the number of rows of each partition, by the catalog's figures.

        Raises:
            NotDirectError: the table is partitioned by other columns, or has inlined rows.
        """
        counts = partition_rows(self.database, self.table.table_id, range(len(self.partitioning.columns)))
        return {partition: counts.get(self.values(partition), 0) for partition in partitions}

    def mapping(self, file: LandedFile | None = None) -> int:
        """Return the id of the mapping for such files, by default for those that tasks write."""
        inside, folders = (frozenset[str](), frozenset()) if file is None else (file.inside, file.folders)
        return ensure_mapping(self.transaction, self.table, self.partitioning.read_from_path(inside), folders)

    def finish(self, changes: Sequence[Change], rows_before: Mapping[Partition, int]) -> list[LedgerRow]:
        """Append the rows of this package's tables, and write the snapshot, which has the time of exported changes.

        Returns:
            The ledger rows as written.

        Raises:
            NotDirectError: one of these tables has other columns.
            duckdb.TransactionException: another commit has become the snapshot of the exported changes.
        """
        snapshot_id = self.transaction.snapshot_id
        delta = next((change.delta for change in changes if change.delta is not None), None)
        if delta is not None and delta.snapshot_id != snapshot_id:
            raise duckdb.TransactionException(OVERTAKEN)
        rows = committed_rows(changes, rows_before, snapshot_id)
        append_directly(self.session, self.database, self.transaction, appended(changes, rows))
        self.transaction.finish(AUTHOR, *message(changes), None if delta is None else delta.committed_at)
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


def replace_directly(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to replace partitions, or to add to them; returns the ledger rows as written.

    The files of a partition end, unless the commit adds to them, and new files are added. The number of statements
    does not grow with the number of changes, but for exported ones.

    Raises:
        NotDirectError: a partition does not consist of whole files and is to be replaced, two changes are of the same
            partition, or the table is not supported; nothing has changed.
        MarkedFilesError: a partition may be held; nothing has changed.
        PartitionMovedError: a partition does not consist of the files to be replaced, or of the expected objects;
            nothing has changed.
        CatalogError: a restored snapshot has expired, the catalog refuses, or another writer was faster; nothing has
            changed.
        StorageError: a new file is gone, or the storage cannot be asked for it; nothing has changed.
    """
    with open_table(session, changes[0].table) as opened:
        refuse_drift(session, changes, opened.database)
        rows_before = _end_files(opened, changes)
        _add_written(opened, changes)
        for change in changes:
            if isinstance(change.new, EarlierRows):
                _add_copies(opened, change, change.new)
        return opened.finish(changes, rows_before)


def _end_files(opened: OpenTable, changes: Sequence[Change]) -> Mapping[Partition, int]:
    """End the files of the partitions that are replaced; returns the rows that each partition has."""
    database, table, partitioning = opened.database, opened.table, opened.partitioning
    values = {change.partition: opened.values(change.partition) for change in changes}
    if len(set(values.values())) < len(changes):
        raise NotDirectError("two commits are of the same partition")
    wanted, is_whole = list(values.values()), True
    try:
        files = whole_files_of(database, table, partitioning, wanted)
    except NotDirectError:
        if not all(change.adds for change in changes):
            raise
        files, is_whole = files_of_partitions(database, table.table_id, partitioning, wanted), False
    ended: list[int] = []
    for change in changes:
        of_partition = files[values[change.partition]]
        refuse_other_files(change, of_partition)
        if not change.adds:
            ended += [file.file_id for file in of_partition]
    opened.transaction.end_files(table, ended)
    if is_whole:
        return {partition: sum(file.rows for file in files[texts]) for partition, texts in values.items()}
    return opened.rows_of(values)


def _add_written(opened: OpenTable, changes: Sequence[Change]) -> None:
    """Add the files that tasks wrote, together. A file without a known footer is opened for it."""
    session, table, partitioning = opened.session, opened.table, opened.partitioning
    files = [(file, c.partition) for c in changes if isinstance(c.new, Written) for file in c.new.files]
    if not files:
        return
    _check_stored(session, [file for file, _ in files if file.footer is not None])
    with translated(session.config):
        facts = read_footers(session.engine, [file for file, _ in files], table, partitioning)
    values = [opened.values(partition) for _, partition in files]
    added = list(zip(facts, values, strict=True))
    opened.transaction.add_files(table, partitioning, opened.mapping(), added)


def _add_copies(opened: OpenTable, change: Change, restored: EarlierRows) -> None:
    """Add the copies of a snapshot's files, which get the catalog's entries of their originals."""
    if not restored.copies:
        return
    _check_stored(opened.session, [DataFile(copy.uri, 0, copy.size) for copy in restored.copies])
    copies = {copy.file_id: copy.uri for copy in restored.copies}
    with translated(opened.session.config):
        rows = add_copies(opened.transaction, opened.table, copies)
    if rows is None:
        raise CatalogError(
            f"snapshot {restored.snapshot} expired while partition {change.partition} was being restored:",
            "nothing was changed. Choose another snapshot.",
        )


def _check_stored(session: LakeSession, files: Sequence[DataFile]) -> None:
    """Check that new files are there as they were written, because the commit does not read these.

    Maintenance removes files of no commit after `orphans_older_than`, under the lock that this commit has.
    """
    store = Store(session.config.own_storage)

    def check(file: DataFile) -> None:
        found = store.find(file.uri.removeprefix(f"{store.root}/"))
        if found is None or found.size != file.size:
            state = "is gone" if found is None else f"has {found.size:,} bytes, and was written with {file.size:,}"
            raise StorageError(
                f"the new data file {file.uri} {state}:",
                "nothing was changed. Set orphans_older_than of the lake's maintenance to more time than a run takes, "
                "and run it again.",
            )

    with ThreadPoolExecutor(_REQUESTS) as pool:
        list(pool.map(check, files))


def _inspected(new: Sequence[Landed | Renewed]) -> tuple[Table | None, list[LandedFile]]:
    """Return the files of changes, and the table that their facts are about.

    Raises:
        NotDirectError: a file has no facts.
    """
    files, described = [file for one in new for file in one.files], new[0].described
    if files and (described is None or any(file.facts is None for file in files if file.rows)):
        raise NotDirectError("some of the files have no statistics")
    return described, files


def register_directly(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to register landed files; returns the ledger rows as written.

    Raises:
        NotDirectError: the table or a file is not supported; nothing has changed.
        RegisteredBeforeError: the catalog already has some of the files; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    landed, table = [change.new for change in changes if isinstance(change.new, Landed)], changes[0].table
    described, files = _inspected(landed)
    with open_table(session, table) as opened:
        if files and opened.table != described:
            raise CatalogError(f"the columns of {table} changed while files were being registered:", "run it again.")
        uris = [file.uri for file in files]
        if states := registered_before(opened.database, opened.table.table_id, opened.table.folder, uris):
            raise RegisteredBeforeError(states)
        before = opened.rows_of(change.partition for change in changes)
        by_shape: dict[tuple[object, ...], list[LandedFile]] = {}
        for file in files:  # together those with the same mapping
            if file.rows:
                by_shape.setdefault((file.inside, file.folders), []).append(file)
        for same in by_shape.values():
            added = [(file.facts, opened.values(file.partition)) for file in same if file.facts is not None]
            opened.transaction.add_files(opened.table, opened.partitioning, opened.mapping(same[0]), added)
        return opened.finish(changes, before)


def repair_directly(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to repair registered files that changed or vanished; returns the ledger rows as written.

    A path must not be registered a second time: DuckLake would delete the file when the last snapshot of its first
    entry expires. So a changed file keeps its entry, and the entry gets new facts.

    Raises:
        NotDirectError: rows were deleted from the files, or the table is not supported; nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
    """
    renewed = [change.new for change in changes if isinstance(change.new, Renewed)]
    described, files = _inspected(renewed)
    with open_table(session, changes[0].table) as opened:
        table, partitions = opened.table, [change.partition for change in changes]
        uris = [*(uri for one in renewed for uri in one.vanished), *(file.uri for file in files)]
        ids = live_file_ids(opened.database, table, uris)
        if set(ids) != set(uris) or (files and table != described):
            raise CatalogError(f"{changes[0].table} changed while its files were being inspected:", "run it again.")
        refuse_deletes(opened.database, table, set(ids.values()))
        before = opened.rows_of(partitions)
        opened.transaction.end_files(table, [ids[uri] for one in renewed for uri in one.ended])
        opened.transaction.renew_files(
            table,
            opened.partitioning,
            [
                (ids[file.uri], opened.mapping(file), file.facts, opened.values(file.partition))
                for file in files
                if file.facts is not None
            ],
        )
        after = opened.rows_of(partitions)
        rows = [dataclasses.replace(change.row, row_count=after[change.partition]) for change in changes]
        return opened.finish([dataclasses.replace(c, row=row) for c, row in zip(changes, rows, strict=True)], before)
