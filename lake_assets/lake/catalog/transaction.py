"""A commit as DuckLake's tables hold it: a new snapshot, what ended and what began with it."""

import datetime as dt
from collections.abc import Mapping, Sequence

import duckdb

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import Bounds, beyond, duckdb_type, merged
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.footers import Addition, ColumnFacts, FileFacts
from lake_assets.lake.catalog.table import Partitioning, Table


class Transaction:
    """The next snapshot, while it is made. `finish` must be called last, and once."""

    def __init__(self, database: CatalogDatabase, engine: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._engine = engine
        # Another client may have migrated the catalog since the lake was opened.
        found = database.rows(spec.VERSION_QUERY)
        if (why := spec.unknown(found[0][0] if found else None)) is not None:
            raise NotDirectError(why)
        ((last, self._schema_version, self._next_catalog_id, next_file_id),) = database.rows(
            f"SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM {spec.SNAPSHOT} "
            f"WHERE snapshot_id = (SELECT max(snapshot_id) FROM {spec.SNAPSHOT})"
        )
        self.snapshot_id: int = last + 1
        self._first_file_id: int = next_file_id
        self._next_file_id: int = next_file_id
        self._changes: list[str] = []

    def end_files(self, table: Table, file_ids: Sequence[int]) -> None:
        """Let these data files be part of the table no more."""
        for file_id in file_ids:
            self._database.execute(
                f"UPDATE {spec.DATA_FILE} SET end_snapshot = ? WHERE data_file_id = ?", [self.snapshot_id, file_id]
            )
        if file_ids:
            self._changes.append(f"deleted_from_table:{table.table_id}")

    def add_files(
        self,
        table: Table,
        partitioning: Partitioning,
        mapping_id: int,
        folder: str,
        files: Sequence[tuple[FileFacts, Sequence[str | None]]],
    ) -> None:
        """Let these data files be part of the table.

        Args:
            table: whose.
            partitioning: how its files are separated.
            mapping_id: how the files' columns map to the table's.
            folder: URI of the table's folder, ending in a slash; files outside it are named by their whole URI.
            files: each with its partition's values, in the order of `partitioning.columns`.
        """
        if not files:
            return
        first = row_id = self.grow(table, sum(f.rows for f, _ in files), sum(f.size for f, _ in files))
        data_files: list[Row] = []
        values: list[Row] = []
        statistics: list[Row] = []
        additions: dict[int, list[Addition]] = {}
        for file, partition in files:
            file_id = self.new_file_id()
            facts = path_columns(partitioning, partition, file.rows) | dict(file.columns)
            is_relative = file.uri.startswith(folder)
            path = file.uri.removeprefix(folder)
            data_files.append(
                (
                    file_id, table.table_id, self.snapshot_id, path, is_relative, "parquet", file.rows, file.size,
                    file.footer_size, row_id, partitioning.partition_id, mapping_id,
                )
            )  # fmt: skip
            row_id += file.rows
            values += [(file_id, table.table_id, index, text) for index, text in enumerate(partition)]
            statistics += statistics_rows(table, file_id, facts)
            for column_id, column in facts.items():
                additions.setdefault(column_id, []).append(column.addition)
        self._database.insert(spec.DATA_FILE, _DATA_FILE, data_files)
        self._database.insert(spec.FILE_PARTITION_VALUE, _PARTITION_VALUE, values)
        self._database.insert(spec.FILE_COLUMN_STATS, FILE_STATISTICS, statistics)
        self.widen(table, additions, is_first=not first)
        self._changes.append(f"inserted_into_table:{table.table_id}")

    def append(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows that the catalog itself holds: DuckLake's inlined data.

        Args:
            table: whose.
            columns: names of the columns of the rows; all that the table has, in any order.
            rows: of texts, integers, times and None.

        Raises:
            NotDirectError: the table has other columns, or the catalog holds no rows of it.
        """
        if not rows:
            return
        homes = self._database.rows(
            f"SELECT table_name FROM {spec.INLINED_DATA_TABLES} WHERE table_id = ? "
            "ORDER BY schema_version DESC LIMIT 1",
            [table.table_id],
        )
        described = [table.top_level(name) for name in columns]
        if not homes or None in described or len(table.columns) != len(columns):
            raise NotDirectError(f"rows with the columns {', '.join(columns)} do not fit table {table.table_id}")
        first = self.grow(table, len(rows), 0)
        self._database.insert(
            homes[0][0],
            ("row_id", "begin_snapshot", *columns),
            [
                (first + number, self.snapshot_id, *(self._database.inlined(value) for value in row))
                for number, row in enumerate(rows)
            ],
        )
        additions = {
            column.column_id: [Addition(value is None, False, Bounds(_text(value), _text(value))) for value in values]
            for column, values in zip(described, zip(*rows, strict=True), strict=True)
            if column is not None
        }
        self.widen(table, additions, is_first=not first)
        self._changes.append(f"inlined_insert:{table.table_id}")

    def finish(self, author: str, message: str, extra: str) -> None:
        """Write the snapshot itself. If another writer has taken its number, the catalog refuses."""
        # DuckLake's clients keep the statistics that they have read under this number, so it must move.
        next_file_id = max(self._next_file_id, self._first_file_id + 1)
        self._database.insert(
            spec.SNAPSHOT,
            ("snapshot_id", "snapshot_time", "schema_version", "next_catalog_id", "next_file_id"),
            [(self.snapshot_id, dt.datetime.now(dt.UTC), self._schema_version, self._next_catalog_id, next_file_id)],
        )
        self._database.insert(
            spec.SNAPSHOT_CHANGES,
            ("snapshot_id", "changes_made", "author", "commit_message", "commit_extra_info"),
            [(self.snapshot_id, ",".join(dict.fromkeys(self._changes)), author, message, extra)],
        )

    def note_change(self, change: str) -> None:
        """Let the snapshot say what it did, in DuckLake's words; other writers look for conflicts there."""
        self._changes.append(change)

    def renew_file(
        self,
        table: Table,
        file_id: int,
        facts: FileFacts,
        row_id: int,
        mapping_id: int,
        columns: Mapping[int, ColumnFacts],
    ) -> None:
        """Replace what is known of a data file whose object changed.

        Args:
            table: whose.
            file_id: of the data file.
            facts: from the object's footer.
            row_id: of its first row.
            mapping_id: how its columns map to the table's.
            columns: statistics by the columns' ids.
        """
        self._database.execute(
            f"UPDATE {spec.DATA_FILE} SET record_count = ?, file_size_bytes = ?, footer_size = ?, row_id_start = ?, "
            "mapping_id = ? WHERE data_file_id = ?",
            [facts.rows, facts.size, facts.footer_size, row_id, mapping_id, file_id],
        )
        self._database.execute(f"DELETE FROM {spec.FILE_COLUMN_STATS} WHERE data_file_id = ?", [file_id])
        self._database.insert(spec.FILE_COLUMN_STATS, FILE_STATISTICS, statistics_rows(table, file_id, columns))

    def new_file_id(self) -> int:
        """The next number of a file or mapping."""
        self._next_file_id += 1
        return self._next_file_id - 1

    def grow(self, table: Table, rows: int, size: int) -> int:
        """Count new rows; returns the row id of the first. Rows that ended stay counted, as the extension does it."""
        found = self._database.rows(f"SELECT next_row_id FROM {spec.TABLE_STATS} WHERE table_id = ?", [table.table_id])
        if not found:
            self._database.insert(
                spec.TABLE_STATS,
                ("table_id", "record_count", "next_row_id", "file_size_bytes"),
                [(table.table_id, rows, rows, size)],
            )
            return 0
        self._database.execute(
            f"UPDATE {spec.TABLE_STATS} SET record_count = record_count + ?, next_row_id = next_row_id + ?, "
            "file_size_bytes = file_size_bytes + ? WHERE table_id = ?",
            [rows, rows, size, table.table_id],
        )
        return int(found[0][0])

    def widen(self, table: Table, additions: Mapping[int, Sequence[Addition]], *, is_first: bool) -> None:
        """Widen what the catalog says of each column of the whole table, so that no query passes over the new rows.

        Bounds that are not known, be it that all rows so far are NULL, stay so: DuckLake then asks the files.
        """
        before = {
            column_id: (has_null, has_nan, Bounds(least, greatest))
            for column_id, has_null, has_nan, least, greatest in self._database.rows(
                "SELECT column_id, contains_null, contains_nan, min_value, max_value "
                f"FROM {spec.TABLE_COLUMN_STATS} WHERE table_id = ?",
                [table.table_id],
            )
        }
        after = self._bounds(table, additions, {column_id: bounds for column_id, (_, _, bounds) in before.items()})
        for column_id, of_column in additions.items():
            has_null = _any([addition.has_null for addition in of_column])
            bounds = after[column_id]
            if column_id in before:
                had_null, had_nan, had_bounds = before[column_id]
                has_null = _any([None if had_null is None else bool(had_null), has_null])
                if had_bounds.least is None:
                    bounds = had_bounds
                if has_null != had_null or had_nan is not None or bounds != had_bounds:
                    self._database.execute(
                        f"UPDATE {spec.TABLE_COLUMN_STATS} SET contains_null = ?, contains_nan = NULL, min_value = ?, "
                        "max_value = ? WHERE table_id = ? AND column_id = ?",
                        [has_null, bounds.least, bounds.greatest, table.table_id, column_id],
                    )
            elif is_first:
                # A column that was added to a table with rows has none either, and its old rows a value of their own.
                self._database.insert(
                    spec.TABLE_COLUMN_STATS,
                    ("table_id", "column_id", "contains_null", "min_value", "max_value"),
                    [(table.table_id, column_id, has_null, bounds.least, bounds.greatest)],
                )

    def _bounds(
        self, table: Table, additions: Mapping[int, Sequence[Addition]], before: Mapping[int, Bounds]
    ) -> dict[int, Bounds]:
        """The bounds of each column's old and new values together."""
        by_type: dict[str, list[tuple[int, Bounds]]] = {}
        for column_id, of_column in additions.items():
            sql_type = duckdb_type(table.columns[column_id].type)
            assert sql_type is not None  # noqa: S101 - read_table refuses others
            pairs = by_type.setdefault(sql_type, [])
            pairs += [(column_id, addition.bounds) for addition in of_column]
            if column_id in before:
                pairs.append((column_id, before[column_id]))
        result: dict[int, Bounds] = {}
        for sql_type, pairs in by_type.items():
            result |= merged(self._engine, sql_type, pairs)
        unknown = {column_id for column_id, of_column in additions.items() if any(a.is_unknown for a in of_column)}
        return result | dict.fromkeys(unknown, Bounds(None, None))


def path_columns(partitioning: Partitioning, partition: Sequence[str | None], rows: int) -> dict[int, ColumnFacts]:
    """The facts of the columns that a file has from its path: one value for all rows."""
    return {
        column.column_id: ColumnFacts(0, 0 if text is None else rows, rows if text is None else 0, Bounds(text, text))
        for column, text in zip(partitioning.columns, partition, strict=True)
    }


def statistics_rows(table: Table, file_id: int, facts: Mapping[int, ColumnFacts]) -> list[Row]:
    """The rows of a file's statistics, in the order of `FILE_STATISTICS`."""
    rows: list[Row] = []
    for column_id, c in facts.items():
        bounds = beyond(c.bounds) if table.columns[column_id].type == "float32" else c.bounds
        rows.append((file_id, table.table_id, column_id, c.size, c.values, c.nulls, bounds.least, bounds.greatest))
    return rows


def _any(known: Sequence[bool | None]) -> bool | None:
    """Whether one is true; None where that is not known."""
    return True if any(known) else None if None in known else False


def _text(value: object) -> str | None:
    """The value as DuckDB writes it, or near enough for DuckDB to read it."""
    if value is None:
        return None
    return value.astimezone(dt.UTC).isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


_DATA_FILE = (
    "data_file_id", "table_id", "begin_snapshot", "path", "path_is_relative", "file_format", "record_count",
    "file_size_bytes", "footer_size", "row_id_start", "partition_id", "mapping_id",
)  # fmt: skip
_PARTITION_VALUE = ("data_file_id", "table_id", "partition_key_index", "partition_value")
FILE_STATISTICS = (
    "data_file_id", "table_id", "column_id", "column_size_bytes", "value_count", "null_count", "min_value", "max_value",
)  # fmt: skip
