"""The history of a partition or a table: its snapshots, who made them, and the rows before and after."""

import dataclasses
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.errors import CatalogError, PartitionError
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.catalog.past_files import (
    PastPartition,
    Snapshot,
    kept_between,
    past_partition,
    snapshots,
    snapshots_of_table,
    values_changed_in,
)
from lake_assets.lake.catalog.table import read_folder, read_partitioning
from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.past_commits import commits
from lake_assets.lake.ledger.tables import ADDING, Hold, LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.layout.hive import HIVE_NULL, escape
from lake_assets.layout.partition import Partition
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A snapshot that changed a partition, or the table itself.

    Attributes:
        snapshot: its number.
        time: when it was committed.
        partition: in the path's form; None if the snapshot changed the table, such as its columns.
        run_id: of the run; None for other clients.
        mode: of the run, as in the ledger; for other clients, DuckLake's words for the change.
        rows_before: of the partition; None if unknown.
        rows: of the partition, after it; None if unknown.
        requested_by: who or what requested the run; for other clients the author of the snapshot, if it has one.
        hold: whether refreshes leave the partition alone since.
        kept: a snapshot that still exists with these rows, for `restore`; None if it has expired.
    """

    snapshot: int
    time: dt.datetime | None
    partition: str | None
    run_id: str | None
    mode: str
    rows_before: int | None
    rows: int | None
    requested_by: str | None
    hold: Hold | None = None
    kept: int | None = None


def history(stream: OpenStream, partition: Partition | None = None, limit: int = 20) -> list[HistoryEntry]:
    """The newest snapshots that changed a partition, or any partition of the stream's table; the newest first.

    The cost is that of the partition's own rows: of the ledger, and of the catalog's list of its files. Commits of
    runs are known as long as the ledger has their rows, and those of other clients until their snapshots expire. In a
    lake that MotherDuck manages, only commits of runs are known.

    Args:
        stream: of the table.
        partition: its snapshots only.
        limit: this many at most.

    Raises:
        CatalogError: the lake has no such table, or cannot be read.
    """
    with stream.lake.open(read_only=True) as session:
        if not session.exists(stream.table):
            raise CatalogError(
                f"the lake has no table {stream.table} yet:", f"ingest a partition of {stream.name} first."
            )
        path = None if partition is None else partition.path
        rows = commits(session, stream.table, path, named_since(session, stream.table), limit)
        try:
            with catalog_reading(session) as database:
                reader = _Reader(stream, session, database)
                return reader.of_table(rows, limit) if partition is None else reader.of(partition, rows, limit)
        except NotDirectError:
            return _of_runs(session, rows)


class _Reader:
    """Reads the catalog's part of a history."""

    def __init__(self, stream: OpenStream, session: LakeSession, database: CatalogDatabase) -> None:
        self.stream = stream
        self.session = session
        self.database = database
        self._past: dict[str, PastPartition | None] = {}
        self._exist: set[int] = set()  # of the snapshots in question and those right before them

    def of(self, partition: Partition, rows: Sequence[LedgerRow], limit: int) -> list[HistoryEntry]:
        """The entries of one partition."""
        past = self.past(partition)
        known = {row.snapshot_id for row in rows}
        # With `limit` rows of the ledger, older snapshots are not wanted.
        oldest = min((row.snapshot_id or 0 for row in rows), default=0) if len(rows) == limit else 0
        others = sorted((n for n in (past.changes() if past else ()) if n not in known and n >= oldest), reverse=True)
        found = self._find([*known, *others[:limit]])
        entries = [self._of_run(row, past) for row in rows]
        entries += [self._of_other(snapshot, partition.path, past) for n, snapshot in found.items() if n not in known]
        return _newest(entries, limit)

    def of_table(self, rows: Sequence[LedgerRow], limit: int) -> list[HistoryEntry]:
        """The entries of all partitions."""
        table_id, *_ = read_folder(self.database, self.stream.table)
        known = {row.snapshot_id for row in rows}
        oldest = min((row.snapshot_id or 0 for row in rows), default=0) if len(rows) == limit else 0
        found = [
            snapshot
            for snapshot in snapshots_of_table(self.database, table_id, limit)
            if snapshot.number not in known and snapshot.number >= oldest
        ]
        self._find([*known, *(snapshot.number for snapshot in found)])
        entries = [self._of_run(row, self._past_at(row.load_partition)) for row in rows]
        changed = values_changed_in(self.database, self.stream.table, [snapshot.number for snapshot in found])
        for snapshot in found:
            paths: list[str | None] = [*sorted(map(self._path, changed.get(snapshot.number, ())))]
            for path in paths or [None]:
                past = None if path is None else self._past_at(path)
                entries.append(self._of_other(snapshot, path, past))
        return _newest(entries, limit)

    def _find(self, numbers: Sequence[int | None]) -> dict[int, Snapshot]:
        """Those of the snapshots that exist; it is noted which of them and of those right before them do."""
        wanted = [number for number in numbers if number is not None]
        found = snapshots(self.database, sorted({n - before for n in wanted for before in (0, 1)}))
        self._exist = set(found)
        return {number: snapshot for number, snapshot in found.items() if number in wanted}

    def past(self, partition: Partition) -> PastPartition | None:
        """The partition's files; None if the catalog does not say."""
        if partition.path not in self._past:
            try:
                found = past_partition(self.session, self.database, self.stream.table, partition)
            except NotDirectError:
                found = None
            self._past[partition.path] = found
        return self._past[partition.path]

    def _past_at(self, path: str) -> PastPartition | None:
        partition = self.stream.config.partition_at(path)
        return None if partition is None else self.past(partition)

    def _path(self, texts: Sequence[str | None]) -> str:
        """The partition of the catalog's values, in the path's form."""
        table_id, *_ = read_folder(self.database, self.stream.table)
        columns = read_partitioning(self.database, table_id).columns
        found = {column.name.lower(): text for column, text in zip(columns, texts, strict=True)}
        values = {
            column.name: HIVE_NULL if (text := found.get(column.name.lower())) is None else escape(text)
            for column in self.stream.config.columns
        }
        try:
            return Partition.of(self.stream.config.columns, values).path
        except PartitionError:  # a value that the stream cannot have
            return "/".join(f"{name}={text}" for name, text in values.items())

    def _of_run(self, row: LedgerRow, past: PastPartition | None) -> HistoryEntry:
        number = row.snapshot_id or 0
        if number in self._exist:
            entry = _entry(row, number)
            return entry if past is None else dataclasses.replace(entry, rows=past.rows(number))
        return _entry(row, self._kept(number, past))

    def _of_other(self, snapshot: Snapshot, path: str | None, past: PastPartition | None) -> HistoryEntry:
        number = snapshot.number
        return HistoryEntry(
            number,
            snapshot.time,
            path,
            None,
            ", ".join(dict.fromkeys(word.partition(":")[0] for word in snapshot.changes.split(","))),
            past.rows(number - 1) if past and number - 1 in self._exist else None,
            past.rows(number) if past else None,
            snapshot.author,
            kept=number,
        )

    def _kept(self, number: int, past: PastPartition | None) -> int | None:
        """A snapshot that still exists with the rows of one that has expired."""
        if past is None:
            return None
        end = min((change for change in past.changes() if change > number), default=None)
        return kept_between(self.database, number, end)


