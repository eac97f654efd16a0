"""The destination table: the first run creates it from the source's schema, later runs check it, and change it.

A change adds columns and fields, or widens numbers, at any depth; nothing is ever removed. It is a separate snapshot
before the data files that need it are written. Earlier rows have NULL in an added column or field, and readers of an
earlier snapshot see the earlier columns.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType
from pyarrow import types as t

from lake_assets.base.duckdb_engine import expressions, identifier
from lake_assets.base.errors import CatalogError, SchemaError
from lake_assets.config.modes import Compression
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.described import describe
from lake_assets.lake.catalog.file_entries import give_types, untyped_ids, with_untyped
from lake_assets.lake.catalog.table import (
    LakeColumn,
    Table,
    column_types,
    find_table,
    is_unfilled,
    read_columns,
    read_options,
    read_order,
)
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import set_option
from lake_assets.lake.session import AUTHOR, LakeSession, PartitionedTable, TableName, under_lock
from lake_assets.schema.arrow_types import data_file_schema, is_list, with_types_of, without_null_parts
from lake_assets.schema.column_rules import GROWING, Rules
from lake_assets.schema.ducklake_types import PARTITION_TYPES, check_columns, data_file_type, sql_type

_MAKER = "lake_assets tables"  # the author of snapshots without rows, which are not those of a run


def create_table(
    session: LakeSession, partitioned: PartitionedTable, schema: pa.Schema, origin: str | None = None
) -> None:
    """Create the table if it does not exist, or recreate it if it never had rows and has other columns.

    Partition columns in the schema get their configured type; they are the last columns, in this order. The origin of
    the schema is for errors. Raises SchemaError if a column has a name or type that the lake cannot hold.
    """
    table, columns = partitioned.name, _created(partitioned, schema, origin)
    wanted = _typed(session, columns)

    def create() -> None:
        never_filled = is_never_filled(session, table)
        with session.transaction():
            session.rows(f"CREATE SCHEMA IF NOT EXISTS {identifier(table.lake)}.{identifier(table.schema)}")
            if session.exists(table):
                if not never_filled or _columns(session, f"SELECT * FROM {table.sql}") == wanted:  # noqa: S608 - quoted
                    return
                session.rows(f"DROP TABLE {table.sql}")
            listed = ", ".join(f"{identifier(name)} {sql}" for name, sql in columns.items())
            session.rows(f"CREATE TABLE {table.sql} ({listed})")
            if by := ", ".join(identifier(column.name) for column in partitioned.columns):
                session.rows(f"ALTER TABLE {table.sql} SET PARTITIONED BY ({by})")
            session.sign(_MAKER, _message(table))

    under_lock(session, create, f"the table {table}")


def created_schema(table: PartitionedTable, schema: pa.Schema, origin: str | None = None) -> pa.Schema:
    """Return the schema of the data files of the table that `create_table` would create; the arguments are its."""
    own = {column.name for column in table.columns}
    columns = _created(table, schema, origin)
    return pa.schema(
        [(name, data_file_type(DuckDBPyType(sql), name)) for name, sql in columns.items() if name not in own]
    )


def _created(table: PartitionedTable, schema: pa.Schema, origin: str | None) -> dict[str, str]:
    """Return the columns of a new table, and their types."""
    check_columns(schema, origin or f"the source of {table}")
    partitioned = {column.name.lower() for column in table.columns}
    columns = {f.name: sql_type(f.type, f.name) for f in schema if f.name.lower() not in partitioned}
    if not columns:
        raise SchemaError(f"the source of {table} has no columns beside the partition's:", "land it with one at least.")
    return columns | {column.name: PARTITION_TYPES[column.type] for column in table.columns}


def is_never_filled(session: LakeSession, table: TableName) -> bool:
    """Return whether `create_table` created the table, and nobody has written to it or changed it since.

    Its columns are then those of files without a committed row, so they may be replaced. The job that created it may
    have failed or may still run.
    """
    try:
        with session.read() as database:
            return is_unfilled(database, table, _MAKER, _message(table))
    except NotDirectError:
        return False


def _message(table: TableName) -> str:
    return f"the table {table} is made"


def prepare_table(session: LakeSession, table: TableName, compression: Compression = "zstd") -> None:
    """Set the options of any client's table that commits need: its rows are not inlined in the catalog.

    `compression` is that of the files that DuckLake itself writes, in a lake that accepts rows only through INSERT. An
    encrypted lake of which the config does not say so is a CatalogError.
    """
    if session.config.is_managed:
        return  # MotherDuck manages its options
    # With inlining, a delete of a small file becomes a row in the catalog, and the file remains.
    wanted = {"data_inlining_row_limit": "0"}
    if session.config.inserts_only:
        wanted["parquet_compression"] = "uncompressed" if compression == "none" else compression
    if _has_options(session, table, wanted):
        return
    known = session.rows("SELECT option_name, value, scope, scope_entry FROM ducklake_options(?)", [session.alias])
    if not session.config.is_encrypted and ("encrypted", "true") in {(name, value) for name, value, *_ in known}:
        raise CatalogError(
            "the lake is encrypted, and files that tasks write cannot be registered in it:",
            "set attach_options: {encrypted: true} in the config.",
        )
    missing = {name: value for name, value in wanted.items() if (name, value, "TABLE", str(table)) not in known}

    def set_options() -> None:
        for name, value in missing.items():
            set_option(session, table, name, value)

    if missing:
        under_lock(session, set_options, f"an option of the table {table}")


def _has_options(session: LakeSession, table: TableName, expected: Mapping[str, str]) -> bool:
    """Return whether the catalog's own tables prove that the table has these options, and the lake is not encrypted."""
    try:
        with session.read() as database:
            options = read_options(database, find_table(database, table))
    except NotDirectError:
        return False
    return options.get("encrypted") == "false" and expected.items() <= options.items()


