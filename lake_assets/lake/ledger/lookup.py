"""The newest ledger rows of partitions, found without reading the whole ledger.

New rows are inlined in the catalog, and its database finds the newest ones of each partition itself. Maintenance
flushes inlined rows into Parquet files, sorted by table and partition, so that a reader skips other row groups. Flushed
rows are older than inlined ones, and those of one file are older than those of the next. So the files are read from the
newest on, and each only for partitions whose last commit may be in it.
"""

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields

from lake_assets.duckdb_engine import glob_literal, identifier
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.catalog.inlined import FlushedFile, flushed_files, inlined_tables, table_named_since
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.ledger.relation import is_among, read_inlined
from lake_assets.lake.ledger.tables import ADDING, ADDS, COMPACT, LEDGER_COLUMNS, Hold, Status, ledger_table
from lake_assets.lake.session import LakeSession, TableName

FILES = 4  # that the first query reads, as the next one costs more than their row groups; later ones read twice as many
_A_STATEMENT = 1_000  # partitions, because a database limits the parameters of a statement


@dataclass(frozen=True, slots=True)
class Run:
    """A row of the ledger, as far as the newest runs need it."""

    status: Status
    started_at: dt.datetime
    finished_at: dt.datetime | None
    error: str | None
    source_fingerprint: str | None
    row_count: int | None
    snapshot_id: int | None
    hold: Hold | None
    mode: str
    rows_before: int | None

    @property
    def rows(self) -> int | None:
        """The rows of the partition after it, if it committed."""
        if self.row_count is None or self.mode not in ADDING:
            return self.row_count
        return self.row_count + (self.rows_before or 0)

    @property
    def moment(self) -> dt.datetime:
        """When it ended; when it began, if that is unknown."""
        return self.finished_at or self.started_at


@dataclass(frozen=True, slots=True)
class NewestRuns:
    """The newest runs of a partition, without compactions and cancelled runs."""

    newest: Run | None = None
    source: Run | None = None  # the newest that committed, or found nothing to commit
    commit: Run | None = None  # the newest commit

    def or_older(self, older: "NewestRuns") -> "NewestRuns":
        """These runs; where there is none, that of older rows."""
        return NewestRuns(self.newest or older.newest, self.source or older.source, self.commit or older.commit)

    def or_later(self, other: "NewestRuns") -> "NewestRuns":
        """The later one of each kind: of commits by their snapshots, as the clocks of two writers differ."""
        commits = [run for run in (self.commit, other.commit) if run is not None]
        return NewestRuns(
            _latest(self.newest, other.newest),
            _latest(self.source, other.source),
            max(commits, key=lambda run: run.snapshot_id or 0, default=None),
        )


def _latest(*runs: Run | None) -> Run | None:
    return max((run for run in runs if run is not None), key=lambda run: run.moment, default=None)


_COLUMNS = tuple(field.name for field in fields(Run))
_HOLD = "hold"  # a table that an older version of this package created lacks it
_TYPES = [LEDGER_COLUMNS[name] for name in _COLUMNS]


