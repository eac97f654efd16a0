"""Queries of the manifest table: the landed objects that runs have noted.

Every function raises CatalogError if the manifest or the ledger cannot be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.ledger.tables import ledger_table, manifest_table
from lake_assets.lake.session import LakeSession, TableName


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object at the last run that noted it."""

    uri: str
    load_partition: str  # as the path has it
    etag: str
    size: int  # bytes

    @property
    def has_ended(self) -> bool:
        """Whether a repair removed it from the table, because it had vanished."""
        return not self.etag and not self.size

    def is_now(self, etag: str, size: int) -> bool:
        """Whether an object with this ETag and size is unchanged."""
        return (self.etag, self.size) == (etag, size)


def known_objects(
    session: LakeSession, stream: str, table: TableName, load_partitions: Sequence[str] | None = None
) -> dict[str, KnownObject]:
    """The objects of the newest commits of a stream, by URI.

    Objects of a dropped table of the same name are left out, and objects that a later replacement of the partition did
    not read. Objects that a repair removed are included, because their path must not be registered again.

    `load_partitions` are partitions in the path's form, if not all are to be read.
    """
    # No conditions by which DuckLake prunes files; see `committed_fingerprints`.
    wanted = "stream = ?" + (" AND list_contains(?, load_partition)" if load_partitions is not None else "")
    parameters: list[object] = [stream] + ([] if load_partitions is None else [list(load_partitions)])
    rows = session.rows(
        "WITH runs AS (SELECT run_id, load_partition, max(snapshot_id) AS snapshot_id, "  # noqa: S608 - quoted names
        "max(snapshot_id) FILTER (mode = 'replace') AS replaced "
        f"FROM (SELECT *, stream = ? AND status = 'committed' AS wanted FROM {ledger_table(session.config).sql}) "
        "WHERE wanted IS TRUE GROUP BY ALL), "
        "latest AS (SELECT load_partition, max(replaced) AS replaced FROM runs GROUP BY ALL) "
        "SELECT uri, arg_max(load_partition, number), arg_max(etag, number), arg_max(size, number) "
        f"FROM (SELECT rowid AS number, *, {wanted} AS wanted FROM {manifest_table(session.config).sql}) "
        "LEFT JOIN runs USING (run_id, load_partition) LEFT JOIN latest USING (load_partition) "
        # If the ledger was emptied, an object counts as known.
        "WHERE wanted IS TRUE AND coalesce(snapshot_id >= greatest(latest.replaced, ?), TRUE) GROUP BY uri",
        [stream, *parameters, named_since(session, table)],
    )
    return {row[0]: KnownObject(*row) for row in rows}


def registered_objects(session: LakeSession, uris: Sequence[str]) -> dict[str, KnownObject]:
    """The objects last registered under these URIs, by an index or a repair of any stream.

    Left out are URIs without a row in the manifest or whose run has no row in the ledger, and URIs whose partition was
    replaced later, because that partition's rows are not those of the registration.
    """
    ledger, manifest = ledger_table(session.config), manifest_table(session.config)
    if not uris or not (session.exists(ledger) and session.exists(manifest)):
        return {}
    # No conditions by which DuckLake prunes files; see `committed_fingerprints`.
    rows = session.rows(
        "WITH commits AS (SELECT run_id, stream, load_partition, max(snapshot_id) AS snapshot_id, "  # noqa: S608
        "bool_or(mode IN ('index', 'repair')) AS registers, "
        "max(snapshot_id) FILTER (mode = 'replace') AS replaced "
        f"FROM (SELECT *, status = 'committed' AS wanted FROM {ledger.sql}) WHERE wanted IS TRUE GROUP BY ALL), "
        "latest AS (SELECT stream, load_partition, max(replaced) AS last_replaced FROM commits GROUP BY ALL) "
        "SELECT uri, arg_max(load_partition, number), arg_max(etag, number), arg_max(size, number) "
        f"FROM (SELECT rowid AS number, * FROM {manifest.sql}) SEMI JOIN (SELECT unnest(?) AS uri) USING (uri) "
        "JOIN commits USING (run_id, stream, load_partition) JOIN latest USING (stream, load_partition) "
        "WHERE registers GROUP BY uri "
        "HAVING coalesce(max(snapshot_id) > max(last_replaced), TRUE)",
        [list(uris)],
    )
    return {row[0]: KnownObject(*row) for row in rows}
