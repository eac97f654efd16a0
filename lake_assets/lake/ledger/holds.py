"""Who holds a partition, and since when: the first of the commits under a hold that still lasts."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.relation import Wanted, query, relation
from lake_assets.lake.ledger.tables import COMPACT, HELD, LEDGER_COLUMNS, ledger_table
from lake_assets.lake.session import LakeSession, TableName


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