def newest_runs(
    session: LakeSession, table: TableName, load_partitions: Sequence[str], *, holds: bool = False
) -> dict[str, NewestRuns] | None:
    """The newest runs of partitions of a table, by their path; None if the ledger can only be read as a whole.

    With `holds` inlined runs have their hold, which takes one more statement.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    try:
        with catalog_reading(session) as database:
            ledger = ledger_table(session.config)
            ledger_id, *_ = read_folder(database, ledger)
            since = table_named_since(database, table)
            names = inlined_tables(database, ledger_id)
            held_in = {name for name in names if holds and _HOLD in database.columns(name)}
            runs = _inlined(database, names, str(table), load_partitions, since, held_in)
            older = [path for path in load_partitions if runs[path].commit is None]
            files = flushed_files(session, database, ledger) if older else []
    except NotDirectError:
        return None
    flushed = dict.fromkeys(older, NewestRuns())
    for batch in _batches(files):
        # A commit after the last snapshot of these files is newer than all of their rows.
        newest = max(file.until for file in batch)
        wanted = [path for path, found in flushed.items() if not _is_after(found, newest)]
        if wanted:
            for path, found in _flushed(session, batch, str(table), wanted, since).items():
                flushed[path] = flushed[path].or_later(found)
    found_runs = {path: found.or_older(flushed.get(path, NewestRuns())) for path, found in runs.items()}
    return {path: found for path, found in found_runs.items() if found != NewestRuns()}


def _batches(files: Sequence[FlushedFile]) -> Iterator[Sequence[FlushedFile]]:
    start, size = 0, FILES
    while start < len(files):
        yield files[start : start + size]
        start, size = start + size, 2 * size


def _is_after(runs: NewestRuns, snapshot: int) -> bool:
    return runs.commit is not None and (runs.commit.snapshot_id or 0) > snapshot


def _inlined(
    database: CatalogDatabase,
    tables: Sequence[str],
    table: str,
    load_partitions: Sequence[str],
    since: int,
    held_in: Collection[str],
) -> dict[str, NewestRuns]:
    """The newest inlined rows of each partition; `tables` has the newest rows first, those in `held_in` have holds."""
    runs = dict.fromkeys(load_partitions, NewestRuns())
    for name in tables:
        wanted = [path for path, found in runs.items() if found.commit is None]
        for start in range(0, len(wanted), _A_STATEMENT):
            paths = wanted[start : start + _A_STATEMENT]
            for path, found in _inlined_in(database, name, table, paths, since, has_hold=name in held_in).items():
                runs[path] = runs[path].or_older(found)
    return runs


def _inlined_in(
    database: CatalogDatabase, name: str, table: str, paths: Sequence[str], since: int, *, has_hold: bool
) -> dict[str, NewestRuns]:
    """The newest rows in one table, by their row numbers, because the clocks of two writers differ."""
    version = database.version
    is_commit = "status = ? AND snapshot_id >= ?"
    # A run that was skipped as unchanged has the fingerprint of the commit before it, which does not count if the
    # table was dropped since.
    is_source = (
        f"{is_commit} OR status = ? AND (on_empty IS NOT NULL OR mode IN (?, ?) OR {version.begin_snapshot} >= ?)"
    )
    numbers = (
        f"SELECT max({version.row_id}) AS newest, max(CASE WHEN {is_source} THEN {version.row_id} END) AS source, "  # noqa: S608
        f"max(CASE WHEN {is_commit} THEN {version.row_id} END) AS last_commit FROM {identifier(name)} "
        f"WHERE load_partition IN ({', '.join('?' for _ in paths)}) AND destination_table = ? AND mode <> ? "
        f"AND status <> ? AND {version.end_snapshot} IS NULL GROUP BY load_partition"
    )
    columns = ", ".join("NULL" if column == _HOLD and not has_hold else identifier(column) for column in _COLUMNS)
    of_commit: list[object] = ["committed", since]
    of_source = [*of_commit, "skipped", *ADDING, since]
    # Not by a join, for which SQLite would read the table once for each number.
    rows = database.rows(
        f"WITH numbers AS ({numbers}) SELECT CASE WHEN {is_source} THEN 1 ELSE 0 END, "  # noqa: S608
        f"CASE WHEN {is_commit} THEN 1 ELSE 0 END, load_partition, {columns} FROM {identifier(name)} "
        f"WHERE {version.end_snapshot} IS NULL AND {version.row_id} IN (SELECT newest FROM numbers "
        "UNION ALL SELECT source FROM numbers UNION ALL SELECT last_commit FROM numbers) "
        f"ORDER BY {version.row_id} DESC",
        [
            database.inlined(value)
            for value in (*of_source, *of_commit, *paths, table, COMPACT, "cancelled", *of_source, *of_commit)
        ],
    )
    runs: dict[str, NewestRuns] = {}
    for has_source, has_commit, *row in rows:
        path, *values = read_inlined(row, ["VARCHAR", *_TYPES])
        run = Run(*values)
        found = NewestRuns(run, run if has_source else None, run if has_commit else None)
        runs[path] = runs.get(path, NewestRuns()).or_older(found)
    return runs


def _flushed(
    session: LakeSession, files: Sequence[FlushedFile], table: str, load_partitions: Sequence[str], since: int
) -> dict[str, NewestRuns]:
    """The newest rows of partitions in Parquet files of the ledger, whose row groups DuckDB skips by their bounds."""
    run = f"struct_pack({', '.join(f'{name} := {name}' for name in map(identifier, _COLUMNS))})"
    commit = "status = 'committed' AND snapshot_id >= ?"
    condition, wanted = is_among("load_partition", load_partitions)
    # Files of an older version of this package have fewer columns; those that all of them lack are added.
    names = (*_COLUMNS, "load_partition", "on_empty")
    typed = ", ".join(f"NULL::{LEDGER_COLUMNS[name]} AS {identifier(name)}" for name in names)
    listed = ", ".join(f"'{name}'" for name in names)
    rows = session.engine_rows(
        f"SELECT load_partition, arg_max({run}, moment), arg_max({run}, moment) FILTER ({commit} "  # noqa: S608
        f"OR status = 'skipped' AND (on_empty IS NOT NULL OR {ADDS})), arg_max({run}, snapshot_id) "
        f"FILTER ({commit}) FROM (SELECT *, coalesce(finished_at, started_at) AS moment FROM "
        f"(SELECT {typed} WHERE FALSE UNION ALL BY NAME SELECT COLUMNS(c -> list_contains([{listed}], c)) FROM "
        "read_parquet(?, hive_partitioning = false, union_by_name = true) "
        f"WHERE {condition} AND destination_table = ? AND mode <> ? AND status <> 'cancelled')) "
        "GROUP BY load_partition",
        [since, since, [glob_literal(file.uri) for file in files], *wanted, table, COMPACT],
    )
    return {path: NewestRuns(*(Run(**found) if found else None for found in runs)) for path, *runs in rows}
