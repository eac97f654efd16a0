"""DuckLake's specification: the versions that this package knows, and the names of the catalog's own tables.

The source is https://ducklake.select/docs/stable/specification/tables/overview. A catalog says its version in
`ducklake_metadata`. Of another version nothing is read from these tables, and nothing is written to them: a commit is
made by DuckLake's extension, and maintenance is refused.
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

VERSION_QUERY = f"SELECT value FROM {METADATA} WHERE key = 'version'"


def live_table(prefix: str = "") -> str:
    """What follows `FROM` to read the one table of a name that has not ended, as `t`, and its schema, as `s`.

    The parameters are the names of schema and table. A condition may follow.

    Args:
        prefix: `database` and a dot, where a statement has to name the database of the catalog's tables.
    """
    return (
        f"{prefix}{TABLE} t JOIN {prefix}{SCHEMA} s ON s.schema_id = t.schema_id "
        "WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
        "AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)"
    )


def inlined_deletes(table_id: int) -> str:
    """The table of the rows that were deleted from a table's files and are noted in the catalog; made when needed."""
    return f"ducklake_inlined_delete_{table_id}"


def database(alias: str, schema: str | None) -> str:
    """How a statement names the catalog's tables where DuckDB has attached a lake: their database and schema.

    Args:
        alias: the name under which the lake is attached.
        schema: of the tables; that of the connection when None.
    """
    return ".".join(map(identifier, [f"__ducklake_metadata_{alias}", *([schema] if schema else [])]))


def motherduck_database(lake: str) -> str:
    """The name that MotherDuck gives the database of the catalog of one of its lakes."""
    return f"__ducklake_metadata_{lake}"


def unknown(version: str | None) -> str | None:
    """Why the tables of a catalog of this version cannot be used; None if they can.

    Args:
        version: as the catalog says it; None if it does not.
    """
    if version in VERSIONS:
        return None
    known = ", ".join(sorted(VERSIONS))
    return f"the catalog is of version {version} of DuckLake's specification, and lake_assets knows {known}"
