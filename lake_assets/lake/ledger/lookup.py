"""The newest ledger rows of a few partitions, found without reading the whole ledger.

New rows are inlined in the catalog, and its database finds a partition's newest ones itself. Maintenance flushes
inlined rows into Parquet files, sorted by table and partition, so that a reader skips other row groups. Flushed rows
are older than inlined ones, so the files are read only for partitions without an inlined commit.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lake_assets.duckdb_engine import glob_literal, identifier
from lake_assets.lake.catalog.database import CatalogDatabase, NotDirectError, catalog_reading
from lake_assets.lake.catalog.inlined import flushed_files, inlined_tables, table_named_since
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.ledger.tables import COMPACT, Status, ledger_table
from lake_assets.lake.session import LakeSession, TableName

FEW = 20  # partitions; for more, one query of the whole ledger is faster


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


_COLUMNS = tuple(field.name for field in fields(Run))
_NAMES = ", ".join(map(identifier, _COLUMNS))

_IS_COMMIT = "status = ? AND snapshot_id >= ?"


def newest_runs(session: LakeSession, table: TableName, load_partitions: Sequence[str]) -> dict[str, NewestRuns] | None:
    """The newest runs of partitions of a table, by their path; None if the ledger can only be read as a whole.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    if len(load_partitions) > FEW:
        return None
    try:
        with catalog_reading(session) as database:
            ledger = ledger_table(session.config)
            ledger_id, *_ = read_folder(database, ledger)
            since = table_named_since(database, table)
            inlined = inlined_tables(database, ledger_id)
            runs = {path: _inlined(database, inlined, str(table), path, since) for path in load_partitions}
            older = [path for path, found in runs.items() if found.commit is None]
            files = flushed_files(session, database, ledger) if older else []
    except NotDirectError:
        return None
    if files:
        flushed = _flushed(session, files, str(table), older, since)
        runs |= {path: runs[path].or_older(found) for path, found in flushed.items()}
    return {path: found for path, found in runs.items() if found != NewestRuns()}


def _inlined(database: CatalogDatabase, tables: Sequence[str], table: str, path: str, since: int) -> NewestRuns:
    """The newest inlined rows of a partition; `tables` has the newest rows first."""
    runs = NewestRuns()
    for name in tables:
        if runs.commit is None:
            runs = runs.or_older(_inlined_in(database, name, table, path, since))
    return runs


def _inlined_in(database: CatalogDatabase, name: str, table: str, path: str, since: int) -> NewestRuns:
    """The newest rows in one table, by their row numbers, because the clocks of two writers differ."""
    version = database.version
    skipped = f"status = ? AND (on_empty IS NOT NULL OR mode = ? OR {version.begin_snapshot} >= ?)"
    kinds: dict[str, tuple[str, list[object]]] = {
        "newest": ("", []),
        # A run that was skipped as unchanged has the fingerprint of the commit before it, which does not count if the
        # table was dropped since.
        "source": (
            f"AND ({_IS_COMMIT} OR {skipped}) ",
            ["committed", since, "skipped", "index", since],
        ),
        "commit": (f"AND {_IS_COMMIT} ", ["committed", since]),
    }
    parts: list[str] = []
    parameters: list[object] = []
    for kind, (condition, values) in kinds.items():
        parts.append(
            f"SELECT * FROM (SELECT '{kind}', {_NAMES} FROM {identifier(name)} WHERE load_partition = ? "  # noqa: S608
            f"AND destination_table = ? AND mode <> ? AND status <> ? AND {version.end_snapshot} IS NULL "
            f"{condition}ORDER BY {version.row_id} DESC LIMIT 1) AS {kind}_run"
        )
        parameters += [path, table, COMPACT, "cancelled", *values]
    rows = database.rows(" UNION ALL ".join(parts), [database.inlined(value) for value in parameters])
    return NewestRuns(**{kind: _run(values) for kind, *values in rows})


def _run(values: Sequence[Any]) -> Run:
    """A row of the catalog's database: some keep texts as bytes, and times as texts."""
    texts: list[Any] = [value.decode() if isinstance(value, bytes) else value for value in values]
    run = Run(*texts)
    return replace(run, started_at=_time(run.started_at), finished_at=_time(run.finished_at))


def _time(value: Any) -> Any:  # noqa: ANN401 - a text, a time or None
    return dt.datetime.fromisoformat(value) if isinstance(value, str) else value


def _flushed(
    session: LakeSession, files: Sequence[str], table: str, load_partitions: Sequence[str], since: int
) -> dict[str, NewestRuns]:
    """The newest rows of partitions in Parquet files of the ledger, whose row groups DuckDB skips by their bounds."""
    run = f"struct_pack({', '.join(f'{name} := {name}' for name in map(identifier, _COLUMNS))})"
    marks = ", ".join("?" for _ in load_partitions)
    commit = "status = 'committed' AND snapshot_id >= ?"
    rows = session.rows(
        f"SELECT load_partition, arg_max({run}, moment), arg_max({run}, moment) FILTER ({commit} "  # noqa: S608
        f"OR status = 'skipped' AND (on_empty IS NOT NULL OR mode = 'index')), arg_max({run}, snapshot_id) "
        f"FILTER ({commit}) FROM (SELECT *, coalesce(finished_at, started_at) AS moment FROM "
        f"read_parquet(?, hive_partitioning = false, union_by_name = true)) WHERE load_partition IN ({marks}) "
        "AND destination_table = ? AND mode <> ? AND status <> 'cancelled' GROUP BY load_partition",
        [since, since, [glob_literal(file) for file in files], *load_partitions, table, COMPACT],
    )
    return {path: NewestRuns(*(Run(**found) if found else None for found in runs)) for path, *runs in rows}
