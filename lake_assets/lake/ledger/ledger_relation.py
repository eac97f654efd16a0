"""Some rows of ledger or manifest as a subquery for DuckDB, without a full read of the table.

The catalog's database returns the inlined rows that are wanted. Flushed rows are in Parquet files, sorted by partition,
each with the rows of a range of time: DuckDB skips the files and row groups whose bounds say that they have none.

DuckLake could skip them too. But on a SQLite catalog it then reads the statistics of all files of all tables.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from lake_assets.base.duckdb_engine import glob_literal, identifier
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, NotDirectError
from lake_assets.lake.catalog.described import flushed_files, inlined_tables
from lake_assets.lake.catalog.table import read_folder
from lake_assets.lake.ledger.tables import OwnTable
from lake_assets.lake.session import LakeSession, TableName

RANGES = 50  # into which values are divided, for DuckDB to skip row groups by
MOST = 10_000  # values of a column; with more, DuckLake reads the table

# The snapshot that added a row. DuckLake writes it into files that have rows of several snapshots; else it is NULL.
ADDED = "_ducklake_internal_snapshot_id"

_FILES = "read_parquet(?, hive_partitioning = false, union_by_name = true)"
_ENDED, _STARTED = "finished_at", "started_at"


@dataclass(frozen=True, slots=True)
class LedgerScope:
    """A table, whose commits the ledger has, and partitions of it."""

    table: TableName
    load_partitions: Sequence[str] | None = None  # in the path's form; all when None
    streams: tuple[str, ...] = ()  # the names of the stream that noted its objects

    @property
    def committed(self) -> dict[str, Sequence[str]]:
        """The condition on the ledger's rows: the commits, by any stream."""
        return {"destination_table": [str(self.table)], "status": ["committed"], **self._of_partitions}

    @property
    def noted(self) -> dict[str, Sequence[str]]:
        """The condition on rows of ledger and manifests: the stream's, for any table."""
        return {"stream": self.streams, **self._of_partitions}

    @property
    def _of_partitions(self) -> dict[str, Sequence[str]]:
        return {} if self.load_partitions is None else {"load_partition": self.load_partitions}


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows of a table of this package: their columns, and conditions that all must hold.

    A column that the table lacks is NULL. Conditions after `distinct` are for the ledger only.
    """

    own: OwnTable
    columns: Sequence[str]
    among: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))  # columns and their values
    distinct: bool = False  # of equal rows only one
    since: dt.datetime | None = None  # runs that ended then or later
    until: dt.datetime | None = None  # runs that ended before then
    newest: int | None = None  # this many rows, of the runs that ended last
    after: int | None = None  # commits of later snapshots

    @property
    def types(self) -> dict[str, str]:
        """The columns' types in DuckDB, by their names."""
        return {name: "BIGINT" if name == ADDED else self.own.columns[name] for name in self.columns}


@dataclass(frozen=True, slots=True)
class Relation:
    """A subquery with its parameters; `sql` has no parentheses around it."""

    sql: str
    parameters: Sequence[object]
    needs_lake: bool

    def __str__(self) -> str:
        return f"({self.sql})"


