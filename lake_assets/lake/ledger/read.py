"""The rows of the ledger: the newest runs and commits of partitions, and rows by stream, partition, run and time.

Every function raises CatalogError if the ledger cannot be read, and finds nothing if there is no ledger yet, unless it
says otherwise. See `lookup.py` for what the newest runs of partitions cost, `ledger_relation.py` for the other rows.
"""

import datetime as dt
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lake_assets.base.errors import CatalogError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.table import named_since, snapshot_span
from lake_assets.lake.ledger.ledger_relation import LedgerScope, WantedRows, wanted_rows
from lake_assets.lake.ledger.lookup import LastRuns, commits_by_files, newest_runs
from lake_assets.lake.ledger.tables import (
    COMPACT,
    LEDGER,
    LEDGER_COLUMNS,
    RELEASE,
    RESTORE,
    STATUSES,
    LedgerRow,
    Status,
)
from lake_assets.lake.session import LakeSession, TableName

PACE_ROWS = 500  # rows of the ledger by which the pace is known

_ALL = tuple(LEDGER_COLUMNS)
_NEWEST_FIRST = "ORDER BY finished_at DESC NULLS LAST, started_at DESC NULLS LAST LIMIT ?"
_NEWEST_COMMIT = "QUALIFY row_number() OVER (PARTITION BY load_partition ORDER BY snapshot_id DESC) = 1"


def last_runs(
    session: LakeSession, table: TableName, partitions: Sequence[Partition] | None = None
) -> dict[str, LastRuns]:
    """Return the newest runs of each partition of a table, or of some, by the partition's path.

    Compactions are ignored, because they change no row, and cancelled runs, because they say nothing about the
    partition. If a table was dropped and recreated, its earlier commits are ignored.
    """
    paths = None if partitions is None else [partition.path for partition in partitions]
    newest = newest_runs(session, table, paths)
    if held := [path for path, runs in newest.items() if runs.is_held]:
        newest |= {path: replace(newest[path], holder=row) for path, row in _holders(session, table, held).items()}
    return newest


def _holders(session: LakeSession, table: TableName, load_partitions: Sequence[str]) -> dict[str, LedgerRow]:
    """Return the commit that began the hold of each held partition; a forced refresh of one does not begin it."""
    holders: dict[str, LedgerRow] = {}
    ended = set()
    for row in commits(session, LedgerScope(table, load_partitions)):
        if row.mode != COMPACT and row.load_partition not in ended:
            if row.is_held:
                holders[row.load_partition] = row
            else:
                ended.add(row.load_partition)
    return holders


def last_commits(
    session: LakeSession, table: TableName, partitions: Sequence[Partition], *, newest: bool = False
) -> dict[str, LedgerRow]:
    """Return each partition's newest commit, by its path; a partition without a commit is left out.

    The names of a partition's live files say it, and then the row has `source_fingerprint`, `row_count` (with rows that
    other clients have deleted since) and `snapshot_id` only. The ledger is read for a partition whose files do not all
    have one fingerprint, such as a held one. If a table was dropped and recreated, its earlier commits are ignored.
    With `newest`, several commits make up a partition, as in mode append; the fingerprint is then of the last one that
    added rows.
    """
    named = commits_by_files(session, table, partitions, newest=newest)
    others = [partition for partition in partitions if partition.path not in named]
    return named | (recorded_commits(session, table, others) if others else {})


def recorded_commits(session: LakeSession, table: TableName, partitions: Sequence[Partition]) -> dict[str, LedgerRow]:
    """Return each partition's newest commit, by its path, as the ledger has it; see `last_commits`."""
    newest = newest_runs(session, table, [partition.path for partition in partitions], _ALL)
    return {path: runs.commit for path, runs in newest.items() if runs.commit is not None}


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """Which rows of the ledger are wanted: those that meet all of these conditions."""

    streams: tuple[str, ...] | None = None
    load_partition: str | None = None  # in the path's form
    statuses: Sequence[Status] = ()  # any when empty
    since: dt.datetime | None = None  # runs that ended then or later, with a time zone
    until: dt.datetime | None = None  # runs that ended before then

    @property
    def among(self) -> dict[str, Sequence[str]]:
        """The values of columns that it wants."""
        partitions = None if self.load_partition is None else [self.load_partition]
        statuses = self.statuses if {*self.statuses} != {*STATUSES} else None
        wanted = {"stream": self.streams, "load_partition": partitions, "status": statuses or None}
        return {name: values for name, values in wanted.items() if values is not None}


def read_ledger(session: LakeSession, rows_of: LedgerFilter = LedgerFilter(), limit: int = 100) -> list[LedgerRow]:
    """Return the newest rows of the ledger; newest first, `limit` at most."""
    wanted = WantedRows(LEDGER, _ALL, rows_of.among, since=rows_of.since, until=rows_of.until, newest=limit)
    rows = _rows(session, wanted, _NEWEST_FIRST, [limit])
    if not rows and not session.exists(table := LEDGER.name(session.config)):
        raise CatalogError(f"the lake has no ledger {table} yet:", "ingest a partition first.")
    return rows


