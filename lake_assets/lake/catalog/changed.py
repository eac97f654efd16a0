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
    """The snapshots that changed rows of a table, by number; compactions change none.

    Args:
        session: an open lake.
        table: it exists.
        since: the first snapshot.
        until: the last snapshot.

    Raises:
        ExpiredSnapshotError: some of the snapshots, or the one before them, have expired.
        CatalogError: there is no such snapshot, or the catalog cannot be read.
    """
    first = max(since, named_since(session, table))
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


def names_at(session: LakeSession, table: TableName, snapshot: int) -> Mapping[int, str] | None:
    """The names of a table's columns in a snapshot, by the columns' ids; None if the catalog does not show them."""
    if session.unknown_specification is not None:
        return None
    return dict(
        session.rows(
            f"SELECT column_id, column_name FROM {session.metadata}.{spec.COLUMN} "
            "WHERE table_id = ? AND parent_column IS NULL AND begin_snapshot <= ? "
            "AND (end_snapshot IS NULL OR end_snapshot > ?)",
            [live_table_id(session, table), snapshot, snapshot],
        )
    )


def _snapshots(session: LakeSession, since: int, until: int) -> list[tuple[int, dt.datetime, object, str, str, str]]:
    """The snapshots with their changes: a text of the catalog, or a mapping of DuckLake's function."""
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
    """Whether the changes of a snapshot are of this kind and of this table."""
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
