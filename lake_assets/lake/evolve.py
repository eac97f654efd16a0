"""The evolution of a table: added columns and fields, and wider numbers, at any depth. Nothing is ever removed.

A change is a separate snapshot before the data files that need it are written. Earlier rows have NULL in an added
column or field, and readers of an earlier snapshot see the earlier columns.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import SchemaError
from lake_assets.lake.catalog.described import describe
from lake_assets.lake.catalog.table import LakeColumn, Table
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.catalog.untyped import give_types
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import AUTHOR, LakeSession, PartitionedTable, TableName
from lake_assets.lake.table_setup import data_schema, untyped_schema
from lake_assets.schema.column_rules import GROWING, Rules
from lake_assets.schema.ducklake_types import sql_type
from lake_assets.schema.leaves import data_file_schema, is_list, with_types_of, without_null_parts


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A change of one column, or of one part of a nested column."""

    path: tuple[str, ...]  # its name, after those of the columns around it; of the table, or of the files if it is new
    type: str  # its new DuckLake type
    before: str | None  # its earlier type; None if it is new

    def __str__(self) -> str:
        name = f"{'column' if len(self.path) == 1 else 'field'} {'.'.join(self.path)}"
        if self.before is None:
            return f"added {name} {self.type}"
        if self.before == "NULL":
            return f"gave {name} its type {self.type}"
        return f"widened {name} from {self.before} to {self.type}"


def column_changes(before: pa.Schema, after: pa.Schema) -> list[ColumnChange]:
    """Return what differs between a table's columns and those that `Rules.evolved` gives."""
    return list(_changes(before, after, ()))


def _changes(before: Iterable[pa.Field], after: Iterable[pa.Field], path: tuple[str, ...]) -> Iterator[ColumnChange]:
    known = {field.name: field.type for field in before}
    for field in after:
        column_path = (*path, field.name)
        if field.name not in known:
            yield ColumnChange(column_path, sql_type(field.type, column_path[0]), None)
        else:
            yield from _changes_of_type(known[field.name], field.type, column_path)


def _changes_of_type(before: pa.DataType, after: pa.DataType, path: tuple[str, ...]) -> Iterator[ColumnChange]:
    if t.is_struct(before):
        yield from _changes(before, after, path)
    elif t.is_map(before):
        yield from _changes_of_type(before.key_type, after.key_type, (*path, "key"))
        yield from _changes_of_type(before.item_type, after.item_type, (*path, "value"))
    elif is_list(before):
        yield from _changes_of_type(before.value_type, after.value_type, (*path, "element"))
    elif not before.equals(after):
        yield ColumnChange(path, sql_type(after, path[0]), "NULL" if t.is_null(before) else sql_type(before, path[0]))


def statements(table: TableName, before: pa.Schema, after: pa.Schema) -> list[str]:
    """Return the SQL that changes the columns of a table.

    A nested column gets its whole new type: DuckLake then adds the fields that are new and widens those that are wider,
    at any depth. DuckDB's parser does not accept, or misreads, the path of a part there.
    """
    known = {field.name: field.type for field in before}
    result = []
    for field in after:
        column, sql = identifier(field.name), sql_type(field.type, field.name)
        if field.name not in known:
            result.append(f"ALTER TABLE {table.sql} ADD COLUMN {column} {sql}")
        elif not known[field.name].equals(field.type):
            result.append(f"ALTER TABLE {table.sql} ALTER COLUMN {column} SET DATA TYPE {sql}")
    return result


@dataclass(frozen=True, slots=True)
class Evolution:
    """The changes of one table's columns by a run, whose id is in the message of each snapshot."""

    session: LakeSession
    table: PartitionedTable
    run_id: str

    def take(
        self, landed: Sequence[tuple[str, pa.Schema]], rules: Rules = GROWING, known: pa.Schema | None = None
    ) -> list[ColumnChange]:
        """Change the table so that it can hold the landed columns, in one transaction with retries after a conflict.

        If two runs add the same column, the second one finds the column and changes nothing. After an error nothing has
        changed.

        Columns, and parts of them, that have never had a value get the type of the first one before, in a snapshot of
        its own, by any rules. Of a table without rows only `known` tells them: its columns, with the type null for
        those. The other arguments and the SchemaError are those of `Rules.evolved`.
        """

        def change() -> list[ColumnChange]:
            # A conflict must end the try: DuckLake's own retry would use the columns that were read before.
            typed = self._give_types(landed, known)
            return [*typed, *self._grow(landed, rules)] if rules.grows else typed

        return under_lock(self.session, change, f"the change of the columns of {self.table}")

    def _grow(self, landed: Sequence[tuple[str, pa.Schema]], rules: Rules) -> list[ColumnChange]:
        session, table = self.session, self.table
        session.rows("SET ducklake_max_retry_count = 0")
        with session.transaction():
            before = data_schema(session, table)
            after = rules.evolved(before, landed, table.columns)
            changes = column_changes(before, after)
            if changes:
                for statement in statements(table.name, before, after):
                    session.rows(statement)
                session.sign(AUTHOR, *self._signed(changes))
        return changes

    def _give_types(self, landed: Sequence[tuple[str, pa.Schema]], made: pa.Schema | None) -> list[ColumnChange]:
        """Give the columns, and parts of them, that have never had a value the types that the landed ones have."""
        session, table = self.session, self.table
        before = data_schema(session, table)
        known = untyped_schema(session, table.name, before)
        if made is not None and known.equals(before) and data_file_schema(made).equals(before):
            known = made
        after = with_types_of(known, (schema for _, schema in landed))
        changes = column_changes(known, pa.schema([field.with_type(without_null_parts(field.type)) for field in after]))
        if not changes:
            return []
        for change in changes:
            if len(change.path) > 1 and any(form in change.type for form in ("MAP(", "[]")):
                raise SchemaError(
                    f"field {'.'.join(change.path)!r} of {table} has had no value until now, and DuckLake reads no "
                    f"earlier file as {change.type}:",
                    "make it a text or a struct in a transform, or fill another table.",
                )
        session.descriptions.clear()
        description = describe(session, [table.name])
        described = description.tables[table.name]
        ids = {_path(column, described): column_id for column_id, column in described.columns.items()}
        with session.write() as database:
            transaction = Transaction(database, session.engine, description)
            give_types(transaction, session.engine, described, {ids[change.path]: change.type for change in changes})
            transaction.finish(AUTHOR, *self._signed(changes))
        session.descriptions.clear()
        return changes

    def _signed(self, changes: Sequence[ColumnChange]) -> tuple[str, str]:
        texts = [str(change) for change in changes]
        by_run = json.dumps({"run_id": self.run_id, "changes": texts})
        return f"{self.table}: {', '.join(texts)} by run {self.run_id}", by_run


def _path(column: LakeColumn, table: Table) -> tuple[str, ...]:
    return (*(() if column.parent is None else _path(table.columns[column.parent], table)), column.name)
