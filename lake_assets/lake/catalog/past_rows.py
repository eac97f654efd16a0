"""When the rows of a partition changed, and how many it had: figures, so that the catalog returns no list of files."""

from collections.abc import Sequence
from functools import cached_property

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, Row
from lake_assets.lake.catalog.partition_files import of_partition
from lake_assets.lake.catalog.past_files import refuse_inlined_rows
from lake_assets.lake.catalog.table import Partitioning, key_values, read_folder, read_partitioning
from lake_assets.lake.session import TableName
from lake_assets.layout.partition import Partition


class PastTable:
    """The partitions of a table in all snapshots that are kept, without those of an earlier partitioning.

    Raises:
        NotDirectError: there is no such table, it has or had inlined rows, or it is not partitioned by plain values.
    """

    def __init__(self, database: CatalogDatabase, name: TableName) -> None:
        self.database = database
        self.table_id, *_ = read_folder(database, name)
        self.partitioning: Partitioning = read_partitioning(database, self.table_id)
        refuse_inlined_rows(database, self.table_id)

    def partition(self, partition: Partition) -> "PastRows":
        """The rows of one partition.

        Raises:
            NotDirectError: the table is partitioned by other columns.
        """
        return PastRows(self, key_values(self.partitioning, partition))

    @cached_property
    def deletes(self) -> list[tuple[str, str, str, str]]:
        """The tables of deleted rows: name, column of the file's id, number of rows, and its end."""
        tables = [(spec.DELETE_FILE, "data_file_id", "sum(d.delete_count)", "d.end_snapshot")]
        inlined = spec.inlined_deletes(self.table_id)
        if self.database.has_table(inlined):
            tables.append((identifier(inlined), "file_id", "count(*)", "NULL"))
        return tables


class PastRows:
    """The rows of a partition in snapshots."""

    def __init__(self, table: PastTable, values: Sequence[str | None]) -> None:
        self._table = table
        condition, parameters = of_partition(table.table_id, values)
        self._where = f"{condition} AND f.partition_id = ?"
        self._parameters = [*parameters, table.partitioning.partition_id]

    def rows(self, snapshots: Sequence[int]) -> dict[int, int]:
        """The number of rows in each of these snapshots."""
        found = dict.fromkeys(snapshots, 0)
        if not found:
            return found
        wanted = f"WITH wanted (number) AS (VALUES {', '.join(f'({number:d})' for number in found)})"
        of_file = _is_in("f.begin_snapshot", "f.end_snapshot")
        sums = [f"SELECT w.number, sum(f.record_count) FROM wanted w JOIN {spec.DATA_FILE} f ON {of_file}"]
        sums += [
            f"SELECT w.number, -{count} FROM wanted w JOIN {name} d ON {_is_in('d.begin_snapshot', end)} "
            f"JOIN {spec.DATA_FILE} f ON f.data_file_id = d.{file_id} AND {of_file}"
            for name, file_id, count, end in self._table.deletes
        ]
        for sql in sums:
            query = f"{wanted} {sql} WHERE {self._where} GROUP BY w.number"
            for number, rows in self._table.database.rows(query, self._parameters):
                found[number] += int(rows)
        return found

    def changes(self, since: int, newest: int) -> list[int]:
        """The newest snapshots from `since` on that added or ended a file, or deleted rows; the newest first."""
        rows = self._moments("DISTINCT moment", ">= ? ORDER BY moment DESC LIMIT ?", [since, newest])
        return [int(moment) for (moment,) in rows]

    def next_change(self, snapshot: int) -> int | None:
        """The first snapshot after this one that changed the partition."""
        ((moment,),) = self._moments("min(moment)", "> ?", [snapshot])
        return None if moment is None else int(moment)

    def _moments(self, selected: str, condition: str, parameters: Sequence[object]) -> list[Row]:
        files = f"FROM {spec.DATA_FILE} f"
        parts = [f"SELECT f.{column} AS moment {files} WHERE {self._where}" for column in _COLUMNS]
        parts += [
            f"SELECT d.begin_snapshot AS moment {files} JOIN {name} d ON d.{file_id} = f.data_file_id "
            f"WHERE {self._where}"
            for name, file_id, *_ in self._table.deletes
        ]
        sql = f"SELECT {selected} FROM ({' UNION ALL '.join(parts)}) moments WHERE moment {condition}"
        return self._table.database.rows(sql, [*self._parameters * len(parts), *parameters])


_COLUMNS = ("begin_snapshot", "end_snapshot")


def _is_in(begin: str, end: str) -> str:
    return f"{begin} <= w.number AND ({end} IS NULL OR {end} > w.number)"
