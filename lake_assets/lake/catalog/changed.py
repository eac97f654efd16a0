"""Which snapshots changed the rows of a table, and the names that its columns had then."""

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.errors import CatalogError, ExpiredSnapshotError
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.snapshots import ADDED, REMOVED
from lake_assets.lake.catalog.table_files import live_table_id, named_since
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

    Args:
        session: an open lake.
        table: it exists.
        since: the first snapshot.
        until: the last snapshot.

    Raises:
        ExpiredSnapshotError: some of the snapshots, or the one before them, have expired.
        CatalogError: there is no such snapshot, or the catalog cannot be read.
    """
    created = named_since(session, table)
    _refuse_earlier_table(session, table, since, created)
    first = max(since, created)
    rows = _snapshots(session, first - 1, until)
    _refuse_expired([number for number, *_ in rows], first, until, has_before=first == since)
    table_id = None if session.unknown_specification is not None else live_table_id(session, table)
    if table_id is None:  # a snapshot without the table cannot be read
        first = max([first, *(number for number, _, changes, *_ in rows if _creates(changes, table))])
    found: list[ChangedSnapshot] = []
    for number, moment, changes, author, message, extra in rows:
        inserted, deleted = (_touches(changes, pattern, table_id) for pattern in (ADDED, REMOVED))
        is_compaction = author == AUTHOR and _COMPACTION.search(message or "") is not None
        if number >= first and (inserted or deleted) and not is_compaction:
            found.append(ChangedSnapshot(number, moment, _run_of(author, extra), inserted, deleted))
    return found


def earlier_names(
    session: LakeSession, table: TableName, first: int, second: int | None = None
) -> Mapping[str, str] | None:
    """The names in one snapshot of the columns that a table has in another, as a column keeps its id when renamed.

    Args:
        session: an open lake.
        table: it exists.
        first: the snapshot of the names.
        second: the other one; the newest when None.

    Returns:
        Names by the others in lower case, without columns that the first snapshot lacks; None if the catalog's tables
        are unknown.
    """
    if session.unknown_specification is not None:
        return None
    then, now = (_names_at(session, table, number) for number in (first, second))
    return {name.lower(): then[number] for number, name in now.items() if number in then}


def _names_at(session: LakeSession, table: TableName, snapshot: int | None) -> dict[int, str]:
    at = "TRUE" if snapshot is None else f"begin_snapshot <= {snapshot:d}"
    ended = "" if snapshot is None else f" OR end_snapshot > {snapshot:d}"
    return dict(
        session.rows(
            f"SELECT column_id, column_name FROM {session.metadata}.{spec.COLUMN} "
            f"WHERE table_id = ? AND parent_column IS NULL AND {at} AND (end_snapshot IS NULL{ended})",
            [live_table_id(session, table)],
        )
    )


def _snapshots(session: LakeSession, since: int, until: int) -> list[tuple[int, dt.datetime, object, str, str, str]]:
    """Return the snapshots with their changes: a text of the catalog, or a mapping of DuckLake's function."""
    if session.unknown_specification is None:
        sql = (
            "SELECT s.snapshot_id, s.snapshot_time::TIMESTAMPTZ, c.changes_made, c.author, c.commit_message, "
            f"c.commit_extra_info FROM {session.metadata}.{spec.SNAPSHOT} s "
            f"LEFT JOIN {session.metadata}.{spec.SNAPSHOT_CHANGES} c ON c.snapshot_id = s.snapshot_id "
            "WHERE s.snapshot_id BETWEEN ? AND ? ORDER BY s.snapshot_id"
        )
        parameters: list[object] = [since, until]
    else:
        sql = (
            "SELECT snapshot_id, snapshot_time, changes, author, commit_message, commit_extra_info "
            "FROM ducklake_snapshots(?) WHERE snapshot_id BETWEEN ? AND ? ORDER BY snapshot_id"
        )
        parameters = [session.alias, since, until]
    return session.rows(sql, parameters)


def _touches(changes: object, pattern: re.Pattern[str], table_id: int | None) -> bool:
    """Return whether the changes of a snapshot are of this kind and of this table."""
    pairs: Sequence[tuple[str, str]]
    if isinstance(changes, dict):
        pairs = [(kind, str(table)) for kind, tables in changes.items() for table in tables]
    else:
        pairs = [(kind, table) for kind, _, table in (part.partition(":") for part in str(changes or "").split(","))]
    return any(pattern.match(kind) and (table_id is None or table == str(table_id)) for kind, table in pairs)


def _creates(changes: object, table: TableName) -> bool:
    names = changes.get("tables_created", ()) if isinstance(changes, dict) else ()
    return f"{table.schema}.{table.table}".lower() in {str(name).lower() for name in names}


def _run_of(author: str | None, extra: str | None) -> str | None:
    if author != AUTHOR or not extra:
        return None
    try:
        run_id = json.loads(extra).get("run_id")
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
    ends = session.rows(
        f"SELECT max(t.end_snapshot) FROM {session.metadata}.{spec.TABLE} t "
        f"JOIN {session.metadata}.{spec.SCHEMA} s ON s.schema_id = t.schema_id "
        "WHERE lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?) "
        "AND t.begin_snapshot < ? AND t.end_snapshot >= ? AND t.end_snapshot <= ?",
        [table.schema, table.table, since, since, created],
    )
    if (end := ends[0][0]) is not None:
        raise CatalogError(
            f"snapshot {end} dropped or renamed the table {table} of snapshot {since - 1}, and {created} made another, "
            "so no change has the end of its rows:",
            begin,
        )
    kept = session.rows(
        f"SELECT 1 FROM {session.metadata}.{spec.SNAPSHOT} WHERE snapshot_id = ?",
        [since - 1],
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
            f"there is no snapshot {until}:", "name an existing one; `lake-assets ledger` shows those of the runs."
        )
    needed = range(first - 1 if has_before and first > 0 else first, until + 1)
    present = set(existing)
    expired = [number for number in needed if number not in present]
    if expired:
        raise ExpiredSnapshotError(
            f"snapshot {expired[-1]} has expired, so the changes from snapshot {first} on are not all known:",
            f"begin at snapshot {expired[-1] + 2} or later, or raise expire_older_than of the lake's maintenance.",
        )
