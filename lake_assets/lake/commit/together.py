"""Commits of several partitions as one snapshot, for `commit_batch`."""

import dataclasses
import datetime as dt
import logging
from collections.abc import Sequence

from lake_assets.errors import (
    CatalogLockedError,
    CatalogUnreachableError,
    PartitionHeldError,
    PartitionMovedError,
    SchemaChangedError,
    StorageUnreachableError,
    WholeStorageError,
)
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.commit.batch import Batch
from lake_assets.lake.commit.direct.together import replace_together
from lake_assets.lake.commit.exporter import Exporter
from lake_assets.lake.commit.found import committed_rows
from lake_assets.lake.commit.replacement import MarkedFilesError, Replacement
from lake_assets.lake.commit.strategy import refuse_other_types
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession

_LOG = logging.getLogger(__name__)

# Errors of a commit that the next one would have too, after the same pauses.
OF_ALL = (CatalogUnreachableError, CatalogLockedError, StorageUnreachableError, WholeStorageError)
# What a commit raises before its COMMIT, so that nothing was committed.
_UNDONE = (NotDirectError, MarkedFilesError, SchemaChangedError, PartitionMovedError, PartitionHeldError)


def commit_together(session: LakeSession, replacements: Sequence[Replacement]) -> list[LedgerRow] | None:
    """Commit several partitions in one transaction: a reader sees the old rows of all of them, or the new ones.

    If one of them cannot be committed, nothing is. The caller then commits each partition on its own, so that an error
    fails only its partition. Only the direct strategy commits several together.

    Args:
        session: an open lake.
        replacements: of one table, by one run, each of another partition.

    Returns:
        The ledger rows as written, in the order of the replacements; None if nothing was committed.

    Raises:
        CatalogLockedError: another process has locked the catalog; nothing has changed.
        CatalogUnreachableError: the catalog's server is away.
        StorageUnreachableError: the storage of the lake, or of the exported changes, is away; nothing has changed.
        WholeStorageError: that storage accepts nothing; nothing has changed.
        CatalogError: whether the batch was committed is unknown.
    """
    exports = _Exports(session, replacements)
    batch = Batch(replacements[0].table, replacements)

    def work() -> list[LedgerRow]:
        prepared = exports.prepare()
        refuse_other_types(session, prepared)
        rows = replace_together(session, Batch(batch.table, prepared))
        exports.announce()
        return rows

    def find() -> list[LedgerRow] | None:
        rows = committed_rows(session, batch)
        if rows is not None:
            exports.announce()
        return rows

    try:
        exports.prepare()  # before the lock, which delays other writers
        rows = under_lock(session, work, f"a batch of {len(replacements):,} partitions of {batch.table}", find)
    except OF_ALL:
        raise
    except _UNDONE as error:
        exports.give_up(error, logging.INFO)
        return None
    except Exception as error:  # noqa: BLE001 - each partition shows its own
        session.reattach()
        if (found := find()) is None:
            exports.give_up(error, logging.WARNING)
            return None
        rows = found
    exports.note()
    return rows


class _Exports:
    """The exported changes of a batch, all for the same snapshot and with the same time."""

    def __init__(self, session: LakeSession, replacements: Sequence[Replacement]) -> None:
        self._session = session
        self._replacements = replacements
        self._exporters = {
            number: Exporter(session, one, one.export)
            for number, one in enumerate(replacements)
            if one.export is not None
        }

    def prepare(self) -> list[Replacement]:
        """The replacements with the changes that they make now, written as files."""
        prepared = list(self._replacements)
        if self._exporters:
            base, moment = self._session.current_snapshot(), dt.datetime.now(dt.UTC)
            for number, exporter in self._exporters.items():
                prepared[number] = dataclasses.replace(prepared[number], delta=exporter.prepare(base, moment))
        return prepared

    def announce(self) -> None:
        """List the newest files, once for all; see `Exporter.announce`."""
        for exporter in self._exporters.values():
            if exporter.delta is not None and exporter.delta.files:
                exporter.announce()
                return

    def give_up(self, error: Exception, level: int) -> None:
        """Remove the files, because the batch was not committed."""
        _LOG.log(level, "%d partitions are committed one by one: %s", len(self._replacements), error)
        for exporter in self._exporters.values():
            exporter.discard()

    def note(self) -> None:
        """Let each replacement know its exported changes, which are committed."""
        for number, exporter in self._exporters.items():
            note = self._replacements[number].note_delta
            if note is not None and exporter.delta is not None:
                note(exporter.delta)