def data_schema(session: LakeSession, table: PartitionedTable, described: Table | None = None) -> pa.Schema:
    """Return the schema that a data file of this table must have: its columns except the partition columns.

    The columns are those of the described table, or those of now when None. Raises SchemaError if the table lacks a
    partition column, has it with another type, or has a column of a type for which no file can be registered.
    """
    columns = dict(_table_columns(session, table.name, described))
    for column in table.columns:
        name = next((name for name in columns if name.lower() == column.name.lower()), None)
        if name is None:
            raise SchemaError(
                f"table {table} has no column {column.name!r}, which is a partition column of its stream:",
                "choose another table, or correct `partitions` in the config.",
            )
        if str(columns[name]) != PARTITION_TYPES[column.type]:
            raise SchemaError(
                f"column {name!r} of table {table} is {columns[name]}, and the config says {column.type}:",
                "correct the type of this partition column in the config.",
            )
        del columns[name]
    return pa.schema([(name, data_file_type(sql, name)) for name, sql in columns.items()])


def rules_of_table(session: LakeSession, table: TableName, rules: Rules) -> Rules:
    """Return the rules with what the table decides: its NOT NULL columns, its defaults, and its order.

    They stay as they are if only DuckLake can read the catalog. Then it inserts all rows, refuses NULL itself, and
    sorts. A registered file is not rewritten, so no default is written to it.
    """
    try:
        with session.read() as database:
            table_id = find_table(database, table)
            columns, order = read_columns(database, table_id), read_order(database, table_id)
    except NotDirectError:
        return rules
    whole = [column for column in columns if column.parent is None]
    not_null = frozenset(column.name.lower() for column in whole if not column.is_nullable)
    if rules.rows == "registered":
        return replace(rules, not_null=not_null)
    types = column_types([column for column in whole if column.default is not None]) or {}
    with translated(session.config):
        defaults = {
            column.name.lower(): expressions()
            .execute(f"SELECT ?::{types[column.name]}", [column.default])
            .to_arrow_table()[0][0]
            .cast(data_file_type(DuckDBPyType(types[column.name]), column.name))
            for column in whole
            if column.name in types
        }
    return replace(rules, not_null=not_null, absent=defaults, order=order)


