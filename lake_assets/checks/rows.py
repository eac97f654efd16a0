"""Checks of a table's rows and columns.

Every check raises LakeAssetsError if the landing zone or the lake cannot be read.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from lake_assets.checks.result import NAMED, CheckResult, Scope
from lake_assets.duckdb_engine import all_threads, identifier
from lake_assets.errors import SourceError
from lake_assets.lake.catalog.table_files import named_since
from lake_assets.lake.commit.replacement import count_partition
from lake_assets.lake.ledger.last_runs import LastRuns, last_runs
from lake_assets.lake.ledger.tables import ledger_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.parquet.read import count_rows
from lake_assets.storage.arrow import ArrowStore
from lake_assets.streams.stream import OpenStream

NEWEST = 200  # partitions that are checked without a run
SINGLY = 20  # partitions that are counted by a query each; more are counted by one query of the whole table
READERS = 16  # threads; reading a footer is mostly latency


def row_counts(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether each partition has as many rows as the footers of its landed objects say.

    If the stream has a transform or selects rows, the number in the ledger is compared instead. A partition whose
    objects have changed since its commit is not compared: the check `landing_zone` names it.
    """
    return _of_counts(_counts(stream, scope))


def row_counts_by_partition(stream: OpenStream, scope: Scope) -> Mapping[Partition, CheckResult]:
    """The check of each partition of a run."""
    return {partition: _of_counts({partition: counts}) for partition, counts in _counts(stream, scope).items()}


_Counts = tuple[int, int | None]
"""The rows in the lake, and the expected rows; None if that number is unknown."""


def _counts(stream: OpenStream, scope: Scope) -> dict[Partition, _Counts]:
    with stream.lake.open(read_only=True) as lake:
        known = _committed(stream, scope, last_runs(lake, stream.table))
        counted = _count(lake, stream, list(known))
    with ThreadPoolExecutor(READERS) as pool:
        expected = pool.map(lambda item: _expected(stream, *item), known.items())
        return {partition: (counted[partition], rows) for partition, rows in zip(known, expected, strict=True)}


def _of_counts(counts: Mapping[Partition, _Counts]) -> CheckResult:
    wrong = [
        f"{partition}: {counted:,} rows, and {rows:,} are due"
        for partition, (counted, rows) in counts.items()
        if rows is not None and rows != counted
    ]
    compared = sum(rows is not None for _, rows in counts.values())
    return CheckResult.of_findings(
        "row_counts",
        wrong,
        failure="The rows are not those of the landed objects; ingest these partitions with --force.",
        success=f"{compared:,} partitions have the rows of their landed objects.",
        numbers={"partitions": compared, "wrong": len(wrong), "changed_since": len(counts) - compared},
    )


def _committed(stream: OpenStream, scope: Scope, runs: dict[str, LastRuns]) -> dict[Partition, LastRuns]:
    """The partitions to check that are in the lake, the newest commit first."""
    every = (partition for path in runs if (partition := stream.config.partition_at(path)))
    partitions: Iterable[Partition] = every if scope.partitions is None else scope.partitions
    committed = {p: runs[p.path] for p in partitions if p.path in runs and runs[p.path].snapshot is not None}
    newest = sorted(committed, key=lambda p: committed[p].snapshot or 0, reverse=True)
    return {p: committed[p] for p in (newest if scope.partitions is not None else newest[:NEWEST])}


