"""DuckLake's specification: the versions that this package knows, and the names of the catalog's own tables.

The sources are https://ducklake.select/docs/stable/specification/tables/overview and, for version 1.1, the migration of
DuckLake's extension. The table `ducklake_metadata` has a catalog's version. Only the tables of a tested version are
read and written. For any other, DuckLake's extension makes the commits, and maintenance is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lake_assets.base.duckdb_engine import identifier


@dataclass(frozen=True, slots=True)
class Version:
    """What differs between the versions, as far as this package reads or writes it."""

    row_id: str  # this and the next two are the system columns of the tables of inlined rows
    begin_snapshot: str
    end_snapshot: str
    counts_row_groups: bool  # `row_group_count` of data files; NULL for files from before a migration


VERSIONS: Mapping[str, Version] = {
    "1.0": Version("row_id", "begin_snapshot", "end_snapshot", counts_row_groups=False),
    "1.1": Version("_ducklake_row_id", "_ducklake_begin_snapshot", "_ducklake_end_snapshot", counts_row_groups=True),
}

# Those that the tests compared with DuckLake's extension. No extension of version 1.1 could be had yet.
TESTED = frozenset({"1.0"})

COLUMN = "ducklake_column"
COLUMN_MAPPING = "ducklake_column_mapping"
DATA_FILE = "ducklake_data_file"
DELETE_FILE = "ducklake_delete_file"
FILE_COLUMN_STATS = "ducklake_file_column_stats"
FILE_PARTITION_VALUE = "ducklake_file_partition_value"
FILES_SCHEDULED_FOR_DELETION = "ducklake_files_scheduled_for_deletion"
INLINED_DATA_TABLES = "ducklake_inlined_data_tables"
METADATA = "ducklake_metadata"
NAME_MAPPING = "ducklake_name_mapping"
PARTITION_COLUMN = "ducklake_partition_column"
PARTITION_INFO = "ducklake_partition_info"
SCHEMA = "ducklake_schema"
SCHEMA_VERSIONS = "ducklake_schema_versions"
SNAPSHOT = "ducklake_snapshot"
SNAPSHOT_CHANGES = "ducklake_snapshot_changes"
SORT_INFO = "ducklake_sort_info"
SORT_EXPRESSION = "ducklake_sort_expression"
TABLE = "ducklake_table"
TABLE_COLUMN_STATS = "ducklake_table_column_stats"
TABLE_STATS = "ducklake_table_stats"

# The condition on inlined rows; the file of others is a path, and has a slash.
IS_INLINED = "filename LIKE 'ducklake_inlined_data_%'"
SETTINGS_QUERY = f"SELECT key, value FROM {METADATA} WHERE scope IS NULL"
# The live table of a name as `t`, and its schema as `s`. Parameters are the names of schema and table.
FROM_LIVE_TABLE = (
    f"FROM {TABLE} t JOIN {SCHEMA} s ON s.schema_id = t.schema_id "
    "WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
    "AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)"
)
VERSION_QUERY = f"SELECT value FROM {METADATA} WHERE key = 'version'"


def inlined_deletes(table_id: int) -> str:
    """Return the catalog's table of inlined deletes of a table; DuckLake creates it when it needs it."""
    return f"ducklake_inlined_delete_{table_id}"


def database(alias: str, schema: str | None) -> str:
    """Return the SQL name of an attached lake's catalog; its schema is that of the connection when None."""
    return ".".join(map(identifier, [f"__ducklake_metadata_{alias}", *([schema] if schema else [])]))


def motherduck_database(lake: str) -> str:
    """Return MotherDuck's name of the database of a lake's catalog."""
    return f"__ducklake_metadata_{lake}"


def unknown(version: str | None) -> str | None:
    """Return why the tables of a catalog of this version cannot be used; None if they can."""
    if version in TESTED:
        return None
    known = ", ".join(sorted(TESTED))
    return f"the catalog is of version {version} of DuckLake's specification, and lake_assets was tested with {known}"
