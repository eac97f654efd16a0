"""The run ledger (a row for each run and partition) and the manifest table, in the lake itself."""

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.json_dataclasses import Documented
from lake_assets.base.texts import storable
from lake_assets.config.lake import Lake
from lake_assets.config.modes import Mode
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.described import Description, describe
from lake_assets.lake.catalog.table import find_table, read_columns
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.session import LakeSession, TableName, under_lock, write_retried
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import Manifest

Status = Literal["committed", "skipped", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)

# The modes whose commits add rows: their `row_count` is without `rows_before`. A run that finds nothing new has looked
# at all landed objects, and its fingerprint is theirs.
ADDING = tuple(mode.value for mode in Mode if mode.adds)
ADDS = f"mode IN ({', '.join(map(repr, ADDING))})"
COMPACT = "compact"  # the mode of a rewrite of a partition's own files, which changes no row
RESTORE = "restore"  # the mode of a commit that puts the rows of an earlier snapshot back
RELEASE = "release"  # the mode of a commit that ends a hold, and changes no row

_OF_SNAPSHOT = re.compile(r" AT \(VERSION => (\d+)\)$")  # in the `source_glob` of a restore

Hold = Literal["held", "released"]
"""Whether refreshes skip the partition after this commit; NULL if it was never held."""
HELD: Hold = "held"
RELEASED: Hold = "released"

# Up to this many rows of a transaction are inlined in the catalog, without a Parquet file.
INLINED_ROWS = 1000

_SQL_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", dt.datetime: "TIMESTAMPTZ"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow(Documented):
    """One run of one partition. The fields are the columns of the ledger, in their order."""

    run_id: str
    """The run's id."""
    run_at: dt.datetime
    """When the run began."""
    stream: str
    """Its stream, by the name that it had then."""
    source_glob: str
    """Path or URI of the partition's landed objects."""
    destination_table: str
    """With its schema, such as `main.sales`."""
    partition_columns: str
    """Their names, separated by commas."""
    load_partition: str
    """The partition as a path, such as `region=NW/date=2026-02-11`."""
    mode: str
    """`replace`, `append`, `index`, `repair`, `compact`, `restore` or `release`."""
    status: Status
    """How it ended."""
    on_empty: str | None = None
    """The policy that was applied, if the partition had no objects."""
    row_count: int | None = None
    """Rows that the commit wrote; in the modes append and index, those that it added."""
    rows_before: int | None = None
    """The partition's rows before."""
    source_files: int | None = None
    """The number of landed objects."""
    source_bytes: int | None = None
    """Their size in bytes."""
    files_written: int | None = None
    """Data files that the commit added."""
    bytes_written: int | None = None
    """Their size in bytes."""
    source_fingerprint: str | None = None
    """Of the landed objects, in hexadecimal digits."""
    snapshot_id: int | None = None
    """The number of the commit's snapshot; null unless it is committed."""
    started_at: dt.datetime
    """When work on the partition began."""
    finished_at: dt.datetime | None = None
    """When it ended."""
    error: str | None = None
    """Why it failed."""
    files_copied: int | None = None
    """Of the files written, those that are copies of objects."""
    requested_by: str | None = None
    """The user, or what launched the run in Dagster."""
    hold: Hold | None = None
    """Whether refreshes skip the partition since then; null if it was never held."""
    files_quarantined: int | None = None
    """Landed objects that were left out; null if the stream never does that."""
    rows_dead_lettered: int | None = None
    """Rows that were left out; null if the stream never does that."""
    seconds: float | None = None
    """Seconds of work before its commit, with its share of what partitions have in common; without Spark's start."""
    joined: str | None = None
    """Other tables that the transform read, each with its snapshot, as `main.stores@17`; null if it read none."""

    @classmethod
    def of(cls, columns: Iterable[str], values: Iterable[object]) -> "LedgerRow":
        """Return a row of which only these columns were read; the others are None."""
        fields: dict[str, Any] = dict.fromkeys(LEDGER_COLUMNS)
        return cls(**fields | dict(zip(columns, values, strict=True)))

    @property
    def moment(self) -> dt.datetime:
        """When the run ended; when it began, if that is unknown."""
        return self.finished_at or self.started_at

    @property
    def duration(self) -> float:
        """Its seconds; of a row without them, such as a restore's, the time from its beginning to its end."""
        return (self.moment - self.started_at).total_seconds() if self.seconds is None else self.seconds

    @property
    def snapshot(self) -> int:
        """The number of the commit's snapshot; 0 unless it is committed."""
        return self.snapshot_id or 0

    @property
    def restored_snapshot(self) -> int | None:
        """The snapshot whose rows a restore has put back; None of another commit."""
        match = _OF_SNAPSHOT.search(self.source_glob) if self.mode == RESTORE else None
        return int(match[1]) if match else None

    @property
    def is_held(self) -> bool:
        """Whether refreshes skip the partition after this commit."""
        return self.hold == HELD

    @property
    def reads_new(self) -> bool:
        """Whether the run has read the objects that no commit had noted; see `Mode`."""
        return self.mode in [mode for mode in Mode if mode.reads_new]

    @property
    def registers(self) -> bool:
        """Whether the run has made landed objects files of the table; see `Mode`."""
        return self.mode in [mode for mode in Mode if mode.registers]

    @property
    def rows_after(self) -> int | None:
        """The rows of the partition after a commit: in modes that add rows, with those before it."""
        if self.row_count is None or self.mode not in ADDING:
            return self.row_count
        return self.row_count + (self.rows_before or 0)

    def committed(self, *, rows_before: int, snapshot_id: int) -> "LedgerRow":
        """Return the row of a run that commits now, with its snapshot."""
        return dataclasses.replace(
            self, rows_before=rows_before, snapshot_id=snapshot_id, finished_at=dt.datetime.now(dt.UTC)
        )


