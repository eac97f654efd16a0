"""What a commit changes: rows of partitions, rows of this package's tables, and what must still hold at the commit.

The checks of what a commit requires refuse it before anything has changed.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from lake_assets.base.errors import CatalogError, PartitionHeldError, PartitionMovedError, SchemaChangedError
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.catalog.described import Description, ask_added
from lake_assets.lake.catalog.file_entries import Folders, PathState
from lake_assets.lake.catalog.file_facts import FileFacts
from lake_assets.lake.catalog.files import PartitionFile
from lake_assets.lake.catalog.table import Table, ask_changes, snapshot_span
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.commit.deltas import Delta, Export
from lake_assets.lake.ledger.ledger_relation import LedgerScope, read_inlined
from lake_assets.lake.ledger.object_history import KnownObject, partition_objects
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.ledger.tables import (
    DELTAS,
    LEDGER,
    MANIFEST,
    Appends,
    LedgerRow,
    OwnTable,
    Values,
    ledger_values,
    release_command,
)
from lake_assets.lake.session import LakeSession, PartitionedTable, TableName
from lake_assets.lake.table_setup import data_schema
from lake_assets.spark.task.job import DataFile, may_be_marked, named_fingerprint
from lake_assets.storage.manifest import LandedObject


@dataclass(frozen=True, slots=True)
class Written:
    """New rows: data files that tasks have written. Without files a partition is cleared, or nothing is added."""

    files: Sequence[DataFile] = ()
    columns: Sequence[str] = ()  # the files'; empty: unknown


@dataclass(frozen=True, slots=True)
class Staged:
    """New rows: encrypted files for a lake that accepts rows only through INSERT; only this run has their key."""

    key: bytes = field(repr=False)
    groups: Sequence[Sequence[str]]  # URIs; the rows of each group become one data file
    columns: Sequence[str]

    @classmethod
    def of(cls, files: Sequence[DataFile], key: bytes, columns: Sequence[str], target: int) -> Self:
        """Return the files in groups of about `target` bytes."""
        groups: list[list[str]] = []
        size = target
        for file in files:
            if size + file.size / 2 > target:
                groups.append([])
                size = 0
            groups[-1].append(file.uri)
            size += file.size
        return cls(key, groups, columns)

    @staticmethod
    def source(lake: Lake) -> str:
        """Return the relation of staged files, whose parameters are their names and their key."""
        # MotherDuck's server would read a bucket itself, without permission.
        run_here = ", MD_RUN = LOCAL" if lake.is_managed and not lake.staging_storage.is_local else ""
        return f"read_parquet(?, hive_partitioning = false, encryption_config = {{footer_key_value: ?}}{run_here})"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """New rows: those that the partition has, which DuckLake reads and writes as other files."""

    columns: Sequence[str]  # the table's, without the partition's
    target: int  # bytes of a file


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a data file of a snapshot, under a name that the catalog has never had."""

    file_id: int  # the original's
    uri: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class EarlierRows:
    """New rows: those of the partition in an earlier snapshot."""

    snapshot: int
    copies: Sequence[Copy]  # from the snapshot's files; empty: DuckLake reads and writes the rows
    selected: Mapping[str, str]  # columns of today and their names then, for rows that DuckLake reads and writes
    target: int  # bytes of a file that DuckLake writes


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A landed file that was inspected and fits the table."""

    object: LandedObject
    partition: Partition
    rows: int
    inside: frozenset[str]  # partition columns that readers take from the file, because its path lacks them
    facts: FileFacts | None  # None: only the extension can register the file
    folders: Folders = frozenset()  # partition columns whose folder in the path has another name

    @property
    def uri(self) -> str:
        """The object's URI."""
        return self.object.uri


@dataclass(frozen=True, slots=True)
class LandedFiles:
    """New rows: landed files that become files of the table as they are. One without rows is not registered."""

    described: Table | None  # the table that the files' facts are about; None: only the extension can register them
    files: Sequence[LandedFile]


