"""What a commit must know of its tables: read before it, outside of the lake's lock, and kept for later commits.

DuckLake numbers the states of all schemas, tables, columns and partitionings of a lake. So the description of a table
is still right in a transaction that finds this number unchanged, and the snapshot in which it was read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import Answer, CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.catalog.inlined import ask_tables, read_tables
from lake_assets.lake.catalog.table import (
    Mappings,
    Partitioning,
    Table,
    read_mappings,
    read_partitioning,
    read_table,
)
from lake_assets.lake.session import LakeSession, TableName


@dataclass(frozen=True)
class State:
    """A state of the catalog's schemas."""

    version: str
    schema_version: int
    snapshot_id: int  # a snapshot with it
    moment: object  # the time of this snapshot, as the catalog's driver returns it


@dataclass(frozen=True)
class Description:
    """Tables in one state of the catalog's schemas."""

    state: State
    tables: Mapping[TableName, Table]
    # The tables of inlined rows of each table, the newest first, by the table's id
    inlined: Mapping[int, Sequence[str]]
    # Of the tables that a commit changes, besides those of this package
    partitionings: Mapping[TableName, Partitioning]
    mappings: dict[int, Mappings]  # of these tables too, by their ids


def describe(session: LakeSession, targets: Sequence[TableName], others: Sequence[TableName] = ()) -> Description:
    """Return the description of tables that was kept, or that of now, which is kept.

    The `targets` are those that a commit changes, and the `others` those of this package. Raises NotDirectError if the
    direct strategy does not support one of them, or the catalog.
    """
    key = (*targets, *others)
    if (known := session.descriptions.get(key)) is not None:
        assert isinstance(known, Description)  # noqa: S101 - nothing else is kept
        return known
    with catalog_reading(session) as database:
        asked = ask_state(database)
        tables = {name: read_table(database, name) for name in key}
        ids = [tables[target].table_id for target in targets]
        partitionings = {target: read_partitioning(database, i) for target, i in zip(targets, ids, strict=True)}
        mappings = {table_id: read_mappings(database, table_id) for table_id in ids}
        inlined = read_tables(ask_tables(database, [table.table_id for table in tables.values()]))
        state, *_ = read_state(asked)
    session.descriptions[key] = description = Description(state, tables, inlined, partitionings, mappings)
    return description


def ask_state(database: CatalogDatabase, earlier: int | None = None) -> Answer:
    """Ask for the newest snapshot, the version of the specification, and the time of an earlier snapshot."""
    return database.ask(
        "SELECT snapshot_id, schema_version, snapshot_time, next_catalog_id, next_file_id, "
        f"(SELECT value FROM {spec.METADATA} WHERE key = 'version' AND scope IS NULL), "
        f"(SELECT snapshot_time FROM {spec.SNAPSHOT} WHERE snapshot_id = ?) "
        f"FROM {spec.SNAPSHOT} WHERE snapshot_id = (SELECT max(snapshot_id) FROM {spec.SNAPSHOT})",
        [earlier],
    )


def read_state(asked: Answer) -> tuple[State, int, int, object]:
    """Return the state, the next ids of the catalog's objects and files, and the time of the earlier snapshot.

    An untested version of the specification is a NotDirectError.
    """
    ((snapshot_id, schema_version, moment, next_catalog_id, next_file_id, version, earlier),) = asked()
    if (reason := spec.unknown(version)) is not None:
        raise NotDirectError(reason)
    return State(version, schema_version, snapshot_id, moment), next_catalog_id, next_file_id, earlier
