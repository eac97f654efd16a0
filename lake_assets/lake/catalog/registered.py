"""Queries of the catalog about files to be registered.

DuckLake deletes the file of an ended path once no snapshot needs it, even if the path was registered again. So a path
is registered only once, in one table.
"""

from collections.abc import Sequence
from typing import Literal

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.catalog.table import Table

PathState = Literal["live", "ended", "elsewhere"]
"""The state of a registered path: live in this table, ended in all tables, or live in another table."""


def registered_before(
    database: CatalogDatabase, table_id: int, folder: str, uris: Sequence[str]
) -> dict[str, PathState]:
    """Return the states of those of the files that the catalog has.

    `folder` is the URI of the table's folder, ending in a slash; the paths of files in it are relative.
    """
    states: dict[str, PathState] = {}
    names = {uri: uri for uri in uris} | {u.removeprefix(folder): u for u in uris if u.startswith(folder)}
    for path, owner, end, is_relative in database.rows_among(
        f"SELECT path, table_id, end_snapshot, path_is_relative FROM {spec.DATA_FILE} WHERE path IN", list(names)
    ):
        if is_relative and owner != table_id:
            continue  # another table's file of the same name
        state: PathState = "ended" if end is not None else "live" if owner == table_id else "elsewhere"
        if states.get(names[path], "ended") == "ended":
            states[names[path]] = state
    scheduled = f"SELECT path FROM {spec.FILES_SCHEDULED_FOR_DELETION} WHERE path IN"
    for (path,) in database.rows_among(scheduled, list(names)):
        states.setdefault(names[path], "ended")
    return states


def live_file_ids(database: CatalogDatabase, table: Table, uris: Sequence[str]) -> dict[str, int]:
    """Return the ids of those of the files that are live in the table."""
    names = {uri.removeprefix(table.folder): uri for uri in uris}
    live = f"SELECT path, data_file_id, table_id FROM {spec.DATA_FILE} WHERE end_snapshot IS NULL AND path IN"
    found = database.rows_among(live, list(names))
    return {names[path]: file_id for path, file_id, owner in found if owner == table.table_id}
