"""The snapshots of the lake, and what they changed, by the catalog's own tables."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, Row

# DuckLake's words for what a snapshot did to a table's rows. A merge of files, a rewrite and a flush change no row.
_CHANGES_ROWS = re.compile(
    "inserted_into_table|inlined_insert|tables_inserted_into|deleted_from_table|inlined_delete|tables_deleted_from"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the lake."""

    number: int
    time: dt.datetime
    author: str | None
    message: str | None
    extra_info: str | None
    changes: Sequence[tuple[str, str]]  # DuckLake's word for each, and what it changed, as the id of a table

    @classmethod
    def of(cls, row: Row) -> Self:
        """Return the snapshot of a row by `_SNAPSHOT`."""
        number, time, author, message, extra_info, changes = row
        moment = dt.datetime.fromisoformat(time) if isinstance(time, str) else time
        return cls(number, moment, author, message, extra_info, _changes(changes))


_SNAPSHOT = (
    "SELECT s.snapshot_id, s.snapshot_time, c.author, c.commit_message, c.commit_extra_info, c.changes_made "
    f"FROM {spec.SNAPSHOT} s LEFT JOIN {spec.SNAPSHOT_CHANGES} c ON c.snapshot_id = s.snapshot_id"
)


def _changes(text: str | None) -> list[tuple[str, str]]:
    parts = (part.partition(":") for part in (text or "").split(","))
    return [(kind, changed_id) for kind, _, changed_id in parts]


def changes_rows(changes: Sequence[tuple[str, str]], table_id: int) -> bool:
    """Return whether the changes of a snapshot insert or delete rows of a table."""
    return any(changed_id == str(table_id) and _CHANGES_ROWS.fullmatch(kind) for kind, changed_id in changes)


def ask_changes(database: CatalogDatabase, since: int) -> Callable[[], list[Sequence[tuple[str, str]]]]:
    """Ask for the changes of each snapshot after this one, as of `Snapshot`."""
    answer = database.ask(f"SELECT changes_made FROM {spec.SNAPSHOT_CHANGES} WHERE snapshot_id > ?", [since])
    return lambda: [_changes(text) for (text,) in answer()]


def snapshots(database: CatalogDatabase, numbers: Sequence[int]) -> dict[int, Snapshot]:
    """Return those of the snapshots that exist, by number."""
    return {row[0]: Snapshot.of(row) for row in database.rows_among(f"{_SNAPSHOT} WHERE s.snapshot_id IN", numbers)}


def snapshots_of_table(database: CatalogDatabase, table_id: int, newest: int) -> list[Snapshot]:
    """Return the newest snapshots that changed a table, the newest first."""
    # A statement here has no percent sign of its own.
    rows = database.rows(
        f"{_SNAPSHOT} WHERE c.changes_made LIKE ? OR c.changes_made LIKE ? ORDER BY s.snapshot_id DESC LIMIT ?",
        [f"%:{table_id}", f"%:{table_id},%", newest],
    )
    return [Snapshot.of(row) for row in rows]


def snapshots_with_rows(database: CatalogDatabase, table_id: int) -> list[tuple[int, int | None]]:
    """Return the snapshots that changed rows of a table, the newest first, each with the kept one before it."""
    rows = database.rows(
        f"SELECT c.snapshot_id, (SELECT max(s.snapshot_id) FROM {spec.SNAPSHOT} s "
        f"WHERE s.snapshot_id < c.snapshot_id), c.changes_made FROM {spec.SNAPSHOT_CHANGES} c "
        "WHERE c.changes_made LIKE ? OR c.changes_made LIKE ? ORDER BY c.snapshot_id DESC",
        [f"%:{table_id}", f"%:{table_id},%"],
    )
    return [(number, before) for number, before, changes in rows if changes_rows(_changes(changes), table_id)]


def snapshot_span(database: CatalogDatabase) -> tuple[int, int]:
    """Return the oldest and the newest snapshot."""
    ((oldest, newest),) = database.rows(f"SELECT min(snapshot_id), max(snapshot_id) FROM {spec.SNAPSHOT}")
    return int(oldest), int(newest)


def first_kept(database: CatalogDatabase, first: int) -> int | None:
    """Return the least snapshot that exists from `first` on; None if there is none."""
    ((number,),) = database.rows(f"SELECT min(snapshot_id) FROM {spec.SNAPSHOT} WHERE snapshot_id >= ?", [first])
    return None if number is None else int(number)


def last_addition(database: CatalogDatabase, table_id: int, before: int | None) -> int | None:
    """Return the newest snapshot before another one that added a data file to a table; None if there is none."""
    condition, parameters = ("", []) if before is None else (" AND begin_snapshot < ?", [before])
    ((snapshot,),) = database.rows(
        f"SELECT max(begin_snapshot) FROM {spec.DATA_FILE} WHERE table_id = ?{condition}", [table_id, *parameters]
    )
    return None if snapshot is None else int(snapshot)


@dataclass(frozen=True, slots=True)
class ColumnsSince:
    """The columns of a table since a snapshot."""

    changes: int  # of columns, and of parts of nested ones
    columns: int  # now


def columns_since(database: CatalogDatabase, table_id: int, snapshot: int) -> ColumnsSince:
    """Return how many columns of a table have changed since a snapshot, and how many there are."""
    ((changes, columns),) = database.rows(
        "SELECT coalesce(sum(CASE WHEN begin_snapshot > ? OR end_snapshot > ? THEN 1 ELSE 0 END), 0), "
        "sum(CASE WHEN end_snapshot IS NULL AND parent_column IS NULL THEN 1 ELSE 0 END) "
        f"FROM {spec.COLUMN} WHERE table_id = ?",
        [snapshot, snapshot, table_id],
    )
    return ColumnsSince(int(changes), int(columns))
