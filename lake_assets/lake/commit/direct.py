"""The direct strategy: DuckLake's specification written into the catalog's own tables.

A commit first prepares what needs no lock: it reads the tables' descriptions, looks for its new files, and reads their
footers. Under the lock it asks the catalog once for all that may have changed, and then writes.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import duckdb

from lake_assets.base.errors import CatalogError, SchemaChangedError, StorageError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.backends.database_backend import FILES_IN_USE
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.described import Description, describe
from lake_assets.lake.catalog.file_entries import add_copies, ensure_mapping, live_file_ids, registered_before
from lake_assets.lake.catalog.file_facts import FileFacts, read_footers
from lake_assets.lake.catalog.files import (
    PartitionFile,
    ask_whole_files,
    files_of_partitions,
    partition_rows,
    refuse_deletes,
)
from lake_assets.lake.catalog.spec import VERSIONS
from lake_assets.lake.catalog.table import Key, Partitioning, Table, key_values
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.commit.change import (
    Change,
    EarlierRows,
    LandedFile,
    LandedFiles,
    RegisteredBeforeError,
    Renewed,
    RowsBefore,
    Written,
    appended,
    ask_drift,
    by_table,
    committed_rows,
    drift_checked,
    message,
    of_table,
    owns_of,
    refuse_drift,
    refuse_other_files,
    refuse_other_types,
)
from lake_assets.lake.database_errors import Fault, matches
from lake_assets.lake.failures import OVERTAKEN, translated
from lake_assets.lake.ledger.tables import LedgerRow, append_directly
from lake_assets.lake.session import AUTHOR, LakeSession, TableName
from lake_assets.spark.task.job import DataFile
from lake_assets.storage.overlapping import requested
from lake_assets.storage.store import Store


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table in an open transaction of the catalog, and what it changes of it.

    Its `files` are what was asked for at the beginning.
    """

    changes: Sequence[Change]
    session: LakeSession
    database: CatalogDatabase
    transaction: Transaction
    description: Description
    table: Table
    partitioning: Partitioning
    files: Callable[[], dict[Key, list[PartitionFile]]]

    def values(self, partition: Partition) -> Key:
        """Return the partition's values as texts of the catalog.

        Raises NotDirectError if the table is partitioned by other columns.
        """
        return key_values(self.partitioning, partition)

    def rows_of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the number of rows of each partition, by the catalog's figures.

        Raises NotDirectError if the table is partitioned by other columns, or has inlined rows.
        """
        counts = partition_rows(self.database, self.table.table_id, range(len(self.partitioning.columns)))
        return {partition: counts.get(self.values(partition), 0) for partition in partitions}

    def mapping(self, file: LandedFile | None = None) -> int:
        """Return the id of the mapping for such files, by default for those that tasks write."""
        inside, folders = (frozenset[str](), frozenset()) if file is None else (file.inside, file.folders)
        untyped = () if file is None or file.facts is None else file.facts.untyped
        table = self.table.without(untyped) if untyped else self.table
        return ensure_mapping(self.transaction, table, self.partitioning.read_from_path(inside), folders)


def _finish(opened: Sequence[OpenTable], changes: Sequence[Change], rows_before: RowsBefore) -> list[LedgerRow]:
    """Append the rows of this package's tables, and write the snapshot, which has the time of exported changes.

    Returns the ledger rows as written, in the order of the changes. Raises duckdb.TransactionException if another
    commit has become the snapshot of the exported changes, and NotDirectError if a table has other columns.
    """
    first = opened[0]
    snapshot_id = first.transaction.snapshot_id
    delta = next((change.delta for change in changes if change.delta is not None), None)
    if delta is not None and delta.snapshot_id != snapshot_id:
        raise duckdb.TransactionException(OVERTAKEN)
    rows = committed_rows(changes, rows_before, snapshot_id)
    append_directly(first.session, first.transaction, first.description, appended(changes, rows))
    first.transaction.finish(AUTHOR, *message(changes), None if delta is None else delta.committed_at)
    return rows


def _described(session: LakeSession, changes: Sequence[Change]) -> Description:
    """Return the description of the tables that changes are written to."""
    return describe(session, list(by_table(changes)), [own.name(session.config) for own in owns_of(changes)])


@contextmanager
def open_tables(
    session: LakeSession,
    changes: Sequence[Change],
    wanted: Mapping[TableName, Sequence[Key]] | None = None,
    since: int | None = None,
) -> Iterator[list[OpenTable]]:
    """Begin a transaction; it is committed when the block ends, and rolled back when the block raises.

    `wanted` are the partitions of each table whose files are asked for. `since` is a snapshot in which the partitions
    had the expected objects, if objects are expected and one is known; PartitionMovedError if they have others. Raises
    NotDirectError if the direct strategy does not support the table or the catalog.
    """
    if session.config.inserts_only:
        raise NotDirectError("the lake accepts rows only through INSERT, and no files that were written outside of it")
    description = _described(session, changes)
    version, inlined = VERSIONS[description.state.version], description.inlined
    with session.write() as database:
        files: dict[TableName, Callable[[], dict[Key, list[PartitionFile]]]] = {}
        may_drift: Callable[[Transaction], bool] | None = None
        try:
            for name, keys in (wanted or {}).items():
                table, partitioning = description.tables[name], description.partitionings[name]
                rows = inlined.get(table.table_id, ())
                files[name] = ask_whole_files(database, table, partitioning, keys, rows, version)
            if since is not None:
                may_drift = ask_drift(session, database, description, changes, since)
            transaction = Transaction(database, description)
        except session.backend.errors as error:
            if not matches(error, Fault.GONE):
                raise
            raise duckdb.TransactionException(OVERTAKEN) from error  # the description is out of date
        ids = [description.tables[name].table_id for name in description.partitionings]
        if any(transaction.inlined.get(table_id, ()) != inlined.get(table_id, ()) for table_id in ids):
            raise duckdb.TransactionException(OVERTAKEN)
        if may_drift is not None and may_drift(transaction):
            refuse_drift(session, changes, database)
        yield [
            OpenTable(
                table_changes,
                session,
                database,
                transaction,
                description,
                description.tables[name],
                description.partitionings[name],
                files.get(name, dict),
            )
            for name, table_changes in by_table(changes).items()
        ]


@contextmanager
def _open_table(session: LakeSession, changes: Sequence[Change]) -> Iterator[OpenTable]:
    with open_tables(session, changes) as (opened,):
        yield opened


def replace_directly(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to replace partitions, or to add to them; returns the ledger rows as written.

    The files of a partition end, unless the commit adds to them, and new files are added. The number of statements does
    not grow with the number of changes, but for exported ones. On an error nothing has changed.
    """
    has_files = any(isinstance(change.new, Written | EarlierRows) for change in changes)
    with session.lock(FILES_IN_USE) if has_files else nullcontext():
        try:
            prepared = _prepared(session, changes)
        except (NotDirectError, SchemaChangedError):
            session.descriptions.clear()  # they may be out of date
            prepared = _prepared(session, changes)
        wanted = {name: list(values.values()) for name, (values, _) in prepared.items()}
        with open_tables(session, changes, wanted, drift_checked(session, changes)) as opened:
            rows_before: dict[tuple[TableName, Partition], int] = {}
            for table in opened:
                name = table.changes[0].table
                values, facts = prepared[name]
                rows_before |= {(name, partition): rows for partition, rows in _end_files(table, values).items()}
                if facts:
                    table.transaction.add_files(table.table, table.partitioning, table.mapping(), facts)
                for change in table.changes:
                    if isinstance(change.new, EarlierRows):
                        _add_copies(table, change, change.new)
            return _finish(opened, changes, rows_before)


