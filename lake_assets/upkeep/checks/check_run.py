"""All checks of a stream, by name, and their results in one scope."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import indent

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.events import counted
from lake_assets.config.layout.partition import Partition
from lake_assets.config.modes import Mode
from lake_assets.config.sections import OF_DUCKLAKES_TABLES
from lake_assets.lake.catalog.past_partitions import key_of
from lake_assets.lake.catalog.table import Key
from lake_assets.lake.ledger.read import rows_of_run
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.checks.catalog_checks import data_files, ledger_check, schema_check
from lake_assets.upkeep.checks.facts import CheckResult, Facts, PreparedCheck, Scope
from lake_assets.upkeep.checks.landed_objects import (
    appended_objects,
    dead_letters_check,
    indexed_objects,
    landing_zone_check,
    last_run,
    not_committed,
    quarantine,
)
from lake_assets.upkeep.checks.row_checks import freshness, group_of, no_null_partition, row_counts
from lake_assets.upkeep.checks.sql_checks import is_of_run, run_sql

Check = Callable[[Facts], PreparedCheck]


@dataclass(frozen=True, slots=True)
class _BuiltInCheck:
    run: Check
    after: str  # what it looks at after a run
    audit: str  # and of the whole table
    by_partition: bool = False
    keeps: bool = False  # has one result after a run, of the run's partitions, so an earlier failure of others is kept
    mode: Mode | None = None  # only streams of this mode have it; None: all do
    warns: bool = False  # a failure is a warning


_WITHOUT_TABLE = ("last_run", "landing_zone")  # have results before there is a table
_BUILT_IN: Mapping[str, _BuiltInCheck] = {
    "last_run": _BuiltInCheck(last_run, "its partitions", "the newest run of every partition", by_partition=True),
    "row_counts": _BuiltInCheck(
        row_counts,
        "its partitions, from the catalog's figures",
        "the 200 newest commits, with a query",
        by_partition=True,
    ),
    "landing_zone": _BuiltInCheck(
        landing_zone_check, "its partitions", "the whole landing zone", by_partition=True, warns=True
    ),
    "no_null_partition": _BuiltInCheck(no_null_partition, "its partitions", "every row", keeps=True),
    "schema": _BuiltInCheck(schema_check, "the table's columns", "the table's columns", warns=True),
    "ledger": _BuiltInCheck(ledger_check, "its own commits", "every commit", keeps=True),
    "data_files": _BuiltInCheck(
        data_files, "the live files of its partitions", "the files of all snapshots", keeps=True
    ),
    "indexed_objects": _BuiltInCheck(
        indexed_objects, "its partitions", "all registered objects", by_partition=True, mode=Mode.INDEX
    ),
    "quarantine": _BuiltInCheck(
        quarantine, "its partitions", "the last commit of every partition", by_partition=True, warns=True
    ),
    "dead_letters": _BuiltInCheck(
        dead_letters_check, "its partitions", "every partition", by_partition=True, warns=True
    ),
    "appended_objects": _BuiltInCheck(
        appended_objects, "its partitions", "all appended objects", by_partition=True, mode=Mode.APPEND, warns=True
    ),
    "freshness": _BuiltInCheck(freshness, "the values of its partitions beside the time", "all values", keeps=True),
}


def checks_of(stream: OpenStream) -> dict[str, Check]:
    """Return the checks of a stream: the built-in checks that its config does not skip, then its own."""
    config = stream.config.checks
    left_out: set[str] = set(config.skip)
    if stream.lake_config.is_managed:
        left_out.update(OF_DUCKLAKES_TABLES)
    left_out |= {name for name, check in _BUILT_IN.items() if check.mode not in (None, stream.config.mode)}
    if not stream.config.partitions:
        left_out.add("no_null_partition")
    if stream.config.on_bad_object == "fail":
        left_out.add("quarantine")
    if stream.config.on_bad_row == "fail":
        left_out.add("dead_letters")
    if stream.config.freshness is None or stream.config.freshness.newest_partition_hours is None:
        left_out.add("freshness")
    checks = {name: check.run for name, check in _BUILT_IN.items() if name not in left_out}
    return checks | {name: partial(run_sql, name=name, sql=sql) for name, sql in config.sql.items()}


def check_description(name: str, stream: OpenStream) -> str:
    """Return what a check checks, and what of it after a run and as an audit, in Markdown."""
    if (built_in := _BUILT_IN.get(name)) is not None:
        title, scopes = (built_in.run.__doc__ or "").partition("\n")[0], (built_in.after, built_in.audit)
    else:
        sql = stream.config.checks.sql[name]
        title = f"Fails if this query returns rows:\n\n{indent(sql.strip().rstrip(';'), ' ' * 4)}"
        rows = ("`refreshed` has the rows of its partitions", "`refreshed` has all rows")
        scopes = rows if is_of_run(sql) else ("the tables that it names, whole", "the tables that it names, whole")
    after, audit = scopes
    return f"{title}\n\n- After a run: {after}.\n- As an audit (*Execute all*, or the lake's audit job): {audit}."


class CheckRun:
    """Checks of one scope. The first result reads the lake for all of them; then the lake is closed.

    The storages are asked after that, so that other writers need not queue for a catalog that one process can open.
    """

    def __init__(self, stream: OpenStream, names: Sequence[str], scope: Scope, *, by_partition: bool = False) -> None:
        self.stream = stream
        self.scope = scope
        self._names = names
        self._by_partition = by_partition  # whether `by_partition` is called too
        self._prepared: dict[str, PreparedCheck | Exception] = {}

    def result(self, name: str) -> CheckResult:
        """Return the result of one check; a LakeAssetsError if its SQL is wrong."""
        return self._prepared_check(name).whole()

    def by_partition(self, name: str) -> Mapping[Partition, CheckResult]:
        """Return the results of one check by partition: of each partition of a run, or of those of the whole table.

        Of the whole table, `indexed_objects` and a query have results only of partitions that fail.
        """
        by_partition = self._prepared_check(name).by_partition
        assert by_partition is not None  # noqa: S101 - the caller has called is_by_partition
        return by_partition()

    def _prepared_check(self, name: str) -> PreparedCheck:
        if not self._prepared:
            try:
                self._read()
            except LakeAssetsError as error:  # the lake could not be opened
                self._prepared = dict.fromkeys(self._names, error)
        prepared = self._prepared[name]
        if isinstance(prepared, Exception):
            raise prepared
        return prepared

    def _read(self) -> None:
        with self.stream.lake.open_if_exists() as lake:
            facts = Facts(self.stream, self.scope, lake, by_partition=self._by_partition)
            for name in counted(self._names, f"read {self.stream.name}", "checks", len(self._names)):
                try:
                    self._prepared[name] = _prepare(facts, name)
                except Exception as error:  # noqa: BLE001 - raised as the result of this check
                    self._prepared[name] = error


def _prepare(facts: Facts, name: str) -> PreparedCheck:
    if name not in _WITHOUT_TABLE and not facts.has_table:
        absent = CheckResult(name, True, f"There is no table {facts.stream.table} yet.")
        return PreparedCheck(lambda: absent, dict)
    return checks_of(facts.stream)[name](facts)


def is_by_partition(stream: OpenStream, name: str) -> bool:
    """Return whether a check has a result for each partition."""
    sql = stream.config.checks.sql.get(name)
    return _BUILT_IN[name].by_partition if sql is None else is_of_run(sql)


def is_error(stream: OpenStream, name: str) -> bool:
    """Return whether a failure of a check is an error; otherwise it is a warning."""
    built_in = _BUILT_IN.get(name)
    return built_in is None or not built_in.warns or name in stream.config.checks.blocking


def keeps_failures(name: str) -> bool:
    """Return whether a run's result of a check says nothing about the other partitions, which share the result."""
    return name in _BUILT_IN and _BUILT_IN[name].keeps


def covered(name: str, partitions: Iterable[Partition]) -> set[Key]:
    """Return the keys of findings of a check that its result of these partitions replaces."""
    return set(map(group_of if name == "freshness" else key_of, partitions))


def scope_of_run(stream: OpenStream, run_id: str, since: dt.datetime | None = None) -> Scope:
    """Return the partitions that a run committed or found unchanged, and those that failed; empty for an unknown run.

    Older rows of the ledger than `since`, when the run began, are not read.
    """
    with stream.lake.open_if_exists() as lake:
        rows = [] if lake is None else rows_of_run(lake, stream.names, run_id, since)
    last = sorted({row.load_partition: row for row in rows}.items())
    of_run = {p: row for path, row in last if (p := stream.config.partition_at(path))}
    failed = {p: not_committed(row) for p, row in of_run.items() if row.status not in ("committed", "skipped")}
    return Scope(
        run_id,
        tuple(partition for partition in of_run if partition not in failed),
        failed,
        min((row.snapshot_id for row in rows if row.snapshot_id is not None), default=None),
    )
