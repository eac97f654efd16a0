"""Which rows, files and counts the partitions of a table have in each snapshot that is kept.

The catalog's figures answer where they are whole. They are not for rows that are inlined, or are in files of a
partitioning without the partition's columns, and for files of which a snapshot sees a part: DuckLake's merge and flush
make one file of the rows of several snapshots, and it keeps one file of the deletes of several. DuckDB counts these.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lake_assets.base.duckdb_engine import all_threads, identifier
from lake_assets.base.errors import PartitionError
from lake_assets.config.layout.hive import HIVE_NULL, escape
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError, Row
from lake_assets.lake.catalog.described import inlined_tables
from lake_assets.lake.catalog.files import (
    is_any_of,
    of_partition,
    partition_rows,
    refuse_inlined_rows,
    until_of_deletes,
    values_of_files,
)
from lake_assets.lake.catalog.table import Key, Snapshot, changes_rows, read_folder, snapshots_with_rows
from lake_assets.lake.session import LakeSession, PartitionedTable, TableName

SINGLY = 20  # partitions that take a query each; more take one query of the whole table
_VALUES = 1_000  # of a column, by which a query of many partitions opens their files only
NEVER = 2**62  # after every snapshot
LIVE = -1  # in place of a snapshot: only the newest


def key_of(partition: Partition) -> Key:
    """Return the key of a partition, in the order of the stream's columns."""
    return tuple(None if value is None else str(value) for value in partition.values)


def partition_of(columns: Sequence[PartitionColumn], key: Key) -> Partition | None:
    """Return the partition of a key; None if its values are not valid for the columns."""
    values = {c.name: HIVE_NULL if text is None else escape(text) for c, text in zip(columns, key, strict=True)}
    try:
        partition = Partition.of(columns, values)
    except PartitionError:
        return None
    return partition if key_of(partition) == key else None  # of decomposed letters, see `PartitionColumn.exact`


def partition_condition(partition: Partition, names: Mapping[str, str] | None = None) -> tuple[str, list[object]]:
    """Return the SQL condition for a partition's rows, with its bound parameters.

    `names` has those of its columns in a snapshot, by their names in lower case, where they have another one there.
    """
    conditions: list[str] = []
    parameters: list[object] = []
    for column, value in zip(partition.columns, partition.values, strict=True):
        name = identifier((names or {}).get(column.name.lower(), column.name))
        # DuckLake prunes files by `=` and `IS NULL`, but not by `IS NOT DISTINCT FROM`.
        if value is None:
            conditions.append(f"{name} IS NULL")
        else:
            conditions.append(f"{name} = ?")
            parameters.append(value)
    return " AND ".join(conditions) or "TRUE", parameters


