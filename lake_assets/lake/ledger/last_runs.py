"""What the ledger says: of each partition of a table its newest run and commit, and of all runs how many."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.tables import COMPACT, Status, ledger_table
from lake_assets.lake.session import LakeSession, TableName


@dataclass(frozen=True, slots=True)
class LastRuns:
    """The newest runs of one partition."""

    status: Status  # of the newest run
    finished_at: dt.datetime | None  # of the newest run
    error: str | None  # of the newest run, if that failed
    fingerprint: str | None  # of the newest run that committed, or found nothing to commit
    committed_at: dt.datetime | None  # of the newest commit; None if there never was one
    rows: int | None  # of the newest commit
    snapshot: int | None  # of the newest commit


def last_runs(session: LakeSession, table: TableName) -> dict[str, LastRuns]:
    """The newest runs of every partition of a table, by the partition's path; nothing where there is no ledger.

    Compactions are left out: they change no row, and whether the newest ingest failed is the same after them. Runs that
    were cancelled are left out too: they say nothing about the partition. So are
    commits to a table that had the name before, which somebody has dropped.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return {}
    # As in `committed_fingerprints`: no condition that DuckLake could use to pass over files.
    rows = session.rows(
        "SELECT load_partition, "  # noqa: S608 - a quoted name
        "arg_max(struct_pack(status, finished_at, error), moment), "
        # What was skipped as unchanged is what was committed, and no more than that.
        "arg_max(struct_pack(moment, source_fingerprint), moment) "
        "FILTER (status = 'skipped' AND (on_empty IS NOT NULL OR mode = 'index')), "
        # By the snapshots, for the clocks of two writers differ.
        "arg_max(struct_pack(moment, source_fingerprint), snapshot_id) FILTER (is_commit), "
        "arg_max(struct_pack(finished_at, row_count, snapshot_id), snapshot_id) FILTER (is_commit) "
        "FROM (SELECT *, coalesce(finished_at, started_at) AS moment, "
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
            *(
                (committed["finished_at"], committed["row_count"], committed["snapshot_id"])
                if committed
                else [None] * 3
            ),
        )
        for path, newest, skipped, last, committed in rows
    }


def committed_fingerprints(
    session: LakeSession, table: TableName, load_partitions: Sequence[str]
) -> dict[str, str | None]:
    """The fingerprint of what each partition was last committed from; those that never were are left out.

    So are those that were committed to a table which had the name before: of that nothing is there any more.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    # Conditions that DuckLake could use to pass over files make it read the statistics of all files of all tables
    # from a SQLite catalog. These it cannot use.
    return dict(
        session.rows(
            "SELECT load_partition, arg_max(source_fingerprint, snapshot_id) AS fingerprint FROM "  # noqa: S608
            "(SELECT load_partition, source_fingerprint, snapshot_id, destination_table = ? AND status = 'committed' "
            "AND snapshot_id >= ? AND list_contains(?, load_partition) AS wanted "
            f"FROM {ledger_table(session.config).sql}) WHERE wanted IS TRUE GROUP BY load_partition",
            [str(table), named_since(session, table), list(load_partitions)],
        )
    )


def partitions_in_ledger(session: LakeSession, table: TableName) -> set[str]:
    """The paths of all partitions of a table that any run has a row of, in any status.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return set()
    # As in `committed_fingerprints`: no condition that DuckLake could use to pass over files.
    found = session.rows(
        "SELECT DISTINCT load_partition FROM (SELECT load_partition, destination_table = ? AS wanted "  # noqa: S608
        f"FROM {ledger.sql}) WHERE wanted IS TRUE",
        [str(table)],
    )
    return {path for (path,) in found}


@dataclass(frozen=True, slots=True)
class LedgerFigures:
    """The ledger in numbers."""

    rows: int
    committed: int
    skipped: int
    failed: int
    cancelled: int
    snapshot: int | None  # the newest that the ledger names
    finished_at: dt.datetime | None  # of the newest run


def ledger_figures(session: LakeSession) -> LedgerFigures | None:
    """The ledger in numbers; None where there is none yet.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return None
    (figures,) = session.rows(
        "SELECT count(*), count(*) FILTER (status = 'committed'), count(*) FILTER (status = 'skipped'), "  # noqa: S608
        "count(*) FILTER (status = 'failed'), count(*) FILTER (status = 'cancelled'), "
        f"max(snapshot_id), max(finished_at) FROM {ledger.sql}"
    )
    return LedgerFigures(*figures)
