"""The replacement of a partition's rows, or an addition to them, as one commit, and the SQL of such commits."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from lake_assets.duckdb_engine import glob_literal
from lake_assets.errors import PartitionHeldError, PartitionMovedError, SchemaChangedError
from lake_assets.lake.catalog.past import where
from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.deltas import Delta, Export
from lake_assets.lake.ledger.object_history import KnownObject
from lake_assets.lake.ledger.tables import DELTAS, LETTERS, MANIFEST, LedgerRow, OwnTable, Values, manifest_values
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import storable
from lake_assets.parquet.job import DataFile, LetterFile
from lake_assets.storage.manifest import Manifest

Statement = tuple[str, list[object]]
"""SQL and its bound parameters."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Encrypted files of rows for a lake that accepts rows by INSERT only; only this run has their key."""

    key: bytes = field(repr=False)
    groups: Sequence[Sequence[str]]  # URIs; the rows of each group become one data file

    @classmethod
    def of(cls, files: Sequence[DataFile], key: bytes, target: int) -> Self:
        """The files in groups of about `target` bytes."""
        groups: list[list[str]] = []
        size = target
        for file in files:
            if size + file.size / 2 > target:
                groups.append([])
                size = 0
            groups[-1].append(file.uri)
            size += file.size
        return cls(key, groups)


class MarkedFilesError(Exception):
    """The partition's files say that it may be held, or there are none, so the ledger is read before the commit."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The known objects of a partition that a commit was prepared for; with others, nothing is committed."""

    objects: Mapping[str, KnownObject]  # by URI
    uris: Sequence[str] | None = None  # the objects that matter; all of the partition when None


@dataclass(frozen=True, slots=True)
class Replacement(Change):
    """A commit that replaces the partition's rows by those of these files, or adds the files' rows to them."""

    table: TableName
    partition: Partition
    files: Sequence[str]  # URIs; empty: the partition is cleared, or nothing is added
    manifest: Manifest
    row: LedgerRow
    replaced: frozenset[int] | None = None  # ids of the data files that it must consist of; None: any
    columns: Sequence[str] = ()  # of the files; empty: unknown
    schema: pa.Schema | None = None  # of the files, if the table may have other types now
    staged: Staged | None = None  # the rows to insert; there are no files then
    adds: bool = False  # the partition's rows stay
    may_be_held: bool = False  # replace the rows of a held partition too
    was_committed: bool = False  # before the run; if the partition has no files now, only the ledger says if it is held
    written: Sequence[DataFile] = ()  # of the files, those that tasks have just written; they may have footers
    export: Export | None = None  # of what the commit changes; None: nothing is exported
    delta: Delta | None = None  # the exported changes; the commit must become their snapshot
    expected: Expected | None = None  # None: any
    letters: Sequence[LetterFile] = ()  # files of rows that were left out, which the commit makes visible
    note_delta: Callable[[Delta], object] | None = None  # called after the commit with its exported changes

    def ledger_rows(self) -> Mapping[Partition, LedgerRow]:
        """See `Change`."""
        return {self.partition: self.row}

    def appends(self, rows: Sequence[LedgerRow]) -> dict[OwnTable, list[Values]]:
        """The rows of objects, exported files and files of rows that were left out."""
        (row,) = rows
        left_out = ((one.landed, one.uri, one.rows, one.size, storable(one.reason)) for one in self.letters)
        return {
            MANIFEST: manifest_values(row, self.manifest),
            DELTAS: [] if self.delta is None else self.delta.rows(row),
            LETTERS: LETTERS.rows(row, left_out),
        }

    @property
    def exported(self) -> Delta | None:
        """See `Change`."""
        return self.delta

    def moved(self) -> PartitionMovedError:
        """The error for a partition that another writer committed after it was read."""
        return PartitionMovedError(
            f"partition {self.partition} of {self.table} was committed again meanwhile:",
            "nothing was changed; run it again.",
        )

    def held(self) -> PartitionHeldError:
        """The error for a partition that was held after the run had begun with it."""
        return PartitionHeldError(
            f"partition {self.partition} of {self.table} was restored and held meanwhile:",
            "nothing was changed; --force replaces it.",
        )

    def columns_changed(self) -> SchemaChangedError:
        """The error for a table whose columns changed after the files were written."""
        return SchemaChangedError(
            f"the columns of {self.table} changed while {self.partition} was being written:", "run it again."
        )

    @property
    def extra_info(self) -> str:
        """The message for programs: a JSON object with the partition."""
        row = self.row
        return json.dumps({"run_id": row.run_id, "stream": row.stream, "load_partition": row.load_partition})


def delete_statement(table: TableName, partition: Partition) -> Statement:
    """The statement that removes a partition's rows."""
    condition, parameters = where(partition)
    return f"DELETE FROM {table.sql} WHERE {condition}", parameters  # noqa: S608 - quoted names


def add_files_statement(table: TableName, files: Sequence[str]) -> Statement:
    """The statement that registers files; DuckLake reads the partition's values from their paths."""
    return (
        "CALL ducklake_add_data_files(?, ?, ?, schema => ?, hive_partitioning => true)",
        [table.lake, table.table, [glob_literal(file) for file in files], table.schema],
    )


def list_files_statement(table: TableName) -> Statement:
    """The statement that lists the table's data files, their URIs in the first column."""
    return "SELECT data_file FROM ducklake_list_files(?, ?, schema => ?)", [table.lake, table.table, table.schema]


def count_partition(session: LakeSession, table: TableName, partition: Partition) -> int:
    """The number of rows of a partition in a table.

    Raises:
        CatalogError: the table cannot be read.
    """
    condition, parameters = where(partition)
    ((rows,),) = session.rows(f"SELECT count(*) FROM {table.sql} WHERE {condition}", parameters)  # noqa: S608
    return int(rows)
