"""The commit: one transaction of the catalog that replaces a partition, or registers files, and records it.

There are three commit strategies. The direct strategy writes the catalog's tables by DuckLake's specification. Its cost
does not depend on the partition's rows. The extension strategy commits what the direct strategy does not support: rows
that others deleted or inlined, catalogs without a driver here. Tests compare the two. The INSERT strategy is for lakes
that accept no written files: encrypted lakes, and lakes that MotherDuck manages.
"""

import dataclasses
import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from lake_assets.config.lake import Lake
from lake_assets.duckdb_engine import identifier
from lake_assets.errors import CatalogError, PartitionHeldError, PartitionMovedError, SchemaChangedError
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.past import where
from lake_assets.lake.commit.direct.register import register_directly
from lake_assets.lake.commit.direct.repair import repair_directly
from lake_assets.lake.commit.direct.replace import replace_directly
from lake_assets.lake.commit.direct.restore import release_directly, restore_directly
from lake_assets.lake.commit.exporter import Exporter
from lake_assets.lake.commit.extension import (
    register_by_extension,
    release_by_extension,
    replace_by_extension,
    replace_in_transaction,
)
from lake_assets.lake.commit.found import committed_row, committed_rows
from lake_assets.lake.commit.insert import insert_staged, replace_by_insert, with_rows
from lake_assets.lake.commit.registration import Registration, Repair
from lake_assets.lake.commit.replacement import MarkedFilesError, Replacement
from lake_assets.lake.commit.restoration import Release, Restoration
from lake_assets.lake.ledger.last_runs import last_commits
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.retry import under_lock
from lake_assets.lake.schema.tables import data_schema
from lake_assets.lake.session import LakeSession
from lake_assets.layout.texts import count


def restore_by_insert(session: LakeSession, restoration: Restoration, target: int) -> LedgerRow:
    """Try once to replace a partition by its rows of an earlier snapshot, which DuckLake reads and writes.

    Args:
        session: an open lake.
        restoration: with the columns to read.
        target: bytes of a file.

    Returns:
        The ledger row as written, with the rows, and the files and bytes that DuckLake wrote.

    Raises:
        CatalogError: the snapshot has expired, the catalog refuses, or another writer was faster; nothing has changed.
    """
    with tempfile.TemporaryDirectory(prefix="lake-assets-") as temporary:
        return replace_in_transaction(
            session, restoration, insert_staged, first=lambda: _staged(session, restoration, Path(temporary), target)
        )


def _staged(session: LakeSession, restoration: Restoration, folder: Path, target: int) -> Replacement:
    """The replacement with the rows of the snapshot staged.

    They are read before the present rows are deleted, because DuckLake then leaves the files of these out of time
    travel too.
    """
    condition, parameters = where(restoration.partition)
    selected = restoration.selected or {}
    columns = ", ".join(f"{identifier(then)} AS {identifier(now)}" for now, then in selected.items())
    query = f"SELECT {columns} FROM {restoration.table.sql} AT (VERSION => ?) WHERE {condition}"  # noqa: S608 - quoted
    row = dataclasses.replace(restoration.row, files_written=None, bytes_written=None, files_copied=None)
    # The columns that were added since are not inserted, so that the table may have others than the rows.
    plain = dataclasses.replace(restoration, row=row, columns=list(selected), copies=())
    replacement = with_rows(session, plain, (query, [restoration.snapshot, *parameters]), folder, target)
    if replacement.row.row_count:
        return replacement
    row = dataclasses.replace(replacement.row, files_written=0, bytes_written=0)
    return dataclasses.replace(replacement, row=row, staged=None)


_LOG = logging.getLogger(__name__)

Strategy = Callable[[LakeSession, Replacement], LedgerRow]
RegisterStrategy = Callable[[LakeSession, Registration], list[LedgerRow]]

STRATEGIES: Sequence[Strategy] = (replace_directly, replace_by_extension)
REGISTER_STRATEGIES: Sequence[RegisterStrategy] = (register_directly, register_by_extension)

