"""Which rows, files and counts the partitions of a table have in each snapshot that is kept.

The catalog's figures answer where they are whole. They are not for rows that are inlined, or are in files of a
partitioning without the partition's columns, and for files of which a snapshot sees a part: DuckLake's merge and flush
make one file of the rows of several snapshots, and it keeps one file of the deletes of several. DuckDB counts these.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lake_assets.duckdb_engine import all_threads, identifier
from lake_assets.errors import PartitionError
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.hive import HIVE_NULL, escape
from lake_assets.layout.partition import Partition, PartitionColumn

SINGLY = 20  # partitions that take a query each; more take one query of the whole table
LIVE = -1  # in place of a snapshot: only the newest
NEVER = 2**62  # after every snapshot

Key = tuple[str | None, ...]
"""The values of a partition as the catalog writes them."""


def key_of(partition: Partition) -> Key:
    """Return the key of a partition."""
    return tuple(None if value is None else str(value) for value in partition.values)


def partition_of(columns: Sequence[PartitionColumn], key: Key) -> Partition | None:
    """Return the partition of a key; None if its values are not valid for the columns."""
    values = {c.name: HIVE_NULL if text is None else escape(text) for c, text in zip(columns, key, strict=True)}
    try:
        return Partition.of(columns, values)
    except PartitionError:
        return None


def where(partition: Partition, names: Mapping[str, str] | None = None) -> tuple[str, list[object]]:
    """Return the SQL condition for a partition's rows, with its bound parameters.

    Args:
        partition: the partition.
        names: of its columns in a snapshot, by their names in lower case, for those that have another name there.
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
    return " AND ".join(conditions), parameters


def counted_rows(session: LakeSession, name: TableName, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Return the number of rows of partitions, by a query of each; of more than `SINGLY`, by one of the whole table.

    Raises:
        CatalogError: the table cannot be read.
    """
    if len(partitions) > SINGLY:
        columns = ", ".join(identifier(column.name) for column in next(iter(partitions)).columns)
        with all_threads(session.connection):
            counted = session.rows(f"SELECT {columns}, count(*) FROM {name.sql} GROUP BY ALL")
        rows = {row[:-1]: row[-1] for row in counted}
        return {partition: rows.get(partition.values, 0) for partition in partitions}
    result = {}
    for partition in partitions:
        condition, parameters = where(partition)
        ((result[partition],),) = session.rows(f"SELECT count(*) FROM {name.sql} WHERE {condition}", parameters)
    return result


class Span(NamedTuple):
    """The snapshots from the first on and before the last."""

    first: int
    last: int

    def __contains__(self, snapshot: object) -> bool:
        return isinstance(snapshot, int) and self.first <= snapshot < self.last

    @property
    def closed(self) -> "Span":
        """With the last snapshot."""
        return Span(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A data file of a table."""

    file_id: int
    uri: str
    rows: int  # in the newest of its snapshots, with deleted ones
    size: int  # bytes
    begin_snapshot: int
    end_snapshot: int | None  # None: in the newest snapshot
    partition_id: int | None = None  # of the partitioning under which it was written
    until: int | None = None  # earlier snapshots see a part of the rows
    is_plain: bool = True  # it has no rows of several snapshots, no row ids of its own and no key


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted rows of a data file."""

    rows: int  # in the newest of its snapshots
    begin_snapshot: int
    end_snapshot: int | None
    until: int | None = None  # earlier snapshots see a part of them


def _span(entry: CatalogFile | Deletes) -> Span:
    return Span(entry.begin_snapshot, NEVER if entry.end_snapshot is None else entry.end_snapshot)


def _partial(entry: CatalogFile | Deletes) -> Span:
    """Return the snapshots that see a part of a file's rows or deletes."""
    return Span(entry.begin_snapshot, min(entry.until or 0, _span(entry).last))


@dataclass(frozen=True)
class PastTable:
    """A table's partitions in the snapshots that are kept.

    Attributes:
        session: the open lake, for what only DuckDB can count.
        name: of the table.
        is_read: the catalog's tables are known and the table exists; otherwise only DuckDB answers.
        files: of each partition; None has those of partitionings without its columns, if all partitions were read.
        deletes: the rows that were deleted from these files, by the file's id.
        elsewhere: snapshots in which rows of any partition may be inlined, or in files of such a partitioning.
        changed: the snapshots that inserted or deleted rows, the newest first, each with the one before it, if some
            files are seen in part, or rows may be elsewhere.
        names: each column's names, with the snapshots that have them.
    """

    session: LakeSession
    name: TableName
    is_read: bool = False
    files: Mapping[Key | None, Sequence[CatalogFile]] = field(default_factory=dict)
    deletes: Mapping[int, Sequence[Deletes]] = field(default_factory=dict)
    elsewhere: Sequence[Span] = ()
    changed: Sequence[tuple[int, int | None]] = ()
    names: Mapping[int, Sequence[tuple[str, Span]]] = field(default_factory=dict)

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

        Args:
            rows: of the earlier snapshot, which may have expired; None if unknown.
            earlier: its number.
            later: of the other one.
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
        condition, parameters = where(self.partition, table.present_names(snapshot))
        # DuckLake's own column of this name, unless the table has one.
        names = {name.lower() for name in table.names_at(snapshot).values()}
        inserted = "NULL::BIGINT" if "snapshot_id" in names else "max(snapshot_id)"
        at, numbers = ("", []) if snapshot == LIVE else (" AT (VERSION => ?)", [snapshot])
        ((rows, newest),) = table.session.rows(
            f"SELECT count(*), {inserted} FROM {table.name.sql}{at} WHERE {condition}",
            [*numbers, *parameters],
        )
        return int(rows), None if newest is None else int(newest)

    def changes(self, since: int, newest: int, known: Container[int] = ()) -> list[int]:
        """Return the newest snapshots from `since` on that added or ended a file, or changed rows; the newest first.

        Args:
            since: the first.
            newest: this many at most.
            known: to be left out.
        """
        entries: list[CatalogFile | Deletes] = [*self.files]
        entries += [entry for file in self.files for entry in self.table.deletes.get(file.file_id, ())]
        moments = {entry.begin_snapshot for entry in entries}
        moments |= {file.end_snapshot for file in self.files if file.end_snapshot is not None}
        found = sorted((n for n in moments if n >= since and n not in known), reverse=True)[:newest]
        hidden = [*self.table.elsewhere, *map(_partial, entries)]
        others: list[int] = []
        for number, before in self.table.changed:
            if number < since or len(others) + sum(n > number for n in found) >= newest:
                break
            is_hidden = number not in moments and number not in known and any(number in span.closed for span in hidden)
            if is_hidden and self._has_changed(number, before):
                others.append(number)
        return sorted([*found, *others], reverse=True)[:newest]

    def _has_changed(self, snapshot: int, before: int | None) -> bool:
        rows, newest = self._counted(snapshot)
        if newest == snapshot or (rows and newest is None):
            return True
        # A change that inserts no row deletes some. A snapshot without the table is none of it.
        return before is not None and bool(self.table.names_at(before)) and rows < self.rows(before)


def _is_in(entry: CatalogFile | Deletes, snapshot: int) -> bool:
    return entry.end_snapshot is None if snapshot == LIVE else snapshot in _span(entry)
