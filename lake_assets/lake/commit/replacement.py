"""What a commit does to a partition, in the words that its strategies share."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from lake_assets.duckdb_engine import glob_literal, identifier
from lake_assets.errors import PartitionMovedError, SchemaChangedError
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import DataFile
from lake_assets.storage.manifest import Manifest

Statement = tuple[str, list[object]]
"""SQL and its bound parameters."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows on their way into a lake that takes them by INSERT only: files that this run alone can read."""

    key: bytes = field(repr=False)
    groups: Sequence[Sequence[str]]  # URIs; the rows of each group become one data file

    @classmethod
    def of(cls, files: Sequence[DataFile], key: bytes, target: int) -> Self:
        """The files in groups of about so many bytes, each begun when the one before has them."""
        groups: list[list[str]] = []
        size = target
        for file in files:
            if size + file.size / 2 > target:
                groups.append([])
                size = 0
            groups[-1].append(file.uri)
            size += file.size
        return cls(key, groups)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What one commit does: the partition's rows go, these files' rows come, the ledger row tells."""

    table: TableName
    partition: Partition
    files: Sequence[str]  # URIs; empty: the partition is cleared
    manifest: Manifest
    row: LedgerRow  # its snapshot_id, rows_before and finished_at are filled in by the commit
    replaced: frozenset[int] | None = None  # ids of the data files that it must consist of; None: whatever is there
    columns: Sequence[str] = ()  # that the files have; unknown when empty
    schema: pa.Schema | None = None  # of the files, where the table may have other types by now
    staged: Staged | None = None  # the rows, where they are inserted; there are no files then

    def done(self, *, rows_before: int, snapshot_id: int) -> LedgerRow:
        """The ledger row of this replacement as part of a snapshot."""
        return self.row.committed(rows_before=rows_before, snapshot_id=snapshot_id)

    def moved(self) -> PartitionMovedError:
        """The error of a commit to a partition that another writer has committed meanwhile."""
        return PartitionMovedError(
            f"partition {self.partition} of {self.table} was committed again meanwhile:",
            "nothing was changed; run it again.",
        )

    def columns_changed(self) -> SchemaChangedError:
        """The error of a commit to a table that has other columns than the files were written for."""
        return SchemaChangedError(
            f"the columns of {self.table} changed while {self.partition} was being written:", "run it again."
        )

    @property
    def message(self) -> str:
        """The snapshot's commit message."""
        return f"{self.row.stream} {self.row.load_partition}: {self.row.mode} by run {self.row.run_id}"

    @property
    def extra_info(self) -> str:
        """The same for programs: a JSON object."""
        row = self.row
        return json.dumps({"run_id": row.run_id, "stream": row.stream, "load_partition": row.load_partition})


def delete_statement(table: TableName, partition: Partition) -> Statement:
    """The statement that removes a partition's rows."""
    condition, parameters = where(partition)
    return f"DELETE FROM {table.sql} WHERE {condition}", parameters  # noqa: S608 - quoted names


def add_files_statement(table: TableName, files: Sequence[str]) -> Statement:
    """The statement that registers files; the partition's values are taken from their paths."""
    return (
        "CALL ducklake_add_data_files(?, ?, ?, schema => ?, hive_partitioning => true)",
        [table.lake, table.table, [glob_literal(file) for file in files], table.schema],
    )


def list_files_statement(table: TableName) -> Statement:
    """The statement that lists the table's data files, their URIs in the first column."""
    return "SELECT data_file FROM ducklake_list_files(?, ?, schema => ?)", [table.lake, table.table, table.schema]


def count_partition(session: LakeSession, table: TableName, partition: Partition) -> int:
    """How many rows of a partition a table has.

    Raises:
        CatalogError: the table cannot be read.
    """
    condition, parameters = where(partition)
    ((rows,),) = session.rows(f"SELECT count(*) FROM {table.sql} WHERE {condition}", parameters)  # noqa: S608
    return int(rows)


def where(partition: Partition) -> tuple[str, list[object]]:
    """The condition that holds for a partition's rows only, with its bound parameters."""
    conditions: list[str] = []
    parameters: list[object] = []
    for column, value in zip(partition.columns, partition.values, strict=True):
        # `IS NOT DISTINCT FROM` would do for both, but files are pruned by `=` and `IS NULL` only.
        if value is None:
            conditions.append(f"{identifier(column.name)} IS NULL")
        else:
            conditions.append(f"{identifier(column.name)} = ?")
            parameters.append(value)
    return " AND ".join(conditions), parameters
