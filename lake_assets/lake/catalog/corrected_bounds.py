"""Corrects the bounds that DuckLake's extension has written with a commit."""

from collections.abc import Collection, Mapping
from contextlib import suppress

from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import FLOATS, Bounds, bounds_of_files, merged, of_unknown_values
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_view
from lake_assets.lake.catalog.footers import file_facts, open_footers
from lake_assets.lake.catalog.table import Table, read_folder, read_table
from lake_assets.lake.session import LakeSession, TableName

_NONE = Bounds(None, None)


def table_bounds(session: LakeSession, name: TableName) -> dict[int, Bounds]:
    """The bounds of a whole table's columns, by the columns' ids; the table exists.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    with catalog_view(session) as catalog:
        return _table_bounds(catalog, read_folder(catalog, name)[0])


def correct_bounds(
    session: LakeSession, name: TableName, snapshot_id: int | None, before: Mapping[int, Bounds]
) -> None:
    """Correct the bounds of a snapshot's new files, and the whole table's.

    The extension takes the bounds of a file for unknown if one of its row groups has only NULLs, and then the table's.
    They are taken from the footer, or from the data if that has none. Bounds of single-precision columns are moved
    outward; see `bounds.beyond`.

    Args:
        session: an open lake.
        name: of the table.
        snapshot_id: of the commit.
        before: the table's bounds before it.

    Raises:
        CatalogError: the catalog refuses, or a file cannot be read.
    """
    with catalog_view(session) as catalog:
        table_id, folder, is_relative = read_folder(catalog, name)
        folder = (data_path(session.config) if is_relative else "") + folder
        unknown = catalog.rows(
            "SELECT data_file_id, CASE WHEN path_is_relative::BOOLEAN THEN ? || path ELSE path END, column_id, "
            "encryption_key IS NULL "
            f"FROM {spec.FILE_COLUMN_STATS} s JOIN {spec.DATA_FILE} f USING (data_file_id) "
            "WHERE s.table_id = ? AND f.begin_snapshot = ? "
            "AND (min_value IS NULL OR max_value IS NULL) AND value_count IS DISTINCT FROM 0",
            [folder, table_id, snapshot_id],
        )
        # NULL is for "no value yet", and other clients leave it for unknown bounds too.
        is_first = {i for i, bounds in _table_bounds(catalog, table_id).items() if bounds != before.get(i) == _NONE}
        if column_ids := is_first | {column_id for _, _, column_id, _ in unknown}:
            with suppress(NotDirectError):  # a type that is not supported
                table = read_table(catalog, name)
                # DuckLake itself writes encrypted files, with bounds, and nobody else reads their footers.
                plain = [(*file, column_id) for *file, column_id, is_plain in unknown if is_plain]
                of_floats = {column.column_id for column in table.leaves.values() if column.type in FLOATS}
                if unread := [row for row in plain if row[-1] not in of_floats]:
                    _read_files(session, table, unread)
                _set_table_bounds(session, table, column_ids, before)
    _widen_floats(session, table_id, snapshot_id)


def _read_files(session: LakeSession, table: Table, unknown: list[tuple[int, str, int]]) -> None:
    """Set the bounds of these columns of files, each with the file's id and URI."""
    by_file: dict[tuple[int, str], set[int]] = {}
    for file_id, uri, column_id in unknown:
        by_file.setdefault((file_id, uri), set()).add(column_id)
    footers = open_footers(session.engine, [uri for _, uri in by_file])
    for ((file_id, _), column_ids), footer in zip(by_file.items(), footers, strict=True):
        leaves = {
            path: column
            for path, column in table.leaves.items()
            if column.column_id in column_ids and path in footer.chunks
        }
        (facts,) = file_facts(session.engine, [footer], leaves, table.columns)
        for column_id, column in facts.columns.items():
            session.rows(
                f"UPDATE {session.metadata}.{spec.FILE_COLUMN_STATS} SET min_value = ?, max_value = ?, "
                "value_count = ?, null_count = ? WHERE data_file_id = ? AND column_id = ?",
                [*column.bounds, column.values, column.nulls, file_id, column_id],
            )


def _set_table_bounds(
    session: LakeSession, table: Table, column_ids: Collection[int], before: Mapping[int, Bounds]
) -> None:
    """Set the bounds of columns of the whole table: those of all files, and of rows that are in no file."""
    types = {c.column_id: c.type for c in table.leaves.values() if c.column_id in column_ids and c.type not in FLOATS}
    with catalog_view(session) as catalog:
        now = _table_bounds(catalog, table.table_id)  # another client may have committed already
        of_files = bounds_of_files(catalog, table.table_id, types)
    known = [*of_files, *((i, state[i]) for state in (before, now) for i in types if i in state)]
    bounds = merged(session.engine, ((i, types[i], of_column) for i, of_column in known))
    for column_id, column_type in types.items():
        is_unknown = any(i == column_id and None in of_column for i, of_column in of_files)
        session.rows(
            f"UPDATE {session.metadata}.{spec.TABLE_COLUMN_STATS} SET min_value = ?, max_value = ? "
            "WHERE table_id = ? AND column_id = ?",
            [*(of_unknown_values(column_type) if is_unknown else bounds[column_id]), table.table_id, column_id],
        )


def _table_bounds(catalog: CatalogDatabase, table_id: int) -> dict[int, Bounds]:
    rows = catalog.rows(
        f"SELECT column_id, min_value, max_value FROM {spec.TABLE_COLUMN_STATS} WHERE table_id = ?", [table_id]
    )
    return {column_id: Bounds(*bounds) for column_id, *bounds in rows}


def _widen_floats(session: LakeSession, table_id: int, snapshot_id: int | None) -> None:
    catalog = session.metadata
    ids = session.rows(
        f"SELECT column_id FROM {catalog}.{spec.COLUMN} "
        "WHERE table_id = ? AND column_type = 'float32' AND end_snapshot IS NULL",
        [table_id],
    )
    if not ids:
        return
    session.rows(
        f"UPDATE {catalog}.{spec.FILE_COLUMN_STATS} SET "
        "min_value = nextafter(TRY_CAST(min_value AS FLOAT), '-infinity'::FLOAT)::VARCHAR, "
        "max_value = nextafter(TRY_CAST(max_value AS FLOAT), 'infinity'::FLOAT)::VARCHAR "
        "WHERE table_id = ? AND column_id IN (SELECT unnest(?)) AND data_file_id IN "
        f"(SELECT data_file_id FROM {catalog}.{spec.DATA_FILE} WHERE table_id = ? AND begin_snapshot = ?)",
        [table_id, [column_id for (column_id,) in ids], table_id, snapshot_id],
    )
