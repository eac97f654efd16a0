"""The data files that a partition has had in all snapshots that are kept, read without those of other partitions."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.partition_files import of_partition, values_of_files
from lake_assets.lake.catalog.scoped_files import rows_at
from lake_assets.lake.catalog.table import key_values, read_folder, read_partitioning
from lake_assets.lake.catalog.table_files import CatalogFile, Deletes
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition

_AT_ONCE = 500  # ids in one statement


@dataclass(frozen=True, slots=True)
class PastPartition:
    """The files of a partition in all snapshots that are kept, and the rows that were deleted from them.

    Attributes:
        files: by id.
        deletes: by the file's id.
        is_whole: all its files can be copied: none has rows of several snapshots or row ids of its own.
    """

    files: Sequence[CatalogFile]
    deletes: dict[int, list[Deletes]]
    is_whole: bool

    def at(self, snapshot: int) -> list[CatalogFile]:
        """The files of a snapshot."""
        return [f for f in self.files if _is_in(f.begin_snapshot, f.end_snapshot, snapshot)]

    def rows(self, snapshot: int) -> int:
        """The number of rows in a snapshot."""
        return rows_at(self.files, self.deletes, snapshot)

    def has_deletes(self, snapshot: int) -> bool:
        """Whether rows were deleted from files of a snapshot, and are not in it."""
        return any(
            _is_in(entry.begin_snapshot, entry.end_snapshot, snapshot)
            for file in self.at(snapshot)
            for entry in self.deletes.get(file.file_id, ())
        )


def _is_in(begin: int, end: int | None, snapshot: int) -> bool:
    return begin <= snapshot and (end is None or end > snapshot)


def past_partition(
    session: LakeSession, database: CatalogDatabase, name: TableName, partition: Partition
) -> PastPartition:
    """The files of one partition, live and ended.

    Files of an earlier partitioning of the table are left out.

    Raises:
        NotDirectError: there is no such table, it has or had inlined rows, or it is partitioned by other columns.
    """
    table_id, path, is_relative = read_folder(database, name)
    partitioning = read_partitioning(database, table_id)
    refuse_inlined_rows(database, table_id)
    folder = (data_path(session.config) if is_relative else "") + path
    condition, parameters = of_partition(table_id, key_values(partitioning, partition))
    rows = database.rows(
        "SELECT f.data_file_id, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, f.begin_snapshot, "
        "f.end_snapshot, f.partition_id, f.partial_max, f.row_id_start "
        f"FROM {spec.DATA_FILE} f WHERE {condition} AND f.partition_id = ? ORDER BY f.data_file_id",
        [*parameters, partitioning.partition_id],
    )
    files = [
        CatalogFile(file_id, (folder if is_below else "") + file_path, rows_of, size, begin, end, partition_id, {})
        for file_id, file_path, is_below, rows_of, size, begin, end, partition_id, *_ in rows
    ]
    is_whole = all(most is None and first is not None for *_, most, first in rows)
    return PastPartition(files, _deletes(database, table_id, [file.file_id for file in files]), is_whole)


def refuse_inlined_rows(database: CatalogDatabase, table_id: int) -> None:
    """Refuse a table that has inlined rows, or had some in a snapshot that is kept.

    Raises:
        NotDirectError: it has.
    """
    for (name,) in database.rows(f"SELECT table_name FROM {spec.INLINED_DATA_TABLES} WHERE table_id = ?", [table_id]):
        if database.rows(f"SELECT 1 FROM {identifier(name)} LIMIT 1"):
            raise NotDirectError("the table has inlined rows")


def _deletes(database: CatalogDatabase, table_id: int, file_ids: Sequence[int]) -> dict[int, list[Deletes]]:
    result: dict[int, list[Deletes]] = {}
    inlined = spec.inlined_deletes(table_id)
    has_inlined = database.has_table(inlined)
    for start in range(0, len(file_ids), _AT_ONCE):
        ids = file_ids[start : start + _AT_ONCE]
        marks = ", ".join("?" for _ in ids)
        rows = database.rows(
            "SELECT data_file_id, delete_count, begin_snapshot, end_snapshot "
            f"FROM {spec.DELETE_FILE} WHERE data_file_id IN ({marks})",
            ids,
        )
        if has_inlined:
            rows += database.rows(
                f"SELECT file_id, count(*), begin_snapshot, NULL FROM {identifier(inlined)} "
                f"WHERE file_id IN ({marks}) GROUP BY file_id, begin_snapshot",
                ids,
            )
        for file_id, *values in rows:
            result.setdefault(file_id, []).append(Deletes(*values))
    return result


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the lake."""

    number: int
    time: dt.datetime
    author: str | None
    message: str | None
    changes: str  # DuckLake's words for them, with commas between


