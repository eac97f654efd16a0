"""Writes a new snapshot into DuckLake's tables: ended and added data files, inlined rows, statistics."""

import datetime as dt
from collections.abc import Mapping, Sequence

import duckdb

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import FLOATS, Bounds, beyond, bounds_of_files, merged, of_unknown_values
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row, among
from lake_assets.lake.catalog.file_facts import ColumnFacts, FileFacts
from lake_assets.lake.catalog.inlined import inlined_tables
from lake_assets.lake.catalog.table import Partitioning, Table

_COLUMNS_AT_ONCE = 100  # of one statement, which has seven parameters for each
_NONE = Bounds(None, None)


class Transaction:
    """The next snapshot of an open transaction of a catalog. `finish` must be called last, and once."""

    def __init__(self, database: CatalogDatabase, engine: duckdb.DuckDBPyConnection) -> None:
        self.database = database
        self._engine = engine
        self._version = database.version  # another client may have migrated the catalog since the lake was opened
        ((last, self._schema_version, self._next_catalog_id, next_file_id),) = database.rows(
            f"SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM {spec.SNAPSHOT} "
            f"WHERE snapshot_id = (SELECT max(snapshot_id) FROM {spec.SNAPSHOT})"
        )
        self.snapshot_id: int = last + 1
        self._first_file_id: int = next_file_id
        self._next_file_id: int = next_file_id
        self._changes: list[str] = []

    def end_files(self, table: Table, file_ids: Sequence[int]) -> None:
        """Remove these data files from the table's new snapshot."""
        for marks, ids in among(file_ids):
            self.database.execute(
                f"UPDATE {spec.DATA_FILE} SET end_snapshot = ? WHERE data_file_id IN {marks}", [self.snapshot_id, *ids]
            )
        if file_ids:
            self._changes.append(f"deleted_from_table:{table.table_id}")

    def add_files(
        self,
        table: Table,
        partitioning: Partitioning,
        mapping_id: int,
        files: Sequence[tuple[FileFacts, Sequence[str | None]]],
    ) -> None:
        """Add data files to the table. Each has its partition's values, in the order of `partitioning.columns`."""
        if not files:
            return
        first = row_id = self.grow(table, sum(f.rows for f, _ in files), sum(f.size for f, _ in files))
        data_files: list[Row] = []
        values: list[Row] = []
        statistics: list[Row] = []
        facts = [_all_columns(partitioning, partition, file) for file, partition in files]
        for (file, partition), of_file in zip(files, facts, strict=True):
            file_id = self.new_file_id()
            is_relative = file.uri.startswith(table.folder)  # the path of a file outside is the whole URI
            path = file.uri.removeprefix(table.folder)
            data_files.append(
                (
                    file_id, table.table_id, self.snapshot_id, path, is_relative, "parquet", file.rows, file.size,
                    file.footer_size, row_id, partitioning.partition_id, mapping_id,
                )
            )  # fmt: skip
            row_id += file.rows
            values += [(file_id, table.table_id, index, text) for index, text in enumerate(partition)]
            statistics += _statistics_rows(table, file_id, of_file)
        columns: Sequence[str] = _DATA_FILE
        if self._version.counts_row_groups:
            columns = (*_DATA_FILE, _ROW_GROUPS)
            data_files = [(*row, file.row_groups) for row, (file, _) in zip(data_files, files, strict=True)]
        self.database.insert(spec.DATA_FILE, columns, data_files)
        self.database.insert(spec.FILE_PARTITION_VALUE, _PARTITION_VALUE, values)
        self.database.insert(spec.FILE_COLUMN_STATS, _FILE_STATISTICS, statistics)
        self.widen(table, _by_column(facts), is_first=not first)
        self._changes.append(f"inserted_into_table:{table.table_id}")

    def append(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows of texts, integers, times and None to the catalog itself, as DuckLake's inlined data.

        Raises:
            NotDirectError: the table has other columns, or no inlined data.
        """
        if not rows:
            return
        newest = next(iter(inlined_tables(self.database, table.table_id)), None)
        described = [table.top_level(name) for name in columns]
        if newest is None or None in described or len(table.columns) != len(columns):
            raise NotDirectError(f"rows with the columns {', '.join(columns)} do not fit table {table.table_id}")
        first = self.grow(table, len(rows), 0)
        self.database.insert(
            newest,
            (self._version.row_id, self._version.begin_snapshot, *columns),
            [
                (first + number, self.snapshot_id, *(self.database.inlined(value) for value in row))
                for number, row in enumerate(rows)
            ],
        )
        ids = [column.column_id for column in described if column is not None]
        added = {
            column_id: [_one_value(_text(value), 1) for value in set(values)]
            for column_id, values in zip(ids, zip(*rows, strict=True), strict=True)
        }
        self.widen(table, added, is_first=not first)
        self._changes.append(f"inlined_insert:{table.table_id}")

    def finish(
        self, author: str | None, message: str | None, extra: str | None, moment: dt.datetime | None = None
    ) -> None:
        """Write the snapshot itself, with this time or the present.

        The catalog refuses it if another writer has used its number.
        """
        # DuckLake's clients cache statistics under this number, so it must change.
        next_file_id = max(self._next_file_id, self._first_file_id + 1)
        moment = moment or dt.datetime.now(dt.UTC)
        self.database.insert(
            spec.SNAPSHOT,
            ("snapshot_id", "snapshot_time", "schema_version", "next_catalog_id", "next_file_id"),
            [(self.snapshot_id, moment, self._schema_version, self._next_catalog_id, next_file_id)],
        )
        self.database.insert(
            spec.SNAPSHOT_CHANGES,
            ("snapshot_id", "changes_made", "author", "commit_message", "commit_extra_info"),
            [(self.snapshot_id, ",".join(dict.fromkeys(self._changes)), author, message, extra)],
        )

    def renew_files(
        self,
        table: Table,
        partitioning: Partitioning,
        files: Sequence[tuple[int, int, FileFacts, Sequence[str | None]]],
    ) -> None:
        """Replace the facts of data files whose objects changed. Their rows get new row ids.

        `files` has the id of each data file, its mapping, the facts of its object, and its partition's values.
        """
        if not files:
            return
        facts = [_all_columns(partitioning, partition, file) for *_, file, partition in files]
        for (file_id, mapping_id, file, _), columns in zip(files, facts, strict=True):
            row_id = self.grow(table, file.rows, file.size)
            self.database.execute(
                f"UPDATE {spec.DATA_FILE} SET record_count = ?, file_size_bytes = ?, footer_size = ?, "
                "row_id_start = ?, mapping_id = ? WHERE data_file_id = ?",
                [file.rows, file.size, file.footer_size, row_id, mapping_id, file_id],
            )
            if self._version.counts_row_groups:
                self.database.execute(
                    f"UPDATE {spec.DATA_FILE} SET {_ROW_GROUPS} = ? WHERE data_file_id = ?", [file.row_groups, file_id]
                )
            self.database.execute(f"DELETE FROM {spec.FILE_COLUMN_STATS} WHERE data_file_id = ?", [file_id])
            self.database.insert(spec.FILE_COLUMN_STATS, _FILE_STATISTICS, _statistics_rows(table, file_id, columns))
        self.widen(table, _by_column(facts), is_first=False)
        self._changes += [f"deleted_from_table:{table.table_id}", f"inserted_into_table:{table.table_id}"]

    def note(self, change: str, table: Table) -> None:
        """Note a change of a table in the snapshot, in DuckLake's word for it."""
        self._changes.append(f"{change}:{table.table_id}")

    def new_file_id(self) -> int:
        """Return the next number of a file or mapping."""
        self._next_file_id += 1
        return self._next_file_id - 1

    def grow(self, table: Table, rows: int, size: int) -> int:
        """Count new rows; returns the row id of the first. Ended rows stay counted, as the extension counts them."""
        counts = self.database.rows(f"SELECT next_row_id FROM {spec.TABLE_STATS} WHERE table_id = ?", [table.table_id])
        if not counts:
            self.database.insert(
                spec.TABLE_STATS,
                ("table_id", "record_count", "next_row_id", "file_size_bytes"),
                [(table.table_id, rows, rows, size)],
            )
            return 0
        self.database.execute(
            f"UPDATE {spec.TABLE_STATS} SET record_count = record_count + ?, next_row_id = next_row_id + ?, "
            "file_size_bytes = file_size_bytes + ? WHERE table_id = ?",
            [rows, rows, size, table.table_id],
        )
        return int(counts[0][0])

    def widen(self, table: Table, added: Mapping[int, Sequence[ColumnFacts]], *, is_first: bool) -> None:
        """Widen the statistics of the table's columns by new values, so that no query skips them.

        Without a value so far a column has no bounds, as DuckLake writes it; see `_bounds` for unknown ones.

        Args:
            table: the table.
            added: the facts of new files or values, by the columns' ids.
            is_first: whether the table had no rows before.
        """
        before = {
            column_id: (has_null, has_nan, Bounds(least, greatest))
            for column_id, has_null, has_nan, least, greatest in self.database.rows(
                "SELECT column_id, contains_null, contains_nan, min_value, max_value "
                f"FROM {spec.TABLE_COLUMN_STATS} WHERE table_id = ?",
                [table.table_id],
            )
        }
        after = self._bounds(table, added, {column_id: bounds for column_id, (_, _, bounds) in before.items()})
        wider: list[Row] = []
        for column_id, of_column in added.items():
            has_null = _any([column.has_null for column in of_column])
            bounds = after[column_id]
            if column_id in before:
                had_null, had_nan, had_bounds = before[column_id]
                has_null = _any([None if had_null is None else bool(had_null), has_null])
                if has_null != had_null or had_nan is not None or bounds != had_bounds:
                    wider.append((column_id, has_null, bounds.least, bounds.greatest))
            elif is_first:
                # A column that was added to a table with rows has no statistics: the old rows have its default.
                self.database.insert(
                    spec.TABLE_COLUMN_STATS,
                    ("table_id", "column_id", "contains_null", "min_value", "max_value"),
                    [(table.table_id, column_id, has_null, bounds.least, bounds.greatest)],
                )
        for start in range(0, len(wider), _COLUMNS_AT_ONCE):
            self._set_bounds(table, wider[start : start + _COLUMNS_AT_ONCE])

    def _set_bounds(self, table: Table, columns: Sequence[Row]) -> None:
        """Set the statistics of columns of a table: each has an id, whether it has a NULL, and its bounds."""
        ids, *values = zip(*columns, strict=True)
        parameters = [item for of_all in values for pair in zip(ids, of_all, strict=True) for item in pair]

        def by_column(sql: str) -> str:
            return f"CASE column_id {f'WHEN ? THEN CAST(? AS {sql}) ' * len(columns)}END"

        self.database.execute(
            f"UPDATE {spec.TABLE_COLUMN_STATS} SET contains_null = {by_column('BOOLEAN')}, contains_nan = NULL, "
            f"min_value = {by_column('VARCHAR')}, max_value = {by_column('VARCHAR')} "
            f"WHERE table_id = ? AND column_id IN ({', '.join('?' for _ in ids)})",
            [*parameters, table.table_id, *ids],
        )

    def _bounds(
        self, table: Table, added: Mapping[int, Sequence[ColumnFacts]], before: Mapping[int, Bounds]
    ) -> dict[int, Bounds]:
        """Return the bounds of each column's old and new values together."""
        values = [(i, column.bounds) for i, of_column in added.items() for column in of_column]
        values += [(column_id, before[column_id]) for column_id in added if column_id in before]
        # NULL is for "no value yet". Other clients leave it for unknown bounds too.
        first = {i for i, b in values if b != _NONE == before.get(i) and table.columns[i].type not in FLOATS}
        of_files = bounds_of_files(self.database, table.table_id, first)
        values += of_files
        result = merged(self._engine, ((i, table.columns[i].type, bounds) for i, bounds in dict.fromkeys(values)))
        unknown = {column_id for column_id, of_column in added.items() if any(c.has_unknown_bounds for c in of_column)}
        unknown |= {column_id for column_id, bounds in of_files if None in bounds}
        unknown |= {i for i in added if None in (bounds := before.get(i, _NONE)) and bounds != _NONE}
        return result | {column_id: of_unknown_values(table.columns[column_id].type) for column_id in unknown}


def _one_value(text: str | None, rows: int) -> ColumnFacts:
    """Return the facts of a column with the same value in all rows."""
    return ColumnFacts(0, 0 if text is None else rows, rows if text is None else 0, Bounds(text, text))


def _all_columns(
    partitioning: Partitioning, partition: Sequence[str | None], file: FileFacts
) -> dict[int, ColumnFacts]:
    """Return the facts of a file's columns, and of the columns whose value is read from its path."""
    from_path = zip(partitioning.columns, partition, strict=True)
    return {column.column_id: _one_value(text, file.rows) for column, text in from_path} | dict(file.columns)


def _by_column(facts: Sequence[Mapping[int, ColumnFacts]]) -> dict[int, list[ColumnFacts]]:
    """Return the facts of files by the columns' ids."""
    result: dict[int, list[ColumnFacts]] = {}
    for columns in facts:
        for column_id, column in columns.items():
            result.setdefault(column_id, []).append(column)
    return result


def _statistics_rows(table: Table, file_id: int, facts: Mapping[int, ColumnFacts]) -> list[Row]:
    """Return the rows of a file's statistics, in the order of `_FILE_STATISTICS`."""
    rows: list[Row] = []
    for column_id, c in facts.items():
        bounds = beyond(c.bounds) if table.columns[column_id].type == "float32" else c.bounds
        rows.append((file_id, table.table_id, column_id, c.size, c.values, c.nulls, bounds.least, bounds.greatest))
    return rows


def _any(known: Sequence[bool | None]) -> bool | None:
    """Return whether one is true; None if that is unknown."""
    return True if any(known) else None if None in known else False


def _text(value: object) -> str | None:
    """Return the value as a text that DuckDB reads as the same value."""
    if value is None:
        return None
    return value.astimezone(dt.UTC).isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


_DATA_FILE = (
    "data_file_id", "table_id", "begin_snapshot", "path", "path_is_relative", "file_format", "record_count",
    "file_size_bytes", "footer_size", "row_id_start", "partition_id", "mapping_id",
)  # fmt: skip
_ROW_GROUPS = "row_group_count"
_PARTITION_VALUE = ("data_file_id", "table_id", "partition_key_index", "partition_value")
_FILE_STATISTICS = (
    "data_file_id", "table_id", "column_id", "column_size_bytes", "value_count", "null_count", "min_value", "max_value",
)  # fmt: skip
