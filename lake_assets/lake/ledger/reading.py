"""Rows of the ledger by stream, partition, status and time, and those of one run.

Every function raises CatalogError if the ledger cannot be read.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.errors import CatalogError
from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.relation import Wanted, query, relation
from lake_assets.lake.ledger.tables import (
    COMPACT,
    LEDGER_COLUMNS,
    RELEASE,
    STATUSES,
    LedgerRow,
    Status,
    ledger_table,
)
from lake_assets.lake.session import LakeSession, TableName


def read_ledger(
    session: LakeSession,
    stream: str | None = None,
    load_partition: str | None = None,
    limit: int = 100,
    statuses: Sequence[Status] = STATUSES,
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
) -> list[LedgerRow]:
    """The newest rows of the ledger; newest first.

    Args:
        session: an open lake.
        stream: its rows only.
        load_partition: its rows only, in the path's form.
        limit: this many rows at most.
        statuses: rows with one of these only.
        since: runs that ended then or later only, with a time zone.
        until: runs that ended before then only, with a time zone.

    Raises:
        CatalogError: there is no ledger, or it cannot be read.
    """
    table = ledger_table(session.config)
    if not session.exists(table):
        raise CatalogError(f"the lake has no ledger {table} yet:", "ingest a partition first.")
    among: dict[str, Sequence[str]] = {}
    if stream is not None:
        among["stream"] = [stream]
    if load_partition is not None:
        among["load_partition"] = [load_partition]
    if set(statuses) != set(STATUSES):
        among["status"] = statuses
    wanted = Wanted(among, since=since, until=until, newest=limit)
    found = relation(session, table, LEDGER_COLUMNS, wanted)
    names = ", ".join(f'"{name}"' for name in LEDGER_COLUMNS)
    rows = query(
        session,
        f"SELECT {names} FROM {found} ORDER BY finished_at DESC NULLS LAST, started_at DESC NULLS LAST LIMIT ?",  # noqa: S608
        [*found.parameters, limit],
        [found],
    )
    return [LedgerRow(**dict(zip(LEDGER_COLUMNS, row, strict=True))) for row in rows]


def newest_commits(
    session: LakeSession, stream: str, table: TableName, since: dt.datetime | None = None
) -> list[LedgerRow]:
    """The newest commit of each partition that changed its rows; the oldest first.

    If the table was dropped and recreated, its earlier commits are ignored.

    Args:
        session: an open lake.
        stream: of the partitions.
        table: its destination.
        since: commits that ended then or later only, with a time zone; all when None.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return []
    wanted = Wanted({"stream": [stream], "status": ["committed"]}, since=since)
    found = relation(session, ledger, LEDGER_COLUMNS, wanted)
    names = ", ".join(f'"{name}"' for name in LEDGER_COLUMNS)
    rows = query(
        session,
        f"SELECT {names} FROM {found} "  # noqa: S608 - quoted names
        f"WHERE destination_table = ? AND mode NOT IN ('{COMPACT}', '{RELEASE}') AND snapshot_id >= ? "
        "QUALIFY row_number() OVER (PARTITION BY load_partition ORDER BY snapshot_id DESC) = 1 ORDER BY snapshot_id",
        [*found.parameters, str(table), named_since(session, table)],
        [found],
    )
    return [LedgerRow(**dict(zip(LEDGER_COLUMNS, row, strict=True))) for row in rows]


def commits_of_run(session: LakeSession, stream: str, run_id: str, since: dt.datetime) -> list[LedgerRow]:
    """The last commit of each partition that a run has committed, by snapshot.

    Args:
        session: an open lake.
        stream: of the partitions.
        run_id: of the run.
        since: commits that ended then or later only, with a time zone, so that files of earlier rows are not read.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return []
    wanted = Wanted({"run_id": [run_id], "stream": [stream], "status": ["committed"]}, since=since)
    found = relation(session, ledger, LEDGER_COLUMNS, wanted)
    names = ", ".join(f'"{name}"' for name in LEDGER_COLUMNS)
    rows = query(
        session,
        f"SELECT {names} FROM {found} "  # noqa: S608 - quoted names
        "QUALIFY row_number() OVER (PARTITION BY load_partition ORDER BY snapshot_id DESC) = 1 ORDER BY snapshot_id",
        found.parameters,
        [found],
    )
    return [LedgerRow(**dict(zip(LEDGER_COLUMNS, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True)
class EndedPartition:
    """A partition of a run."""

    load_partition: str  # as the path has it
    is_done: bool  # the last try committed it, or found it unchanged
    first_commit: int | None  # the snapshot of its first commit in this run


def partitions_of_run(
    session: LakeSession, stream: str, run_id: str, since: dt.datetime | None = None
) -> list[EndedPartition]:
    """The partitions of a run that have a row, sorted; empty if the run is unknown or there is no ledger.

    Args:
        session: an open lake.
        stream: of the partitions.
        run_id: of the run.
        since: when the run began, if that is known, with a time zone; then files of earlier rows are not read.
    """
    table = ledger_table(session.config)
    if not session.exists(table):
        return []
    names = ("load_partition", "status", "started_at", "finished_at", "snapshot_id")
    wanted = Wanted({"run_id": [run_id], "stream": [stream]}, since=since)
    found = relation(session, table, {name: LEDGER_COLUMNS[name] for name in names}, wanted)
    rows = query(
        session,
        "SELECT load_partition, "  # noqa: S608 - quoted names
        "arg_max(status IN ('committed', 'skipped'), coalesce(finished_at, started_at)), min(snapshot_id) "
        f"FROM {found} GROUP BY load_partition ORDER BY load_partition",
        found.parameters,
        [found],
    )
    return [EndedPartition(path, bool(is_done), first) for path, is_done, first in rows]
