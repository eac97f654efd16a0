"""The data files of some partitions of a table, read from the catalog without those of the other partitions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.partition_files import of_partition, values_of_files
from lake_assets.lake.catalog.table import key_values, read_folder, read_partitioning
from lake_assets.lake.catalog.table_files import CatalogFile, Deletes
from lake_assets.lake.catalog.whole_files import refuse_other_rows
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition

SINGLY = 20  # partitions that take a query each; more take one query of the whole table
_AT_ONCE = 500  # ids in one statement


@dataclass(frozen=True, slots=True)
class ScopedFiles:
    """The data files of some partitions.

    Attributes:
        files: the live files of each partition, and those that ended after the snapshot `since` of the query.
        deletes: the deleted rows of these files, by the file's id.
    """

    files: Mapping[Partition, Sequence[CatalogFile]]
    deletes: Mapping[int, Sequence[Deletes]] = field(default_factory=dict)

    def live(self, partition: Partition) -> list[CatalogFile]:
        """The live files of a partition."""
        return [file for file in self.files[partition] if file.end_snapshot is None]

    def rows(self, partition: Partition, snapshot: int | None = None) -> int:
        """The number of rows of a partition now, or in a snapshot since `since`."""
        return rows_at(self.files[partition], self.deletes, snapshot)


def rows_at(files: Iterable[CatalogFile], deletes: Mapping[int, Sequence[Deletes]], snapshot: int | None = None) -> int:
    """The number of rows of files, without deleted ones, in a snapshot, or now if that is None."""
    return sum(
        file.rows - sum(entry.rows for entry in deletes.get(file.file_id, ()) if _is_in(entry, snapshot))
        for file in files
        if _is_in(file, snapshot)
    )


def _is_in(entry: CatalogFile | Deletes, snapshot: int | None) -> bool:
    if snapshot is None:
        return entry.end_snapshot is None
    return entry.begin_snapshot <= snapshot and (entry.end_snapshot is None or entry.end_snapshot > snapshot)


def scoped_files(
    session: LakeSession,
    database: CatalogDatabase,
    name: TableName,
    partitions: Sequence[Partition],
    since: int | None = None,
) -> ScopedFiles:
    """The data files of these partitions.

    Up to `SINGLY` partitions take a query each, which returns their own files only.

    Args:
        session: the open lake.
        database: its catalog's tables.
        name: of the table.
        partitions: of the table.
        since: a snapshot; files that ended after it are included.

    Raises:
        NotDirectError: the partitions may have rows that are not in whole files under the present partitioning, or the
            table does not exist.
    """
    table_id, path, is_relative = read_folder(database, name)
    partitioning = read_partitioning(database, table_id)
    refuse_other_rows(database, table_id, partitioning, also_ended=True)
    folder = (data_path(session.config) if is_relative else "") + path
    wanted = {tuple(key_values(partitioning, partition)): partition for partition in partitions}
    if len(wanted) > SINGLY:
        rows = _of_table(database, table_id, len(partitioning.columns), since)
        found = ((wanted[values], row) for values, row in rows if values in wanted)
    else:
        found = (
            (partition, row)
            for values, partition in wanted.items()
            for row in _of_one(database, table_id, values, since)
        )
    files: dict[Partition, list[CatalogFile]] = {partition: [] for partition in partitions}
    for partition, (file_id, file_path, is_below, *figures) in found:
        uri = (folder if is_below else "") + file_path
        rows, size, begin, end, partitioning_id = figures
        files[partition].append(CatalogFile(file_id, uri, rows, size, begin, end, partitioning_id, {}))
    ids = [file.file_id for found_files in files.values() for file in found_files]
    _refuse_inlined_deletes(database, table_id, ids)
    return ScopedFiles(files, _deletes(database, ids))


_COLUMNS = (
    "f.data_file_id, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, f.begin_snapshot, f.end_snapshot, "
    "f.partition_id"
)


def _since(since: int | None) -> tuple[str, list[object]]:
    """The condition for files that are live, or ended after a snapshot."""
    if since is None:
        return "f.end_snapshot IS NULL", []
    return "(f.end_snapshot IS NULL OR f.end_snapshot > ?)", [since]


def _of_one(database: CatalogDatabase, table_id: int, values: Sequence[str | None], since: int | None) -> list[Row]:
    condition, parameters = of_partition(table_id, values)
    moment, moments = _since(since)
    return database.rows(
        f"SELECT {_COLUMNS} FROM {spec.DATA_FILE} f WHERE {condition} AND {moment} ORDER BY f.data_file_id",
        [*parameters, *moments],
    )


def _of_table(
    database: CatalogDatabase, table_id: int, keys: int, since: int | None
) -> Iterator[tuple[tuple[str | None, ...], Row]]:
    condition, moments = _since(since)
    values, joins = values_of_files(keys)
    for row in database.rows(
        f"SELECT {values}, {_COLUMNS} FROM {spec.DATA_FILE} f {joins} WHERE f.table_id = ? AND {condition} "
        "ORDER BY f.data_file_id",
        [table_id, *moments],
    ):
        yield row[:keys], row[keys:]


def _refuse_inlined_deletes(database: CatalogDatabase, table_id: int, file_ids: Sequence[int]) -> None:
    name = spec.inlined_deletes(table_id)
    if file_ids and database.has_table(name) and database.rows(f"SELECT 1 FROM {identifier(name)} LIMIT 1"):
        raise NotDirectError("the table has inlined deletes")


def _deletes(database: CatalogDatabase, file_ids: Sequence[int]) -> dict[int, list[Deletes]]:
    result: dict[int, list[Deletes]] = {}
    for start in range(0, len(file_ids), _AT_ONCE):
        ids = file_ids[start : start + _AT_ONCE]
        marks = ", ".join("?" for _ in ids)
        for file_id, *values in database.rows(
            "SELECT data_file_id, delete_count, begin_snapshot, end_snapshot "
            f"FROM {spec.DELETE_FILE} WHERE data_file_id IN ({marks})",
            ids,
        ):
            result.setdefault(file_id, []).append(Deletes(*values))
    return result
