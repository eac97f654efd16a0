"""Checks of the catalog: against the ledger, and against the files that there are."""

from collections.abc import Iterable, Sequence

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.lake.catalog.files import snapshot_ids
from lake_assets.lake.catalog.table_files import (
    CatalogFile,
    Deletes,
    all_deletes,
    all_files,
    named_since,
    partition_columns,
)
from lake_assets.lake.ledger.tables import ledger_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream


def ledger(stream: OpenStream, scope: Scope) -> CheckResult:  # noqa: ARG001 - every row of the ledger
    """Whether each committed ledger row's snapshot exists and holds as many rows of its partition.

    The catalog's own figures are asked, so that years of commits are two queries. Snapshots before the oldest one
    have expired, and are counted. A registration in place adds to the rows that were there before it; what it said is
    over once a repair has changed what all snapshots say of such files.

    Raises:
        CatalogError: the lake cannot be read.
    """
    with stream.lake.open(read_only=True) as lake:
        committed = _committed(lake, stream)
        snapshots = snapshot_ids(lake)
        columns = partition_columns(lake, stream.table)
        deletes = all_deletes(lake, stream.table)
        files = all_files(lake, stream.table)
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
    return CheckResult(
        "ledger",
        not wrong,
        "Ledger and snapshots do not agree; ingest these partitions with --force."
        if wrong
        else f"{len(committed) - len(expired):,} commits of the ledger are as their snapshots have them.",
        numbers={"commits": len(committed), "expired": len(expired), "wrong": len(wrong)},
        named=wrong[:NAMED],
    )


def data_files(stream: OpenStream, scope: Scope) -> CheckResult:  # noqa: ARG001 - every file
    """Whether every data file that a snapshot names is there, by a listing of the table's folder.

    A table that was renamed has files in the folder of its old name too.

    Raises:
        LakeAssetsError: the lake or its storage cannot be read.
    """
    with stream.lake.open(read_only=True) as lake:
        files = all_files(lake, stream.table)
    there: set[str] = set()
    elsewhere = 0
    storage = Store(stream.lake_config.own_storage)
    keys = [file.uri.removeprefix(f"{storage.root}/") for file in files if file.uri.startswith(f"{storage.root}/")]
    for folder in {"".join(f"{name}/" for name in key.split("/")[:-1][:2]) for key in keys}:
        there |= {o.uri for o in storage.list(folder)}
    if any(file.uri.startswith(f"{stream.source.root}/") for file in files):
        there |= {o.uri for o in stream.source.list()}
    missing = []
    for file in files:
        if file.uri in there:
            continue
        if file.uri.startswith((f"{storage.root}/", f"{stream.source.root}/")):
            missing.append(file.uri)
        else:
            elsewhere += 1  # registered by others, from a place that the config does not know
    return CheckResult(
        "data_files",
        not missing,
        "Files that the catalog names are gone, and queries of their partitions fail; ingest these with --force."
        if missing
        else f"{len(files) - elsewhere:,} files that the catalog names are there.",
        numbers={"files": len(files), "missing": len(missing), "elsewhere": elsewhere},
        named=missing[:NAMED],
    )


def _committed(lake: LakeSession, stream: OpenStream) -> list[tuple[int, str, int]]:
    """Snapshot, partition and rows after it of every committed row of the ledger that is of the table as it is."""
    # As in `committed_fingerprints`: no condition that DuckLake could use to pass over files.
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
    found: dict[tuple[str | None, ...], list[CatalogFile]] = {}
    for file in files:
        values = {columns.get((file.partition_id or 0, index)): text for index, text in file.values.items()}
        found.setdefault(tuple(values.get(name) for name in names), []).append(file)
    return found


def _rows_at(snapshot: int, files: Iterable[CatalogFile], deletes: dict[int, list[Deletes]]) -> int:
    """How many rows of these files a snapshot holds."""
    return sum(
        file.rows - sum(gone.rows for gone in deletes.get(file.file_id, ()) if _lives(gone, snapshot))
        for file in files
        if _lives(file, snapshot)
    )


def _key(partition: Partition) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in partition.values)


def _lives(found: CatalogFile | Deletes, snapshot: int) -> bool:
    return found.begin_snapshot <= snapshot and (found.end_snapshot is None or found.end_snapshot > snapshot)
