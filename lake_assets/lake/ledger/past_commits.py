"""The commits of one partition or stream, and the landed objects of which the rows of a snapshot were made.

Every function raises CatalogError if the ledger or the manifest cannot be read.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.relation import ADDED, Wanted, query, relation
from lake_assets.lake.ledger.tables import (
    COMPACT,
    LEDGER_COLUMNS,
    MANIFEST_COLUMNS,
    RELEASE,
    RESTORE,
    LedgerRow,
    ledger_table,
    manifest_table,
)
from lake_assets.lake.session import LakeSession, TableName


def commits(
    session: LakeSession, table: TableName, load_partition: str | None, since: int, newest: int | None = None
) -> list[LedgerRow]:
    """The committed rows of a table, the newest first.

    Args:
        session: an open lake.
        table: the destination.
        load_partition: its rows only, in the path's form.
        since: only commits of this snapshot or later, by `named_since`.
        newest: this many rows at most.
    """
    ledger = ledger_table(session.config)
    if not session.exists(ledger):
        return []
    among: dict[str, Sequence[str]] = {"destination_table": [str(table)], "status": ["committed"]}
    if load_partition is not None:
        among["load_partition"] = [load_partition]
    found = relation(session, ledger, LEDGER_COLUMNS, Wanted(among, newest=newest))
    names = ", ".join(f'"{name}"' for name in LEDGER_COLUMNS)
    limit = "" if newest is None else f" LIMIT {newest:d}"
    rows = query(
        session,
        f"SELECT {names} FROM {found} WHERE snapshot_id >= ? ORDER BY snapshot_id DESC{limit}",  # noqa: S608
        [*found.parameters, since],
        [found],
    )
    return [LedgerRow(**dict(zip(LEDGER_COLUMNS, row, strict=True))) for row in rows]


def commit_of(rows: Sequence[LedgerRow], snapshot: int) -> LedgerRow | None:
    """Of the commits of a partition, the newest first, the one that made its rows in a snapshot; None if unknown."""
    known = (row for row in rows if row.mode not in (COMPACT, RELEASE))
    return next((row for row in known if row.snapshot_id is not None and row.snapshot_id <= snapshot), None)


def restored_partitions(session: LakeSession, table: TableName, load_partitions: Sequence[str]) -> set[str]:
    """Those of the partitions that were restored and not replaced since, by their paths."""
    among = {
        "destination_table": [str(table)],
        "status": ["committed"],
        "mode": ["replace", RESTORE],
        "load_partition": list(load_partitions),
    }
    columns = {name: LEDGER_COLUMNS[name] for name in ("load_partition", "mode", "snapshot_id")}
    found = relation(session, ledger_table(session.config), columns, Wanted(among))
    rows = query(
        session,
        f"SELECT load_partition FROM {found} WHERE snapshot_id >= ? "  # noqa: S608 - quoted names
        f"GROUP BY load_partition HAVING arg_max(mode, snapshot_id) = '{RESTORE}'",
        [*found.parameters, named_since(session, table)],
        [found],
    )
    return {path for (path,) in rows}


@dataclass(frozen=True, slots=True)
class NotedObject:
    """A landed object as a run has noted it."""

    uri: str
    etag: str
    size: int  # bytes
    last_modified: dt.datetime
    reason: str | None  # why it was left out; None: it was read


def objects_at(session: LakeSession, stream: str, rows: Sequence[LedgerRow], snapshot: int) -> list[NotedObject]:
    """The landed objects of which a partition's rows in a snapshot were made, and those left out, by URI.

    Args:
        session: an open lake.
        stream: of the partition.
        rows: the partition's commits.
        snapshot: the snapshot.
    """
    before = [row for row in rows if row.snapshot_id is not None and row.snapshot_id <= snapshot]
    if not before or not session.exists(manifest_table(session.config)):
        return []
    # A replacement and a restore note all objects of their rows; other commits note those that they add.
    whole = [row.snapshot_id or 0 for row in before if row.mode in ("replace", "restore")]
    first = max(whole, default=0)
    runs = {row.run_id: row.snapshot_id for row in reversed(before) if (row.snapshot_id or 0) >= first}
    if not runs:
        return []
    among = {"stream": [stream], "load_partition": [before[0].load_partition], "run_id": list(runs)}
    columns = {**MANIFEST_COLUMNS, ADDED: "BIGINT"}
    found = relation(session, manifest_table(session.config), columns, Wanted(among))
    noted = query(
        session,
        # A run can be repeated under its id: each object has a row of each time.
        "SELECT uri, arg_max(struct_pack(etag, size, last_modified, reason), number) FROM (SELECT *, row_number() OVER "  # noqa: S608
        f"(ORDER BY {ADDED} NULLS FIRST, last_modified NULLS LAST) AS number FROM {found} "
        f"WHERE coalesce({ADDED} BETWEEN ? AND ?, TRUE)) GROUP BY uri ORDER BY uri",
        [*found.parameters, first, snapshot],
        [found],
    )
    return [NotedObject(uri, **values) for uri, values in noted if values["etag"] or values["size"]]
