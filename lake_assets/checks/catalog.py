"""Checks of the catalog: against the ledger, and against the files that there are."""

from dataclasses import dataclass

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.lake.attach import ALIAS, data_path
from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.engine import identifier
from lake_assets.lake.ledger import ledger_table
from lake_assets.partition import Partition
from lake_assets.storage.store import Store
from lake_assets.stream import OpenStream

_METADATA = identifier(f"__ducklake_metadata_{ALIAS}")

# By DuckLake's specification 1.0: a path is below its table's, that below its schema's, and that below the lake's.
_TABLE = (
    "SELECT t.table_id, CASE WHEN NOT t.path_is_relative::BOOLEAN THEN t.path "  # noqa: S608 - no values
    "WHEN NOT s.path_is_relative::BOOLEAN THEN s.path || t.path ELSE ? || s.path || t.path END AS folder "
    f"FROM {_METADATA}.ducklake_table t JOIN {_METADATA}.ducklake_schema s ON s.schema_id = t.schema_id "
    "WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
    "AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)"
)


@dataclass(frozen=True, slots=True)
class _File:
    """A data file of the table in all snapshots that there are."""

    uri: str
    rows: int
    begin: int
    end: int | None
    deletes: tuple[tuple[int, int | None, int], ...]  # begin, end, how many rows

    def rows_at(self, snapshot: int) -> int:
        if not _lives(self.begin, self.end, snapshot):
            return 0
        return self.rows - sum(rows for begin, end, rows in self.deletes if _lives(begin, end, snapshot))


def ledger(stream: OpenStream, scope: Scope) -> CheckResult:  # noqa: ARG001 - every row of the ledger
    """Whether each committed ledger row's snapshot exists and holds as many rows of its partition.

    The catalog's own figures are asked, so that years of commits are two queries. Snapshots before the oldest one
    have expired, and are counted.

    Raises:
        CatalogError: the lake cannot be read.
    """
    with stream.lake.open(read_only=True) as lake:
        committed = _committed(lake, stream)
        snapshots = {snapshot for (snapshot,) in lake.rows(f"SELECT snapshot_id FROM {_METADATA}.ducklake_snapshot")}  # noqa: S608
        files = _files(lake, stream)
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
        held = sum(file.rows_at(snapshot) for file in files.get(_key(partition), ())) if partition else rows
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
    """Whether every data file that a snapshot names is there, by one listing of the table's folder.

    Raises:
        LakeAssetsError: the lake or its storage cannot be read.
    """
    with stream.lake.open(read_only=True) as lake:
        files = [file for some in _files(lake, stream).values() for file in some]
    there: set[str] = set()
    elsewhere = 0
    storage = Store(stream.lake_config.storage)
    if files:
        there |= {o.uri for o in storage.list(f"{stream.table.schema}/{stream.table.table}/")}
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
    """Snapshot, partition and rows of every committed row of the ledger."""
    # As in `last_fingerprints`: no condition that DuckLake could use to pass over files.
    return lake.rows(
        "SELECT snapshot_id, load_partition, row_count FROM (SELECT *, destination_table = ? AND stream = ? "  # noqa: S608
        f"AND status = 'committed' AND mode IN ('replace', 'compact') AS wanted FROM {ledger_table(lake.config).sql}) "
        "WHERE wanted IS TRUE ORDER BY snapshot_id",
        [str(stream.table), stream.name],
    )


def _files(lake: LakeSession, stream: OpenStream) -> dict[tuple[str | None, ...], list[_File]]:
    """The table's data files by their partition's values, in the order of the stream's columns."""
    tables = lake.rows(_TABLE, [data_path(lake.config), stream.table.schema, stream.table.table])
    if not tables:
        return {}
    ((table_id, folder),) = tables
    deletes: dict[int, list[tuple[int, int | None, int]]] = {}
    for file_id, *facts in lake.rows(
        "SELECT data_file_id, begin_snapshot, end_snapshot, delete_count "  # noqa: S608
        f"FROM {_METADATA}.ducklake_delete_file WHERE table_id = ?",
        [table_id],
    ):
        deletes.setdefault(file_id, []).append(tuple(facts))
    values: dict[int, dict[str, str | None]] = {}
    for file_id, column, value in lake.rows(
        "SELECT DISTINCT v.data_file_id, lower(c.column_name), v.partition_value "  # noqa: S608
        f"FROM {_METADATA}.ducklake_file_partition_value v "
        f"JOIN {_METADATA}.ducklake_data_file f ON f.data_file_id = v.data_file_id "
        f"JOIN {_METADATA}.ducklake_partition_column k "
        "ON k.partition_id = f.partition_id AND k.partition_key_index = v.partition_key_index "
        f"JOIN {_METADATA}.ducklake_column c ON c.column_id = k.column_id AND c.table_id = v.table_id "
        "WHERE v.table_id = ?",
        [table_id],
    ):
        values.setdefault(file_id, {})[column] = value
    names = [column.name.lower() for column in stream.config.columns]
    files: dict[tuple[str | None, ...], list[_File]] = {}
    for file_id, path, is_relative, rows, begin, end in lake.rows(
        "SELECT data_file_id, path, path_is_relative::BOOLEAN, record_count, begin_snapshot, end_snapshot "  # noqa: S608
        f"FROM {_METADATA}.ducklake_data_file WHERE table_id = ?",
        [table_id],
    ):
        file = _File((folder if is_relative else "") + path, rows, begin, end, tuple(deletes.get(file_id, ())))
        of_file = values.get(file_id, {})
        files.setdefault(tuple(of_file.get(name) for name in names), []).append(file)
    return files


def _key(partition: Partition) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in partition.values)


def _lives(begin: int, end: int | None, snapshot: int) -> bool:
    return begin <= snapshot and (end is None or end > snapshot)
