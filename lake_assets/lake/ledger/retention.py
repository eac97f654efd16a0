"""The retention of the ledger: old rows are deleted, with the manifest rows of their runs.

No run needs a deleted row. For each partition the newest row of each kind stays, of any age, because the ledger decides
where the names of data files do not (`lookup.py`). The rows of additions and of registrations in place stay,
too: they and their manifest rows say which objects the lake has.
"""

import datetime as dt

from lake_assets.lake.ledger.tables import OF_RUNS, ledger_table
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import AUTHOR, LakeSession
from lake_assets.layout.texts import count

_KEY = "run_id, stream, load_partition"


def expire_ledger(session: LakeSession, before: dt.datetime, *, dry_run: bool = False) -> int:
    """Delete ledger rows of runs that ended before a time, with the manifest rows that only they had.

    Snapshots that have not expired keep the rows. `flush_ledger` rewrites the files that had them.

    Returns:
        The number of deleted rows of the ledger.

    Raises:
        CatalogError: the catalog refuses.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return 0
    if dry_run:
        return len(_expired(session, before))
    return under_lock(session, lambda: _delete(session, before), f"old rows of {ledger}")


def _expired(session: LakeSession, before: dt.datetime) -> list[int]:
    """The row ids of the ledger's rows to delete."""
    rows = session.rows(
        "SELECT number FROM (SELECT rowid AS number, coalesce(finished_at, started_at) AS moment, "  # noqa: S608
        "status = 'committed' AND mode IN ('append', 'index', 'repair') AS adds, "
        "row_number() OVER (PARTITION BY stream, destination_table, load_partition, mode, status, on_empty IS NULL "
        "ORDER BY snapshot_id DESC NULLS LAST, coalesce(finished_at, started_at) DESC) AS age "
        f"FROM {ledger_table(session.config).sql}) WHERE moment < ? AND age > 1 AND NOT adds",
        [before],
    )
    return [number for (number,) in rows]


def _delete(session: LakeSession, before: dt.datetime) -> int:
    ledger = ledger_table(session.config).sql
    with session.transaction():
        numbers = _expired(session, before)
        if numbers:
            for own in OF_RUNS:
                session.rows(
                    f"DELETE FROM {own.name(session.config).sql} WHERE ({_KEY}) IN "  # noqa: S608 - quoted names
                    f"(SELECT ({_KEY}) FROM {ledger} WHERE rowid IN (SELECT unnest(?::BIGINT[]))) AND ({_KEY}) NOT IN "
                    f"(SELECT ({_KEY}) FROM {ledger} WHERE rowid NOT IN (SELECT unnest(?::BIGINT[])))",
                    [numbers, numbers],
                )
            session.rows(f"DELETE FROM {ledger} WHERE rowid IN (SELECT unnest(?::BIGINT[]))", [numbers])  # noqa: S608
            session.sign(AUTHOR, f"deletes {count(len(numbers), 'row')} of the ledger from before {before:%Y-%m-%d}")
    return len(numbers)
