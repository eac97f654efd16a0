"""The evolution of a table: added columns and wider numbers. Columns are never removed.

A change is a separate snapshot before the data files that need it are written. Earlier rows have NULL in an added
column, and readers of an earlier snapshot see the earlier columns.
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
    """A change of one column."""

    column: str  # its name in the table; in the files if it is new
    type: str  # its new DuckLake type
    before: str | None  # its earlier type; None if it is new

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
    schema: pa.Schema, landed: Sequence[tuple[str, pa.Schema]], partition_columns: Sequence[PartitionColumn]
) -> list[ColumnChange]:
    """The changes after which a table can hold the rows of the landed schemas.

    Args:
        schema: of the table, without its partition columns.
        landed: where each schema comes from, for errors, and the schema.
        partition_columns: of the stream; they never change.

    Raises:
        SchemaError: the table's column cannot be widened to a type, or a new column has a name or type that the lake
            cannot hold.
    """
    by_path = {column.name.lower() for column in partition_columns}
    before = {field.name.lower(): field for field in schema}
    after = dict(before)
    for origin, given in landed:
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
    landed: Sequence[tuple[str, pa.Schema]],
    partition_columns: Sequence[PartitionColumn],
    run_id: str,
) -> list[ColumnChange]:
    """Change the table so that it can hold the landed columns, in one transaction with retries after a conflict.

    If two runs add the same column, the second one finds the column and changes nothing.

    The snapshot's message has the run's id. The other arguments are those of `column_changes`.

    Raises:
        SchemaError: as `column_changes`; nothing has changed.
        CommitConflictError: other writers won `commit_retries` times.
        CatalogError: the catalog refuses; nothing has changed.
    """

    def change() -> list[ColumnChange]:
        # A conflict must end the try: DuckLake's own retry would use the columns that were read before.
        session.rows("SET ducklake_max_retry_count = 0")
        with session.transaction():
            changes = column_changes(data_schema(session, table, partition_columns), landed, partition_columns)
            _apply(session, table, changes, run_id)
        return changes

    return under_lock(session, change, f"the change of the columns of {table}")


def _apply(session: LakeSession, table: TableName, changes: Sequence[ColumnChange], run_id: str) -> None:
    if not changes:
        return
    for change in changes:
        session.rows(change.statement(table))
    texts = [str(change) for change in changes]
    extra_info = json.dumps({"run_id": run_id, "changes": texts})
    session.sign(AUTHOR, f"{table}: {', '.join(texts)} by run {run_id}", extra_info)