def counted_rows(session: LakeSession, name: TableName, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Return the number of rows of partitions, by a query of each; of more than `SINGLY`, by one of all."""
    if len(partitions) > SINGLY:
        columns = ", ".join(identifier(column.name) for column in next(iter(partitions)).columns)
        condition, parameters = _among(partitions)
        with all_threads(session.connection):
            counted = session.rows(
                f"SELECT {columns}, count(*) FROM {name.sql} WHERE {condition} GROUP BY ALL", parameters
            )
        rows = {row[:-1]: row[-1] for row in counted}
        return {partition: rows.get(partition.values, 0) for partition in partitions}
    result = {}
    for partition in partitions:
        condition, parameters = partition_condition(partition)
        ((result[partition],),) = session.rows(f"SELECT count(*) FROM {name.sql} WHERE {condition}", parameters)
    return result


def _among(partitions: Collection[Partition]) -> tuple[str, list[object]]:
    """Return an SQL condition by which DuckLake opens few files of other partitions, with its bound parameters."""
    conditions: list[str] = ["TRUE"]
    parameters: list[object] = []
    for index, column in enumerate(next(iter(partitions)).columns):
        values = {partition.values[index] for partition in partitions}
        if len(values) <= _VALUES:
            condition, known = is_any_of(identifier(column.name), values)
            conditions.append(condition)
            parameters += known
    return " AND ".join(conditions), parameters


class SnapshotSpan(NamedTuple):
    """The snapshots from the first on and before the last."""

    first: int
    last: int

    def __contains__(self, snapshot: object) -> bool:
        return isinstance(snapshot, int) and self.first <= snapshot < self.last

    @property
    def closed(self) -> "SnapshotSpan":
        """With the last snapshot."""
        return SnapshotSpan(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A data file of a table."""

    file_id: int
    uri: str
    rows: int  # in the newest of its snapshots, with deleted ones
    size: int  # bytes
    begin_snapshot: int
    end_snapshot: int | None  # None: in the newest snapshot
    partition_id: int | None = None  # the partitioning under which it was written
    until: int | None = None  # earlier snapshots see a part of the rows
    is_plain: bool = True  # it has no rows of several snapshots, no row ids of its own and no key


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted rows of a data file."""

    rows: int  # in the newest of its snapshots
    begin_snapshot: int
    end_snapshot: int | None
    until: int | None = None  # earlier snapshots see a part of them


def _span(entry: CatalogFile | Deletes) -> SnapshotSpan:
    return SnapshotSpan(entry.begin_snapshot, NEVER if entry.end_snapshot is None else entry.end_snapshot)


def _partial(entry: CatalogFile | Deletes) -> SnapshotSpan:
    """Return the snapshots that see a part of a file's rows or deletes."""
    return SnapshotSpan(entry.begin_snapshot, min(entry.until or 0, _span(entry).last))


@dataclass(frozen=True)
class PastTable:
    """A table's partitions in the snapshots that are kept."""

    session: LakeSession
    name: TableName
    is_read: bool = False  # the catalog's tables are known and the table exists; otherwise only DuckDB answers
    # Of each partition; None has those of partitionings without its columns, if all partitions were read
    files: Mapping[Key | None, Sequence[CatalogFile]] = field(default_factory=dict)
    # The rows that were deleted from these files, by the file's id
    deletes: Mapping[int, Sequence[Deletes]] = field(default_factory=dict)
    # Snapshots in which rows of any partition may be inlined, or in files of such a partitioning
    elsewhere: Sequence[SnapshotSpan] = ()
    # The snapshots that inserted or deleted rows, the newest first, each with the one before it, if some files are seen
    # in part, or rows may be elsewhere
    changed: Sequence[tuple[int, int | None]] = ()
    # Each column's names, with the snapshots that have them
    names: Mapping[int, Sequence[tuple[str, SnapshotSpan]]] = field(default_factory=dict)

    def of(self, partition: Partition) -> "PastPartition":
        """Return one of the partitions that were read."""
        return PastPartition(self, partition, self.files.get(key_of(partition), ()))

    def live_rows(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the number of rows of partitions in the newest snapshot; of many, DuckDB counts all at once."""
        pasts = [self.of(partition) for partition in partitions]
        unknown = [past.partition for past in pasts if not past.is_known(LIVE)]
        if len(unknown) > SINGLY:
            return counted_rows(self.session, self.name, partitions)
        return {past.partition: past.rows() for past in pasts}

    def names_at(self, snapshot: int) -> dict[int, str]:
        """Return the names of the columns in a snapshot, by their ids; the table's present ones for `LIVE`."""
        at = NEVER - 1 if snapshot == LIVE else snapshot
        return {number: name for number, names in self.names.items() for name, span in names if at in span}

    def present_names(self, snapshot: int) -> dict[str, str]:
        """Return the names of the columns in a snapshot, by their present ones in lower case."""
        now = self.names_at(LIVE)
        return {now[number].lower(): name for number, name in self.names_at(snapshot).items() if number in now}


@dataclass(frozen=True)
class PastPartition:
    """A partition in the snapshots that are kept; `LIVE` in place of a snapshot is the newest.

    Every method that counts raises CatalogError if the table cannot be read, as for a snapshot that has expired.
    """

    table: PastTable
    partition: Partition
    files: Sequence[CatalogFile]

    @property
    def live(self) -> list[CatalogFile]:
        """The files of the newest snapshot."""
        return self.at(LIVE)

    def at(self, snapshot: int) -> list[CatalogFile]:
        """Return the files of a snapshot."""
        return [file for file in self.files if _is_in(file, snapshot)]

    def deletes(self, snapshot: int) -> list[Deletes]:
        """Return the rows that were deleted from the files of a snapshot, and are not in it."""
        every = (entry for file in self.at(snapshot) for entry in self.table.deletes.get(file.file_id, ()))
        return [entry for entry in every if _is_in(entry, snapshot)]

    def is_whole(self, snapshot: int) -> bool:
        """Return whether the rows in a snapshot are those of whole files, without deleted ones."""
        return self.is_known(snapshot) and not self.deletes(snapshot)

    def is_known(self, snapshot: int) -> bool:
        """Return whether the catalog's figures are those of the snapshot."""
        at = NEVER - 1 if snapshot == LIVE else snapshot
        seen: list[CatalogFile | Deletes] = [*self.at(snapshot), *self.deletes(snapshot)]
        return (
            self.table.is_read
            and not any(at in span for span in self.table.elsewhere)
            and not any(at in _partial(entry) for entry in seen)
        )

    def rows(self, snapshot: int = LIVE) -> int:
        """Return the number of rows in a snapshot."""
        if not self.is_known(snapshot):
            return self._counted(snapshot)[0]
        return sum(file.rows for file in self.at(snapshot)) - sum(entry.rows for entry in self.deletes(snapshot))

    def has_rows_of(self, rows: int | None, earlier: int, later: int = LIVE) -> bool:
        """Return whether a snapshot has exactly the rows of an earlier one, in the files that they were written to.

        The number of rows of the earlier snapshot, which may have expired, is None if unknown.
        """
        if rows is None or rows != self.rows(later):
            return False
        newest = self._newest(later)
        return not rows or (newest is not None and newest <= earlier)

    def _newest(self, snapshot: int) -> int | None:
        """Return the snapshot that inserted the newest of the rows; None if there are no rows, or it is unknown."""
        if not self.is_known(snapshot):
            return self._counted(snapshot)[1]
        return max((file.until or file.begin_snapshot for file in self.at(snapshot)), default=None)

    def _counted(self, snapshot: int) -> tuple[int, int | None]:
        """Return the number of rows, and the snapshot that inserted the newest, by DuckDB."""
        table = self.table
        condition, parameters = partition_condition(self.partition, table.present_names(snapshot))
        # DuckLake's own column of this name, unless the table has one.
        names = {name.lower() for name in table.names_at(snapshot).values()}
        inserted = "NULL::BIGINT" if "snapshot_id" in names else "max(snapshot_id)"
        at, numbers = ("", []) if snapshot == LIVE else (" AT (VERSION => ?)", [snapshot])
        ((rows, newest),) = table.session.rows(
            f"SELECT count(*), {inserted} FROM {table.name.sql}{at} WHERE {condition}", [*numbers, *parameters]
        )
        return int(rows), None if newest is None else int(newest)

    def changes(self, since: int, newest: int, known: Container[int] = ()) -> list[int]:
        """Return the newest snapshots from `since` on that added or ended a file, or changed rows; the newest first."""
        entries: list[CatalogFile | Deletes] = [*self.files]
        entries += [entry for file in self.files for entry in self.table.deletes.get(file.file_id, ())]
        moments = {entry.begin_snapshot for entry in entries}
        moments |= {file.end_snapshot for file in self.files if file.end_snapshot is not None}
        noted = sorted((n for n in moments if n >= since and n not in known), reverse=True)[:newest]
        hidden = [*self.table.elsewhere, *map(_partial, entries)]
        others: list[int] = []
        for number, before in self.table.changed:
            if number < since or len(others) + sum(n > number for n in noted) >= newest:
                break
            is_hidden = number not in moments and number not in known and any(number in span.closed for span in hidden)
            if is_hidden and self._has_changed(number, before):
                others.append(number)
        return sorted([*noted, *others], reverse=True)[:newest]

    def _has_changed(self, snapshot: int, before: int | None) -> bool:
        rows, newest = self._counted(snapshot)
        if newest == snapshot or (rows and newest is None):
            return True
        # A change that inserts no row deletes some. A snapshot without the table is none of it.
        return before is not None and bool(self.table.names_at(before)) and rows < self.rows(before)


def _is_in(entry: CatalogFile | Deletes, snapshot: int) -> bool:
    return entry.end_snapshot is None if snapshot == LIVE else snapshot in _span(entry)


def past_table(
    session: LakeSession, table: PartitionedTable, partitions: Collection[Partition] | None = None, since: int = 0
) -> PastTable:
    """Read the files of partitions, up to `SINGLY` of them without those of others; all when None.

    Files that ended up to the snapshot `since` are left out; with `LIVE`, all that have ended.
    """
    if session.unknown_specification is not None:
        return PastTable(session, table.name)
    try:
        with session.read() as database:
            return _Reader(session, database, table).read(partitions, since)
    except NotDirectError:
        return PastTable(session, table.name)


def live_rows(session: LakeSession, table: PartitionedTable) -> Mapping[Key, int] | None:
    """Return the number of rows that each partition has now, by its key; None if a row may be in no file of its own."""
    try:
        with session.read() as database:
            return _Reader(session, database, table).live_rows()
    except NotDirectError:
        return None


def newest_values(session: LakeSession, table: PartitionedTable, wanted: Collection[Key] | None) -> Mapping[Key, str]:
    """Return the greatest value of the last of some partition columns that has rows, as a text, for each key of others.

    It comes from the catalog's partition values, or from the rows where some are in no file of a partition. NULL is
    left out. Some keys are `wanted`; all when None.
    """
    try:
        with session.read() as database:
            return _Reader(session, database, table).newest_values(wanted)
    except NotDirectError:
        *others, time = (identifier(column.name) for column in table.columns)
        listed = ", ".join([*(f"{name}::VARCHAR" for name in others), f"max({time})::VARCHAR"])
        rows = session.rows(f"SELECT {listed} FROM {table.name.sql} GROUP BY ALL")
        found = {tuple(key): text for *key, text in rows if text is not None}
        return {key: text for key, text in found.items() if wanted is None or key in wanted}


def changed_partitions(
    session: LakeSession, table: PartitionedTable, snapshots: Sequence[Snapshot], most: int
) -> dict[int, set[Key]]:
    """Return the partitions in which each of these snapshots added or ended files, or changed rows.

    There are at most so many of each kind of change, those of the newest snapshots. Raises NotDirectError if there is
    no such table, or the catalog's tables cannot be used.
    """
    if not snapshots:
        return {}
    with session.read() as database:
        reader = _Reader(session, database, table)
        changed = reader.changed([snapshot.number for snapshot in snapshots], most)
        hidden = reader.hidden()
    for snapshot in snapshots:
        if changes_rows(snapshot.changes, reader.table_id) and any(snapshot.number in span for span in hidden):
            changed.setdefault(snapshot.number, set()).update(reader.changed_by_duckdb(snapshot.number, most))
    return changed


class _Reader:
    """Reads the catalog's tables about one table."""

    def __init__(self, session: LakeSession, database: CatalogDatabase, table: PartitionedTable) -> None:
        self.session, self.database, self.name, self.columns = session, database, table.name, table.columns
        self.table_id, self.folder = read_folder(database, table.name)
        self.names = self._names()
        now = {
            name.lower(): number for number, names in self.names.items() for name, span in names if span.last == NEVER
        }
        self.groups = self._groups([now.get(column.name.lower()) for column in table.columns])

    def _names(self) -> dict[int, list[tuple[str, SnapshotSpan]]]:
        names: dict[int, list[tuple[str, SnapshotSpan]]] = {}
        for number, name, begin, end in self.database.rows(
            "SELECT column_id, column_name, begin_snapshot, end_snapshot "
            f"FROM {spec.COLUMN} WHERE table_id = ? AND parent_column IS NULL",
            [self.table_id],
        ):
            names.setdefault(number, []).append((name, SnapshotSpan(begin, NEVER if end is None else end)))
        return names

    def _groups(self, column_ids: Sequence[int | None]) -> dict[tuple[int, ...], list[int]]:
        """Return the partitionings that have the partition's columns as they are, by the places of their keys.

        Without such columns there is one partition, of which all files are.
        """
        if not column_ids:
            return {(): []}
        keys: dict[int, dict[int, int]] = {}
        for partitioning, index, column_id, transform in self.database.rows(
            f"SELECT partition_id, partition_key_index, column_id, transform FROM {spec.PARTITION_COLUMN} "
            "WHERE table_id = ?",
            [self.table_id],
        ):
            if transform == "identity":
                keys.setdefault(partitioning, {})[column_id] = index
        groups: dict[tuple[int, ...], list[int]] = {}
        for partitioning, places in keys.items():
            indexes = [places[number] for number in column_ids if number is not None and number in places]
            if len(indexes) == len(column_ids):
                groups.setdefault(tuple(indexes), []).append(partitioning)
        return groups

    def read(self, partitions: Collection[Partition] | None, since: int) -> PastTable:
        files: dict[Key | None, list[CatalogFile]] = {}
        moment, moments = _ended_after(since)
        wanted = None if partitions is None else {key_of(partition) for partition in partitions}
        for places, ids in self.groups.items():
            values, joins = values_of_files(places)
            under = _under(ids)
            for condition, parameters in self._conditions(wanted, places):
                for row in self.database.rows(
                    f"SELECT {', '.join(filter(None, [values, _COLUMNS]))} FROM {spec.DATA_FILE} f {joins} "
                    f"WHERE {condition} AND {under} AND {moment} ORDER BY f.data_file_id",
                    [*parameters, *moments],
                ):
                    key = tuple(row[: len(places)])
                    if wanted is None or key in wanted:
                        files.setdefault(key, []).append(self._file(row[len(places) :]))
        elsewhere = [
            *self._of_other_partitionings(files if partitions is None else None, moment, moments),
            *self._inlined(),
        ]
        deletes = self._deletes([file.file_id for of_key in files.values() for file in of_key])
        groups: list[Sequence[CatalogFile | Deletes]] = [*files.values(), *deletes.values()]
        is_hidden = bool(elsewhere) or any(entry.until is not None for entries in groups for entry in entries)
        changed = snapshots_with_rows(self.database, self.table_id) if is_hidden and since != LIVE else ()
        return PastTable(self.session, self.name, True, files, deletes, elsewhere, changed, self.names)

    def live_rows(self) -> Mapping[Key, int]:
        """Return the number of rows that each partition has now.

        Raises NotDirectError if the table has rows in no file of a partition.
        """
        return partition_rows(self.database, self.table_id, self._only_places())

    def _only_places(self) -> tuple[int, ...]:
        """Return the places of the keys of the one partitioning of all files; others are a NotDirectError."""
        if len(self.groups) != 1 or any(self._of_other_partitionings(None, *_ended_after(LIVE))):
            raise NotDirectError(f"{self.name} has files of another partitioning")
        return next(iter(self.groups))

    def _conditions(self, wanted: Collection[Key] | None, places: Sequence[int]) -> list[tuple[str, list[object]]]:
        """Return the conditions, one a query, for the files of partitions; of many or None, for all of the table."""
        if wanted is None or not 0 < len(wanted) <= SINGLY:
            return [("f.table_id = ?", [self.table_id])]
        return [of_partition(self.table_id, key, places) for key in wanted]

    def newest_values(self, wanted: Collection[Key] | None) -> Mapping[Key, str]:
        """Return the greatest value of the last column, for each key of the others.

        Raises NotDirectError if the table has rows in no file of a partition.
        """
        refuse_inlined_rows(self.database, self.table_id)
        *others, time = self._only_places()
        keys, joins = values_of_files(others)[0], values_of_files([*others, time])[1]
        selected, group = (f", {keys}", f" GROUP BY {keys}") if others else ("", "")
        newest: dict[Key, str] = {}
        for condition, parameters in self._conditions(wanted if others else None, others):
            rows = self.database.rows(
                f"SELECT max(p{time}.partition_value){selected} FROM {spec.DATA_FILE} f {joins} "
                f"WHERE {condition} AND f.end_snapshot IS NULL AND f.record_count > 0{group}",
                parameters,
            )
            newest |= {tuple(key): text for text, *key in rows if text is not None}
        return newest if wanted is None else {key: text for key, text in newest.items() if key in wanted}

    def changed(self, numbers: Sequence[int], most: int) -> dict[int, set[Key]]:
        """Return the partitions in which these snapshots added or ended files, or deleted rows of these."""
        changed: dict[int, set[Key]] = {}
        deletes = [(spec.DELETE_FILE, "data_file_id")]
        if self.database.has_table(inlined := spec.inlined_deletes(self.table_id)):
            deletes.append((inlined, "file_id"))
        moments = [("f.begin_snapshot", ""), ("f.end_snapshot", "")]
        moments += [
            ("d.begin_snapshot", f"JOIN {identifier(table)} d ON d.{file_id} = f.data_file_id")
            for table, file_id in deletes
        ]
        for places, ids in self.groups.items():
            values, joins = values_of_files(places)
            among = ", ".join("?" for _ in numbers)
            order = ", ".join(["1 DESC", *(str(2 + key) for key in range(len(places)))])
            for moment, join in moments:
                selected = ", ".join(filter(None, [moment, values]))
                for number, *texts in self.database.rows(
                    f"SELECT DISTINCT {selected} FROM {spec.DATA_FILE} f {join} {joins} "
                    f"WHERE f.table_id = ? AND {_under(ids)} AND {moment} IN ({among}) ORDER BY {order} LIMIT ?",
                    [self.table_id, *numbers, most],
                ):
                    changed.setdefault(number, set()).add(tuple(texts))
        return changed

    def hidden(self) -> list[SnapshotSpan]:
        """Return the snapshots that may have changed rows of partitions without an entry that says which."""
        spans = [*self._of_other_partitionings(None, "1 = 1", ()), *self._inlined()]
        for table, until in ((spec.DATA_FILE, "partial_max"), (spec.DELETE_FILE, until_of_deletes(self.table_id))):
            spans += [
                SnapshotSpan(first, last)
                for first, last in self.database.rows(
                    f"SELECT min(begin_snapshot), max(until) FROM (SELECT begin_snapshot, {until} AS until "
                    f"FROM {table} WHERE table_id = ?) AS entries WHERE until IS NOT NULL",
                    [self.table_id],
                )
                if first is not None
            ]
        return [span.closed for span in spans]

    def changed_by_duckdb(self, snapshot: int, most: int) -> set[Key]:
        """Return the partitions whose rows a snapshot changed; the catalog's transaction may have ended."""
        names = PastTable(self.session, self.name, names=self.names).present_names(snapshot)
        listed = ", ".join(identifier(names.get(column.name.lower(), column.name)) for column in self.columns) or "1"
        kinds = ("insertions", "deletions")
        changes = " UNION ".join(
            f"SELECT {listed} FROM ducklake_table_{kind}(?, ?, ?, ?::BIGINT, ?::BIGINT)" for kind in kinds
        )
        parameters = [self.session.alias, self.name.schema, self.name.table, snapshot, snapshot]
        rows = self.session.rows(f"{changes} ORDER BY ALL LIMIT {most:d}", parameters * len(kinds))
        return {tuple(None if value is None else str(value) for value in row[: len(self.columns)]) for row in rows}

    def _file(self, row: Row) -> CatalogFile:
        file_id, path, is_below, rows, size, begin, end, partitioning, until, row_id, key = row
        is_plain = until is None and row_id is not None and key is None
        uri = (self.folder if is_below else "") + path
        return CatalogFile(file_id, uri, rows, size, begin, end, partitioning, until, is_plain)

    def _of_other_partitionings(
        self, files: dict[Key | None, list[CatalogFile]] | None, moment: str, moments: Sequence[object]
    ) -> Iterator[SnapshotSpan]:
        """Yield the snapshots with files of other partitionings; the files themselves too, if all are read."""
        ids = [number for group in self.groups.values() for number in group]
        if () in self.groups:
            return
        other = f"f.partition_id IS NULL OR NOT {_under(ids)}" if ids else "1 = 1"
        query = f"FROM {spec.DATA_FILE} f WHERE f.table_id = ? AND ({other}) AND {moment}"
        parameters = [self.table_id, *moments]
        ((first, last),) = self.database.rows(
            f"SELECT min(f.begin_snapshot), max(coalesce(f.end_snapshot, {NEVER})) {query}", parameters
        )
        if first is None:
            return
        if files is not None:
            files[None] = [self._file(row) for row in self.database.rows(f"SELECT {_COLUMNS} {query}", parameters)]
        yield SnapshotSpan(first, last)

    def _inlined(self) -> Iterator[SnapshotSpan]:
        version = self.database.version
        begin, end = identifier(version.begin_snapshot), identifier(version.end_snapshot)
        for name in inlined_tables(self.database, self.table_id):
            ((first, last),) = self.database.rows(
                f"SELECT min({begin}), max(coalesce({end}, {NEVER})) FROM {identifier(name)}"
            )
            if first is not None:
                yield SnapshotSpan(first, last)

    def _deletes(self, file_ids: Sequence[int]) -> dict[int, list[Deletes]]:
        columns = f"data_file_id, delete_count, begin_snapshot, end_snapshot, {until_of_deletes(self.table_id)}"
        rows = self.database.rows_among(f"SELECT {columns} FROM {spec.DELETE_FILE} WHERE data_file_id IN", file_ids)
        inlined = spec.inlined_deletes(self.table_id)
        if file_ids and self.database.has_table(inlined):
            rows += self.database.rows_among(
                "SELECT file_id, number, begin_snapshot, NULL, NULL FROM (SELECT file_id, count(*) AS number, "
                f"begin_snapshot FROM {identifier(inlined)} GROUP BY file_id, begin_snapshot) AS d WHERE file_id IN",
                file_ids,
            )
        result: dict[int, list[Deletes]] = {}
        for file_id, *values in rows:
            result.setdefault(file_id, []).append(Deletes(*values))
        return result


_COLUMNS = (
    "f.data_file_id, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, f.begin_snapshot, f.end_snapshot, "
    "f.partition_id, f.partial_max, f.row_id_start, f.encryption_key"
)


def _under(ids: Sequence[int]) -> str:
    """Return the condition for files `f` of some partitionings; of any if there are none."""
    return f"f.partition_id IN ({', '.join(map(str, ids))})" if ids else "1 = 1"


def _ended_after(since: int) -> tuple[str, list[object]]:
    """Return the condition for files that are live, or ended after a snapshot."""
    if since == LIVE:
        return "f.end_snapshot IS NULL", []
    return "(f.end_snapshot IS NULL OR f.end_snapshot > ?)", [since]
