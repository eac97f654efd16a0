"""The direct strategy: the files of a partition end, unless the commit adds to them, and new files are added."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from lake_assets.errors import StorageError
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.footers import read_footers
from lake_assets.lake.catalog.partition_files import PartitionFile, partition_files
from lake_assets.lake.catalog.table import key_values
from lake_assets.lake.catalog.whole_files import whole_files
from lake_assets.lake.commit.direct.opened import OpenTable, open_table
from lake_assets.lake.commit.expected import refuse_moved
from lake_assets.lake.commit.replacement import MarkedFilesError, Replacement
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.parquet.file_names import may_be_marked
from lake_assets.parquet.job import DataFile
from lake_assets.storage.store import Store

_REQUESTS = 16  # in parallel: most of the time is network latency


def replace_directly(session: LakeSession, replacement: Replacement) -> LedgerRow:
    """Try once to replace a partition, or to add to it; returns the ledger row as written.

    Raises:
        NotDirectError: the partition does not consist of whole files and is to be replaced, or the table is not
            supported; nothing has changed.
        MarkedFilesError: the partition may be held; nothing has changed.
        PartitionMovedError: the partition does not consist of the files to be replaced, or of the expected objects;
            nothing has changed.
        CatalogError: the catalog refuses, or another writer was faster; nothing has changed.
        StorageError: a new file is gone, or the storage cannot be asked for it; nothing has changed.
    """
    with open_table(session, replacement.table) as opened:
        refuse_moved(session, [replacement], opened.database)
        rows_before = _keep_files(opened, replacement) if replacement.adds else _end_files(opened, replacement)
        add_files_of(opened, [replacement])
        (row,) = opened.finish(replacement, {replacement.partition: rows_before})
    return row


def add_files_of(opened: OpenTable, replacements: Sequence[Replacement]) -> None:
    """Add the new files of these replacements, together.

    Raises:
        NotDirectError: a file has other columns than the table.
        CatalogError: the catalog refuses.
        StorageError: a new file is gone, or the storage cannot be asked for it.
    """
    session, table, partitioning = opened.session, opened.table, opened.partitioning
    uris = [uri for one in replacements for uri in one.files]
    if not uris:
        return
    known = {file.uri: file for one in replacements for file in one.written if file.footer is not None}
    check_stored(session, list(known.values()))
    with translated(session.config):
        # A file that was copied may have the partition columns too.
        in_path = {column.name.lower() for column in partitioning.columns}
        leaves = partitioning.stored_leaves(table)
        facts = read_footers(session.engine, uris, leaves, table.columns, in_path, known)
    values = [texts for one in replacements for texts in [key_values(partitioning, one.partition)] * len(one.files)]
    mapping_id = opened.mapping((), frozenset())
    opened.transaction.add_files(table, partitioning, mapping_id, opened.folder, list(zip(facts, values, strict=True)))


def _end_files(opened: OpenTable, replacement: Replacement) -> int:
    """End the files of the partition; returns their rows."""
    old = whole_files(opened.database, opened.table, opened.partitioning, _values(opened, replacement))
    refuse_marked(replacement, old.values())
    if replacement.replaced is not None and replacement.replaced != set(old):
        raise replacement.moved()
    opened.transaction.end_files(opened.table, list(old))
    return sum(file.rows for file in old.values())


def _keep_files(opened: OpenTable, replacement: Replacement) -> int:
    """The rows of the partition, by the catalog's figures: of its own files, or else of a table with other rows."""
    table, partitioning, values = opened.table, opened.partitioning, _values(opened, replacement)
    try:
        old = list(whole_files(opened.database, table, partitioning, values).values())
    except NotDirectError:
        refuse_marked(replacement, partition_files(opened.database, table.table_id, partitioning.partition_id, values))
        return opened.rows_of([replacement.partition])[replacement.partition]
    refuse_marked(replacement, old)
    return sum(file.rows for file in old)


def _values(opened: OpenTable, replacement: Replacement) -> Sequence[str | None]:
    return key_values(opened.partitioning, replacement.partition)


def refuse_marked(replacement: Replacement, files: Collection[PartitionFile]) -> None:
    """Refuse a partition that may be held; the first commit of a partition needs no look at the ledger."""
    may_be = any(may_be_marked(file.path) for file in files) if files else replacement.was_committed
    if may_be and not replacement.may_be_held:
        raise MarkedFilesError


def check_stored(session: LakeSession, files: Sequence[DataFile]) -> None:
    """Check that new files are there as they were written, because the commit does not read these.

    Maintenance removes files of no commit after `orphans_older_than`, under the lock that this commit has.

    Raises:
        StorageError: a file is gone or has another size, or the storage fails.
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