Task = TypeVar("Task")
Result = TypeVar("Result")


def strategies_of(lake: Lake) -> Sequence[Strategy]:
    """The strategies that can replace a partition of this lake."""
    return (replace_by_insert,) if lake.inserts_only else STRATEGIES


def commit(session: LakeSession, replacement: Replacement, strategies: Sequence[Strategy] | None = None) -> LedgerRow:
    """Replace the partition in one transaction; a reader sees the old rows or the new rows.

    If another writer commits in between, the transaction is rolled back and retried.

    Args:
        session: an open lake.
        replacement: the replacement.
        strategies: the first that supports the replacement makes it; the last supports all. Those of the lake when
            None.

    Returns:
        The ledger row as written.

    Raises:
        CommitConflictError: other writers won `commit_retries` times, or one has locked the catalog.
        SchemaChangedError: the table has other columns than the files; nothing has changed.
        PartitionHeldError: the partition was held meanwhile; nothing has changed.
        CatalogError: the catalog refuses; nothing has changed.
    """
    strategies = strategies_of(session.config) if strategies is None else strategies
    return _exporting(session, replacement, lambda change: _replace(session, change, strategies))


Replacing = TypeVar("Replacing", bound=Replacement)


def _exporting(session: LakeSession, replacement: Replacing, make: Callable[[Replacing], LedgerRow]) -> LedgerRow:
    """Make a replacement under the lock, with its exported changes if it has an export; see `exporter.py`."""
    exporter = None if replacement.export is None else Exporter(session, replacement, replacement.export)

    def work() -> LedgerRow:
        if exporter is None:
            return make(replacement)
        row = make(dataclasses.replace(replacement, delta=exporter.prepare()))
        exporter.announce()
        return row

    def find() -> LedgerRow | None:
        row = committed_row(session, replacement.row)
        if row is not None and exporter is not None:
            exporter.announce()
        return row

    try:
        if exporter is not None:
            exporter.prepare()  # before the lock, which delays other writers
        row = under_lock(session, work, f"partition {replacement.partition} of {replacement.table}", find)
    except (SchemaChangedError, PartitionMovedError, PartitionHeldError):  # which prove that nothing was committed
        if exporter is not None:
            exporter.discard()
        raise
    if exporter is not None and exporter.delta is not None and replacement.note_delta is not None:
        replacement.note_delta(exporter.delta)
    return row


def _replace(session: LakeSession, replacement: Replacement, strategies: Sequence[Strategy]) -> LedgerRow:
    refuse_other_types(session, [replacement])
    try:
        return _first_able(session, replacement, [_guarded(strategy) for strategy in strategies])
    except MarkedFilesError:
        _refuse_held(session, replacement)
        return _first_able(session, dataclasses.replace(replacement, may_be_held=True), strategies)


def refuse_other_types(session: LakeSession, replacements: Sequence[Replacement]) -> None:
    """Refuse files whose columns have other types than the table has now, which another run may have changed.

    Args:
        session: an open lake.
        replacements: of one table.

    Raises:
        SchemaChangedError: a column has another type; nothing has changed.
    """
    typed = [(one, one.schema) for one in replacements if one.schema is not None]
    if not typed:
        return
    table = data_schema(session, typed[0][0].table, typed[0][0].partition.columns)
    for replacement, schema in typed:
        for field in schema:
            index = table.get_field_index(field.name)
            if index >= 0 and not table.field(index).type.equals(field.type):
                raise replacement.columns_changed()


def _guarded(strategy: Strategy) -> Strategy:
    """The strategy, for a partition that is not held. The direct strategy looks at the names of its files itself."""
    if strategy is replace_directly:
        return strategy

    def guarded(session: LakeSession, replacement: Replacement) -> LedgerRow:
        if not replacement.may_be_held:
            _refuse_held(session, replacement)
        return strategy(session, replacement)

    return guarded


def _refuse_held(session: LakeSession, replacement: Replacement) -> None:
    """Refuse a refresh that began before its partition was held.

    Raises:
        PartitionHeldError: the partition is held; nothing has changed.
    """
    path = replacement.partition.path
    last = last_commits(session, replacement.table, [path]).get(path)
    if last is not None and last.is_held:
        raise replacement.held()