def _of_runs(session: LakeSession, rows: Sequence[LedgerRow]) -> list[HistoryEntry]:
    """The entries of runs, in a lake whose catalog shows its snapshots only."""
    numbers = [row.snapshot_id for row in rows]
    exist = session.rows(
        "SELECT snapshot_id FROM ducklake_snapshots(?) WHERE list_contains(?, snapshot_id)", [session.alias, numbers]
    )
    kept = {number for (number,) in exist}
    return [_entry(row, row.snapshot_id if row.snapshot_id in kept else None) for row in rows]


def _entry(row: LedgerRow, kept: int | None) -> HistoryEntry:
    added = (row.rows_before or 0) if row.mode in ADDING else 0
    return HistoryEntry(
        row.snapshot_id or 0,
        row.finished_at,
        row.load_partition,
        row.run_id,
        row.mode,
        row.rows_before,
        None if row.row_count is None else row.row_count + added,
        row.requested_by,
        row.hold,
        kept,
    )


def _newest(entries: Sequence[HistoryEntry], limit: int) -> list[HistoryEntry]:
    return sorted(entries, key=lambda entry: (-entry.snapshot, entry.partition or ""))[:limit]


def described(entry: HistoryEntry) -> list[str]:
    """The entry's texts: snapshot, time, partition, what, rows before, rows after, who, run, snapshot to restore."""
    hold = f", {entry.hold}" if entry.hold else ""
    return [
        str(entry.snapshot),
        f"{entry.time.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}" if entry.time else "",
        entry.partition or "",
        entry.mode + hold,
        *("" if rows is None else f"{rows:,}" for rows in (entry.rows_before, entry.rows)),
        entry.requested_by or ("" if entry.run_id else "another client"),
        (entry.run_id or "")[:8],
        "expired" if entry.kept is None else str(entry.kept),
    ]
