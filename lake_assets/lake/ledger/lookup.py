"""The newest runs and the last commit of partitions, found without reading the whole ledger.

The last commit is in the names of a partition's live data files: a name has the fingerprint of the objects that the
file was made of, and a commit replaces all files of its partition. That costs the same for any length of the ledger,
and also holds after old ledger rows were deleted. The ledger is read for a partition whose files do not all have one
fingerprint: it has no files, DuckLake wrote them (in a lake that takes rows by INSERT only), another client added some,
a hold begins with them, or an earlier version of this package wrote them.

Of the ledger, new rows are inlined in the catalog, and its database finds the newest ones of each partition itself.
Maintenance flushes inlined rows into Parquet files, sorted by table and partition, so that a reader skips other row
groups. Flushed rows are older than inlined ones, and those of one file are older than those of the next. So the files
are read from the newest on, and each only for partitions whose last commit may be in it.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lake_assets.base.duckdb_engine import identifier
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.described import FlushedFile, flushed_files, inlined_tables
from lake_assets.lake.catalog.files import PartitionFile, files_of_partitions
from lake_assets.lake.catalog.table import Key, Partitioning, key_values, named_since, read_folder, read_partitioning
from lake_assets.lake.ledger.ledger_relation import WantedRows, query, read_inlined, relation_of_files, relation_of_lake
from lake_assets.lake.ledger.tables import ADDING, ADDS, COMPACT, LEDGER, LEDGER_COLUMNS, LedgerRow, Status
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.spark.task.job import is_marked, named_fingerprint

FIRST_FILES = 4  # of the first query, as the next one costs more than their row groups; later ones read twice as many
_A_STATEMENT = 1_000  # partitions, because a database limits the parameters of a statement
_SINGLY = 20  # partitions; the data files of more are found by one query
_SOME = 500  # partitions; for more, that query returns the data files of the whole table


STATE = (
    "load_partition",
    "status",
    "started_at",
    "finished_at",
    "error",
    "source_fingerprint",
    "row_count",
    "rows_before",
    "snapshot_id",
    "hold",
    "mode",
)
"""The columns of the newest runs that say what the lake has of a partition."""


@dataclass(frozen=True, slots=True)
class LastRuns:
    """The newest runs of one partition, without compactions and cancelled runs."""

    newest: LedgerRow
    source: LedgerRow | None = None  # the newest that committed, or found nothing to commit
    commit: LedgerRow | None = None  # the newest that committed
    holder: LedgerRow | None = None  # the commit that began the hold, if the partition is held

    @property
    def status(self) -> Status:
        """The status of the newest run."""
        return self.newest.status

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the landed objects that the lake has."""
        return None if self.source is None else self.source.source_fingerprint

    @property
    def committed_at(self) -> dt.datetime | None:
        """When the newest commit ended."""
        return None if self.commit is None else self.commit.finished_at

    @property
    def rows(self) -> int | None:
        """The rows of the partition after the newest commit."""
        return None if self.commit is None else self.commit.rows_after

    @property
    def snapshot(self) -> int | None:
        """The snapshot of the newest commit."""
        return None if self.commit is None else self.commit.snapshot_id

    @property
    def is_held(self) -> bool:
        """Whether refreshes skip the partition."""
        return self.commit is not None and self.commit.is_held

    def or_older(self, older: "LastRuns") -> "LastRuns":
        """Return these runs; where there is none, that of older rows."""
        return replace(self, source=self.source or older.source, commit=self.commit or older.commit)

    def or_later(self, other: "LastRuns") -> "LastRuns":
        """Return the later run of each kind: of commits by their snapshots, as the clocks of two writers differ."""
        sources = [row for row in (self.source, other.source) if row is not None]
        commits = [row for row in (self.commit, other.commit) if row is not None]
        return LastRuns(
            max(self.newest, other.newest, key=lambda row: row.moment),
            max(sources, key=lambda row: row.moment, default=None),
            max(commits, key=lambda row: row.snapshot, default=None),
        )