def commit_registration(
    session: LakeSession, registration: Registration, strategies: Sequence[RegisterStrategy] = REGISTER_STRATEGIES
) -> list[LedgerRow]:
    """Register files of many partitions in one transaction; a reader sees all of them or none.

    Args:
        session: an open lake.
        registration: the registration; `started_at` of its ledger rows is unique in the run and partition.
        strategies: the first that supports the registration makes it; the last supports all.

    Returns:
        The ledger rows as written, in the order of the registration's.

    Raises:
        RegisteredBeforeError: the catalog already has some of the files; nothing has changed.
        RefusedFilesError: the extension refuses a file; nothing has changed.
        CommitConflictError: other writers won `commit_retries` times, or one has locked the catalog.
        CatalogError: the catalog refuses; nothing has changed.
    """
    return under_lock(
        session,
        lambda: _first_able(session, registration, strategies),
        f"the registration of {count(len(registration.files), 'file')} of {registration.table}",
        lambda: committed_rows(session, registration),
    )


def commit_repair(session: LakeSession, repair: Repair) -> list[LedgerRow]:
    """Renew the catalog's facts of changed and vanished files in one transaction.

    Returns:
        The ledger rows as written, in the order of the repair's.

    Raises:
        CommitConflictError: other writers won `commit_retries` times, or one has locked the catalog.
        CatalogError: the catalog refuses, or does not support the repair; nothing has changed.
    """
    try:
        return under_lock(
            session,
            lambda: repair_directly(session, repair),
            f"the repair of {repair.table}",
            lambda: committed_rows(session, repair),
        )
    except NotDirectError as error:
        raise CatalogError(
            f"the files of {repair.table} cannot be repaired in place: {error}:",
            "land what they held under new names, and delete their rows from the table.",
        ) from error


def commit_restoration(session: LakeSession, restoration: Restoration, target: int) -> LedgerRow:
    """Put the partition's rows of an earlier snapshot back in one transaction.

    The rows are copies of the snapshot's files; if they are not, or cannot be, DuckLake reads and writes them.

    Args:
        session: an open lake.
        restoration: the restoration.
        target: bytes of a file, if DuckLake writes them.

    Returns:
        The ledger row as written.

    Raises:
        CommitConflictError: other writers won `commit_retries` times, or one has locked the catalog.
        CatalogError: the snapshot has expired, or the catalog refuses; nothing has changed.
        StorageError: a copy is gone, or the storage fails; nothing has changed.
    """
    is_copied = bool(restoration.copies) or not restoration.row.row_count
    strategies: list[Callable[[LakeSession, Restoration], LedgerRow]] = [partial(restore_by_insert, target=target)]
    if is_copied and not session.config.inserts_only:
        strategies.insert(0, restore_directly)
    return _exporting(session, restoration, lambda change: _first_able(session, change, strategies))


def commit_release(session: LakeSession, release: Callable[[], Release]) -> LedgerRow:
    """End the hold of a partition.

    Args:
        session: an open lake.
        release: called under the lock of commits; its ledger row has the partition's present state.

    Returns:
        The ledger row as written.

    Raises:
        CommitConflictError: other writers won `commit_retries` times, or one has locked the catalog.
        LakeAssetsError: as `release` raises; nothing has changed.
    """
    return under_lock(
        session,
        lambda: _first_able(session, release(), [release_directly, release_by_extension]),
        "the end of a hold",
    )


def _first_able(
    session: LakeSession, task: Task, strategies: Sequence[Callable[[LakeSession, Task], Result]]
) -> Result:
    *others, last = strategies
    for strategy in others:
        with suppress(NotDirectError):  # the next strategy is tried
            return strategy(session, task)
    if session.unknown_specification is not None and not session.config.is_managed:
        _LOG.warning("DuckLake's extension makes this commit: %s.", session.unknown_specification)
    return last(session, task)