_SNAPSHOT = (
    "SELECT s.snapshot_id, s.snapshot_time, c.author, c.commit_message, c.changes_made "
    f"FROM {spec.SNAPSHOT} s LEFT JOIN {spec.SNAPSHOT_CHANGES} c ON c.snapshot_id = s.snapshot_id"
)


def _snapshot(number: int, time: dt.datetime | str, author: str | None, message: str | None, changes: str) -> Snapshot:
    moment = dt.datetime.fromisoformat(time) if isinstance(time, str) else time
    return Snapshot(number, moment, author, message, changes or "")


def snapshots(database: CatalogDatabase, numbers: Sequence[int]) -> dict[int, Snapshot]:
    """Those of the snapshots that exist, by number."""
    found: dict[int, Snapshot] = {}
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
        marks = ", ".join("?" for _ in some)
        for row in database.rows(f"{_SNAPSHOT} WHERE s.snapshot_id IN ({marks})", some):
            found[row[0]] = _snapshot(*row)
    return found


def snapshots_of_table(database: CatalogDatabase, table_id: int, newest: int) -> list[Snapshot]:
    """The newest snapshots that changed a table, the newest first."""
    # A statement here has no percent sign of its own.
    rows = database.rows(
        f"{_SNAPSHOT} WHERE c.changes_made LIKE ? OR c.changes_made LIKE ? ORDER BY s.snapshot_id DESC LIMIT ?",
        [f"%:{table_id}", f"%:{table_id},%", newest],
    )
    return [_snapshot(*row) for row in rows]


def values_changed_in(
    database: CatalogDatabase, name: TableName, numbers: Sequence[int], most: int
) -> dict[int, set[tuple[str | None, ...]]]:
    """The values of the partitions in which each of these snapshots added or ended files, or deleted rows.

    Of each kind of change at most `most` are returned, those of the newest snapshots.

    Raises:
        NotDirectError: there is no such table, or it is not partitioned by plain values.
    """
    if not numbers:
        return {}
    table_id, *_ = read_folder(database, name)
    partitioning = read_partitioning(database, table_id)
    values, joins = values_of_files(len(partitioning.columns))
    marks = ", ".join("?" for _ in numbers)
    keys = ", ".join(str(2 + key) for key in range(len(partitioning.columns)))
    order = f"ORDER BY 1 DESC, {keys} LIMIT ?"
    found: dict[int, set[tuple[str | None, ...]]] = {}
    for moment in ("f.begin_snapshot", "f.end_snapshot"):
        for number, *texts in database.rows(
            f"SELECT DISTINCT {moment}, {values} FROM {spec.DATA_FILE} f {joins} "
            f"WHERE f.table_id = ? AND f.partition_id = ? AND {moment} IN ({marks}) {order}",
            [table_id, partitioning.partition_id, *numbers, most],
        ):
            found.setdefault(number, set()).add(tuple(texts))
    tables = [(spec.DELETE_FILE, "data_file_id")]
    if database.has_table(spec.inlined_deletes(table_id)):
        tables.append((spec.inlined_deletes(table_id), "file_id"))
    for table, file_id in tables:
        for number, *texts in database.rows(
            f"SELECT DISTINCT d.begin_snapshot, {values} FROM {identifier(table)} d "
            f"JOIN {spec.DATA_FILE} f ON f.data_file_id = d.{file_id} {joins} "
            f"WHERE f.table_id = ? AND f.partition_id = ? AND d.begin_snapshot IN ({marks}) {order}",
            [table_id, partitioning.partition_id, *numbers, most],
        ):
            found.setdefault(number, set()).add(tuple(texts))
    return found


def kept_between(database: CatalogDatabase, first: int, end: int | None) -> int | None:
    """The least snapshot that exists from `first` on and before `end`; None if there is none."""
    before, parameters = ("", []) if end is None else (" AND snapshot_id < ?", [end])
    ((number,),) = database.rows(
        f"SELECT min(snapshot_id) FROM {spec.SNAPSHOT} WHERE snapshot_id >= ?{before}", [first, *parameters]
    )
    return None if number is None else int(number)


def snapshot_span(database: CatalogDatabase) -> tuple[int, int]:
    """The oldest and the newest snapshot."""
    ((oldest, newest),) = database.rows(f"SELECT min(snapshot_id), max(snapshot_id) FROM {spec.SNAPSHOT}")
    return int(oldest), int(newest)