def newest_runs(
    session: LakeSession, table: TableName, load_partitions: Sequence[str] | None, columns: Sequence[str] = STATE
) -> dict[str, LastRuns]:
    """Return the newest runs of partitions of a table, by their path; of all its partitions if None are given.

    Of their rows these columns are read, among them `STATE`; the others are None.
    """
    ledger = LEDGER.name(session.config)
    newest: dict[str, LastRuns] = {}
    try:
        with session.read() as database:
            ledger_id, *_ = read_folder(database, ledger)
            since = named_since(session, table, database)
            for name in inlined_tables(database, ledger_id):
                for paths in _statements(_lacking(load_partitions, newest)):
                    for path, runs in _inlined(database, name, str(table), paths, since, columns).items():
                        newest[path] = newest[path].or_older(runs) if path in newest else runs
            older = _lacking(load_partitions, newest)
            files = flushed_files(database, ledger) if older is None or older else []
    except NotDirectError:
        if not session.exists(ledger):
            return {}
        return _aggregated(session, table, load_partitions, None, named_since(session, table), columns)
    flushed: dict[str, LastRuns] = {}
    for batch in _batches(files):
        # A commit after the last snapshot of these files is newer than all of their rows.
        wanted = _lacking(older, flushed, max(file.until for file in batch))
        if wanted is None or wanted:
            for path, runs in _aggregated(session, table, wanted, batch, since, columns).items():
                flushed[path] = flushed[path].or_later(runs) if path in flushed else runs
    return newest | {path: newest[path].or_older(runs) if path in newest else runs for path, runs in flushed.items()}


def _lacking(
    load_partitions: Sequence[str] | None, known: Mapping[str, LastRuns], snapshot: int = -1
) -> Sequence[str] | None:
    """Return those of the partitions without a commit after a snapshot; None for all partitions of the table."""
    if load_partitions is None:
        return None
    commits = {path: runs.commit.snapshot_id or 0 for path, runs in known.items() if runs.commit is not None}
    return [path for path in load_partitions if commits.get(path, -1) <= snapshot]


def _statements(load_partitions: Sequence[str] | None) -> Iterator[Sequence[str] | None]:
    if load_partitions is None:
        yield None
        return
    for start in range(0, len(load_partitions), _A_STATEMENT):
        yield load_partitions[start : start + _A_STATEMENT]


def _batches(files: Sequence[FlushedFile]) -> Iterator[Sequence[FlushedFile]]:
    start, size = 0, FIRST_FILES
    while start < len(files):
        yield files[start : start + size]
        start, size = start + size, 2 * size


def _inlined(
    database: CatalogDatabase, name: str, table: str, paths: Sequence[str] | None, since: int, columns: Sequence[str]
) -> dict[str, LastRuns]:
    """Return the newest rows in one table, by their row numbers, because the clocks of two writers differ."""
    version = database.version
    is_commit = "status = ? AND snapshot_id >= ?"
    # A run that was skipped as unchanged has the fingerprint of the commit before it, which does not count if the
    # table was dropped since.
    is_source = (
        f"{is_commit} OR status = ? AND (on_empty IS NOT NULL OR mode IN (?, ?) OR {version.begin_snapshot} >= ?)"
    )
    among = "" if paths is None else f"load_partition IN ({', '.join('?' for _ in paths)}) AND "
    numbers = (
        f"SELECT max({version.row_id}) AS newest, max(CASE WHEN {is_source} THEN {version.row_id} END) AS source, "  # noqa: S608
        f"max(CASE WHEN {is_commit} THEN {version.row_id} END) AS last_commit FROM {identifier(name)} "
        f"WHERE {among}destination_table = ? AND mode <> ? "
        f"AND status <> ? AND {version.end_snapshot} IS NULL GROUP BY load_partition"
    )
    present = set(database.columns(name))  # a table that an older version of this package created has fewer
    listed = ", ".join(identifier(column) if column in present else "NULL" for column in columns)
    types = [LEDGER_COLUMNS[column] for column in columns]
    of_commit: list[object] = ["committed", since]
    of_source = [*of_commit, "skipped", *ADDING, since]
    # Not by a join, for which SQLite would read the table once for each number.
    rows = database.rows(
        f"WITH numbers AS ({numbers}) SELECT CASE WHEN {is_source} THEN 1 ELSE 0 END, "  # noqa: S608
        f"CASE WHEN {is_commit} THEN 1 ELSE 0 END, {listed} FROM {identifier(name)} "
        f"WHERE {version.end_snapshot} IS NULL AND {version.row_id} IN (SELECT newest FROM numbers "
        "UNION ALL SELECT source FROM numbers UNION ALL SELECT last_commit FROM numbers) "
        f"ORDER BY {version.row_id} DESC",
        [
            database.inlined(value)
            for value in (*of_source, *of_commit, *(paths or ()), table, COMPACT, "cancelled", *of_source, *of_commit)
        ],
    )
    inlined: dict[str, LastRuns] = {}
    for has_source, has_commit, *values in rows:
        row = LedgerRow.of(columns, read_inlined(values, types))
        runs = LastRuns(row, row if has_source else None, row if has_commit else None)
        path = row.load_partition
        inlined[path] = inlined[path].or_older(runs) if path in inlined else runs
    return inlined


