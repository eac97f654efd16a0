"""Which snapshots changed the rows of a table."""

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.errors import CatalogError, ExpiredSnapshotError
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import catalog_tables
from lake_assets.lake.catalog.snapshots import ADDED, REMOVED, Snapshot, snapshots_between
from lake_assets.lake.catalog.table import find_table, named_since
from lake_assets.lake.session import AUTHOR, LakeSession, TableName

_COMPACTION = re.compile(r": compact by run \S+$")


@dataclass(frozen=True, slots=True)
class ChangedSnapshot:
    """A snapshot that inserted or deleted rows of a table."""

    snapshot_id: int
    committed_at: dt.datetime
    run_id: str | None  # of a run of this package; None: another client
    inserted: bool
    deleted: bool


def changed_snapshots(session: LakeSession, table: TableName, since: int, until: int) -> list[ChangedSnapshot]:
    """Return the snapshots that changed rows of a table, by number; compactions change none.

    Raises:
        ExpiredSnapshotError: some of the snapshots, or the one before them, have expired.
        CatalogError: there is no such snapshot, or the catalog cannot be read.
    """
    created = named_since(session, table)
    _refuse_earlier_table(session, table, since, created)
    first = max(since, created)
    snapshots = _snapshots(session, first - 1, until)
    _refuse_expired([snapshot.number for snapshot in snapshots], first, until, has_before=first == since)
    table_id = None
    if session.unknown_specification is None:
        with catalog_tables(session) as database:
            table_id = find_table(database, table)
    if table_id is None:  # a snapshot without the table cannot be read
        first = max([first, *(snapshot.number for snapshot in snapshots if _creates(snapshot, table))])
    found: list[ChangedSnapshot] = []
    for snapshot in snapshots:
        inserted, deleted = (snapshot.changes_rows(table_id, kind) for kind in (ADDED, REMOVED))
        is_compaction = snapshot.author == AUTHOR and _COMPACTION.search(snapshot.message or "") is not None
        if snapshot.number >= first and (inserted or deleted) and not is_compaction:
            found.append(ChangedSnapshot(snapshot.number, snapshot.time, _run_of(snapshot), inserted, deleted))
    return found


def _snapshots(session: LakeSession, first: int, last: int) -> list[Snapshot]:
    if session.unknown_specification is None:
        with catalog_tables(session) as database:
            return snapshots_between(database, first, last)
    rows = session.rows(
        "SELECT snapshot_id, snapshot_time, author, commit_message, commit_extra_info, changes "
        "FROM ducklake_snapshots(?) WHERE snapshot_id BETWEEN ? AND ? ORDER BY snapshot_id",
        [session.alias, first, last],
    )
    found: list[Snapshot] = []
    for number, moment, author, message, extra_info, by_kind in rows:
        changes = [(kind, str(name)) for kind, names in (by_kind or {}).items() for name in names]
        found.append(Snapshot(number, moment, author, message, extra_info, changes))
    return found


def _creates(snapshot: Snapshot, table: TableName) -> bool:
    name = f"{table.schema}.{table.table}".lower()
    return any(kind == "tables_created" and what.lower() == name for kind, what in snapshot.changes)


def _run_of(snapshot: Snapshot) -> str | None:
    if snapshot.author != AUTHOR or not snapshot.extra_info:
        return None
    try:
        run_id = json.loads(snapshot.extra_info).get("run_id")
    except (ValueError, AttributeError):
        return None
    return None if run_id is None else str(run_id)


def _refuse_earlier_table(session: LakeSession, table: TableName, since: int, created: int) -> None:
    """Refuse changes that lack the end of another table's rows, which had this name before the first snapshot.

    Raises:
        CatalogError: there was such a table.
        ExpiredSnapshotError: the snapshot before the first has expired, so it is unknown whether there was one.
    """
    if not 0 < since <= created:
        return
    begin = f"empty what you made of its changes, and begin at snapshot {created}."
    with catalog_tables(session) as database:
        ((end,),) = database.rows(
            f"SELECT max(t.end_snapshot) FROM {spec.TABLE} t JOIN {spec.SCHEMA} s ON s.schema_id = t.schema_id "
            "WHERE lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?) "
            "AND t.begin_snapshot < ? AND t.end_snapshot >= ? AND t.end_snapshot <= ?",
            [table.schema, table.table, since, since, created],
        )
        kept = snapshots_between(database, since - 1, since - 1)
    if end is not None:
        raise CatalogError(
            f"snapshot {end} dropped or renamed the table {table} of snapshot {since - 1}, and {created} made another, "
            "so no change has the end of its rows:",
            begin,
        )
    if since < created and not kept:
        raise ExpiredSnapshotError(
            f"snapshot {since - 1} has expired, and {created} created table {table}, so it is unknown whether another "
            "table had its name before:",
            begin,
        )


def _refuse_expired(existing: Sequence[int], first: int, until: int, *, has_before: bool) -> None:
    """Refuse snapshots whose changes are unknown.

    The files that a snapshot ended may be deleted when the snapshot before it expires.
    """
    if first > until:
        return
    if until not in existing and (not existing or until > max(existing)):
        raise CatalogError(
            f"there is no snapshot {until}:", "name an existing one. `lake-assets ledger` shows those of the runs."
        )
    needed = range(first - 1 if has_before and first > 0 else first, until + 1)
    present = set(existing)
    expired = [number for number in needed if number not in present]
    if expired:
        raise ExpiredSnapshotError(
            f"snapshot {expired[-1]} has expired, so the changes from snapshot {first} on are not all known:",
            f"begin at snapshot {expired[-1] + 2} or later, or raise expire_older_than of the lake's maintenance.",
        )
