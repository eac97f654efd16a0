"""Queries of the ledger: the newest run and commit of each partition, and figures of all runs.

Every function raises CatalogError if the ledger cannot be read.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.lookup import NewestRuns, newest_runs
from lake_assets.lake.ledger.relation import Wanted, query, relation
from lake_assets.lake.ledger.tables import ADDS, COMPACT, HELD, LEDGER_COLUMNS, Status, ledger_table
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a partition."""

    run_id: str
    requested_by: str | None
    since: dt.datetime | None

    def __str__(self) -> str:
        run = f"run {self.run_id[:8]}"
        who = f"{self.requested_by} ({run})" if self.requested_by else run
        return who if self.since is None else f"{who} since {self.since.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def holders(session: LakeSession, table: TableName, load_partitions: Sequence[str]) -> dict[str, Holder]:
    """Who holds these partitions; those that are not held are left out.

    A forced refresh of a held partition does not begin its hold.

    Args:
        session: an open lake with a ledger.
        table: the destination.
        load_partitions: in the path's form.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    names = ("load_partition", "run_id", "requested_by", "finished_at", "hold", "mode", "snapshot_id")
    among = {"destination_table": [str(table)], "status": ["committed"], "load_partition": list(load_partitions)}
    found = relation(
        session, ledger_table(session.config), {name: LEDGER_COLUMNS[name] for name in names}, Wanted(among)
    )
    rows = query(
        session,
        "WITH commits AS (SELECT *, coalesce(max(snapshot_id) FILTER (hold IS DISTINCT FROM ?) "  # noqa: S608
        f"OVER (PARTITION BY load_partition), -1) AS free FROM {found} WHERE mode <> ? AND snapshot_id >= ?) "
        "SELECT load_partition, arg_min(struct_pack(run_id, requested_by, since := finished_at), snapshot_id) "
        "FROM commits WHERE snapshot_id > free GROUP BY load_partition",
        [HELD, *found.parameters, COMPACT, named_since(session, table)],
        [found],
    )
    return {path: Holder(**holder) for path, holder in rows}


_TOTAL = f"row_count + if({ADDS}, coalesce(rows_before, 0), 0) AS total"  # rows of the partition


@dataclass(frozen=True, slots=True)
class LastRuns:
    """The newest runs of one partition."""

    status: Status  # of the newest run
    finished_at: dt.datetime | None  # of the newest run
    error: str | None  # of the newest run, if it failed
    fingerprint: str | None  # of the newest run that committed, or found nothing to commit
    committed_at: dt.datetime | None  # of the newest commit; None if there is none
    rows: int | None  # of the partition, after the newest commit; in a report, now
    snapshot: int | None  # of the newest commit
    is_held: bool = False  # since a restore, refreshes leave the partition alone; known if it was asked for
    holder: Holder | None = None  # the run that holds it
    edited_from: int | None = None  # the rows after the newest commit, if another client changed their number since


def last_runs(
    session: LakeSession, table: TableName, partitions: Sequence[Partition] | None = None, *, holds: bool = False
) -> dict[str, LastRuns]:
    """The newest runs of each partition of a table, by the partition's path; empty if there is no ledger.

    For some partitions the cost is that of their own rows; see `lookup.py`. For all of them the ledger is read once.

    Compactions are ignored, because they change no row, and cancelled runs, because they say nothing about the
    partition. If a table was dropped and recreated, its earlier commits are ignored.

    Args:
        session: an open lake.
        table: the destination.
        partitions: those to find, if not all are wanted.
        holds: whether the result says which partitions are held, which takes one more statement.
    """
    found = _find_last_runs(session, table, partitions, holds=holds)
    held = [path for path, runs in found.items() if runs.is_held]
    if not held:
        return found
    return found | {path: replace(found[path], holder=who) for path, who in holders(session, table, held).items()}


def _find_last_runs(
    session: LakeSession, table: TableName, partitions: Sequence[Partition] | None, *, holds: bool
) -> dict[str, LastRuns]:
    if partitions is not None:
        paths = [partition.path for partition in partitions]
        newest = newest_runs(session, table, paths, holds=holds)
        if newest is not None:
            return {path: _last_runs(runs) for path, runs in newest.items()}
    if not session.exists(ledger_table(session.config)):
        return {}
    every = _all_last_runs(session, table, holds=holds)
    return every if partitions is None else {path: every[path] for path in paths if path in every}


def _last_runs(runs: NewestRuns) -> LastRuns:
    newest, commit = runs.newest or runs.source or runs.commit, runs.commit
    assert newest is not None  # noqa: S101 - a partition without a run is left out
    return LastRuns(
        newest.status,
        newest.finished_at,
        newest.error if newest.status == "failed" else None,
        runs.source.source_fingerprint if runs.source else None,
        commit.finished_at if commit else None,
        commit.rows if commit else None,
        commit.snapshot_id if commit else None,
        commit is not None and commit.hold == HELD,
    )


def _all_last_runs(session: LakeSession, table: TableName, *, holds: bool) -> dict[str, LastRuns]:
    ledger = ledger_table(session.config)
    is_held = f"coalesce(hold = '{HELD}', FALSE)" if holds and _has_hold(session, ledger) else "FALSE"
    # No conditions by which DuckLake prunes files; see `committed_fingerprints`.
    rows = session.rows(
        "SELECT load_partition, "  # noqa: S608 - a quoted name
        "arg_max(struct_pack(status, finished_at, error), moment), "
        # A run that was skipped as unchanged has the fingerprint of the commit before it.
        "arg_max(struct_pack(moment, source_fingerprint), moment) "
        f"FILTER (status = 'skipped' AND (on_empty IS NOT NULL OR {ADDS})), "
        # By the snapshots, because the clocks of two writers differ.
        "arg_max(struct_pack(moment, source_fingerprint), snapshot_id) FILTER (is_commit), "
        "arg_max(struct_pack(finished_at, total, snapshot_id, is_held), snapshot_id) FILTER (is_commit) "
        "FROM (SELECT *, coalesce(finished_at, started_at) AS moment, "
        f"{_TOTAL}, {is_held} AS is_held, "
        "destination_table = ? AND mode <> ? AND status <> 'cancelled' AS wanted, "
        f"status = 'committed' AND snapshot_id >= ? AS is_commit FROM {ledger.sql}) "
        "WHERE wanted IS TRUE GROUP BY load_partition",
        [str(table), COMPACT, named_since(session, table)],
    )
    nothing = {"source_fingerprint": None}
    return {
        path: LastRuns(
            newest["status"],
            newest["finished_at"],
            newest["error"] if newest["status"] == "failed" else None,
            max(filter(None, (skipped, last)), key=itemgetter("moment"), default=nothing)["source_fingerprint"],
            *(committed.values() if committed else (None, None, None, False)),
        )
        for path, newest, skipped, last, committed in rows
    }


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The newest commit of a partition."""

    fingerprint: str | None  # of the objects that the rows were made of
    is_held: bool = False  # automatic refreshes leave the partition alone
    rows: int | None = None  # of the partition, after it