def _aggregated(
    session: LakeSession,
    table: TableName,
    load_partitions: Sequence[str] | None,
    files: Sequence[FlushedFile] | None,
    since: int,
    columns: Sequence[str],
) -> dict[str, LastRuns]:
    """Return the newest rows of partitions in Parquet files of the ledger; if None, in all of it, by DuckLake."""
    among: dict[str, Sequence[str]] = {"destination_table": [str(table)]}
    if load_partitions is not None:
        among["load_partition"] = load_partitions
    wanted = WantedRows(LEDGER, [*dict.fromkeys((*columns, "on_empty"))], among)
    rows = (
        relation_of_lake(session, wanted) if files is None else relation_of_files([file.uri for file in files], wanted)
    )
    run = f"struct_pack(number := number, {', '.join(f'{name} := {name}' for name in map(identifier, columns))})"
    commit = "status = 'committed' AND snapshot_id >= ?"
    rows_of_partitions = query(
        session,
        # Most partitions have one row that is all three, and it is returned once.
        "SELECT source.number, last_commit.number, newest, "  # noqa: S608 - quoted names
        "CASE WHEN source.number <> newest.number THEN source END, "
        "CASE WHEN last_commit.number NOT IN (newest.number, source.number) THEN last_commit END "
        f"FROM (SELECT arg_max({run}, moment) AS newest, arg_max({run}, moment) FILTER ({commit} "
        f"OR status = 'skipped' AND (on_empty IS NOT NULL OR {ADDS})) AS source, "
        f"arg_max({run}, snapshot_id) FILTER ({commit}) AS last_commit "
        "FROM (SELECT *, coalesce(finished_at, started_at) AS moment, row_number() OVER () AS number "
        f"FROM {rows} WHERE mode <> ? AND status <> 'cancelled') GROUP BY load_partition)",
        [since, since, *rows.parameters, COMPACT],
        [rows],
    )
    last: dict[str, LastRuns] = {}
    for source, commit_number, *structs in rows_of_partitions:
        by_number = {struct["number"]: LedgerRow.of(columns, [*struct.values()][1:]) for struct in structs if struct}
        newest = next(iter(by_number.values()))
        last[newest.load_partition] = LastRuns(newest, by_number.get(source), by_number.get(commit_number))
    return last


def commits_by_files(
    session: LakeSession, table: TableName, partitions: Sequence[Partition], *, newest: bool = False
) -> dict[str, LedgerRow]:
    """Return the last commit of those partitions whose live files all have the same fingerprint in their names.

    With `newest`, only the files of the newest snapshot need to have the same.
    """
    if not partitions or session.config.inserts_only:
        return {}  # DuckLake names the files that it writes
    try:
        with session.read() as database:
            table_id, *_ = read_folder(database, table)
            partitioning = read_partitioning(database, table_id)
            values = {partition.path: key_values(partitioning, partition) for partition in partitions}
            files = _files(database, table_id, partitioning, list(values.values()))
    except NotDirectError:
        return {}
    commits = {path: _commit_by(path, files.get(texts, ()), newest=newest) for path, texts in values.items()}
    return {path: commit for path, commit in commits.items() if commit is not None}


def _files(
    database: CatalogDatabase, table_id: int, partitioning: Partitioning, wanted: Sequence[Key]
) -> Mapping[Key, Sequence[PartitionFile]]:
    if len(wanted) > _SINGLY:
        return files_of_partitions(database, table_id, partitioning, None if len(wanted) > _SOME else wanted)
    return {texts: files_of_partitions(database, table_id, partitioning, [texts])[texts] for texts in wanted}


def _commit_by(path: str, files: Sequence[PartitionFile], *, newest: bool) -> LedgerRow | None:
    last = max((file.begin_snapshot for file in files), default=0)
    files_of_commit = [file for file in files if not newest or file.begin_snapshot == last or is_marked(file.path)]
    fingerprints = {named_fingerprint(file.path) for file in files_of_commit}
    if len(fingerprints) != 1 or (fingerprint := fingerprints.pop()) is None:
        return None
    columns = ("load_partition", "status", "source_fingerprint", "row_count", "snapshot_id")
    return LedgerRow.of(columns, (path, "committed", fingerprint, sum(file.rows for file in files), last))
