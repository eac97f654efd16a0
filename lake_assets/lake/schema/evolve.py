"""The change of a table to columns that landed: added ones, and numbers that became wider. Nothing is ever removed.

A change is a snapshot of its own, made before the data files are written that need it. Rows of before have NULL in an
added column; readers of an older snapshot see the table as it was.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.retry import under_lock
from lake_assets.lake.schema.tables import data_schema
from lake_assets.lake.schema.types import check_columns, sql_type
from lake_assets.lake.session import AUTHOR, LakeSession, TableName
from lake_assets.layout.partition import PartitionColumn
from lake_assets.parquet.schema_fit import refused, widens, wider


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """What becomes of one column."""

    column: str  # as the table has it, or the files where it is new
    type: str  # its DuckLake type from now on
    before: str | None  # its type until now; None where it is new

    def __str__(self) -> str:
        if self.before is None:
            return f"added column {self.column} {self.type}"
        return f"widened column {self.column} from {self.before} to {self.type}"

    def statement(self, table: TableName) -> str:
        """The SQL that makes the change."""
        column = identifier(self.column)
        if self.before is None:
            return f"ALTER TABLE {table.sql} ADD COLUMN {column} {self.type}"
        return f"ALTER TABLE {table.sql} ALTER COLUMN {column} SET DATA TYPE {self.type}"


def column_changes(
    schema: pa.Schema, found: Sequence[tuple[str, pa.Schema]], partition_columns: Sequence[PartitionColumn]
) -> list[ColumnChange]:
    """The changes after which a table can hold the rows of all that was found.

    Args:
        schema: of the table, without its partition columns.
        found: where each schema comes from, for errors, and the schema.
        partition_columns: of the stream; they never change.

    Raises:
        SchemaError: a type is none that the table's column can be widened to, or a new column has a name or type
            that the lake cannot hold.
    """
    by_path = {column.name.lower() for column in partition_columns}
    before = {field.name.lower(): field for field in schema}
    after = dict(before)
    for origin, given in found:
        check_columns(given, origin)
        for field in given:
            key = field.name.lower()
            if key in by_path or (key not in after and pa.types.is_null(field.type)):
                continue  # a column without a value has no type yet
            known = after.setdefault(key, _plain(field))
            if widens(field.type, known.type):
                continue
            data_type = wider(known.type, field.type)
            if data_type is None:
                raise refused(field.name, origin, field.type, known.type)
            after[key] = known.with_type(data_type)
    changes = []
    for key, field in after.items():
        known_type = before[key].type if key in before else None
        if known_type is None or not known_type.equals(field.type):
            was = None if known_type is None else sql_type(known_type, field.name)
            changes.append(ColumnChange(field.name, sql_type(field.type, field.name), was))
    return changes


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def evolve_table(
    session: LakeSession,
    table: TableName,
    found: Sequence[tuple[str, pa.Schema]],
    partition_columns: Sequence[PartitionColumn],
    run_id: str,
) -> list[ColumnChange]:
    """Change the table so that it can hold what was found, in one transaction, tried again after a conflict.

    Of two runs that add the same column, the second finds it there and changes nothing.

    Args:
        session: an open lake.
        table: which exists.
        found: as for `column_changes`.
        partition_columns: of the stream.
        run_id: stands in the snapshot's message.

    Returns:
        What was changed.

    Raises:
        SchemaError: as `column_changes`; nothing has changed.
        CommitConflictError: other writers won `commit_retries` times.
        CatalogError: the catalog refuses; nothing has changed.
    """

    def change() -> list[ColumnChange]:
        # A conflict must end the try: DuckLake's own would be made on what was read before.
        session.rows("SET ducklake_max_retry_count = 0")
        with session.transaction():
            changes = column_changes(data_schema(session, table, partition_columns), found, partition_columns)
            _apply(session, table, changes, run_id)
        return changes

    return under_lock(session, change, f"the change of the columns of {table}")


def _apply(session: LakeSession, table: TableName, changes: Sequence[ColumnChange], run_id: str) -> None:
    if not changes:
        return
    for change in changes:
        session.rows(change.statement(table))
    told = [str(change) for change in changes]
    extra_info = json.dumps({"run_id": run_id, "changes": told})
    session.sign(AUTHOR, f"{table}: {', '.join(told)} by run {run_id}", extra_info)
