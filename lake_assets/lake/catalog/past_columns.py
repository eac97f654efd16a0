"""The columns of a table in an earlier snapshot, compared with those of today."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase


@dataclass(frozen=True, slots=True)
class PastColumns:
    """How the columns of a snapshot and those of today correspond.

    Attributes:
        names: the name that each column of today had then; columns that were added since are left out.
        differences: for people, such as `column note was added`.
        others: columns of today whose name another column had then, because it was dropped and added again.
    """

    names: Mapping[str, str]
    differences: Sequence[str]
    others: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Entry:
    column_id: int
    name: str
    type: str
    parent: int | None


def past_columns(database: CatalogDatabase, table_id: int, snapshot: int) -> PastColumns:
    """Compare the columns of a table in a snapshot with those of today; a column keeps its id when it is renamed."""
    now: dict[int, _Entry] = {}
    then: dict[int, _Entry] = {}
    for column_id, name, kind, parent, begin, end in database.rows(
        "SELECT column_id, column_name, column_type, parent_column, begin_snapshot, end_snapshot "
        f"FROM {spec.COLUMN} WHERE table_id = ? ORDER BY column_order",
        [table_id],
    ):
        entry = _Entry(column_id, name, kind, parent)
        if end is None:
            now[column_id] = entry
        if begin <= snapshot and (end is None or end > snapshot):
            then[column_id] = entry
    by_path = {_path(then, entry).lower(): entry.column_id for entry in then.values()}
    differences: list[str] = []
    others: list[str] = []
    for column_id, entry in now.items():
        path = _path(now, entry)
        before = then.get(column_id)
        if before is not None:
            if before.name != entry.name:
                differences.append(f"column {_path(then, before)} is {path} now")
            if before.type != entry.type:
                differences.append(f"column {path} was {before.type} and is {entry.type} now")
        elif path.lower() in by_path:
            others.append(path)
        elif entry.parent is None or entry.parent in then:
            differences.append(f"column {path} was added since")
    gone = [e for e in then.values() if e.column_id not in now and (e.parent is None or e.parent in now)]
    differences += [
        f"column {_path(then, e)} was dropped since"
        for e in gone
        if _path(then, e).lower() not in map(str.lower, others)
    ]
    names = {e.name: then[i].name for i, e in now.items() if e.parent is None and i in then}
    return PastColumns(names, differences, others)


def _path(entries: Mapping[int, _Entry], entry: _Entry) -> str:
    parent = None if entry.parent is None else entries.get(entry.parent)
    return entry.name if parent is None else f"{_path(entries, parent)}.{entry.name}"
