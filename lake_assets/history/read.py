"""The history of a partition or a table: its snapshots, who made them, and the rows before and after."""

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lake_assets.errors import CatalogError, PartitionError
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.catalog.past_files import (
    Snapshot,
    kept_between,
    snapshots,
    snapshots_of_table,
    values_changed_in,
)
from lake_assets.lake.catalog.past_rows import PastRows, PastTable
from lake_assets.lake.catalog.table import read_folder, read_partitioning
from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.past_commits import commits
from lake_assets.lake.ledger.tables import ADDING, Hold, LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.layout.hive import HIVE_NULL, escape
from lake_assets.layout.partition import Partition
from lake_assets.progress import counted, counting
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


def history(
    stream: OpenStream, partitions: Partition | Sequence[Partition] | None = None, limit: int = 20
) -> list[HistoryEntry]:
    """The newest snapshots that changed some partitions, or any partition of the stream's table; the newest first.

    The cost is that of the entries: the catalog returns the rows of their snapshots, and a few figures of each of their
    partitions, however many files and snapshots these have. Commits of runs are known as long as the ledger has their
    rows, and those of other clients until their snapshots expire. In a lake that MotherDuck manages, only commits of
    runs are known.

    Args:
        stream: of the table.
        partitions: the snapshots of this one, or of these, only.
        limit: this many at most.

    Raises:
        CatalogError: the lake has no such table, or cannot be read.
    """
    with stream.lake.open(read_only=True) as session:
        if not session.exists(stream.table):
            raise CatalogError(
                f"the lake has no table {stream.table} yet:", f"ingest a partition of {stream.name} first."
            )
        since = named_since(session, stream.table)
        title = f"history {stream.name}"
        if partitions is None:
            with counting(title, "snapshots"):
                return _entries(stream, session, None, since, limit)
        wanted = [partitions] if isinstance(partitions, Partition) else list(dict.fromkeys(partitions))
        each = counted(wanted, title, "partitions", len(wanted))
        found = [entry for partition in each for entry in _entries(stream, session, partition, since, limit)]
        return sorted(found, key=lambda entry: (-entry.snapshot, entry.partition or ""))[:limit]


def _entries(
    stream: OpenStream, session: LakeSession, partition: Partition | None, since: int, limit: int
) -> list[HistoryEntry]:
    """The entries of one partition, or of the table."""
    rows = commits(session, stream.table, None if partition is None else partition.path, since, limit)
    try:
        with catalog_reading(session) as database:
            reader = _Reader(stream, database)
            return reader.of_table(rows, limit) if partition is None else reader.of(partition, rows, limit)
    except NotDirectError:
        return _of_runs(session, rows)


@dataclass(frozen=True, slots=True)
class _Item:
    """An entry before the catalog's figures: a run's row, or another client's snapshot."""

    number: int
    path: str | None
    row: LedgerRow | None = None
    snapshot: Snapshot | None = None