def last_commits(session: LakeSession, table: TableName, load_partitions: Sequence[str]) -> dict[str, LastCommit]:
    """The newest commit of each partition, by the ledger; a partition without a commit is left out.

    If a table was dropped and recreated, its earlier commits are ignored.
    """
    if (newest := newest_runs(session, table, load_partitions, holds=True)) is not None:
        return {
            path: LastCommit(runs.commit.source_fingerprint, runs.commit.hold == HELD, runs.commit.rows)
            for path, runs in newest.items()
            if runs.commit
        }
    if not session.exists(ledger_table(session.config)):
        return {}
    # On a SQLite catalog, a condition by which DuckLake prunes files makes it read the statistics of all files of all
    # tables. It cannot prune by these conditions.
    ledger = ledger_table(session.config)
    hold = "hold" if _has_hold(session, ledger) else "NULL"
    rows = session.rows(
        "SELECT load_partition, arg_max(struct_pack(source_fingerprint, hold, total), snapshot_id) FROM "  # noqa: S608
        f"(SELECT load_partition, source_fingerprint, {hold} AS hold, snapshot_id, {_TOTAL}, destination_table = ? "
        "AND status = 'committed' AND mode <> ? AND snapshot_id >= ? AND list_contains(?, load_partition) AS wanted "
        f"FROM {ledger.sql}) WHERE wanted IS TRUE GROUP BY load_partition",
        [str(table), COMPACT, named_since(session, table), list(load_partitions)],
    )
    return {path: LastCommit(last["source_fingerprint"], last["hold"] == HELD, last["total"]) for path, last in rows}


def _has_hold(session: LakeSession, ledger: TableName) -> bool:
    """Whether the ledger has the column; one of an older version lacks it until the next run."""
    return any(name == "hold" for name, *_ in session.rows(f"DESCRIBE {ledger.sql}"))


def committed_fingerprints(
    session: LakeSession, table: TableName, load_partitions: Sequence[str]
) -> dict[str, str | None]:
    """The fingerprint of each partition's newest commit; a partition without a commit is left out."""
    return {path: last.fingerprint for path, last in last_commits(session, table, load_partitions).items()}


def partitions_in_ledger(
    session: LakeSession, table: TableName, load_partitions: Sequence[str] | None = None
) -> set[str]:
    """Those of the partitions that have a row in the ledger, with any status; of a table, by their paths.

    Without `load_partitions` it is every partition of the table, for which the ledger is read.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return set()
    among: dict[str, Sequence[str]] = {"destination_table": [str(table)]}
    if load_partitions is not None:
        among["load_partition"] = load_partitions
    columns = {"load_partition": LEDGER_COLUMNS["load_partition"]}
    found = relation(session, ledger, columns, Wanted(among, distinct=True))
    return {path for (path,) in query(session, f"FROM {found}", found.parameters, [found])}


@dataclass(frozen=True, slots=True)
class LedgerFigures:
    """Figures of the ledger."""

    rows: int
    committed: int
    skipped: int
    failed: int
    cancelled: int
    snapshot: int | None  # the newest that the ledger names
    finished_at: dt.datetime | None  # of the newest run


def ledger_figures(session: LakeSession) -> LedgerFigures | None:
    """Figures of the ledger; None if there is none yet."""
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return None
    (figures,) = session.rows(
        "SELECT count(*), count(*) FILTER (status = 'committed'), count(*) FILTER (status = 'skipped'), "  # noqa: S608
        "count(*) FILTER (status = 'failed'), count(*) FILTER (status = 'cancelled'), "
        f"max(snapshot_id), max(finished_at) FROM {ledger.sql}"
    )
    return LedgerFigures(*figures)