def _count(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """The number of rows of each partition in the lake."""
    if len(partitions) > SINGLY:
        columns = ", ".join(identifier(column.name) for column in stream.config.columns)
        with all_threads(lake.connection):
            rows = lake.rows(f"SELECT {columns}, count(*) FROM {stream.table.sql} GROUP BY ALL")  # noqa: S608
        counts = {row[:-1]: row[-1] for row in rows}
        return {partition: counts.get(partition.values, 0) for partition in partitions}
    return {partition: count_partition(lake, stream.table, partition) for partition in partitions}


def _expected(stream: OpenStream, partition: Partition, last: LastRuns) -> int | None:
    if stream.config.transform is not None or stream.config.selects_rows:
        return last.rows
    manifest = stream.manifest(partition)
    if stream.fingerprint(manifest) != last.fingerprint:
        return None
    store = ArrowStore(stream.config.source)
    try:
        rows = sum(count_rows(store, landed.key) for landed in manifest.objects)
    except SourceError:
        # It was read by the ingest, so it was changed or damaged since.
        if stream.fingerprint(stream.manifest(partition)) != last.fingerprint:
            return None
        raise
    # For a source without rows the stream's policy decided what the lake has, and the ledger has the number.
    return last.rows if rows == 0 and stream.config.mode == "replace" else rows


def no_null_partition(stream: OpenStream, scope: Scope) -> CheckResult:  # noqa: ARG001 - a NULL is in no partition of a run
    """Whether every row has a value in every partition column."""
    condition = " OR ".join(f"{identifier(column.name)} IS NULL" for column in stream.config.columns)
    with stream.lake.open(read_only=True) as lake, all_threads(lake.connection):
        ((rows,),) = lake.rows(f"SELECT count(*) FROM {stream.table.sql} WHERE {condition}")  # noqa: S608
    names = [column.name for column in stream.config.columns]
    return CheckResult(
        "no_null_partition",
        rows == 0,
        f"{rows:,} rows have no {' or '.join(names)}." if rows else f"Every row has its {' and '.join(names)}.",
        numbers={"rows": rows},
    )


def schema(stream: OpenStream, scope: Scope) -> CheckResult:
    """Whether the table has the same columns as after the previous run."""
    with stream.lake.open(read_only=True) as lake:
        before = _columns_before(lake, stream, scope)
        now = lake.rows(f"DESCRIBE {stream.table.sql}")
    if before is None:
        return CheckResult("schema", True, "There is no previous run to compare with.", "warn")
    old, new = ({name: kind for name, kind, *_ in columns} for columns in (before, now))
    changes = [f"{name} {kind} is new" for name, kind in new.items() if name not in old]
    changes += [f"{name} {kind} is gone" for name, kind in old.items() if name not in new]
    changes += [f"{name} was {old[name]} and is {new[name]}" for name in old if new.get(name, old[name]) != old[name]]
    return CheckResult.of_findings(
        "schema",
        changes,
        failure=f"The columns have changed since the previous run: {'; '.join(changes[:NAMED])}.",
        success=f"The {len(new):,} columns are those of the previous run.",
        numbers={"columns": len(new), "changes": len(changes)},
        severity="warn",
    )


def _columns_before(lake: LakeSession, stream: OpenStream, scope: Scope) -> Sequence[tuple[object, ...]] | None:
    """The columns after the newest commit of another run; None if there is none, or its snapshot has expired."""
    ((snapshot, newest),) = lake.rows(
        "SELECT max(snapshot_id) FILTER (run_id <> coalesce(?, last_run)), max(snapshot_id) FROM "  # noqa: S608
        "(SELECT run_id, snapshot_id, last_value(run_id) OVER (ORDER BY snapshot_id ROWS BETWEEN UNBOUNDED PRECEDING "
        "AND UNBOUNDED FOLLOWING) AS last_run FROM (SELECT *, stream = ? AND destination_table = ? "
        f"AND status = 'committed' AND snapshot_id >= ? AS wanted FROM {ledger_table(lake.config).sql}) "
        "WHERE wanted IS TRUE)",
        [scope.run_id, stream.name, str(stream.table), named_since(lake, stream.table)],
    )
    if snapshot is None or newest is None:
        return None
    if not lake.rows("SELECT 1 FROM ducklake_snapshots(?) WHERE snapshot_id = ?", [lake.alias, snapshot]):
        return None
    # DuckDB accepts no parameter here; the number is the ledger's.
    return lake.rows(f"DESCRIBE SELECT * FROM {stream.table.sql} AT (VERSION => {int(snapshot)})")  # noqa: S608
