"""DuckLake's specification: the versions that this package knows, and the names of the catalog's own tables.

The source is https://ducklake.select/docs/stable/specification/tables/overview. The table `ducklake_metadata` has a
catalog's version. The tables of an unknown version are not read or written: DuckLake's extension makes the commits, and
maintenance is refused.
"""

from lake_assets.duckdb_engine import identifier

VERSIONS = frozenset({"1.0"})

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
SNAPSHOT = "ducklake_snapshot"
SNAPSHOT_CHANGES = "ducklake_snapshot_changes"
TABLE = "ducklake_table"
TABLE_COLUMN_STATS = "ducklake_table_column_stats"
TABLE_STATS = "ducklake_table_stats"

SETTINGS_QUERY = f"SELECT key, value FROM {METADATA} WHERE scope IS NULL"
VERSION_QUERY = f"SELECT value FROM {METADATA} WHERE key = 'version'"


def live_table(prefix: str = "") -> str:
    """The SQL after `FROM` that reads the live table of a name as `t`, and its schema as `s`.

    The parameters are the names of schema and table. A condition may follow.

    Args:
        prefix: the result of `database` and a dot, if the statement must name the catalog's database.
    """
    return (
        f"{prefix}{TABLE} t JOIN {prefix}{SCHEMA} s ON s.schema_id = t.schema_id "
        "WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
        "AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)"
    )


def inlined_deletes(table_id: int) -> str:
    """The catalog's table of inlined deletes of a table; DuckLake creates it when it needs it."""
    return f"ducklake_inlined_delete_{table_id}"


def database(alias: str, schema: str | None) -> str:
    """The SQL name of the database and schema of an attached lake's catalog; the connection's schema when None."""
    return ".".join(map(identifier, [f"__ducklake_metadata_{alias}", *([schema] if schema else [])]))


def motherduck_database(lake: str) -> str:
    """MotherDuck's name of the database of a lake's catalog."""
    return f"__ducklake_metadata_{lake}"


def unknown(version: str | None) -> str | None:
    """Why the tables of a catalog of this version cannot be used; None if they can."""
    if version in VERSIONS:
        return None
    known = ", ".join(sorted(VERSIONS))
    return f"the catalog is of version {version} of DuckLake's specification, and lake_assets knows {known}"
