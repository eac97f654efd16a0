"""The commit: one transaction of the catalog that makes changes of a table, and records them.

There are three commit strategies. The direct strategy writes the catalog's tables by DuckLake's specification. Its cost
does not depend on the partition's rows. The extension strategy commits what the direct strategy does not support: rows
that others deleted or inlined, catalogs without a driver here. Tests compare the two. The INSERT strategy is for lakes
that accept no written files: encrypted lakes, and lakes that MotherDuck manages.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from lake_assets.base.errors import (
    CatalogError,
    CatalogLockedError,
    CatalogUnreachableError,
    PartitionHeldError,
    PartitionMovedError,
    SchemaChangedError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.base.texts import count
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.backends.database_backend import FILES_IN_USE
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.files import refuse_inlined_rows, whole_files_of
from lake_assets.lake.catalog.table import key_values, read_partitioning, read_table
from lake_assets.lake.commit.change import (
    Change,
    Committed,
    EarlierRows,
    LandedFiles,
    MarkedFilesError,
    RefusedFilesError,
    RegisteredBeforeError,
    Renewed,
    Rewrite,
    UnknownCommitError,
    by_table,
    refuse_others,
)
from lake_assets.lake.commit.direct import register_directly, repair_directly, replace_directly
from lake_assets.lake.commit.exporter import Exports
from lake_assets.lake.commit.extension import refuse_files, register_by_extension, replace_by_extension
from lake_assets.lake.commit.insert import replace_by_insert, rewrite_by_insert
from lake_assets.lake.ledger.read import rows_as_written
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession, TableName, under_lock, write_retried

_LOG = logging.getLogger(__name__)

StrategyName = Literal["direct", "extension", "INSERT"]
Strategy = Callable[[LakeSession, Sequence[Change]], list[LedgerRow]]

# The first that supports the changes makes them; the last supports all that are one.
STRATEGIES: Sequence[Strategy] = (replace_directly, replace_by_extension)
REGISTER_STRATEGIES: Sequence[Strategy] = (register_directly, register_by_extension)

# Errors of a commit that the next one would have too, after the same pauses.
OF_ALL = (CatalogUnreachableError, CatalogLockedError, StorageUnreachableError, WholeStorageError)
# What a commit raises before its COMMIT, so that nothing was committed. Others may be those of an answer that was lost.
UNDONE = (
    NotDirectError,
    MarkedFilesError,
    SchemaChangedError,
    PartitionMovedError,
    PartitionHeldError,
    RegisteredBeforeError,
    RefusedFilesError,
)


def strategies_of(lake: Lake, change: Change) -> Sequence[Strategy]:
    """Return the strategies that can make such a change of this lake."""
    match change.new:
        case LandedFiles():
            return REGISTER_STRATEGIES
        case Renewed():
            return (_repair,)
        case Rewrite():
            return (rewrite_by_insert,)
        case EarlierRows(copies=copies):
            is_direct = (copies or not change.row.row_count) and not lake.inserts_only
            return (replace_directly, rewrite_by_insert) if is_direct else (rewrite_by_insert,)
    if change.requires.files is not None:  # only the direct strategy knows which files it replaces
        return (replace_directly,)
    return (replace_by_insert,) if lake.inserts_only else STRATEGIES


def foreseen_strategies(
    lake: Lake, session: LakeSession | None, table: TableName, adds: Mapping[Partition, bool]
) -> dict[Partition, StrategyName]:
    """Return the strategy of a commit of each partition, if nobody changes the lake before it.

    `adds` says whether the commit adds files to the present ones or replaces these. Raises CatalogError if the
    extension would refuse the files, as `refuse_files`.
    """
    if lake.inserts_only:
        return dict.fromkeys(adds, "INSERT")
    if session is None or not session.exists(table):
        return dict.fromkeys(adds, "extension" if lake.catalog.is_service else "direct")
    foreseen: dict[Partition, StrategyName] = dict.fromkeys(adds, "extension")
    if lake.catalog.is_service:
        return foreseen
    try:
        with session.read() as database:
            described = read_table(database, table)
            partitioning = read_partitioning(database, described.table_id)
            added = [partition for partition, is_added in adds.items() if is_added]
            replaced = [partition for partition, is_added in adds.items() if not is_added]
            if added:
                with suppress(NotDirectError):
                    key_values(partitioning, added[0])
                    refuse_inlined_rows(database, described.table_id)
                    foreseen |= dict.fromkeys(added, "direct")

            def find_direct(partitions: Sequence[Partition]) -> None:
                if not partitions:
                    return  # it would be asked for all files
                keys = [key_values(partitioning, partition) for partition in partitions]
                whole_files_of(database, described, partitioning, keys)
                foreseen.update(dict.fromkeys(partitions, "direct"))

            try:
                find_direct(replaced)
            except NotDirectError:
                for partition in replaced:
                    with suppress(NotDirectError):
                        find_direct([partition])
    except NotDirectError:
        foreseen = dict.fromkeys(adds, "extension")
    refuse_files(session, table, [partition for partition, strategy in foreseen.items() if strategy == "extension"])
    return foreseen


def commit(session: LakeSession, changes: Sequence[Change]) -> list[Committed]:
    """Make changes of partitions in one transaction: a reader sees the old rows of all of them, or the new ones.

    If another writer commits in between, the transaction is rolled back and retried. If one of several changes cannot
    be made, none is. An error of several changes proves that, unless it is an `UnknownCommitError` or one of `OF_ALL`,
    so the caller can commit each by itself.

    The changes are by one run, with the same kind of new rows, each of another partition of a table; usually one.

    Raises:
        CommitConflictError: other writers won `commit_retries` times, or one has locked the catalog.
        NotDirectError: several changes, or the required files, need the direct strategy, which does not support them.
        SchemaChangedError: the table has other columns than the files; nothing has changed.
        PartitionHeldError: a partition was held meanwhile; nothing has changed.
        PartitionMovedError: a partition was committed meanwhile; nothing has changed.
        RegisteredBeforeError: the catalog already has some of the landed files; nothing has changed.
        RefusedFilesError: the extension refuses a landed file; nothing has changed.
        StorageError: a new file is gone, or the storage fails; nothing has changed.
        UnknownCommitError: one of several changes failed, and the ledger cannot say whether all were committed.
        CatalogError: the catalog refuses; nothing has changed.
    """
    strategies = strategies_of(session.config, changes[0])
    exports = Exports(session, changes)

    def work() -> list[LedgerRow]:
        return _replace(session, exports.prepare(), strategies)

    def recover() -> list[LedgerRow] | None:
        return rows_as_written(session, [change.row for change in changes])

    try:
        rows = write_retried(session, work, _subject(changes), recover)
    except OF_ALL:
        raise
    except UNDONE:
        exports.discard()
        raise
    except Exception as error:
        if len(changes) == 1:
            raise
        session.reattach()
        if (recovered := _recovered(recover, error)) is None:
            exports.discard()
            raise
        rows = recovered
    exports.announce()
    return [Committed(row, delta) for row, delta in zip(rows, exports.deltas, strict=True)]


def _recovered(recover: Callable[[], list[LedgerRow] | None], error: Exception) -> list[LedgerRow] | None:
    try:
        return recover()
    except OF_ALL:
        raise
    except CatalogError as unknown:
        raise UnknownCommitError(unknown.problem, unknown.hint) from error


def commit_release(session: LakeSession, release: Callable[[], Change]) -> LedgerRow:
    """End the hold of a partition, under the commit lock; returns the ledger row as written.

    `release` is called under the lock; its ledger row has the partition's present state. If it raises, nothing has
    changed. Raises CommitConflictError if other writers won `commit_retries` times, or one has locked the catalog.
    """

    def work() -> list[LedgerRow]:
        change = release()
        return _first_able(session, [change], strategies_of(session.config, change))

    (row,) = under_lock(session, work, "the end of a hold")
    return row


def _replace(session: LakeSession, changes: Sequence[Change], strategies: Sequence[Strategy]) -> list[LedgerRow]:
    try:
        return _first_able(session, changes, strategies)
    except MarkedFilesError:
        # A restore that holds a partition comes before both statements or after them.
        with session.lock(FILES_IN_USE), session.commit_lock():
            refuse_others(session, changes)
            unheld = [
                dataclasses.replace(change, requires=dataclasses.replace(change.requires, may_be_held=True))
                for change in changes
            ]
            return _first_able(session, unheld, strategies)


def _first_able(session: LakeSession, changes: Sequence[Change], strategies: Sequence[Strategy]) -> list[LedgerRow]:
    *others, last = strategies
    for strategy in others:
        with suppress(NotDirectError):  # the next strategy is tried
            return strategy(session, changes)
    if session.unknown_specification is not None and not session.config.is_managed:
        _LOG.warning("DuckLake's extension makes this commit: %s.", session.unknown_specification)
    return last(session, changes)


def _repair(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
    try:
        return repair_directly(session, changes)
    except NotDirectError as error:
        raise CatalogError(
            f"the files of {changes[0].table} cannot be repaired in place: {error}:",
            "restore these objects with their times; or move those that changed away, run it again, and land them "
            "under new names.",
        ) from error


def _subject(changes: Sequence[Change]) -> str:
    """Return what the changes write, for an error."""
    first, *others = changes
    match first.new:
        case LandedFiles():
            files = sum(len(change.new.files) for change in changes if isinstance(change.new, LandedFiles))
            return f"the registration of {count(files, 'file')} of {first.table}"
        case Renewed():
            return f"the repair of {first.table}"
    if others:
        tables = " and ".join(map(str, by_table(changes)))
        return f"a batch of {len({change.partition for change in changes}):,} partitions of {tables}"
    return f"partition {first.partition} of {first.table}"