def source_of_restore(table: TableName, snapshot: int) -> str:
    """Return the `source_glob` of a restore, which `restored_snapshot` reads."""
    return f"{table} AT (VERSION => {snapshot})"


def release_command(stream: str, option: str) -> str:
    """Return how to end the hold of a partition, which is written as in `--partition`, in code of Markdown."""
    return f"`lake-assets restore {stream} --partition {option} --release`"


def _sql_type(field: "dataclasses.Field[object]") -> str:
    for python_type, sql in _SQL_TYPES.items():
        if field.type in (python_type, python_type | None):
            return sql
    return "VARCHAR"  # a Literal


LEDGER_COLUMNS: dict[str, str] = {field.name: _sql_type(field) for field in dataclasses.fields(LedgerRow)}

Values = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OwnTable:
    """A table of this package in a lake."""

    setting: str  # the key of the lake's config with its name
    columns: Mapping[str, str]  # their types in DuckDB
    order: Sequence[str] = ()  # of the rows in a flushed file
    ends_with_run: bool = False  # its rows are deleted with the ledger row of their run
    is_used: Callable[[Lake], bool] = lambda _: True  # whether a lake has the table

    def name(self, lake: Lake) -> TableName:
        """Return the table's name in this lake."""
        return TableName(lake.ledger_schema, getattr(lake, self.setting), catalog_backend(lake).alias)

    def rows(self, row: LedgerRow, values: Iterable[Values]) -> list[Values]:
        """Return rows about the run of a ledger row, from the values of the columns that the ledger does not have."""
        of_run = tuple(getattr(row, name) for name in self.columns if name in _OF_RUN)
        return [(*of_run, *others) for others in values]


_OF_RUN = {"run_id": "VARCHAR", "stream": "VARCHAR", "load_partition": "VARCHAR", "snapshot_id": "BIGINT"}
_OF_PARTITION = {name: sql for name, sql in _OF_RUN.items() if name != "snapshot_id"}

Appends = Mapping[OwnTable, Sequence[Values]]