class _Reader:
    """Reads the catalog's part of a history: for the entries that are shown, and figures only."""

    def __init__(self, stream: OpenStream, database: CatalogDatabase) -> None:
        self.stream = stream
        self.database = database
        self.partitions: dict[str, Partition] = {}
        self.table: PastTable | None = None  # None: the catalog's figures are not those of the partitions
        with suppress(NotDirectError):
            self.table = PastTable(database, stream.table)

    def of(self, partition: Partition, rows: Sequence[LedgerRow], limit: int) -> list[HistoryEntry]:
        """The entries of one partition."""
        items = [_Item(row.snapshot_id or 0, row.load_partition, row) for row in rows]
        known = {item.number for item in items}
        self.partitions[partition.path] = partition
        if (past := self._past(partition.path)) is not None:
            # With `limit` rows of the ledger, older snapshots are not wanted.
            oldest = min(known, default=0) if len(rows) == limit else 0
            others = [number for number in past.changes(oldest, limit + len(known)) if number not in known][:limit]
            found = snapshots(self.database, others)
            items += [_Item(number, partition.path, snapshot=snapshot) for number, snapshot in found.items()]
        return self._entries(items, limit)

    def of_table(self, rows: Sequence[LedgerRow], limit: int) -> list[HistoryEntry]:
        """The entries of all partitions."""
        table_id, *_ = read_folder(self.database, self.stream.table)
        items = [_Item(row.snapshot_id or 0, row.load_partition, row) for row in rows]
        known = {item.number for item in items}
        oldest = min(known, default=0) if len(rows) == limit else 0
        found = [
            snapshot
            for snapshot in snapshots_of_table(self.database, table_id, limit)
            if snapshot.number not in known and snapshot.number >= oldest
        ]
        numbers = [snapshot.number for snapshot in found]
        changed = values_changed_in(self.database, self.stream.table, numbers, limit)
        names = self._columns(table_id) if changed else []
        for snapshot in found:
            paths: list[str | None] = [*sorted(self._path(names, v) for v in changed.get(snapshot.number, ()))]
            items += [_Item(snapshot.number, path, snapshot=snapshot) for path in paths or [None]]
        return self._entries(items, limit)

    def _entries(self, items: Sequence[_Item], limit: int) -> list[HistoryEntry]:
        """The newest of the items, with the catalog's figures."""
        items = sorted(items, key=lambda item: (-item.number, item.path or ""))[:limit]
        numbers = {item.number for item in items}
        # Those of the snapshots, and of the ones right before them, that have not expired.
        exist = set(snapshots(self.database, sorted({n - before for n in numbers for before in (0, 1)})))
        wanted: dict[str, set[int]] = {}
        for item in items:
            if item.path is not None:
                needed = {item.number} if item.row else {item.number, item.number - 1}
                wanted.setdefault(item.path, set()).update(needed & exist)
        pasts = {path: self._past(path) for path in wanted}
        counts = {path: past.rows(sorted(wanted[path])) for path, past in pasts.items() if past is not None}
        entries = []
        for item in items:
            of_path = counts.get(item.path or "", {})
            if item.row is None:
                assert item.snapshot is not None  # noqa: S101 - one of the two is there
                entries.append(_of_other(item.snapshot, item.path, of_path))
            elif item.number in exist:
                entry = _entry(item.row, item.number)
                entries.append(dataclasses.replace(entry, rows=of_path.get(item.number, entry.rows)))
            else:
                entries.append(_entry(item.row, self._kept(item.number, pasts.get(item.path or ""))))
        return entries

    def _past(self, path: str) -> PastRows | None:
        """The partition's rows; None if the catalog does not say."""
        partition = self.partitions.get(path) or self.stream.config.partition_at(path)
        if partition is None or self.table is None:
            return None
        try:
            return self.table.partition(partition)
        except NotDirectError:
            return None

    def _columns(self, table_id: int) -> list[str]:
        return [column.name.lower() for column in read_partitioning(self.database, table_id).columns]

    def _path(self, names: Sequence[str], texts: Sequence[str | None]) -> str:
        """The partition of the catalog's values of these columns, in the path's form."""
        found = dict(zip(names, texts, strict=True))
        values = {
            column.name: HIVE_NULL if (text := found.get(column.name.lower())) is None else escape(text)
            for column in self.stream.config.columns
        }
        try:
            return Partition.of(self.stream.config.columns, values).path
        except PartitionError:  # a value that the stream cannot have
            return "/".join(f"{name}={text}" for name, text in values.items())

    def _kept(self, number: int, past: PastRows | None) -> int | None:
        """A snapshot that still exists with the rows of one that has expired."""
        return None if past is None else kept_between(self.database, number, past.next_change(number))


def _of_other(snapshot: Snapshot, path: str | None, rows: Mapping[int, int]) -> HistoryEntry:
    return HistoryEntry(
        snapshot.number,
        snapshot.time,
        path,
        None,
        ", ".join(dict.fromkeys(word.partition(":")[0] for word in snapshot.changes.split(","))),
        rows.get(snapshot.number - 1),
        rows.get(snapshot.number),
        snapshot.author,
        kept=snapshot.number,
    )


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
        "" if entry.partition is None else "expired" if entry.kept is None else str(entry.kept),
    ]
