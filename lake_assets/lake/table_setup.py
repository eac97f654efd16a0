"""The destination table: the first run creates it from the source's schema, later runs check it."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from lake_assets.base.duckdb_engine import identifier
from lake_assets.base.errors import CatalogError, SchemaError
from lake_assets.config.modes import Compression
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.table import (
    Table,
    column_types,
    find_table,
    is_unfilled,
    read_columns,
    read_options,
    read_order,
)
from lake_assets.lake.catalog.untyped import untyped_ids, with_untyped
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import set_option
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession, PartitionedTable, TableName
from lake_assets.schema.column_rules import Rules
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
            column.name.lower(): session.engine.execute(f"SELECT ?::{types[column.name]}", [column.default])
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
        relation = session.engine.sql(f"SELECT {nulls}")
    return list(zip(relation.columns, relation.types, strict=True))


def _columns(session: LakeSession, query: str) -> list[tuple[str, DuckDBPyType]]:
    with translated(session.config):
        relation = session.connection.sql(query)
    return list(zip(relation.columns, relation.types, strict=True))
