"""All checks of a stream, by name."""

from collections.abc import Callable, Mapping
from functools import partial

from lake_assets.checks.catalog import data_files, ledger
from lake_assets.checks.landing import (
    indexed_objects,
    indexed_objects_by_partition,
    landing_zone,
    landing_zone_by_partition,
)
from lake_assets.checks.result import CheckResult, Scope, Severity
from lake_assets.checks.rows import no_null_partition, row_counts, row_counts_by_partition, schema
from lake_assets.checks.sql import is_of_run, run_sql, run_sql_by_partition
from lake_assets.lake.ledger.tables import ledger_table
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.streams.stream import OpenStream

Check = Callable[[OpenStream, Scope], CheckResult]
PartitionCheck = Callable[[OpenStream, Scope], Mapping[Partition, CheckResult]]

_BUILT_IN: Mapping[str, Check] = {
    "row_counts": row_counts,
    "landing_zone": landing_zone,
    "no_null_partition": no_null_partition,
    "schema": schema,
    "ledger": ledger,
    "data_files": data_files,
    "indexed_objects": indexed_objects,
}

_BY_PARTITION: Mapping[str, PartitionCheck] = {
    "row_counts": row_counts_by_partition,
    "landing_zone": landing_zone_by_partition,
    "indexed_objects": indexed_objects_by_partition,
}

_WARNINGS = frozenset({"landing_zone", "schema"})


def checks_of(stream: OpenStream) -> dict[str, Check]:
    """The checks of a stream: the built-in checks that its config does not skip, then its own."""
    config = stream.config.checks
    left_out = set(config.skip)
    if stream.lake_config.is_managed:
        left_out |= {"ledger", "data_files"}  # they read DuckLake's own tables and the files, which MotherDuck manages
    if stream.config.mode != "index":
        left_out.add("indexed_objects")
    checks = {name: check for name, check in _BUILT_IN.items() if name not in left_out}
    return checks | {name: partial(run_sql, name=name, sql=sql) for name, sql in config.sql.items()}


def describe(name: str, stream: OpenStream) -> str:
    """One sentence about what a check checks."""
    if (built_in := _BUILT_IN.get(name)) is not None:
        return (built_in.__doc__ or "").split("\n", 1)[0]
    return f"This query returns no row: {stream.config.checks.sql[name]}"


def run_check(stream: OpenStream, name: str, scope: Scope) -> CheckResult:
    """Run one check.

    Args:
        stream: the stream of the table.
        name: one of `checks_of`.
        scope: which partitions.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read, or the check's SQL is wrong.
    """
    check = checks_of(stream)[name]
    if name != "landing_zone" and not _has_table(stream):
        return CheckResult(name, True, f"There is no table {stream.table} yet.")
    return check(stream, scope)


def severity_of(name: str) -> Severity:
    """The severity of a check that does not pass."""
    return "warn" if name in _WARNINGS else "error"


def is_by_partition(stream: OpenStream, name: str) -> bool:
    """Whether `run_check_by_partition` can run a check."""
    return _partition_check(stream, name) is not None


def run_check_by_partition(stream: OpenStream, name: str, scope: Scope) -> Mapping[Partition, CheckResult]:
    """Run one check on each partition of a run.

    Args:
        stream: the stream of the table.
        name: one of `checks_of` for which `is_by_partition` is true.
        scope: of a run; without partitions, the check runs on all of its partitions.

    Returns:
        The results by partition.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read, or the check's SQL is wrong.
    """
    check = _partition_check(stream, name)
    assert check is not None  # noqa: S101 - the caller has called is_by_partition
    if name != "landing_zone" and not _has_table(stream):
        return {}
    return check(stream, scope)


def _partition_check(stream: OpenStream, name: str) -> PartitionCheck | None:
    sql = stream.config.checks.sql.get(name)
    if sql is not None:
        return partial(run_sql_by_partition, name=name, sql=sql) if is_of_run(sql) else None
    return _BY_PARTITION.get(name)


def scope_of_run(stream: OpenStream, run_id: str) -> Scope:
    """The partitions that a run committed or found unchanged, and those that failed; empty for an unknown run.

    Raises:
        CatalogError: the lake cannot be read.
    """
    with stream.lake.open_if_exists() as lake:
        ended = {} if lake is None else _ended(lake, stream, run_id)
    partitions = {p: is_done for path, is_done in ended.items() if (p := stream.config.partition_at(path))}
    return Scope(
        run_id,
        tuple(partition for partition, is_done in partitions.items() if is_done),
        tuple(partition for partition, is_done in partitions.items() if not is_done),
    )


def _ended(lake: LakeSession, stream: OpenStream, run_id: str) -> dict[str, bool]:
    """The paths of a run's partitions, and whether the last try committed the partition or found it unchanged."""
    ledger = ledger_table(lake.config)
    if not lake.exists(ledger):
        return {}
    # No conditions by which DuckLake prunes files; see `committed_fingerprints`.
    rows = lake.rows(
        "SELECT load_partition, arg_max(status IN ('committed', 'skipped'), coalesce(finished_at, started_at)) "  # noqa: S608
        "FROM (SELECT *, run_id = ? AND stream = ? AS wanted "
        f"FROM {ledger.sql}) WHERE wanted IS TRUE GROUP BY load_partition ORDER BY load_partition",
        [run_id, stream.name],
    )
    return dict(rows)


def _has_table(stream: OpenStream) -> bool:
    with stream.lake.open_if_exists() as lake:
        return lake is not None and lake.exists(stream.table)
