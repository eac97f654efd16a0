"""What the catalog knows already of files that are to be registered, and of the partitions that they go to.

DuckLake deletes the file of a path that has ended once no snapshot needs it, whoever registered the path again
meanwhile. So a path is registered once, in one table, and never again.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import Row

PathState = Literal["live", "ended", "elsewhere"]
"""Of a path that the catalog has: in this table now, in no table any more, in another table."""

Query = Callable[[str, Sequence[object]], list[Row]]
"""Runs a query over the catalog's tables."""

_AT_ONCE = 1000  # paths in one statement


def registered_before(query: Query, table_id: int, folder: str, uris: Sequence[str]) -> dict[str, PathState]:
    """Those of the files that the catalog has, and how it has them.

    Args:
        query: runs the statements.
        table_id: the table that the files are for.
        folder: URI of its folder, ending in a slash; paths of files in there are relative to it.
        uris: the files.
    """
    found: dict[str, PathState] = {}
    names = {uri: uri for uri in uris} | {u.removeprefix(folder): u for u in uris if u.startswith(folder)}
    for some in _chunks(list(names)):
        marks = ", ".join("?" for _ in some)
        for path, owner, end, is_relative in query(
            f"SELECT path, table_id, end_snapshot, path_is_relative FROM {spec.DATA_FILE} WHERE path IN ({marks})",
            some,
        ):
            if is_relative and owner != table_id:
                continue  # another table's file of the same name
            state: PathState = "ended" if end is not None else "live" if owner == table_id else "elsewhere"
            if found.get(names[path], "ended") == "ended":
                found[names[path]] = state
        for (path,) in query(
            f"SELECT path FROM {spec.FILES_SCHEDULED_FOR_DELETION} WHERE path IN ({marks})",
            some,
        ):
            found.setdefault(names[path], "ended")
    return found


def live_file_ids(query: Query, table_id: int, folder: str, uris: Sequence[str]) -> dict[str, int]:
    """The ids of those of the files that are the table's now."""
    found: dict[str, int] = {}
    names = {uri.removeprefix(folder): uri for uri in uris}
    for some in _chunks(list(names)):
        marks = ", ".join("?" for _ in some)
        for file_id, path in query(
            f"SELECT data_file_id, path FROM {spec.DATA_FILE} "
            f"WHERE table_id = ? AND end_snapshot IS NULL AND path IN ({marks})",
            [table_id, *some],
        ):
            found[names[path]] = file_id
    return found


def partition_rows(query: Query, table_id: int, keys: int) -> dict[tuple[str | None, ...], int]:
    """How many rows each partition's files have, without those that were deleted from them.

    Args:
        query: runs the statement.
        table_id: whose.
        keys: by how many columns the table is partitioned.
    """
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


def _chunks(values: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(values)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