@dataclass(frozen=True, slots=True)
class Renewed:
    """Registered files that changed, with their present facts, and files that end: vanished, or without rows now.

    The new facts apply to all snapshots, because no reader can read the earlier content of a changed file.
    """

    described: Table | None  # as of `LandedFiles`
    files: Sequence[LandedFile]
    vanished: Sequence[str] = ()  # URIs

    @property
    def ended(self) -> Sequence[str]:
        """URIs of all files that end."""
        return [*self.vanished, *(file.uri for file in self.files if not file.rows)]


New = Written | Staged | Rewrite | EarlierRows | LandedFiles | Renewed


@dataclass(frozen=True, slots=True)
class ExpectedManifest:
    """The known objects of a partition that a commit was prepared for."""

    objects: Mapping[str, KnownObject]  # by key
    streams: tuple[str, ...]  # the names of the stream that has noted them
    keys: Collection[str] | None = None  # the objects that matter; all of the partition when None


@dataclass(frozen=True, slots=True)
class Planned:
    """What a partition was made of when its replacement was planned."""

    snapshot: int  # the newest one of the lake
    fingerprint: str | None  # of the landed objects

    def is_before(self, snapshot: int | None, fingerprint: str | None) -> bool:
        """Return whether rows were made later, of other objects; compactions and other clients name none."""
        return (snapshot or 0) > self.snapshot and fingerprint not in (None, self.fingerprint)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What must hold at the commit; otherwise nothing is committed. The checks are below."""

    objects: ExpectedManifest | None = None  # that the partition was made of
    files: frozenset[int] | None = None  # ids of the data files that it consists of
    schema: pa.Schema | None = None  # the new rows', if the table may have other types now
    may_be_held: bool = False
    was_committed: bool = False  # before the run; if the partition has no files now, only the ledger says if it is held
    planned: Planned | None = None  # of a replacement, which replaces no newer rows


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one partition. One transaction commits it, alone or with changes of other partitions."""

    table: TableName
    partition: Partition
    row: LedgerRow  # its ledger row; the commit sets snapshot_id, rows_before and finished_at
    new: New | None  # the new rows; None: the rows stay as they are
    adds: bool = False  # the partition's rows stay beside the new ones
    # For other tables of this package, the values of the columns that the ledger does not have
    appends: Appends = field(default_factory=dict)
    requires: Requirements = Requirements()  # what must still hold
    export: Export | None = None  # of what the commit changes; None: nothing is exported
    delta: Delta | None = None  # the exported changes; the commit must become their snapshot


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed change: its ledger row as written, and its exported changes."""

    row: LedgerRow
    delta: Delta | None = None


RowsBefore = Mapping[tuple[TableName, Partition], int]


def by_table(changes: Sequence[Change]) -> dict[TableName, list[Change]]:
    """Return the changes of each table, in their order."""
    result: dict[TableName, list[Change]] = {}
    for change in changes:
        result.setdefault(change.table, []).append(change)
    return result


def of_table(table: TableName, rows: Mapping[Partition, int]) -> RowsBefore:
    """Return the rows of partitions of one table."""
    return {(table, partition): number for partition, number in rows.items()}


def committed_rows(changes: Sequence[Change], rows_before: RowsBefore, snapshot_id: int) -> list[LedgerRow]:
    """Return the ledger rows as part of a snapshot; a change that leaves the rows as they are knows their number."""
    return [
        c.row.committed(
            rows_before=(c.row.rows_before or 0) if c.new is None else rows_before.get((c.table, c.partition), 0),
            snapshot_id=snapshot_id,
        )
        for c in changes
    ]


def appended(changes: Sequence[Change], rows: Sequence[LedgerRow]) -> Appends:
    """Return the rows for all tables of this package, from the ledger rows as committed."""
    result: dict[OwnTable, list[Values]] = {}
    for change, row in zip(changes, rows, strict=True):
        deltas = {} if change.delta is None else {DELTAS: change.delta.values}
        for own, values in {**change.appends, **deltas}.items():
            result.setdefault(own, []).extend(own.rows(row, values))
    return {**result, LEDGER: list(map(ledger_values, rows))}


def owns_of(changes: Sequence[Change]) -> list[OwnTable]:
    """Return the tables of this package to which the changes append rows."""
    owns = {own: None for change in changes for own, values in change.appends.items() if values}
    exports = any(change.delta is not None and change.delta.values for change in changes)
    return [LEDGER, *owns, *([DELTAS] if exports else [])]


def message(changes: Sequence[Change]) -> tuple[str, str]:
    """Return the snapshot's commit message, and the one for programs: a JSON object."""
    row, *others = (change.row for change in changes)
    paths = {change.row.load_partition for change in changes}
    streams = list(dict.fromkeys(change.row.stream for change in changes))
    partitions = f"{len(paths):,} partitions" if len(paths) > 1 else row.load_partition
    modes = " and ".join(dict.fromkeys(of_change.mode for of_change in (row, *others)))
    of_run: dict[str, object] = {"run_id": row.run_id, "stream": row.stream}
    if len(streams) > 1:
        of_run["together"] = streams
    match changes[0].new:
        case Written() | Staged() | Rewrite() if len(paths) == 1:
            of_run["load_partition"] = row.load_partition
        case EarlierRows(snapshot=snapshot):
            of_run |= {"load_partition": row.load_partition, "restored_snapshot": snapshot}
        case _:
            of_run["load_partitions"] = len(paths)
    return f"{', '.join(streams)} {partitions}: {modes} by run {row.run_id}", json.dumps(of_run)


