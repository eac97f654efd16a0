"""What the manifest table knows of a stream's objects."""

from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.ledger import manifest_table


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object as the last run that noted it saw it."""

    uri: str
    load_partition: str  # as the path has it
    etag: str
    size: int  # bytes

    def is_now(self, etag: str, size: int) -> bool:
        """Whether it is still the same."""
        return (self.etag, self.size) == (etag, size)


def known_objects(
    session: LakeSession, stream: str, load_partitions: Sequence[str] | None = None
) -> dict[str, KnownObject]:
    """The objects that the manifest has of a stream, by URI.

    Args:
        session: an open lake.
        stream: whose objects.
        load_partitions: of these partitions only, in the path's form.

    Raises:
        CatalogError: the manifest cannot be read.
    """
    # As in the ledger, no condition that DuckLake could use to pass over files: it would read the statistics of all.
    wanted = "stream = ?" + (" AND list_contains(?, load_partition)" if load_partitions is not None else "")
    parameters: list[object] = [stream] + ([] if load_partitions is None else [list(load_partitions)])
    rows = session.rows(
        "SELECT uri, arg_max(load_partition, rowid), arg_max(etag, rowid), arg_max(size, rowid) "  # noqa: S608
        f"FROM (SELECT rowid, *, {wanted} AS wanted FROM {manifest_table(session.config).sql}) "
        "WHERE wanted IS TRUE GROUP BY uri",
        parameters,
    )
    return {row[0]: KnownObject(*row) for row in rows}