_Prepared = tuple[Mapping[Partition, Key], list[tuple[FileFacts, Key]]]


def _prepared(session: LakeSession, changes: Sequence[Change]) -> dict[TableName, _Prepared]:
    """Return the values of each table's partitions, and the facts of the files that tasks wrote for it.

    All new files are there; one that is gone is a StorageError. Raises NotDirectError if two changes are of the same
    partition, or the table is not supported, and SchemaChangedError if a file's column has another type than the
    table's.
    """
    description, tables = _described(session, changes), by_table(changes)
    values: dict[TableName, Mapping[Partition, Key]] = {}
    for name, table_changes in tables.items():
        refuse_other_types(session, table_changes, description.tables[name])
        partitioning = description.partitionings[name]
        values[name] = {change.partition: key_values(partitioning, change.partition) for change in table_changes}
        if len(set(values[name].values())) < len(table_changes):
            raise NotDirectError("two commits are of the same partition")
    files = [file for change in changes for file in _written(change)]
    copies = [copy for change in changes if isinstance(change.new, EarlierRows) for copy in change.new.copies]
    _check_stored(session, [*files, *(DataFile(copy.uri, 0, copy.size) for copy in copies)])
    result: dict[TableName, _Prepared] = {}
    for name, table_changes in tables.items():
        added = [(file, values[name][change.partition]) for change in table_changes for file in _written(change)]
        facts: Sequence[FileFacts] = []
        if added:
            table, partitioning = description.tables[name], description.partitionings[name]
            with translated(session.config):
                facts = read_footers(lambda: session.engine, [file for file, _ in added], table, partitioning)
        result[name] = values[name], [(of_file, key) for of_file, (_, key) in zip(facts, added, strict=True)]
    return result