class RegisteredBeforeError(CatalogError):
    """The catalog already has some of the paths; nothing has changed."""

    def __init__(self, states: Mapping[str, PathState]) -> None:
        super().__init__(f"{len(states)} of the files were registered before, such as {min(states)}.")
        self.states = states


class RefusedFilesError(CatalogError):
    """DuckLake's extension refuses one of the files; nothing has changed."""


class UnknownCommitError(CatalogError):
    """Whether a commit was made is unknown: it failed, and the ledger cannot be read."""


class MarkedFilesError(Exception):
    """The partition's files say that it may be held, or there are none, so the ledger is read before the commit."""


def partition_drift(change: Change) -> PartitionMovedError:
    """Return the error for a partition that another writer committed after it was read."""
    return PartitionMovedError(
        f"partition {change.partition} of {change.table} was committed again meanwhile:",
        "nothing was changed. Run it again.",
    )


def columns_changed(change: Change) -> SchemaChangedError:
    """Return the error for a table whose columns changed after the files were written."""
    return SchemaChangedError(
        f"the columns of {change.table} changed while {change.partition} was being written:", "run it again."
    )


def refuse_drift(session: LakeSession, changes: Sequence[Change], database: CatalogDatabase | None = None) -> None:
    """Refuse a commit if a partition's known objects are not those that it was prepared for.

    So each object enters a partition once. Call it in the transaction of the commit, after the number of its snapshot
    is known. So it sees every commit before that snapshot, and the catalog refuses a commit that overlaps. Raises
    PartitionMovedError if another writer added one of the objects or replaced the partition, and NotDirectError if only
    DuckLake can read the manifest.
    """
    for of_table in by_table(changes).values():
        expecting = [(change, change.requires.objects) for change in of_table if change.requires.objects is not None]
        if expecting:
            _refuse_drift(session, expecting, database)


def _refuse_drift(
    session: LakeSession, expecting: Sequence[tuple[Change, ExpectedManifest]], database: CatalogDatabase | None
) -> None:
    first, expected_first = expecting[0]
    scope = LedgerScope(first.table, [change.partition.path for change, _ in expecting], expected_first.streams)
    known = partition_objects(session, scope, database)
    for change, expected in expecting:
        noted = known.get(change.partition.path, {})
        if expected.keys is not None:
            noted = {key: noted[key] for key in expected.keys if key in noted}
        if noted != expected.objects:
            raise partition_drift(change)


