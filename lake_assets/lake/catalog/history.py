"""Queries about single snapshots and a table's columns, which do not read the other snapshots or any data file."""

from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase

_AT_ONCE = 500  # snapshots in one statement


def oldest_snapshot(database: CatalogDatabase) -> int:
    """The id of the oldest snapshot that has not expired."""
    ((oldest,),) = database.rows(f"SELECT min(snapshot_id) FROM {spec.SNAPSHOT}")
    return int(oldest)


def existing_snapshots(database: CatalogDatabase, ids: Sequence[int]) -> set[int]:
    """Those of the snapshots that exist."""
    found: set[int] = set()
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" for _ in some)
        rows = database.rows(f"SELECT snapshot_id FROM {spec.SNAPSHOT} WHERE snapshot_id IN ({marks})", some)
        found |= {number for (number,) in rows}
    return found


def last_addition(database: CatalogDatabase, table_id: int, before: int | None) -> int | None:
    """The newest snapshot, of those before another one, that added a data file to a table; None if there is none."""
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
    """How many columns of a table have changed since a snapshot, and how many there are."""
    ((changes, columns),) = database.rows(
        "SELECT coalesce(sum(CASE WHEN begin_snapshot > ? OR end_snapshot > ? THEN 1 ELSE 0 END), 0), "
        "sum(CASE WHEN end_snapshot IS NULL AND parent_column IS NULL THEN 1 ELSE 0 END) "
        f"FROM {spec.COLUMN} WHERE table_id = ?",
        [snapshot, snapshot, table_id],
    )
    return ColumnsSince(int(changes), int(columns))
