"""A snapshot that a user names, and the state of a partition in it."""

from contextlib import suppress
from dataclasses import dataclass

from lake_assets.errors import CatalogError, PartitionError
from lake_assets.lake.catalog.database import NotDirectError, catalog_reading
from lake_assets.lake.catalog.past import PastPartition, past_table
from lake_assets.lake.catalog.past_columns import PastColumns, past_columns
from lake_assets.lake.catalog.snapshots import snapshot_span, snapshots
from lake_assets.lake.catalog.table import named_since, read_folder
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition
from lake_assets.streams.stream import OpenStream


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
    with suppress(NotDirectError), catalog_reading(session) as database:
        return *snapshot_span(database), number in snapshots(database, [number])
    ((oldest, newest, found),) = session.rows(
        "SELECT min(snapshot_id), max(snapshot_id), count(*) FILTER (snapshot_id = ?) FROM ducklake_snapshots(?)",
        [number, session.alias],
    )
    return oldest, newest, bool(found)


def past_state(session: LakeSession, stream: OpenStream, partition: Partition, number: int) -> PastState:
    """Return the partition in a snapshot that exists."""
    past = past_table(session, stream.table, partition.columns, [partition]).of(partition)
    try:
        with catalog_reading(session) as database:
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