def drift_checked(session: LakeSession, changes: Sequence[Change]) -> int | None:
    """Return the newest snapshot, after `refuse_drift` in it; None if no objects are expected.

    So the ledger's and the manifest's files, which may be in a slow storage, are read before the commit's transaction.
    """
    if all(change.requires.objects is None for change in changes):
        return None
    with session.read() as database:
        refuse_drift(session, changes, database)
        _, newest = snapshot_span(database)
    return newest


def ask_drift(
    session: LakeSession, database: CatalogDatabase, description: Description, changes: Sequence[Change], since: int
) -> Callable[[Transaction], bool]:
    """Ask whether a commit since that snapshot may have changed the known objects of the partitions of a commit.

    Each commit of a partition has a row in the ledger, so the objects are the same if there is no new one, and no other
    change of ledger and manifest than new rows in the catalog.
    """
    among = {change.partition.path for change in changes}
    names = {own.name(session.config) for own in (LEDGER, MANIFEST)}
    ids = {str(table.table_id) for name, table in description.tables.items() if name in names}
    ledger = description.tables[LEDGER.name(session.config)].table_id
    inlined, version = description.inlined.get(ledger, ()), spec.VERSIONS[description.state.version]
    made = ask_changes(database, since)
    added = ask_added(database, inlined, "load_partition", version, since)

    def may_drift(transaction: Transaction) -> bool:
        of_snapshots = made()
        is_known = len(of_snapshots) == transaction.snapshot_id - 1 - since and len(ids) == len(names)
        if any(kind != "inlined_insert" and table_id in ids for changes in of_snapshots for kind, table_id in changes):
            is_known = False
        if not is_known or transaction.inlined.get(ledger, ()) != inlined:
            return True
        return any(not among.isdisjoint(read_inlined(row, ["VARCHAR"])) for answer in added for row in answer())

    return may_drift


def refuse_other_files(change: Change, files: Collection[PartitionFile]) -> None:
    """Refuse a partition that consists of other files than required, by their ids or by what their names say.

    The first commit of a partition needs no look at the ledger. Raises PartitionMovedError, or MarkedFilesError if the
    partition may be held: `refuse_others` says whether it is.
    """
    requires = change.requires
    if (planned := requires.planned) is not None and any(
        planned.is_before(file.begin_snapshot, named_fingerprint(file.path)) for file in files
    ):
        raise partition_drift(change)
    may_be = any(may_be_marked(file.path) for file in files) if files else requires.was_committed
    if may_be and not requires.may_be_held:
        raise MarkedFilesError
    if requires.files is not None and requires.files != {file.file_id for file in files}:
        raise partition_drift(change)


def refuse_others(session: LakeSession, changes: Sequence[Change]) -> None:
    """Refuse a refresh that began before its partition was held, or before another run committed it.

    Raises PartitionHeldError or PartitionMovedError.
    """
    for table, of_table in by_table([c for c in changes if not c.requires.may_be_held or c.requires.planned]).items():
        last = recorded_commits(session, table, [change.partition for change in of_table])
        for change in of_table:
            commit, requires = last.get(change.partition.path), change.requires
            if commit is not None and commit.is_held and not requires.may_be_held:
                raise PartitionHeldError(
                    f"partition {change.partition} of {table} was restored and held meanwhile:",
                    f"nothing was changed. {release_command(change.row.stream, change.partition.option)} ends the "
                    "hold.",
                )
            planned = requires.planned
            if commit and planned and planned.is_before(commit.snapshot_id, commit.source_fingerprint):
                raise partition_drift(change)


def refuse_other_types(session: LakeSession, changes: Sequence[Change], described: Table | None = None) -> None:
    """Refuse files whose columns have other types than the table (of now when None): another run may change them."""
    typed = [(change, change.requires.schema) for change in changes if change.requires.schema is not None]
    if not typed:
        return
    first = typed[0][0]
    table = data_schema(session, PartitionedTable(first.table, first.partition.columns), described)
    for change, schema in typed:
        for column in schema:
            index = table.get_field_index(column.name)
            if index >= 0 and not table.field(index).type.equals(column.type):
                raise columns_changed(change)
