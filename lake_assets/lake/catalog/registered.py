"""Queries of the catalog about files to be registered, and about their partitions.

DuckLake deletes the file of an ended path once no snapshot needs it, even if the path was registered again. So a path
is registered only once, in one table.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import Row

PathState = Literal["live", "ended", "elsewhere"]
"""The state of a registered path: live in this table, ended in all tables, or live in another table."""

Query = Callable[[str, Sequence[object]], list[Row]]
"""Runs a query over the catalog's tables."""

_AT_ONCE = 1000  # paths in one statement


def registered_before(query: Query, table_id: int, folder: str, uris: Sequence[str]) -> dict[str, PathState]:
    """The states of those of the files that the catalog has.

    `folder` is the URI of the table's folder, ending in a slash; the paths of files in it are relative.
    """
    states: dict[str, PathState] = {}
    names = {uri: uri for uri in uris} | {u.removeprefix(folder): u for u in uris if u.startswith(folder)}
    for paths in _chunks(list(names)):
        marks = ", ".join("?" for _ in paths)
        for path, owner, end, is_relative in query(
            f"SELECT path, table_id, end_snapshot, path_is_relative FROM {spec.DATA_FILE} WHERE path IN ({marks})",
            paths,
        ):
            if is_relative and owner != table_id:
                continue  # another table's file of the same name
            state: PathState = "ended" if end is not None else "live" if owner == table_id else "elsewhere"
            if states.get(names[path], "ended") == "ended":
                states[names[path]] = state
        for (path,) in query(
            f"SELECT path FROM {spec.FILES_SCHEDULED_FOR_DELETION} WHERE path IN ({marks})",
            paths,
        ):
            states.setdefault(names[path], "ended")
    return states


def live_file_ids(query: Query, table_id: int, folder: str, uris: Sequence[str]) -> dict[str, int]:
    """The ids of those of the files that are live in the table."""
    ids: dict[str, int] = {}
    names = {uri.removeprefix(folder): uri for uri in uris}
    for paths in _chunks(list(names)):
        marks = ", ".join("?" for _ in paths)
        for file_id, path in query(
            f"SELECT data_file_id, path FROM {spec.DATA_FILE} "
            f"WHERE table_id = ? AND end_snapshot IS NULL AND path IN ({marks})",
            [table_id, *paths],
        ):
            ids[names[path]] = file_id
    return ids


def partition_rows(query: Query, table_id: int, keys: int) -> dict[tuple[str | None, ...], int]:
    """The number of rows of each partition's files, without deleted rows; the table has `keys` partition columns."""
    values = ", ".join(f"p{key}.partition_value" for key in range(keys))
    joins = " ".join(
        f"JOIN {spec.FILE_PARTITION_VALUE} p{key} "
        f"ON p{key}.data_file_id = f.data_file_id AND p{key}.partition_key_index = {key}"
        for key in range(keys)
    )
    rows = query(
        f"SELECT {values}, sum(f.record_count - coalesce(d.delete_count, 0)) "
        f"FROM {spec.DATA_FILE} f {joins} LEFT JOIN {spec.DELETE_FILE} d "
        "ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL "
        f"WHERE f.table_id = ? AND f.end_snapshot IS NULL GROUP BY {values}",
        [table_id],
    )
    return {tuple(texts): int(count) for *texts, count in rows}


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))
