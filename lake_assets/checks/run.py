"""All checks of a stream, by name."""

from collections.abc import Callable, Mapping
from functools import partial

from lake_assets.checks.catalog import data_files, ledger
from lake_assets.checks.landing import indexed_objects, landing_zone
from lake_assets.checks.result import CheckResult, Scope
from lake_assets.checks.rows import no_null_partition, row_counts, schema
from lake_assets.checks.sql import run_sql
from lake_assets.errors import NoLakeError
from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.ledger import ledger_table
from lake_assets.stream import OpenStream

Check = Callable[[OpenStream, Scope], CheckResult]

_BUILT_IN: Mapping[str, Check] = {
    "row_counts": row_counts,
    "landing_zone": landing_zone,
    "no_null_partition": no_null_partition,
    "schema": schema,
    "ledger": ledger,
    "data_files": data_files,
}


def checks_of(stream: OpenStream) -> dict[str, Check]:
    """The checks of a stream: those of the package that its config does not skip, then its own."""
    config = stream.config.checks
    found = {name: check for name, check in _BUILT_IN.items() if name not in config.skip}
    if stream.lake_config.is_managed:
        # They look into DuckLake's own tables and at the files, both of which are MotherDuck's.
        found = {name: check for name, check in found.items() if name not in ("ledger", "data_files")}
    if stream.config.mode == "index" and "indexed_objects" not in config.skip:
        found["indexed_objects"] = indexed_objects
    return found | {name: partial(run_sql, name=name, sql=sql) for name, sql in config.sql.items()}


def describe(name: str, stream: OpenStream) -> str:
    """What a check holds, in a sentence."""
    built_in = {**_BUILT_IN, "indexed_objects": indexed_objects}.get(name)
    if built_in is None:
        return f"No row is returned by: {stream.config.checks.sql[name]}"
    return (built_in.__doc__ or "").split("\n", 1)[0]


def run_check(stream: OpenStream, name: str, scope: Scope) -> CheckResult:
    """Run one check.

    Args:
        stream: whose table is looked at.
        name: one of `checks_of`.
        scope: which partitions.

    Raises:
        LakeAssetsError: the landing zone or the lake cannot be read, or the check's SQL is wrong.
    """
    check = checks_of(stream)[name]
    if name != "landing_zone" and not _has_table(stream):
        return CheckResult(name, True, f"There is no table {stream.table} yet.")
    return check(stream, scope)


def scope_of_run(stream: OpenStream, run_id: str) -> Scope:
    """The partitions that a run committed or found unchanged; none, if it is unknown.

    Raises:
        CatalogError: the lake cannot be read.
    """
    try:
        with stream.lake.open(read_only=True) as lake:
            paths = _paths(lake, stream, run_id)
    except NoLakeError:
        paths = []
    return Scope(run_id, tuple(partition for path in paths if (partition := stream.config.partition_at(path))))


def _paths(lake: LakeSession, stream: OpenStream, run_id: str) -> list[str]:
    ledger = ledger_table(lake.config)
    if not lake.exists(ledger):
        return []
    # As in `committed_fingerprints`: no condition that DuckLake could use to pass over files.
    rows = lake.rows(
        "SELECT DISTINCT load_partition FROM (SELECT *, run_id = ? AND stream = ? AND status <> 'failed' AS wanted "  # noqa: S608
        f"FROM {ledger.sql}) WHERE wanted IS TRUE ORDER BY load_partition",
        [run_id, stream.name],
    )
    return [path for (path,) in rows]


def _has_table(stream: OpenStream) -> bool:
    try:
        with stream.lake.open(read_only=True) as lake:
            return lake.exists(stream.table)
    except NoLakeError:
        return False
