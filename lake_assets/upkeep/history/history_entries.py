"""The history of a partition or a table: its snapshots, who made them, and the rows before and after."""

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.base.events import counted, counting
from lake_assets.base.json_dataclasses import Documented
from lake_assets.base.texts import figure, moment
from lake_assets.config.layout.hive import HIVE_NULL, escape
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.past_partitions import PastPartition, changed_partitions, partition_of, past_table
from lake_assets.lake.catalog.table import (
    Key,
    Snapshot,
    first_kept,
    named_since,
    read_folder,
    snapshots,
    snapshots_of_table,
)
from lake_assets.lake.ledger.read import commits
from lake_assets.lake.ledger.tables import Hold, LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.history.past_snapshot import require_table


@dataclass(frozen=True, slots=True)
class HistoryEntry(Documented):
    """A snapshot that changed a partition, or the table itself."""

    snapshot: int
    """Its number."""
    time: dt.datetime | None
    """When it was committed; null if unknown."""
    partition: str | None
    """As a path, such as `region=NW/date=2026-02-11`; null if the snapshot changed the table, such as its columns."""
    run_id: str | None
    """The run's id; null for other clients."""
    mode: str
    """Of the run, as in the ledger; for other clients, DuckLake's words for the change."""
    rows_before: int | None
    """The partition's rows before; null if unknown."""
    rows: int | None
    """Its rows after; null if unknown."""
    requested_by: str | None
    """Who or what requested the run; for other clients the author of the snapshot, if it has one."""
    hold: Hold | None = None
    """Whether refreshes skip the partition since then; null if it was never held."""
    kept: int | None = None
    """A snapshot that still exists with these rows, for `restore --snapshot`; null if it has expired."""


def history(
    stream: OpenStream, partitions: Partition | Sequence[Partition] | None = None, limit: int = 20
) -> list[HistoryEntry]:
    """Return the newest snapshots that changed some partitions, or any of the stream's table; the newest first.

    The catalog returns the entries' snapshots, and the files that their partitions have had since the oldest of these.
    Commits of runs are known as long as the ledger has their rows, and those of other clients until their snapshots
    expire. In a lake that MotherDuck manages, only commits of runs are known.
    """
    with stream.lake.open(read_only=True) as session:
        require_table(session, stream)
        reader = _Reader(stream, session, named_since(session, stream.table))
        title = f"history {stream.name}"
        if partitions is None:
            with counting(title, "snapshots"):
                return _entries(reader, None, limit)
        wanted = [partitions] if isinstance(partitions, Partition) else list(dict.fromkeys(partitions))
        shown = counted(wanted, title, "partitions", len(wanted))
        entries = [entry for partition in shown for entry in _entries(reader, partition, limit)]
        return sorted(entries, key=lambda entry: (-entry.snapshot, entry.partition or ""))[:limit]


def _entries(reader: "_Reader", partition: Partition | None, limit: int) -> list[HistoryEntry]:
    """Return the entries of one partition, or of the table."""
    scope = reader.stream.ledger_scope(None if partition is None else [partition])
    rows = commits(reader.session, scope, limit)
    try:
        return reader.of_table(rows, limit) if partition is None else reader.of(partition, rows, limit)
    except NotDirectError:
        return _entries_of_runs(reader.session, rows)


@dataclass(frozen=True, slots=True)
class _Item:
    """An entry before the catalog's figures: a run's row, or another client's snapshot."""

    number: int
    path: str | None
    row: LedgerRow | None = None
    snapshot: Snapshot | None = None


