"""Corrects the bounds that DuckLake's extension has written with a commit, and those that earlier versions wrote."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from lake_assets.base.retrying import Limit, pause_up_to, retry
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import (
    FLOATS,
    MAY_BE_UNKNOWN,
    Bounds,
    bounds_of_files,
    duckdb_type,
    merged,
    of_unknown_values,
)
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.file_facts import file_facts, open_footers
from lake_assets.lake.catalog.table import Table, read_folder, read_table
from lake_assets.lake.failures import is_conflict, translated
from lake_assets.lake.session import LakeSession, TableName

_NONE = Bounds(None, None)


def table_bounds(session: LakeSession, name: TableName) -> dict[int, Bounds]:
    """Return the bounds of a whole table's columns, by the columns' ids; the table exists."""
    with session.read(by_duckdb=True) as catalog:
        return _table_bounds(catalog, read_folder(catalog, name)[0])


def correct_bounds(
    session: LakeSession, name: TableName, snapshot_id: int | None, before: Mapping[int, Bounds]
) -> None:
    """Correct the bounds of a snapshot's new files, and the whole table's.

    The extension takes the bounds of a file for unknown if one of its row groups has only NULLs, and then the table's.
    Of several row groups it compares times and bytes as texts, by which year 10000 is before 2026, and any BC after it;
    and it believes those of unsigned numbers that their writer has compared as signed ones.
    Both are taken from the footer, or from the data if that has none. Bounds of single-precision columns are moved
    outward, see `bounds.beyond`; columns with NaN have none.
    """
    with session.read(by_duckdb=True) as catalog:
        table_id = read_folder(catalog, name)[0]
        doubted = catalog.rows(
            f"SELECT column_id FROM {spec.COLUMN} WHERE table_id = ? AND end_snapshot IS NULL "
            "AND (column_type LIKE 'timestamp%' OR column_type LIKE 'uint%' OR column_type IN ('date', 'blob')) "
            f"AND column_id NOT IN (SELECT column_id FROM {spec.PARTITION_COLUMN} WHERE table_id = ?)",
            [table_id, table_id],
        )
        # DuckLake itself has written encrypted files; a partition column has one value.
        is_merged = "encryption_key IS NULL AND column_id IN (SELECT unnest(?))"
        condition = f"f.begin_snapshot = ? AND ({_UNKNOWN} OR {is_merged})"
        examined = _examined(catalog, name, condition, [snapshot_id, [column_id for (column_id,) in doubted]])
        now, with_bounds = _table_bounds(catalog, table_id), _with_bounds(catalog, table_id, snapshot_id)
        # NULL is for "no value yet"; other clients leave it for unknown bounds too, and the extension for those of a
        # file that has only NULLs.
        is_first = {i for i, bounds in now.items() if bounds != before.get(i) == _NONE}
        with_bounds |= {i for i, bounds in before.items() if None not in bounds}
        is_lost = {i for i in with_bounds if None in now.get(i, ())}
        if column_ids := is_first | is_lost | {column_id for _, _, column_id, _ in examined}:
            with suppress(NotDirectError):  # a type that is not supported
                table = read_table(catalog, name)
                _read_files(session, table, examined)
                # Another client may commit between the extension's COMMIT and this.
                retry(
                    lambda: _set_table_bounds(session, table, column_ids, before),
                    transient=is_conflict,
                    limit=Limit(retries=session.config.commit_retries),
                    pause=pause_up_to(0.05, 2),
                )
    _correct_floats(session, table_id, snapshot_id)


def wrong_bounds(session: LakeSession, name: TableName) -> dict[int, str]:
    """Return the columns whose bounds in the catalog make `min`, `max` or conditions answer wrong, by their ids.

    Earlier versions kept the widest bounds of a type for unknown ones, and a commit may have been killed between
    DuckLake's COMMIT and `correct_bounds`. Only columns that every file has statistics of are examined, and no texts
    and floating-point numbers: DuckDB answers nothing from their bounds in a table.
    """
    with session.read(by_duckdb=True) as catalog:
        try:
            table = read_table(catalog, name)
        except NotDirectError:  # a type that is not supported
            return {}
        names = {c.column_id: path for path, c in table.leaves.items() if c.type not in MAY_BE_UNKNOWN}
        is_whole = _is_in_files(catalog, table.table_id)
        wrong: list[int] = []
        for sql_type in {duckdb_type(table.columns[column_id].type) for column_id in names}:
            ids = [i for i in names if duckdb_type(table.columns[i].type) == sql_type]
            differ = "least IS DISTINCT FROM low OR greatest IS DISTINCT FROM high"
            outside = "coalesce(least < low OR greatest > high, least IS NOT NULL)"
            rows = catalog.rows(
                "SELECT column_id FROM (SELECT column_id, count(*) AS files, "
                f"bool_or(encryption_key IS NULL AND {_UNKNOWN}) AS is_unknown, "
                f"min(TRY_CAST(min_value AS {sql_type})) AS least, max(TRY_CAST(max_value AS {sql_type})) AS greatest "
                f"FROM {spec.FILE_COLUMN_STATS} s JOIN {spec.DATA_FILE} f USING (data_file_id) "
                "WHERE s.table_id = ? AND column_id IN (SELECT unnest(?)) GROUP BY column_id) "
                f"JOIN (SELECT column_id, TRY_CAST(min_value AS {sql_type}) AS low, "
                f"TRY_CAST(max_value AS {sql_type}) AS high FROM {spec.TABLE_COLUMN_STATS} WHERE table_id = ?) "
                f"USING (column_id) WHERE (is_unknown OR {differ if is_whole else outside}) "
                f"AND files = (SELECT count(*) FROM {spec.DATA_FILE} WHERE table_id = ?)",
                [table.table_id, ids, table.table_id, table.table_id],
            )
            wrong += [column_id for (column_id,) in rows]
    return {column_id: names[column_id] for column_id in sorted(wrong)}


def repair_bounds(session: LakeSession, name: TableName) -> dict[int, str]:
    """Correct the `wrong_bounds`, and return these columns; bounds that no footer has are read from the data, once."""
    if wrong := wrong_bounds(session, name):
        with session.read(by_duckdb=True) as catalog:
            table = read_table(catalog, name)
            condition = f"column_id IN (SELECT unnest(?)) AND {_UNKNOWN}"
            examined = _examined(catalog, name, condition, [list(wrong)])
        with translated(session.config):
            _read_files(session, table, examined)
        _set_table_bounds(session, table, wrong, None)
    return wrong


# Some writers compare unsigned numbers as signed ones, or cut texts within a character, whose bytes are then shown as
# \\xF0. The extension believes their footers.
_UNKNOWN = (
    "value_count IS DISTINCT FROM 0 AND (min_value IS NULL OR max_value IS NULL OR CASE "
    f"(SELECT column_type FROM {spec.COLUMN} c WHERE c.table_id = s.table_id AND c.column_id = s.column_id "
    "AND c.end_snapshot IS NULL) WHEN 'blob' THEN false WHEN 'varchar' THEN contains(min_value || max_value, '\\x') "
    "ELSE coalesce(TRY_CAST(min_value AS DOUBLE) > TRY_CAST(max_value AS DOUBLE), false) END)"
)


_Examined = tuple[int, str, int, bool]


def _examined(
    catalog: CatalogDatabase, name: TableName, condition: str, parameters: Sequence[object]
) -> list[_Examined]:
    """Return columns of files by a condition: the file's id and URI, the column's id, whether the file is plain."""
    table_id, folder = read_folder(catalog, name)
    rows = catalog.rows(
        "SELECT data_file_id, CASE WHEN path_is_relative::BOOLEAN THEN ? || path ELSE path END, column_id, "
        f"encryption_key IS NULL FROM {spec.FILE_COLUMN_STATS} s JOIN {spec.DATA_FILE} f USING (data_file_id) "
        f"WHERE s.table_id = ? AND {condition}",
        [folder, table_id, *parameters],
    )
    return [(file_id, uri, column_id, is_plain) for file_id, uri, column_id, is_plain in rows]


def _with_bounds(catalog: CatalogDatabase, table_id: int, snapshot_id: int | None) -> set[int]:
    """Return the columns of which a new file of the snapshot has bounds."""
    rows = catalog.rows(
        f"SELECT DISTINCT column_id FROM {spec.FILE_COLUMN_STATS} s JOIN {spec.DATA_FILE} f USING (data_file_id) "
        "WHERE s.table_id = ? AND f.begin_snapshot = ? AND min_value IS NOT NULL AND max_value IS NOT NULL",
        [table_id, snapshot_id],
    )
    return {column_id for (column_id,) in rows}


def _read_files(session: LakeSession, table: Table, examined: Sequence[_Examined]) -> None:
    """Set the bounds of these columns of plain files, but not of floating-point columns.

    DuckLake itself writes encrypted files, with bounds, and nobody else reads their footers.
    """
    of_floats = {column.column_id for column in table.leaves.values() if column.type in FLOATS}
    by_file: dict[tuple[int, str], set[int]] = {}
    for file_id, uri, column_id, is_plain in examined:
        if is_plain and column_id not in of_floats:
            by_file.setdefault((file_id, uri), set()).add(column_id)
    if not by_file:
        return
    footers = open_footers(session.engine, [uri for _, uri in by_file])
    for ((file_id, _), column_ids), footer in zip(by_file.items(), footers, strict=True):
        leaves = {
            path: column
            for path, column in table.leaves.items()
            if column.column_id in column_ids and path in footer.chunks
        }
        (facts,) = file_facts(lambda: session.engine, [footer], leaves, table.columns)
        for column_id, column in facts.columns.items():
            session.rows(
                f"UPDATE {session.metadata}.{spec.FILE_COLUMN_STATS} SET min_value = ?, max_value = ?, "
                "value_count = ?, null_count = ? WHERE data_file_id = ? AND column_id = ?",
                [*column.bounds, column.values, column.nulls, file_id, column_id],
            )


def _set_table_bounds(
    session: LakeSession, table: Table, column_ids: Collection[int], before: Mapping[int, Bounds] | None
) -> None:
    """Set the bounds of columns of the whole table: those of all files, and of rows that are in no file.

    For the latter, the present bounds count too, and those `before`. If that is None, they count only if the catalog
    shows that there may be such rows.
    """
    types = {c.column_id: c.type for c in table.leaves.values() if c.column_id in column_ids and c.type not in FLOATS}
    with session.write() as catalog:
        states = [] if before is None and _is_in_files(catalog, table.table_id) else [before or {}]
        states += [_table_bounds(catalog, table.table_id) for _ in states]
        of_files = bounds_of_files(catalog, table.table_id, types)
        known = [*of_files, *((i, state[i]) for state in states for i in types if i in state)]
        bounds = dict.fromkeys(types, _NONE) | merged((i, types[i], b) for i, b in known)
        for column_id, column_type in types.items():
            is_unknown = any(i == column_id and None in of_column for i, of_column in of_files)
            catalog.execute(
                f"UPDATE {spec.TABLE_COLUMN_STATS} SET min_value = ?, max_value = ? "
                "WHERE table_id = ? AND column_id = ?",
                [*(of_unknown_values(column_type) if is_unknown else bounds[column_id]), table.table_id, column_id],
            )


def _is_in_files(catalog: CatalogDatabase, table_id: int) -> bool:
    """Return whether all rows that the table has ever had are in its present files; DuckDB answers `min` only then."""
    ((ever, now),) = catalog.rows(
        f"SELECT (SELECT record_count FROM {spec.TABLE_STATS} WHERE table_id = ?), "
        f"(SELECT sum(record_count) FROM {spec.DATA_FILE} WHERE table_id = ? AND end_snapshot IS NULL)",
        [table_id, table_id],
    )
    return bool(ever == now)


def _table_bounds(catalog: CatalogDatabase, table_id: int) -> dict[int, Bounds]:
    rows = catalog.rows(
        f"SELECT column_id, min_value, max_value FROM {spec.TABLE_COLUMN_STATS} WHERE table_id = ?", [table_id]
    )
    return {column_id: Bounds(*bounds) for column_id, *bounds in rows}


def _correct_floats(session: LakeSession, table_id: int, snapshot_id: int | None) -> None:
    """Move the bounds of single-precision columns outward, and remove those of columns with NaN.

    DuckDB must not answer `min` and `max` from the table's bounds: a column that became DOUBLE keeps texts of FLOAT.
    """
    catalog = session.metadata
    types = dict(
        session.rows(
            f"SELECT column_id, column_type FROM {catalog}.{spec.COLUMN} "
            "WHERE table_id = ? AND column_type IN (SELECT unnest(?)) AND end_snapshot IS NULL",
            [table_id, sorted(FLOATS)],
        )
    )
    if not types:
        return
    single = [column_id for column_id, column_type in types.items() if column_type == "float32"]
    # The bounds leave NaN out. DuckLake 1.5.5 heeds `contains_nan`, but not for `<>` in a file of one other number.
    bound = (
        "CASE WHEN contains_nan::BOOLEAN THEN NULL WHEN column_id IN (SELECT unnest(?)) "
        "THEN nextafter(TRY_CAST({0} AS FLOAT), '{1}'::FLOAT)::VARCHAR ELSE {0} END"
    )
    session.rows(
        f"UPDATE {catalog}.{spec.FILE_COLUMN_STATS} SET "
        f"min_value = {bound.format('min_value', '-infinity')}, max_value = {bound.format('max_value', 'infinity')} "
        "WHERE table_id = ? AND column_id IN (SELECT unnest(?)) AND data_file_id IN "
        f"(SELECT data_file_id FROM {catalog}.{spec.DATA_FILE} WHERE table_id = ? AND begin_snapshot = ?)",
        [single, single, table_id, list(types), table_id, snapshot_id],
    )
    session.rows(
        f"UPDATE {catalog}.{spec.TABLE_COLUMN_STATS} SET contains_nan = NULL "
        "WHERE table_id = ? AND column_id IN (SELECT unnest(?)) AND contains_nan IS NOT NULL",
        [table_id, list(types)],
    )