def rows_of_run(
    session: LakeSession, streams: tuple[str, ...], run_id: str, since: dt.datetime | None = None
) -> list[LedgerRow]:
    """Return the rows of a run, the oldest first.

    Files of rows from before `since`, when the run began, with a time zone, are not read.
    """
    wanted = WantedRows(LEDGER, _ALL, {"run_id": [run_id], "stream": streams}, since=since)
    return _rows(session, wanted, "ORDER BY coalesce(finished_at, started_at), snapshot_id")


def commits(
    session: LakeSession, scope: LedgerScope, newest: int | None = None, columns: Sequence[str] = _ALL
) -> list[LedgerRow]:
    """Return the committed rows of a table, the newest first, `newest` at most.

    Columns other than `columns` are None; `snapshot_id`, and `finished_at` for `newest`, must be among them. If the
    table was dropped and recreated, its earlier commits are ignored.
    """
    limit = "" if newest is None else f" LIMIT {newest:d}"
    tail = f"WHERE snapshot_id >= ? ORDER BY snapshot_id DESC{limit}"
    wanted = WantedRows(LEDGER, columns, scope.committed, newest=newest)
    return _rows(session, wanted, tail, [named_since(session, scope.table)])


def tables_after(session: LakeSession, snapshot: int) -> tuple[set[str], int]:
    """Return the tables that have commits after a snapshot, and the newest snapshot, which was read before."""
    try:
        with session.read() as database:
            _, newest = snapshot_span(database)
    except NotDirectError:
        newest = session.current_snapshot()
    if newest == snapshot:
        return set(), newest
    wanted = WantedRows(LEDGER, ["destination_table"], {"status": ["committed"]}, distinct=True, after=snapshot)
    return {table for (table,) in wanted_rows(session, wanted)}, newest


def filled_tables(session: LakeSession) -> list[LedgerRow]:
    """Return the newest commit of each stream to each table, the oldest first; its row has only what is asked for."""
    wanted = WantedRows(
        LEDGER, ("stream", "destination_table", "snapshot_id", "finished_at"), {"status": ["committed"]}
    )
    newest = "QUALIFY row_number() OVER (PARTITION BY stream, destination_table ORDER BY snapshot_id DESC) = 1"
    return _rows(session, wanted, f"{newest} ORDER BY snapshot_id")


def newest_commits(session: LakeSession, table: TableName, after: int | None = None) -> list[LedgerRow]:
    """Return the newest commit of each partition that changed its rows, and a later end of its hold; the oldest first.

    With `after`, only commits of later snapshots count. If the table was dropped and recreated, its earlier commits are
    ignored.
    """
    newest = f"PARTITION BY load_partition, mode = '{RELEASE}' ORDER BY snapshot_id DESC"
    last = "(PARTITION BY load_partition ORDER BY snapshot_id DESC)"
    tail = (
        f"WHERE mode <> '{COMPACT}' AND snapshot_id >= ? QUALIFY row_number() OVER ({newest}) = 1 "
        f"AND (mode <> '{RELEASE}' OR row_number() OVER {last} = 1) ORDER BY snapshot_id"
    )
    return _rows(
        session,
        WantedRows(LEDGER, _ALL, LedgerScope(table).committed, after=after),
        tail,
        [named_since(session, table)],
    )


def commit_of(rows: Sequence[LedgerRow], snapshot: int) -> LedgerRow | None:
    """Return which of a partition's commits, the newest first, made its rows in a snapshot; None if unknown."""
    known = (row for row in rows if row.mode not in (COMPACT, RELEASE))
    return next((row for row in known if row.snapshot_id is not None and row.snapshot_id <= snapshot), None)


def restored_partitions(session: LakeSession, table: TableName, load_partitions: Sequence[str]) -> set[str]:
    """Return those of the partitions that were restored and not replaced since, by their paths."""
    among = {**LedgerScope(table, load_partitions).committed, "mode": ["replace", RESTORE]}
    tail = f"WHERE snapshot_id >= ? {_NEWEST_COMMIT}"
    wanted = WantedRows(LEDGER, ("load_partition", "mode", "snapshot_id"), among)
    rows = _rows(session, wanted, tail, [named_since(session, table)])
    return {row.load_partition for row in rows if row.mode == RESTORE}


