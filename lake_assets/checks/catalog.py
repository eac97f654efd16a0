"""Checks of the catalog against the ledger and against the files in the storage.

Every check raises LakeAssetsError if the lake or its storage cannot be read.
"""

from collections.abc import Iterable, Sequence

from lake_assets.checks.result import CheckResult, Scope
from lake_assets.lake.catalog.files import snapshot_ids
from lake_assets.lake.catalog.table_files import (
    CatalogFile,
    Deletes,
    all_deletes,
    catalog_files,
    named_since,
    partition_columns,
)
from lake_assets.lake.ledger.tables import ledger_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream


def ledger(stream: OpenStream, scope: Scope) -> CheckResult:  # noqa: ARG001 - every row of the ledger
    """Whether the snapshot of each committed ledger row exists and has as many rows of the partition.

    The rows are counted by the catalog's figures, so that years of commits take two queries. Snapshots before the
    oldest existing one have expired, and are only counted. A registration in place adds rows to the rows before it. A
    repair changes the figures of all snapshots, so earlier registrations of its partition are not compared.
    """
    with stream.lake.open(read_only=True) as lake:
        committed = _committed(lake, stream)
        snapshots = snapshot_ids(lake)
        columns = partition_columns(lake, stream.table)
        deletes = all_deletes(lake, stream.table)
        files = catalog_files(lake, stream.table, all_snapshots=True)
    by_partition = _by_partition(files, columns, [column.name.lower() for column in stream.config.columns])
    oldest = min(snapshots)
    expired = [row for row in committed if row[0] < oldest]
    wrong = []
    for snapshot, path, rows in committed:
        if snapshot < oldest:
            continue
        if snapshot not in snapshots:
            wrong.append(f"{path}: there is no snapshot {snapshot}")
            continue
        partition = stream.config.partition_at(path)
        held = _rows_at(snapshot, by_partition.get(_key(partition), ()), deletes) if partition else rows
        if held != rows:
            wrong.append(f"{path}: snapshot {snapshot} holds {held:,} rows, and the ledger says {rows:,}")
    return CheckResult.of_findings(
        "ledger",
        wrong,
        failure="Ledger and snapshots do not agree; ingest these partitions with --force.",
        success=f"{len(committed) - len(expired):,} commits of the ledger agree with their snapshots.",
        numbers={"commits": len(committed), "expired": len(expired), "wrong": len(wrong)},
    )


def data_files(stream: OpenStream, scope: Scope) -> CheckResult:  # noqa: ARG001 - every file
    """Whether every data file that a snapshot names exists, by a listing of the table's folder.

    A renamed table also has files in the folder of its old name.
    """
    with stream.lake.open(read_only=True) as lake:
        files = catalog_files(lake, stream.table, all_snapshots=True)
    existing: set[str] = set()
    elsewhere = 0
    storage = Store(stream.lake_config.own_storage)
    keys = [file.uri.removeprefix(f"{storage.root}/") for file in files if file.uri.startswith(f"{storage.root}/")]
    for folder in {"".join(f"{name}/" for name in key.split("/")[:-1][:2]) for key in keys}:
        existing |= {stored.uri for stored in storage.list(folder)}
    if any(file.uri.startswith(f"{stream.source.root}/") for file in files):
        existing |= {landed.uri for landed in stream.source.list()}
    missing = []
    for file in files:
        if file.uri in existing:
            continue
        if file.uri.startswith((f"{storage.root}/", f"{stream.source.root}/")):
            missing.append(file.uri)
        else:
            elsewhere += 1  # registered by another client, from a storage that is not in the config
    return CheckResult.of_findings(
        "data_files",
        missing,
        failure="Files that the catalog names are gone, and queries of their partitions fail; "
        "ingest these with --force.",
        success=f"{len(files) - elsewhere:,} files that the catalog names exist.",
        numbers={"files": len(files), "missing": len(missing), "elsewhere": elsewhere},
    )


def _committed(lake: LakeSession, stream: OpenStream) -> list[tuple[int, str, int]]:
    """Snapshot, partition and rows after the commit, of every committed ledger row of the present table."""
    # No conditions by which DuckLake prunes files; see `committed_fingerprints`.
    return lake.rows(
        "SELECT snapshot_id, load_partition, row_count + if(mode = 'index', rows_before, 0) FROM "  # noqa: S608
        "(SELECT *, destination_table = ? AND stream = ? AND status = 'committed' AND snapshot_id >= ? AS wanted, "
        "max(snapshot_id) FILTER (mode = 'repair' AND wanted) OVER (PARTITION BY load_partition) AS repaired "
        f"FROM {ledger_table(lake.config).sql}) "
        "WHERE wanted IS TRUE AND mode <> 'repair' AND (mode <> 'index' OR snapshot_id > coalesce(repaired, 0)) "
        "ORDER BY snapshot_id",
        [str(stream.table), stream.name, named_since(lake, stream.table)],
    )


def _by_partition(
    files: Iterable[CatalogFile], columns: dict[tuple[int, int], str], names: Sequence[str]
) -> dict[tuple[str | None, ...], list[CatalogFile]]:
    """The files by their partition's values, in the order of these names."""
    result: dict[tuple[str | None, ...], list[CatalogFile]] = {}
    for file in files:
        values = {columns.get((file.partition_id or 0, index)): text for index, text in file.values.items()}
        result.setdefault(tuple(values.get(name) for name in names), []).append(file)
    return result


def _rows_at(snapshot: int, files: Iterable[CatalogFile], deletes: dict[int, list[Deletes]]) -> int:
    """The number of rows of these files in a snapshot."""
    return sum(
        file.rows - sum(d.rows for d in deletes.get(file.file_id, ()) if _is_in(d, snapshot))
        for file in files
        if _is_in(file, snapshot)
    )


def _key(partition: Partition) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in partition.values)


def _is_in(entry: CatalogFile | Deletes, snapshot: int) -> bool:
    return entry.begin_snapshot <= snapshot and (entry.end_snapshot is None or entry.end_snapshot > snapshot)