class _Reader:
    """Reads the catalog's part of a history, for the entries that are shown."""

    def __init__(self, stream: OpenStream, session: LakeSession, since: int) -> None:
        self.stream = stream
        self.session = session
        self.since = since  # the table exists

    def of(self, partition: Partition, rows: Sequence[LedgerRow], limit: int) -> list[HistoryEntry]:
        """Return the entries of one partition."""
        items = [_Item(row.snapshot, row.load_partition, row) for row in rows]
        # With `limit` rows of the ledger, older snapshots are not wanted.
        known = {item.number for item in items}
        oldest = min(known, default=0) if len(rows) == limit else 0
        past = past_table(self.session, self.stream.partitioned_table, [partition], max(oldest - 1, 0))
        existing = self._snapshots(past.of(partition).changes(oldest, limit, known))
        items += [_Item(number, partition.path, snapshot=snapshot) for number, snapshot in existing.items()]
        return self._entries(items, limit, {partition.path: past.of(partition)})

    def of_table(self, rows: Sequence[LedgerRow], limit: int) -> list[HistoryEntry]:
        """Return the entries of all partitions."""
        items = [_Item(row.snapshot, row.load_partition, row) for row in rows]
        known = {item.number for item in items}
        oldest = min(known, default=0) if len(rows) == limit else 0
        with self.session.read() as database:
            table_id, *_ = read_folder(database, self.stream.table)
            newest = snapshots_of_table(database, table_id, limit)
        newest = [s for s in newest if s.number not in known and s.number >= oldest]
        changed = changed_partitions(self.session, self.stream.partitioned_table, newest, limit)
        for snapshot in newest:
            paths: list[str | None] = [*sorted(map(self._path, changed.get(snapshot.number, ())))]
            items += [_Item(snapshot.number, path, snapshot=snapshot) for path in paths or [None]]
        items = _newest(items, limit)
        at = {item.path: self.stream.config.partition_at(item.path) for item in items if item.path is not None}
        partitions = [partition for partition in at.values() if partition is not None]
        since = max(min((item.number for item in items), default=0) - 1, 0)
        past = past_table(self.session, self.stream.partitioned_table, partitions, since) if partitions else None
        pasts = {path: past.of(partition) for path, partition in at.items() if past and partition is not None}
        return self._entries(items, limit, pasts)

    def _entries(self, items: Sequence[_Item], limit: int, pasts: Mapping[str, PastPartition]) -> list[HistoryEntry]:
        """Return the newest of the items, with the catalog's figures."""
        items = _newest(items, limit)
        # Those of the snapshots, and of the ones right before them, that have not expired.
        exist = set(self._snapshots(sorted({item.number - before for item in items for before in (0, 1)})))
        entries = []
        for item in items:
            past = pasts.get(item.path or "")

            def rows_at(number: int, past: PastPartition | None = past) -> int | None:
                if past is None or number not in exist:
                    return None
                return past.rows(number) if number >= self.since else 0

            if item.row is None:
                assert item.snapshot is not None  # noqa: S101 - one of the two is there
                entries.append(_foreign_entry(item.snapshot, item.path, rows_at(item.number - 1), rows_at(item.number)))
                continue
            entry = _entry(item.row, item.number if item.number in exist else self._kept(item.row, past))
            rows = rows_at(item.number)
            entries.append(entry if rows is None else dataclasses.replace(entry, rows=rows))
        return entries

    def _snapshots(self, numbers: Sequence[int]) -> dict[int, Snapshot]:
        with self.session.read() as database:
            return snapshots(database, numbers)

    def _path(self, key: Key) -> str:
        """Return the partition of the catalog's values, in the path's form."""
        columns = self.stream.config.partition_columns
        if (partition := partition_of(columns, key)) is not None:
            return partition.path
        return "/".join(f"{c.name}={HIVE_NULL if t is None else escape(t)}" for c, t in zip(columns, key, strict=True))

    def _kept(self, row: LedgerRow, past: PastPartition | None) -> int | None:
        """Return a snapshot that still exists with the rows of a commit whose own has expired."""
        number = row.snapshot
        with self.session.read() as database:
            kept = first_kept(database, number)
        is_same = past is not None and kept is not None and past.has_rows_of(row.rows_after, number, kept)
        return kept if is_same else None


def _newest(items: Sequence[_Item], limit: int) -> list[_Item]:
    return sorted(items, key=lambda item: (-item.number, item.path or ""))[:limit]


def _foreign_entry(snapshot: Snapshot, path: str | None, rows_before: int | None, rows: int | None) -> HistoryEntry:
    return HistoryEntry(
        snapshot.number,
        snapshot.time,
        path,
        None,
        ", ".join(dict.fromkeys(kind for kind, _ in snapshot.changes)),
        rows_before,
        rows,
        snapshot.author,
        kept=snapshot.number,
    )


def _entries_of_runs(session: LakeSession, rows: Sequence[LedgerRow]) -> list[HistoryEntry]:
    """Return the entries of runs, in a lake whose catalog shows its snapshots only."""
    numbers = [row.snapshot_id for row in rows]
    exist = session.rows(
        "SELECT snapshot_id FROM ducklake_snapshots(?) WHERE list_contains(?, snapshot_id)", [session.alias, numbers]
    )
    kept = {number for (number,) in exist}
    return [_entry(row, row.snapshot_id if row.snapshot_id in kept else None) for row in rows]


def _entry(row: LedgerRow, kept: int | None) -> HistoryEntry:
    return HistoryEntry(
        row.snapshot,
        row.finished_at,
        row.load_partition,
        row.run_id,
        row.mode,
        row.rows_before,
        row.rows_after,
        row.requested_by,
        row.hold,
        kept,
    )


def entry_texts(entry: HistoryEntry) -> list[str]:
    """Return the texts: snapshot, time, partition, what, rows before and after, who, run, snapshot to restore."""
    hold = f", {entry.hold}" if entry.hold else ""
    return [
        str(entry.snapshot),
        moment(entry.time),
        entry.partition or "",
        entry.mode + hold,
        figure(entry.rows_before),
        figure(entry.rows),
        entry.requested_by or ("" if entry.run_id else "another client"),
        (entry.run_id or "")[:8],
        "" if entry.partition is None else "expired" if entry.kept is None else str(entry.kept),
    ]