def rows_as_written(session: LakeSession, rows: Iterable[LedgerRow]) -> list[LedgerRow] | None:
    """Return the rows of one commit as written, by a try that failed because its answer was lost.

    None if it was not made. The given rows are those from before it, of one run, one for each partition of a stream.
    """
    first, *others = rows
    among = {
        "run_id": [first.run_id],
        "stream": list(dict.fromkeys(row.stream for row in (first, *others))),
        "load_partition": list(dict.fromkeys(row.load_partition for row in (first, *others))),
        "status": ["committed"],
    }
    committed = _rows(session, WantedRows(LEDGER, _ALL, among))
    written = {(row.stream, row.load_partition, row.started_at): row for row in committed}
    if (first.stream, first.load_partition, first.started_at) not in written:
        return None
    return [written.get((row.stream, row.load_partition, row.started_at), row) for row in (first, *others)]


def partitions_in_ledger(
    session: LakeSession, table: TableName, load_partitions: Sequence[str] | None = None
) -> set[str]:
    """Return those of the partitions that have a row in the ledger, with any status; of a table, by their paths.

    Without `load_partitions` it is every partition of the table, for which the ledger is read.
    """
    among: dict[str, Sequence[str]] = {"destination_table": [str(table)]}
    if load_partitions is not None:
        among["load_partition"] = load_partitions
    return {path for (path,) in wanted_rows(session, WantedRows(LEDGER, ["load_partition"], among, distinct=True))}


@dataclass(frozen=True, slots=True)
class LedgerFigures:
    """Figures of the ledger."""

    rows: int
    committed: int
    skipped: int
    failed: int
    cancelled: int
    snapshot: int | None  # the newest that the ledger names
    finished_at: dt.datetime | None  # when the newest run ended


def ledger_figures(session: LakeSession) -> LedgerFigures | None:
    """Return figures of the ledger; None if there is none yet."""
    ledger = LEDGER.name(session.config)
    if not session.exists(ledger):
        return None
    (figures,) = session.rows(
        "SELECT count(*), count(*) FILTER (status = 'committed'), count(*) FILTER (status = 'skipped'), "  # noqa: S608
        "count(*) FILTER (status = 'failed'), count(*) FILTER (status = 'cancelled'), "
        f"max(snapshot_id), max(finished_at) FROM {ledger.sql}"
    )
    return LedgerFigures(*figures)


@dataclass(frozen=True, slots=True)
class Pace:
    """The duration of a stream's last runs that committed something."""

    runs: int
    fixed: float  # seconds of a run that do not depend on its partitions, such as Spark's start
    per_partition: float  # seconds
    size: float  # landed bytes of a partition, on average

    def seconds(self, partitions: int, size: int) -> float:
        """Return how long a run of so many partitions and landed bytes would take.

        Partitions that are larger than those of the last runs take longer.
        """
        larger = max(1.0, size / partitions / self.size) if partitions and self.size else 1.0
        return self.fixed + partitions * self.per_partition * larger


def pace(session: LakeSession, table: TableName, mode: str) -> Pace | None:
    """Return the pace of a table's last runs of a mode; None if none has committed, or an earlier version did."""
    wanted = WantedRows(LEDGER, _ALL, LedgerScope(table).committed, newest=PACE_ROWS)
    rows = _rows(session, wanted, _NEWEST_FIRST, [PACE_ROWS])
    by_run: dict[str, list[LedgerRow]] = {}
    for row in rows:
        if row.mode == mode and row.finished_at is not None and row.seconds is not None:
            by_run.setdefault(row.run_id, []).append(row)
    if len(rows) == PACE_ROWS and len(by_run) > 1:
        by_run.popitem()  # the oldest, which may have more rows
    return _pace(list(by_run.values()))


def _pace(runs: Sequence[Sequence[LedgerRow]]) -> Pace | None:
    if not runs:
        return None
    rows = [row for run in runs for row in run]
    numbers, spans = [float(len(run)) for run in runs], [_span(run) for run in runs]
    per_partition = sum(row.seconds or 0 for row in rows) / len(rows)
    if len(set(numbers)) > 1 and (slope := statistics.linear_regression(numbers, spans).slope) > 0:
        per_partition = slope
    # Partitions are listed side by side, so their seconds may add up to more than the run took.
    per_partition = min(per_partition, sum(spans) / len(rows))
    fixed = max(0.0, statistics.fmean(spans) - per_partition * statistics.fmean(numbers))
    return Pace(len(runs), fixed, per_partition, statistics.fmean(row.source_bytes or 0 for row in rows))


def _span(run: Sequence[LedgerRow]) -> float:
    """Return the seconds of a run; a row of mode index begins with the commit, after its seconds."""
    ended = [(row, row.finished_at) for row in run if row.finished_at is not None]
    if run[0].registers:
        return sum(row.seconds or 0 for row in run) + max((end - row.started_at).total_seconds() for row, end in ended)
    whole = max(end for _, end in ended) - min(row.started_at for row in run)
    return max(dt.timedelta(), whole).total_seconds()


def _rows(
    session: LakeSession, wanted: WantedRows, tail: str = "", parameters: Sequence[object] = ()
) -> list[LedgerRow]:
    return [LedgerRow.of(wanted.columns, row) for row in wanted_rows(session, wanted, tail, parameters)]