def untyped_schema(session: LakeSession, table: TableName, schema: pa.Schema, typed: Collection[str] = ()) -> pa.Schema:
    """Return columns of a table with the type null for those, and parts of those, that have never had a value.

    Those named in `typed` have a type nevertheless.
    """
    with suppress(NotDirectError), session.read() as database:
        table_id = find_table(database, table)
        if table_id is not None:
            columns = read_columns(database, table_id)
            untyped = with_untyped(schema, columns, untyped_ids(database, table_id, columns))
            names = {name.lower() for name in typed}
            fields = zip(schema, untyped, strict=True)
            return pa.schema([own if own.name.lower() in names else field for own, field in fields])
    return schema


def declared_schema(session: LakeSession, table: PartitionedTable, rules: Rules) -> pa.Schema:
    """Return the schema of `data_schema`, for a stream that declares columns.

    Raises SchemaError as that; or if the table has a column of another type than the declared one, or lacks one and
    does not grow.
    """
    schema = data_schema(session, table)
    known = {field.name.lower(): field.type for field in schema}
    for key, column in rules.types.items():
        name, kind = column.name, column.type
        wanted, of_table = sql_type(kind, name), known.get(key)
        if of_table is None and not rules.grows:
            grows = "" if rules.rows == "registered" else "set schema_policy: evolve, "
            raise SchemaError(
                f"table {table} has no column {name!r}, which `columns` declares as {wanted}:",
                f"{grows}add it by ALTER TABLE {table} ADD COLUMN {identifier(name)} {wanted}, or remove its type.",
            )
        if of_table is not None and not of_table.equals(kind):
            raise SchemaError(
                f"column {name!r} of table {table} is {sql_type(of_table, name)}, and `columns` declares {wanted}:",
                f"declare type: {sql_type(of_table, name)}, or let the stream fill another table.",
            )
    return schema


def _table_columns(session: LakeSession, table: TableName, described: Table | None) -> list[tuple[str, DuckDBPyType]]:
    """Return the names and types of a table's columns; by the catalog's own tables if those can be read."""
    texts = None if described is None else column_types(list(described.columns.values()))
    if described is None and not session.in_transaction:
        with suppress(NotDirectError), session.read() as database:
            table_id = find_table(database, table)
            texts = None if table_id is None else column_types(read_columns(database, table_id))
    return _typed(session, texts) if texts else _columns(session, f"SELECT * FROM {table.sql} LIMIT 0")  # noqa: S608 - a quoted name


def _typed(session: LakeSession, columns: Mapping[str, str]) -> list[tuple[str, DuckDBPyType]]:
    """Return the names and types of columns, given their types as texts."""
    nulls = ", ".join(f"NULL::{text} AS {identifier(name)}" for name, text in columns.items())
    with translated(session.config):
        relation = expressions().sql(f"SELECT {nulls}")
    return list(zip(relation.columns, relation.types, strict=True))


def _columns(session: LakeSession, query: str) -> list[tuple[str, DuckDBPyType]]:
    with translated(session.config):
        relation = session.connection.sql(query)
    return list(zip(relation.columns, relation.types, strict=True))


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
            transaction = Transaction(database, description)
            give_types(transaction, described, {ids[change.path]: change.type for change in changes})
            transaction.finish(AUTHOR, *self._signed(changes))
        session.descriptions.clear()
        return changes

    def _signed(self, changes: Sequence[ColumnChange]) -> tuple[str, str]:
        texts = [str(change) for change in changes]
        by_run = json.dumps({"run_id": self.run_id, "changes": texts})
        return f"{self.table}: {', '.join(texts)} by run {self.run_id}", by_run


def _path(column: LakeColumn, table: Table) -> tuple[str, ...]:
    return (*(() if column.parent is None else _path(table.columns[column.parent], table)), column.name)
