"""Writes a new snapshot into DuckLake's tables: ended and added data files, inlined rows, statistics."""

import datetime as dt
from collections.abc import Mapping, Sequence

import duckdb

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import SchemaError
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import FLOATS, Bounds, beyond, bounds_of_files, merged, of_unknown_values
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.described import Description, ask_state, ask_tables, read_schema_state, read_tables
from lake_assets.lake.catalog.file_facts import ColumnFacts, FileFacts
from lake_assets.lake.catalog.table import Partitioning, Table, read_mappings
from lake_assets.lake.failures import OVERTAKEN
from lake_assets.spark.task.scanned_files import Mappings

_NONE = Bounds(None, None)


class Transaction:
    """The next snapshot of an open transaction of a catalog. `finish` must be called last, and once.

    Statistics of tables are read at first and written at last, so that a commit waits for the catalog's database only
    before its first statement that writes, and at its end.
    """

    def __init__(self, database: CatalogDatabase, description: Description) -> None:
        """Read the newest snapshot, and the statistics of the described tables.

        Raises duckdb.TransactionException if the description is no longer right, so the commit is to be tried again.
        """
        self.database = database
        ids = [table.table_id for table in description.tables.values()]
        seen = description.state
        answer = ask_state(database, seen.snapshot_id)
        among = f"WHERE table_id IN ({', '.join('?' for _ in ids)})"
        sizes = database.ask(f"SELECT {', '.join(_TABLE_STATISTICS)} FROM {spec.TABLE_STATS} {among}", ids)
        columns = database.ask(
            "SELECT table_id, column_id, contains_null, contains_nan, min_value, max_value "
            f"FROM {spec.TABLE_COLUMN_STATS} {among}",
            ids,
        )
        inlined = ask_tables(database, ids)
        state, self._next_catalog_id, self._next_file_id, moment = read_schema_state(answer)
        if (state.version, state.schema_version, moment) != (seen.version, seen.schema_version, seen.moment):
            raise duckdb.TransactionException(OVERTAKEN)
        self.snapshot_id = state.snapshot_id + 1
        # The tables of inlined rows of each described table, the newest first, by the table's id
        self.inlined = read_tables(inlined)
        # Those of the tables that the commit changes, as far as they are known, by the tables' ids
        self.mappings: dict[int, Mappings] = dict(description.mappings)
        self._description = description
        self._version = spec.VERSIONS[state.version]
        self._schema_version = state.schema_version
        self._first_file_id = self._next_file_id
        self._changes: list[str] = []
        self._sizes: dict[int, tuple[int, int, int]] = {table_id: tuple(size) for table_id, *size in sizes()}
        self._new_sizes: dict[int, tuple[int, int, int]] = {}
        self._columns: dict[tuple[int, int], _ColumnStatistics] = {
            (table_id, column_id): (has_null, has_nan, Bounds(least, greatest))
            for table_id, column_id, has_null, has_nan, least, greatest in columns()
        }
        self._new_columns: dict[tuple[int, int], _ColumnStatistics] = {}

    def read_mappings(self, table: Table) -> Mappings:
        """Return the mappings of a table that the commit changes, as they are now, with those that it has added."""
        self.mappings[table.table_id] = mappings = read_mappings(self.database, table.table_id)
        others = {number: columns for number, columns in mappings.items() if number < self._first_file_id}
        self._description.mappings[table.table_id] = others
        return mappings

    def end_files(self, table: Table, file_ids: Sequence[int]) -> None:
        """Remove these data files from the table's new snapshot."""
        if file_ids:
            ended = [(file_id, self.snapshot_id) for file_id in file_ids]
            self.database.update(spec.DATA_FILE, ["data_file_id"], ["end_snapshot"], ended)
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
        if values:
            self.database.insert(spec.FILE_PARTITION_VALUE, _PARTITION_VALUE, values)
        self.database.insert(spec.FILE_COLUMN_STATS, _FILE_STATISTICS, statistics)
        self.widen(table, _by_column(facts), is_first=not first)
        self._changes.append(f"inserted_into_table:{table.table_id}")

    def append(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows of texts, integers, times and None to the catalog itself, as DuckLake's inlined data.

        Raises NotDirectError if the table has other columns, or no inlined data.
        """
        if not rows:
            return
        newest = next(iter(self.inlined.get(table.table_id, ())), None)
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
        self._write_statistics()
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

    def alter(self, table: Table) -> None:
        """Begin a new state of the lake's schemas, in which the columns of a table are others."""
        self._schema_version += 1
        self.database.insert(
            spec.SCHEMA_VERSIONS,
            ("begin_snapshot", "schema_version", "table_id"),
            [(self.snapshot_id, self._schema_version, table.table_id)],
        )
        self.note("altered_table", table)

    def new_file_id(self) -> int:
        """Return the next number of a file or mapping."""
        self._next_file_id += 1
        return self._next_file_id - 1

    def grow(self, table: Table, rows: int, size: int) -> int:
        """Count new rows; returns the row id of the first. Ended rows stay counted, as the extension counts them."""
        records, first, size_before = self._new_sizes.get(table.table_id) or self._sizes.get(table.table_id, (0, 0, 0))
        self._new_sizes[table.table_id] = (records + rows, first + rows, size_before + size)
        return first

    def widen(self, table: Table, added: Mapping[int, Sequence[ColumnFacts]], *, is_first: bool) -> None:
        """Widen the statistics of the table's columns by new values, by the columns' ids, so that no query skips them.

        Without a value so far a column has no bounds, as DuckLake writes it; see `_bounds` for unknown ones.
        `is_first`: the table had no rows before.
        """
        self._refuse_nulls(table, added)
        before = {column_id: self._statistics(table, column_id) for column_id in added}
        after = self._bounds(table, added, {i: known[2] for i, known in before.items() if known is not None})
        for column_id, of_column in added.items():
            has_null, known = _any([column.has_null for column in of_column]), before[column_id]
            if known is not None:
                had_null, had_nan, had_bounds = known
                has_null = _any([None if had_null is None else bool(had_null), has_null])
                if has_null == had_null and had_nan is None and after[column_id] == had_bounds:
                    continue
            elif not is_first:
                # A column that was added to a table with rows has no statistics: the old rows have its default.
                continue
            self._new_columns[table.table_id, column_id] = (has_null, None, after[column_id])

    def _refuse_nulls(self, table: Table, added: Mapping[int, Sequence[ColumnFacts]]) -> None:
        """Refuse NULL in a column that is NOT NULL, as of an earlier snapshot, or if it became so while rows were read.

        It is a SchemaError.
        """
        for column_id, of_column in added.items():
            column = table.columns[column_id]
            if not column.is_nullable and any(column.has_null for column in of_column):
                name = next(name for name, known in self._description.tables.items() if known == table)
                raise SchemaError(
                    f"column {column.name!r} of table {name} is NOT NULL, and the new rows have NULL in it:",
                    f"nothing was changed. Drop the constraint by `ALTER TABLE {name} ALTER {identifier(column.name)} "
                    "DROP NOT NULL`, or take rows that have a value there.",
                )

    def _statistics(self, table: Table, column_id: int) -> "_ColumnStatistics | None":
        key = table.table_id, column_id
        return self._new_columns.get(key) or self._columns.get(key)

    def _write_statistics(self) -> None:
        """Write what has changed of the statistics of tables and their columns."""
        sizes = {table_id: (table_id, *size) for table_id, size in self._new_sizes.items()}
        columns = {
            key: (*key, has_null, has_nan, bounds.least, bounds.greatest)
            for key, (has_null, has_nan, bounds) in self._new_columns.items()
        }
        for name, keys, names, known, rows in (
            (spec.TABLE_STATS, 1, _TABLE_STATISTICS, self._sizes.keys(), sizes),
            (spec.TABLE_COLUMN_STATS, 2, _COLUMN_STATISTICS, self._columns.keys(), columns),
        ):
            if changed := [row for key, row in rows.items() if key in known]:
                self.database.update(name, names[:keys], names[keys:], changed)
            if new := [row for key, row in rows.items() if key not in known]:
                self.database.insert(name, names, new)

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
        result = merged(((i, table.columns[i].type, bounds) for i, bounds in dict.fromkeys(values)))
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
_TABLE_STATISTICS = ("table_id", "record_count", "next_row_id", "file_size_bytes")
_COLUMN_STATISTICS = ("table_id", "column_id", "contains_null", "contains_nan", "min_value", "max_value")
_ColumnStatistics = tuple[bool | None, bool | None, Bounds]
