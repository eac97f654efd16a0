"""A connection of DuckDB that keeps a lake attached, for statements that are not this package's.

`ATTACH … (READ_ONLY)` makes DuckDB refuse every statement that writes into the catalog. But DuckLake's functions of
maintenance delete, merge or write files before the catalog refuses. On a read-only connection macros of the same names
hide them, also from `CHECKPOINT`, which calls them by name.
"""

import threading

import duckdb

from lake_assets.config.lake import Lake
from lake_assets.duckdb_engine import identifier, literal
from lake_assets.errors import ConfigError
from lake_assets.lake.attach import alias
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.failures import translated

_REFUSAL = "this connection to the lake is read-only, so {name} is refused: lake-assets maintain does what it is for."

_TURN = threading.Lock()  # connections that share an engine have one `memory`

# Functions of DuckLake's extension that write, and the names of all their parameters.
_WRITERS = tuple(
    f"ducklake_{name}"
    for name in (
        *("add_data_files", "cleanup_old_files", "delete_orphaned_files", "expire_snapshots", "flush_inlined_data"),
        *("merge_adjacent_files", "rewrite_data_files", "set_commit_message", "set_option"),
    )
)
_PARAMETERS = (
    *("first", "second", "third", "allow_missing", "cleanup_all", "delete_threshold", "dry_run", "extra_info"),
    *("hive_partitioning", "ignore_extra_columns", "max_compacted_files", "max_file_size", "min_file_size"),
    *("older_than", "schema", "schema_name", "table_name", "versions"),
)


def connected(lake: Lake, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Connect to an engine with the lake attached, as the current database, on all cores."""
    if read_only and lake.is_managed:
        raise ConfigError(
            f"MotherDuck attaches {alias(lake)} with the rights of its token, not read-only:",
            "pass read_only=False, with a token that may only read (a read scaling token).",
        )
    connection = DuckLake(lake).connect(read_only=read_only)
    with translated(lake):
        if read_only:
            _hide_writers(connection)
        # `memory` comes second for the macros: a name is searched for there before among DuckDB's own.
        path = f"{identifier(alias(lake))}.main,memory.main"
        connection.execute(f"SET search_path = {literal(path)}")
    return connection


def _hide_writers(connection: duckdb.DuckDBPyConnection) -> None:
    """Hide them from this connection in `temp`, which no `USE` removes from its path, and from cursors in `memory`."""
    parameters = ", ".join(f"{identifier(name)} := NULL" for name in _PARAMETERS)
    for name in _WRITERS:
        body = f"AS TABLE SELECT error({literal(_REFUSAL.format(name=name))})"
        connection.execute(f"CREATE TEMP MACRO {name}({parameters}) {body}")
        with _TURN:
            connection.execute(f"CREATE MACRO IF NOT EXISTS memory.main.{name}({parameters}) {body}")