# DuckLake gives new row ids to sorted rows when it merges files, so the order of row ids is that of the rows' times
# only in different files.
LEDGER = OwnTable(setting="ledger", columns=LEDGER_COLUMNS, order=("destination_table", "load_partition", "started_at"))
MANIFEST = OwnTable(
    setting="manifest",
    columns=_OF_PARTITION
    | {
        "uri": "VARCHAR",
        "etag": "VARCHAR",
        "size": "BIGINT",
        "last_modified": "TIMESTAMPTZ",
        "reason": "VARCHAR",  # why the object was left out; NULL: it was read
        "rows": "BIGINT",  # of the partition that were read from it, with those in dead letters; NULL: unknown
        "key": "VARCHAR",  # the path below the source; NULL: an older version noted it
        "digest": "VARCHAR",  # of the content; NULL: unknown
        "after_load": "VARCHAR",  # `delete` or `move`: what takes it out of the landing zone; NULL: nothing
    },
    order=("stream", "load_partition", "uri", "last_modified"),
    ends_with_run=True,
)
DELTAS = OwnTable(
    setting="delta_manifest",
    columns=_OF_RUN
    | {
        "committed_at": "TIMESTAMPTZ",
        "uri": "VARCHAR",
        "rows_inserted": "BIGINT",
        "rows_deleted": "BIGINT",
        "size": "BIGINT",
    },
    order=("stream", "snapshot_id"),
    is_used=lambda lake: lake.exports_deltas,
)
LETTERS = OwnTable(
    setting="dead_letter_manifest",
    columns=_OF_RUN
    | {
        "object": "VARCHAR",  # that the rows were landed in
        "uri": "VARCHAR",
        "rows": "BIGINT",
        "size": "BIGINT",
        "reason": "VARCHAR",  # why the first row was left out
    },
    order=("stream", "load_partition", "snapshot_id"),
    is_used=lambda lake: lake.has_dead_letters,
)
CLAIM = OwnTable(setting="claim", columns={"run_id": "VARCHAR"}, is_used=lambda lake: lake.is_managed)
OWN_TABLES = (LEDGER, MANIFEST, DELTAS, LETTERS, CLAIM)
OF_RUNS = tuple(own for own in OWN_TABLES if own.ends_with_run)


def claim(session: LakeSession, row: LedgerRow) -> None:
    """Make the open transaction fail if another one that claims commits first."""
    session.rows(f"UPDATE {CLAIM.name(session.config).sql} SET run_id = ?", [row.run_id])  # noqa: S608 - quoted