def query(
    session: LakeSession, sql: str, parameters: Sequence[object], relations: Sequence[Relation]
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement over these relations; the lake is attached only if one of them needs it."""
    run = session.rows if any(relation.needs_lake for relation in relations) else session.engine_rows
    return run(sql, parameters)


def wanted_rows(
    session: LakeSession, wanted: WantedRows, tail: str = "", parameters: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Return the wanted rows after SQL's other clauses (`tail`, with its parameters); none without such a table."""
    if not session.exists(wanted.own.name(session.config)):
        return []
    rows = relation(session, wanted)
    names = ", ".join(map(identifier, wanted.columns))
    return query(session, f"SELECT {names} FROM {rows} {tail}", [*rows.parameters, *parameters], [rows])  # noqa: S608


def relation(session: LakeSession, wanted: WantedRows, database: CatalogDatabase | None = None) -> Relation:
    """Return the rows of a table of this package that are wanted.

    They are read in the open transaction, or in one of its own when None. Raises NotDirectError if only DuckLake can
    read the rows, and that is outside of the given transaction.
    """
    table = wanted.own.name(session.config)
    try:
        if any(len(values) > MOST for values in wanted.among.values()):
            raise NotDirectError(f"there are too many values for the rows of {table}")  # noqa: TRY301
        with session.read() if database is None else nullcontext(database) as catalog:
            table_id, *_ = read_folder(catalog, table)
            names = inlined_tables(catalog, table_id)
            inlined = [row for name in names for row in _inlined(catalog, name, wanted)]
            flushed = flushed_files(catalog, table)
            files = [glob_literal(f.uri) for f in flushed if wanted.after is None or f.until > wanted.after]
    except NotDirectError:
        if database is not None:
            raise
        return relation_of_lake(session, wanted)
    values = list(zip(*inlined, strict=True)) or [() for _ in wanted.columns]
    sql = _typed(wanted)
    parameters: list[object] = [list(column) for column in values]
    if files:
        bound = None if wanted.newest is None else _bound(session, files, inlined, wanted)
        part, others = _part(_FILES, *_conditions(wanted, bound), wanted)
        sql, parameters = f"{sql} UNION ALL BY NAME ({part})", [*parameters, files, *others]
    return Relation(sql, parameters, needs_lake=False)


def relation_of_files(uris: Sequence[str], wanted: WantedRows) -> Relation:
    """Return the wanted rows of these files of a table; see `relation`."""
    part, parameters = _part(_FILES, *_conditions(wanted, None), wanted)
    files = [glob_literal(uri) for uri in uris]
    return _beside_none(wanted, part, [files, *parameters], needs_lake=False)


def relation_of_lake(session: LakeSession, wanted: WantedRows) -> Relation:
    """Return the wanted rows of a table, which DuckLake reads; see `relation`."""
    condition, parameters = _conditions(wanted, None)
    source = wanted.own.name(session.config).sql
    if ADDED in wanted.columns:
        source = f"(SELECT *, snapshot_id AS {ADDED} FROM {source})"  # noqa: S608 - a quoted name
    if session.backend.is_scanned:
        # No conditions by which DuckLake prunes files.
        source = f"(SELECT *, {condition} AS wanted FROM {source})"  # noqa: S608 - quoted names
        condition = "wanted IS TRUE"
    part, parameters = _part(source, condition, parameters, wanted)
    return _beside_none(wanted, part, parameters, needs_lake=True)


def _beside_none(wanted: WantedRows, part: str, parameters: Sequence[object], *, needs_lake: bool) -> Relation:
    """Return the relation of a part that may lack columns."""
    none: list[object] = [[] for _ in wanted.columns]
    return Relation(f"{_typed(wanted)} UNION ALL BY NAME ({part})", [*none, *parameters], needs_lake)


def _typed(wanted: WantedRows) -> str:
    return "SELECT " + ", ".join(f"unnest(?::{kind}[]) AS {identifier(name)}" for name, kind in wanted.types.items())


def _part(source: str, condition: str, parameters: Sequence[object], wanted: WantedRows) -> tuple[str, list[object]]:
    listed = ", ".join(f"'{name}'" for name in wanted.columns)
    sql = f"SELECT {_distinct(wanted)}COLUMNS(c -> list_contains([{listed}], c)) FROM {source} WHERE {condition}"  # noqa: S608
    if wanted.newest is None:
        return sql, list(parameters)
    return f"{sql} ORDER BY {_ENDED} DESC NULLS LAST, {_STARTED} DESC NULLS LAST LIMIT ?", [*parameters, wanted.newest]


def is_among(column: str, values: Sequence[str]) -> tuple[str, list[object]]:
    """Return a condition on texts, with parameters, by which DuckDB skips what has none of them; a list would not do.

    It skips the row groups outside of their bounds. Of those between two distant values it reads this column only.
    """
    ordered, name = sorted(set(values)), identifier(column)
    if not ordered:
        return "FALSE", []
    conditions, parameters = [f"{name} >= ? AND {name} <= ?"], list[object]([ordered[0], ordered[-1]])
    size = -(-len(ordered) // RANGES)
    parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if len(parts) > 1:
        conditions.append(f"({' OR '.join(f'({name} >= ? AND {name} <= ?)' for _ in parts)})")
        parameters += [bound for part in parts for bound in (part[0], part[-1])]
    if size > 1:
        conditions.append(f"{name} IN (SELECT unnest(?::VARCHAR[]))")
        parameters.append(ordered)
    return " AND ".join(conditions), parameters


def _distinct(wanted: WantedRows) -> str:
    return "DISTINCT " if wanted.distinct else ""


def _conditions(wanted: WantedRows, at_least: dt.datetime | None) -> tuple[str, list[object]]:
    """Return the conditions for DuckDB; `at_least` is a time before which no wanted run ended."""
    conditions, parameters = ["TRUE"], list[object]()
    for name, values in wanted.among.items():
        condition, more = is_among(name, values)
        conditions.append(condition)
        parameters += more
    for operator, moment in ((">=", wanted.since), (">=", at_least), ("<", wanted.until)):
        if moment is not None:
            conditions.append(f"{_ENDED} {operator} ?")
            parameters.append(moment)
    if wanted.after is not None:
        conditions.append("snapshot_id > ?")
        parameters.append(wanted.after)
    return " AND ".join(conditions), parameters


def _bound(
    session: LakeSession, files: Sequence[str], inlined: Sequence[Sequence[Any]], wanted: WantedRows
) -> dt.datetime | None:
    """Return a time before which no wanted run ended, by inlined rows and the newest file; None if they are too few."""
    assert wanted.newest is not None  # noqa: S101 - the caller checks
    ended = [row[wanted.columns.index(_ENDED)] for row in inlined]
    if len(ended) < wanted.newest and len(files) > 1:
        part, parameters = _part(_FILES, *_conditions(wanted, None), replace(wanted, columns=[_ENDED]))
        ended += [moment for (moment,) in session.engine_rows(part, [files[:1], *parameters])]
    times = sorted((moment for moment in ended if moment is not None), reverse=True)
    return times[wanted.newest - 1] if len(times) >= wanted.newest else None


def _inlined(database: CatalogDatabase, name: str, wanted: WantedRows) -> list[tuple[object, ...]]:
    """Return the wanted rows of one table of inlined rows; `newest` of each such table."""
    present = set(database.columns(name))
    added = {ADDED: database.version.begin_snapshot}
    listed = ", ".join(
        added.get(column) or (identifier(column) if column in present else "NULL") for column in wanted.columns
    )
    conditions, parameters = [f"{database.version.end_snapshot} IS NULL"], list[object]()
    for column, values in wanted.among.items():
        conditions.append(f"{identifier(column)} IN ({', '.join('?' for _ in values) or 'NULL'})")
        parameters += map(database.inlined, values)
    for operator, moment in ((">=", wanted.since), ("<", wanted.until)):
        if moment is not None:
            conditions.append(f"{_ENDED} {database.by_time} {operator} ?")
            parameters.append(database.inlined_time(moment))
    if wanted.after is not None:
        conditions.append("snapshot_id > ?")
        parameters.append(wanted.after)
    order = ""
    if wanted.newest is not None:
        keys = (f"{key} {database.by_time} DESC NULLS LAST" for key in (_ENDED, _STARTED))
        order = f" ORDER BY {', '.join(keys)} LIMIT ?"
        parameters.append(wanted.newest)
    rows = database.rows(
        f"SELECT {_distinct(wanted)}{listed} FROM {identifier(name)} WHERE {' AND '.join(conditions)}{order}",  # noqa: S608
        parameters,
    )
    return [read_inlined(row, list(wanted.types.values())) for row in rows]


def read_inlined(row: Sequence[Any], types: Sequence[str]) -> tuple[Any, ...]:
    """Return the values of an inlined row: some catalogs keep texts as bytes, and times and doubles as texts."""
    return tuple(
        [
            value.decode()
            if isinstance(value, bytes)
            else _OF_TEXTS[kind](value)
            if kind in _OF_TEXTS and isinstance(value, str)
            else value
            for value, kind in zip(row, types, strict=True)
        ]
    )


_OF_TEXTS: Mapping[str, Callable[[str], object]] = {"DOUBLE": float, "TIMESTAMPTZ": dt.datetime.fromisoformat}
