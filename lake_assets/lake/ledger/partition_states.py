"""The last commit of partitions, found without reading the ledger.

The names of data files have the fingerprint of the objects that they were made of, and a commit replaces all files of
its partition. So a partition's live files name its last commit. That costs the same for any length of the ledger, and
also holds after old ledger rows were deleted.

The ledger is read for a partition whose files do not all have one fingerprint: it has no files, DuckLake wrote them (in
a lake that takes rows by INSERT only), another client added some, or an earlier version of this package wrote them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.catalog.partition_files import (
    PartitionFile,
    all_partition_files,
    files_of_partitions,
    partition_files,
)
from lake_assets.lake.catalog.table import Partitioning, key_values, read_folder, read_partitioning
from lake_assets.lake.ledger.last_runs import LastCommit, last_commits
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition
from lake_assets.parquet.file_names import is_marked, named_fingerprint

_SINGLY = 20  # partitions; the files of more are found by one query
_SOME = 500  # partitions; for more, that query returns the files of the whole table


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The last commit of a partition, by its live files."""

    fingerprint: str  # of the objects that the rows were made of
    rows: int  # with those that other clients have deleted since
    snapshot: int


def last_states(
    session: LakeSession, table: TableName, partitions: Sequence[Partition], *, newest: bool = False
) -> dict[str, LastCommit]:
    """Each partition's last commit, by its path; a partition without a commit is left out.

    The files of a held partition have no fingerprint in their names, so for it the ledger is read, which has the hold.
    If a table was dropped and recreated, its earlier commits are ignored.

    Args:
        session: an open lake with a ledger.
        table: it exists.
        partitions: of the table.
        newest: several commits make up a partition, as in mode append. The fingerprint is then of the last one that
            added rows.

    Raises:
        CatalogError: the catalog or the ledger cannot be read.
    """
    found = {
        partition.path: LastCommit(state.fingerprint, rows=state.rows)
        for partition, state in partition_states(session, table, partitions, newest=newest).items()
    }
    others = [partition.path for partition in partitions if partition.path not in found]
    return found | (last_commits(session, table, others) if others else {})


def last_fingerprints(session: LakeSession, table: TableName, partitions: Sequence[Partition]) -> dict[str, str | None]:
    """The fingerprint of each partition's last commit, by its path; as `last_states`."""
    return {path: last.fingerprint for path, last in last_states(session, table, partitions).items()}


def partition_states(
    session: LakeSession, table: TableName, partitions: Sequence[Partition], *, newest: bool = False
) -> dict[Partition, PartitionState]:
    """The last commit of those partitions whose live files all have the same fingerprint in their names.

    With `newest`, only the files of the newest snapshot need to have the same.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    if not partitions or session.config.inserts_only:
        return {}  # DuckLake names the files that it writes
    try:
        with catalog_reading(session) as database:
            return _read(database, table, partitions, newest=newest)
    except NotDirectError:
        return {}


def _read(
    database: CatalogDatabase, table: TableName, partitions: Sequence[Partition], *, newest: bool
) -> dict[Partition, PartitionState]:
    table_id, *_ = read_folder(database, table)
    partitioning = read_partitioning(database, table_id)
    values = {partition: tuple(key_values(partitioning, partition)) for partition in partitions}
    files = _files(database, table_id, partitioning, list(values.values()))
    states = {partition: _state(files.get(texts, ()), newest=newest) for partition, texts in values.items()}
    return {partition: state for partition, state in states.items() if state is not None}


def _files(
    database: CatalogDatabase, table_id: int, partitioning: Partitioning, wanted: Sequence[tuple[str | None, ...]]
) -> Mapping[tuple[str | None, ...], Sequence[PartitionFile]]:
    if len(wanted) > _SOME:
        return all_partition_files(database, table_id, partitioning.partition_id, len(partitioning.columns))
    if len(wanted) > _SINGLY:
        return files_of_partitions(database, table_id, partitioning.partition_id, wanted)
    return {texts: partition_files(database, table_id, partitioning.partition_id, texts) for texts in wanted}


def _state(files: Sequence[PartitionFile], *, newest: bool) -> PartitionState | None:
    last = max((file.begin_snapshot for file in files), default=0)
    of_last = [file for file in files if not newest or file.begin_snapshot == last or is_marked(file.path)]
    fingerprints = {named_fingerprint(file.path) for file in of_last}
    if len(fingerprints) != 1 or (fingerprint := fingerprints.pop()) is None:
        return None
    return PartitionState(fingerprint, sum(file.rows for file in files), max(file.begin_snapshot for file in files))