def create_ledger(session: LakeSession) -> None:
    """Create the ledger and the manifest table if they do not exist, and add columns that an older version lacks."""
    config = session.config
    tables = {own.name(config): own.columns for own in OWN_TABLES if own.is_used(config)}
    if _has_columns(session, tables) or not any(_lacking(session, tables).values()):
        return

    def create() -> None:
        with session.transaction():
            schema = f"{identifier(session.alias)}.{identifier(config.ledger_schema)}"
            session.rows(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            for table, lacking in _lacking(session, tables).items():
                if len(lacking) == len(tables[table]):
                    listed = ", ".join(f'"{name}" {sql}' for name, sql in tables[table].items())
                    session.rows(f"CREATE TABLE {table.sql} ({listed})")
                    if table == CLAIM.name(config):
                        session.rows(f"INSERT INTO {table.sql} VALUES ('')")  # noqa: S608 - a quoted name
                    continue
                for name in lacking:
                    session.rows(f"ALTER TABLE {table.sql} ADD COLUMN {identifier(name)} {tables[table][name]}")
        for table in tables:
            set_option(session, table, "data_inlining_row_limit", INLINED_ROWS)

    under_lock(session, create, "the ledger's tables")


def _has_columns(session: LakeSession, tables: Mapping[TableName, Mapping[str, str]]) -> bool:
    """Return whether the catalog's own tables prove that all columns exist, which is faster than to ask DuckDB."""
    try:
        with session.read() as database:
            for table, columns in tables.items():
                table_id = find_table(database, table)
                if table_id is None or columns.keys() - {c.name.lower() for c in read_columns(database, table_id)}:
                    return False
    except NotDirectError:
        return False
    return True


def _lacking(session: LakeSession, tables: Mapping[TableName, Mapping[str, str]]) -> dict[TableName, list[str]]:
    """Return the columns that each table lacks; all of them if there is no table."""
    config = session.config
    present = {
        (table, column)
        for table, column in session.rows(
            "SELECT lower(table_name), lower(column_name) FROM information_schema.columns "
            "WHERE table_catalog = ? AND lower(table_schema) = lower(?)",
            [session.alias, config.ledger_schema],
        )
    }
    return {
        table: [name for name in columns if (table.table.lower(), name) not in present]
        for table, columns in tables.items()
    }


def set_option(session: LakeSession, table: TableName, option: str, value: object) -> None:
    """Set a DuckLake option of this table, unless MotherDuck manages the lake and its options."""
    if not session.config.is_managed:
        session.rows(
            f"CALL {identifier(session.alias)}.set_option(?, ?, schema => ?, table_name => ?)",
            [option, value, table.schema, table.table],
        )


def ledger_values(row: LedgerRow) -> tuple[object, ...]:
    """Return the row's values in the order of `LEDGER_COLUMNS`."""
    return tuple(getattr(row, name) for name in LEDGER_COLUMNS)


def append_records(session: LakeSession, appends: Appends) -> None:
    """Append rows to tables of this package, in the open transaction."""
    for own, rows in appends.items():
        if rows:
            names = ", ".join(map(identifier, own.columns))
            lists = ", ".join(f"unnest(?::{sql}[])" for sql in own.columns.values())
            session.rows(
                f"INSERT INTO {own.name(session.config).sql} ({names}) SELECT {lists}",
                [list(column) for column in zip(*rows, strict=True)],
            )


def record(
    session: LakeSession,
    rows: Sequence[LedgerRow],
    others: Appends = MappingProxyType({}),
    *,
    retry_seconds: float | None = None,
) -> None:
    """Append rows in a separate transaction, for partitions that a run skipped or that failed.

    `others` are rows of other tables of this package, and `retry_seconds` is as of `retried`.
    """
    appends = {own: values for own, values in {LEDGER: list(map(ledger_values, rows)), **others}.items() if values}
    if not appends:
        return

    def insert() -> None:
        try:
            description = describe(session, [], [own.name(session.config) for own in appends])
            with session.write() as database:
                transaction = Transaction(database, description)
                append_directly(session, transaction, description, appends)
                transaction.finish(None, None, None)
        except NotDirectError:
            with session.commit_lock(), session.transaction():
                append_records(session, appends)

    number = sum(map(len, appends.values()))
    what = f"{number:,} rows of the ledger" if number > 1 else "a row of the ledger"
    write_retried(session, insert, what, retry_seconds=retry_seconds)


def append_directly(session: LakeSession, transaction: Transaction, description: Description, appends: Appends) -> None:
    """Append rows to tables of this package, in the open transaction of the catalog's driver.

    Raises NotDirectError if a table has other columns.
    """
    for own, rows in appends.items():
        if rows:
            transaction.append(description.tables[own.name(session.config)], list(own.columns), rows)


def manifest_values(
    manifest: Manifest, rows: Mapping[str, int] = MappingProxyType({}), after_load: str | None = None
) -> list[Values]:
    """Return the values of `MANIFEST` for each object that a run read or left out; the rows are by key."""
    why = manifest.left_out
    return [
        (o.uri, o.etag, o.size, o.last_modified, why.get(o.key), rows.get(o.key), o.key, o.digest or None, after_load)
        for o in manifest.objects
    ]


def ended_values(keys: Mapping[str, str]) -> list[Values]:
    """Return the values of `MANIFEST` for objects that a run removed from the table, by their URIs and keys."""
    return [(uri, "", 0, None, None, None, key, None, None) for uri, key in keys.items()]


def letter_values(letters: Iterable[LetterFile]) -> list[Values]:
    """Return the values of `LETTERS` for files of rows that a run left out."""
    return [(letter.landed, letter.uri, letter.rows, letter.size, storable(letter.reason)) for letter in letters]
