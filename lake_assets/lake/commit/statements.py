"""The SQL of commits by DuckLake's extension."""

from collections.abc import Sequence

from lake_assets.config.lake import Lake
from lake_assets.config.storages import LocalStorage
from lake_assets.duckdb_engine import glob_literal, identifier
from lake_assets.lake.catalog.past import where
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition

Statement = tuple[str, list[object]]
"""SQL and its bound parameters."""


def delete_statement(table: TableName, partition: Partition) -> Statement:
    """Return the statement that removes a partition's rows."""
    condition, parameters = where(partition)
    return f"DELETE FROM {table.sql} WHERE {condition}", parameters  # noqa: S608 - quoted names


def add_files_statement(table: TableName, files: Sequence[str]) -> Statement:
    """Return the statement that registers files; DuckLake reads the partition's values from their paths."""
    return (
        "CALL ducklake_add_data_files(?, ?, ?, schema => ?, hive_partitioning => true)",
        [table.lake, table.table, [glob_literal(file) for file in files], table.schema],
    )


def insert_statement(
    table: TableName, partition: Partition, names: Sequence[str], files: Sequence[str], key: object, lake: Lake
) -> Statement:
    """The statement that inserts the rows of staged files, which have these columns, with the partition's values."""
    columns = ", ".join(map(identifier, names))
    # MotherDuck's server would read a bucket itself, without permission.
    run_here = ", MD_RUN = LOCAL" if lake.is_managed and not isinstance(lake.staging_storage, LocalStorage) else ""
    keys = ", ".join(identifier(column.name) for column in partition.columns)
    marks = ", ".join("?" for _ in partition.columns)
    sql = (
        f"INSERT INTO {table.sql} ({columns}, {keys}) SELECT {columns}, {marks} "  # noqa: S608 - quoted names
        f"FROM read_parquet(?, hive_partitioning = false, encryption_config = {{footer_key_value: ?}}{run_here})"
    )
    return sql, [*partition.values, [glob_literal(file) for file in files], key]


def list_files_statement(table: TableName) -> Statement:
    """Return the statement that lists the table's data files, their URIs in the first column."""
    return "SELECT data_file FROM ducklake_list_files(?, ?, schema => ?)", [table.lake, table.table, table.schema]


def count_partition(session: LakeSession, table: TableName, partition: Partition) -> int:
    """Return the number of rows of a partition in a table.

    Raises:
        CatalogError: the table cannot be read.
    """
    condition, parameters = where(partition)
    ((rows,),) = session.rows(f"SELECT count(*) FROM {table.sql} WHERE {condition}", parameters)  # noqa: S608
    return int(rows)
