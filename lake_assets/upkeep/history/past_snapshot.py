"""A snapshot that a user names, and the state of a partition in it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lake_assets.base.errors import CatalogError, PartitionError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.file_entries import untyped_ids
from lake_assets.lake.catalog.past_partitions import PastPartition, past_table
from lake_assets.lake.catalog.table import (
    LakeColumn,
    find_table,
    named_since,
    read_columns,
    read_folder,
    snapshot_span,
    snapshots,
)
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.streams.stream import OpenStream


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
    with session.read() as database:
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


def _path(entries: Mapping[int, LakeColumn], entry: LakeColumn) -> str:
    parent = None if entry.parent is None else entries.get(entry.parent)
    return entry.name if parent is None else f"{_path(entries, parent)}.{entry.name}"


@dataclass(frozen=True, slots=True)
class PastState:
    """A partition in a snapshot."""

    rows: int
    past: PastPartition  # the partition in all snapshots
    columns: PastColumns  # as of `past_columns`
    was_there: bool  # a snapshot up to this one had rows of the partition


def require_table(session: LakeSession, stream: OpenStream) -> None:
    """Refuse a stream without a table."""
    if not session.exists(stream.table):
        raise CatalogError(f"the lake has no table {stream.table} yet:", f"ingest a partition of {stream.name} first.")


def require_snapshot(session: LakeSession, stream: OpenStream, number: int) -> None:
    """Refuse a snapshot that does not exist, or in which the stream's table did not exist."""
    require_table(session, stream)
    oldest, newest, exists = _span(session, number)
    listed = f"`lake-assets history {stream.name}` lists the snapshots that can be read."
    if number > newest:
        raise CatalogError(f"there is no snapshot {number}: the newest is {newest}:", listed)
    if not exists:
        kept = f"the oldest is {oldest}" if number < oldest else "maintenance has removed it"
        raise CatalogError(f"snapshot {number} has expired; {kept}:", listed)
    if number < (since := named_since(session, stream.table)):
        raise CatalogError(
            f"table {stream.table} did not exist in snapshot {number}; snapshot {since} created it:", listed
        )


def _span(session: LakeSession, number: int) -> tuple[int, int, bool]:
    """Return the oldest and the newest snapshot, and whether this one exists."""
    with suppress(NotDirectError), session.read() as database:
        return *snapshot_span(database), number in snapshots(database, [number])
    ((oldest, newest, exists),) = session.rows(
        "SELECT min(snapshot_id), max(snapshot_id), count(*) FILTER (snapshot_id = ?) FROM ducklake_snapshots(?)",
        [number, session.alias],
    )
    return oldest, newest, bool(exists)


def past_state(session: LakeSession, stream: OpenStream, partition: Partition, number: int) -> PastState:
    """Return the partition in a snapshot that exists."""
    past = past_table(session, stream.partitioned_table, [partition]).of(partition)
    try:
        with session.read() as database:
            table_id, *_ = read_folder(database, stream.table)
            columns = past_columns(database, table_id, number)
    except NotDirectError:
        columns = _columns_by_name(session, stream, number)
    rows = past.rows(number)
    return PastState(rows, past, columns, rows > 0 or any(file.begin_snapshot <= number for file in past.files))


def _columns_by_name(session: LakeSession, stream: OpenStream, number: int) -> PastColumns:
    """Do as `past_columns` for a lake whose catalog shows no ids of columns: a column is known by its name."""
    now, then = types_at(session, stream.table), types_at(session, stream.table, number)
    by_name = {name.lower(): name for name in then}
    differences = [f"column {name} was added since" for name in now if name.lower() not in by_name]
    differences += [f"column {name} was dropped since" for name in then if name.lower() not in set(map(str.lower, now))]
    names = {name: by_name[name.lower()] for name in now if name.lower() in by_name}
    differences += [
        f"column {name} was {then[before]} and is {now[name]} now"
        for name, before in names.items()
        if then[before] != now[name]
    ]
    return PastColumns(names, differences, ())


def types_at(session: LakeSession, table: TableName, number: int | None = None) -> dict[str, str]:
    """Return the types of a table's columns in a snapshot, by name, as DuckDB has them; today's when None."""
    at, parameters = ("", []) if number is None else (" AT (VERSION => ?)", [number])
    rows = session.rows(f"DESCRIBE SELECT * FROM {table.sql}{at}", parameters)  # noqa: S608 - a quoted name
    return {name: kind for name, kind, *_ in rows}


def require_columns(stream: OpenStream, partition: Partition, state: PastState, number: int) -> None:
    """Refuse a snapshot whose rows today's columns cannot hold.

    A column was dropped and added again, so that its values then are those of another column (CatalogError), or the
    table was partitioned by other columns (PartitionError).
    """
    if state.columns.others:
        raise CatalogError(
            f"column {state.columns.others[0]} of {stream.table} was dropped and added again after snapshot {number}, "
            "so today's column does not have the values of then:",
            f"read them with a query of {stream.table} AT (VERSION => {number}).",
        )
    names = {now.lower(): then.lower() for now, then in state.columns.names.items()}
    for column in partition.columns:
        if names.get(column.name.lower()) != column.name.lower():
            raise PartitionError(
                f"table {stream.table} had no partition column {column.name} in snapshot {number}:",
                "choose a later snapshot.",
            )