def _written(change: Change) -> Sequence[DataFile]:
    return change.new.files if isinstance(change.new, Written) else ()


def _end_files(opened: OpenTable, values: Mapping[Partition, Key]) -> Mapping[Partition, int]:
    """End the files of the partitions that are replaced; returns the rows that each partition has."""
    changes, table, wanted, is_whole = opened.changes, opened.table, list(values.values()), True
    try:
        files = opened.files()
    except NotDirectError:
        if not all(change.adds for change in changes):
            raise
        files, is_whole = files_of_partitions(opened.database, table.table_id, opened.partitioning, wanted), False
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


def _add_copies(opened: OpenTable, change: Change, restored: EarlierRows) -> None:
    """Add the copies of a snapshot's files, which get the catalog's entries of their originals."""
    if not restored.copies:
        return
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

    Maintenance removes files of no commit after `orphans_older_than`, never while a commit has the lock FILES_IN_USE.
    """
    store = Store(session.config.own_storage)
    keys = {file.uri: file.uri.removeprefix(f"{store.root}/") for file in files}
    listed = {stored.key: stored for below in store.together(keys.values()).values() for stored in below}

    def check(file: DataFile) -> None:
        stored = listed.get(keys[file.uri]) or store.find(keys[file.uri])
        if stored is None or (file.size and stored.size != file.size):
            state = "is gone" if stored is None else f"has {stored.size:,} bytes, and was written with {file.size:,}"
            raise StorageError(
                f"the new data file {file.uri} {state}:",
                "nothing was changed. Set orphans_older_than of the lake's maintenance to more time than a run takes, "
                "and run it again.",
            )

    list(requested(store.storage, check, files))


def _inspected(new: Sequence[LandedFiles | Renewed]) -> tuple[Table | None, list[LandedFile]]:
    """Return the files of changes, and the table that their facts are about.

    Raises NotDirectError if a file has no facts.
    """
    files, described = [file for landed in new for file in landed.files], new[0].described
    if files and (described is None or any(file.facts is None for file in files if file.rows)):
        raise NotDirectError("some of the files have no statistics")
    return described, files


def register_directly(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to register landed files; returns the ledger rows as written. On an error nothing has changed.

    Raises NotDirectError if the table or a file is not supported, and RegisteredBeforeError if the catalog already has
    some of the files.
    """
    described, files = _inspected([change.new for change in changes if isinstance(change.new, LandedFiles)])
    with _open_table(session, changes) as opened:
        if files and opened.table != described:
            raise CatalogError(
                f"the columns of {changes[0].table} changed while files were being registered:", "run it again."
            )
        uris = [file.uri for file in files]
        if states := registered_before(opened.database, opened.table.table_id, opened.table.folder, uris):
            raise RegisteredBeforeError(states)
        before = opened.rows_of(change.partition for change in changes)
        by_shape: dict[tuple[object, ...], list[LandedFile]] = {}
        for file in files:  # together those with the same mapping
            if file.facts is not None and file.rows:
                by_shape.setdefault((file.inside, file.folders, file.facts.untyped), []).append(file)
        for same in by_shape.values():
            added = [(file.facts, opened.values(file.partition)) for file in same if file.facts is not None]
            opened.transaction.add_files(opened.table, opened.partitioning, opened.mapping(same[0]), added)
        return _finish([opened], changes, of_table(changes[0].table, before))


def repair_directly(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    """Try once to repair registered files that changed or vanished; returns the ledger rows as written.

    A path must not be registered a second time: DuckLake would delete the file when the last snapshot of its first
    entry expires. So a changed file keeps its entry, and the entry gets new facts. On an error nothing has changed.
    Raises NotDirectError if rows were deleted from changed files, or the table is not supported.
    """
    renewed = [change.new for change in changes if isinstance(change.new, Renewed)]
    described, files = _inspected(renewed)
    with _open_table(session, changes) as opened:
        table, partitions = opened.table, [change.partition for change in changes]
        uris = [*(uri for repair in renewed for uri in repair.vanished), *(file.uri for file in files)]
        ids = live_file_ids(opened.database, table, uris)
        if set(ids) != set(uris) or (files and table != described):
            raise CatalogError(f"{changes[0].table} changed while its files were being inspected:", "run it again.")
        refuse_deletes(opened.database, table, {ids[file.uri] for file in files if file.facts is not None})
        before = opened.rows_of(partitions)
        opened.transaction.end_files(table, [ids[uri] for repair in renewed for uri in repair.ended])
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
        changes = [dataclasses.replace(change, row=row) for change, row in zip(changes, rows, strict=True)]
        return _finish([opened], changes, of_table(changes[0].table, before))
