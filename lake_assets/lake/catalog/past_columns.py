"""The columns of a table in one snapshot, compared with those of another one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog.database import CatalogDatabase, catalog_tables
from lake_assets.lake.catalog.table import Column, find_table, read_columns
from lake_assets.lake.catalog.untyped import untyped_ids
from lake_assets.lake.session import LakeSession, TableName


@dataclass(frozen=True, slots=True)
class PastColumns:
    """How the columns of a snapshot and those of today correspond."""

    names: Mapping[str, str]  # the name that each column of today had then; columns that were added since are left out
    differences: Sequence[str]  # for people, such as `column note was added`
    # Columns of today whose name another one had then with values, as it was dropped and added again
    others: Sequence[str]


def earlier_names(
    session: LakeSession, table: TableName, first: int, second: int | None = None
) -> Mapping[str, str] | None:
    """Return the names in one snapshot of the columns that a table has in another, by those in lower case.

    A renamed column keeps its id. Columns that the first snapshot lacks are left out; the second is the newest when
    None. None is returned if the catalog's tables are unknown.
    """
    if session.unknown_specification is not None:
        return None
    with catalog_tables(session) as database:
        table_id = find_table(database, table)
        then, now = (
            {c.column_id: c.name for c in read_columns(database, table_id, at) if c.parent is None}
            for at in (first, second)
        )
    return {name.lower(): then[number] for number, name in now.items() if number in then}


def past_columns(database: CatalogDatabase, table_id: int, snapshot: int) -> PastColumns:
    """Compare the columns of a table in a snapshot with those of today; a column keeps its id when it is renamed."""
    now, then = (
        {column.column_id: column for column in read_columns(database, table_id, at)} for at in (None, snapshot)
    )
    by_path = {_path(then, entry).lower(): entry.column_id for entry in then.values()}
    untyped = untyped_ids(database, table_id, list(then.values()))
    differences: list[str] = []
    others: list[str] = []
    given: list[str] = []  # their types since
    for column_id, entry in now.items():
        path = _path(now, entry)
        before = then.get(column_id)
        if before is not None:
            if before.name != entry.name:
                differences.append(f"column {_path(then, before)} is {path} now")
            if before.type != entry.type:
                differences.append(f"column {path} was {before.type} and is {entry.type} now")
        elif path.lower() in by_path:
            (given if by_path[path.lower()] in untyped else others).append(path)
        elif entry.parent is None or entry.parent in then:
            differences.append(f"column {path} was added since")
    differences += [f"column {path} had no value and no type yet" for path in given]
    gone = [e for e in then.values() if e.column_id not in now and (e.parent is None or e.parent in now)]
    differences += [
        f"column {_path(then, e)} was dropped since"
        for e in gone
        if _path(then, e).lower() not in map(str.lower, (*given, *others))
    ]
    names = {e.name: then[i].name for i, e in now.items() if e.parent is None and i in then}
    return PastColumns(names, differences, others)


def _path(entries: Mapping[int, Column], entry: Column) -> str:
    parent = None if entry.parent is None else entries.get(entry.parent)
    return entry.name if parent is None else f"{_path(entries, parent)}.{entry.name}"
