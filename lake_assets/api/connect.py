"""A connection of DuckDB to a lake, for queries of a Python program."""

import duckdb

from lake_assets.config.load import ConfigSource, chosen, loaded
from lake_assets.lake.connecting import connected


def connect(
    config: ConfigSource = None, lake: str | None = None, *, read_only: bool = True
) -> duckdb.DuckDBPyConnection:
    """Connect to a lake: DuckDB in memory, with the lake attached as the current database and its secrets made.

    The connection sees each commit that is there when a statement begins. It has all cores, and the time zone UTC.
    Close it, or use it in a `with` block: until the last connection to a catalog in a DuckDB file is closed, nobody can
    write there, also not in this process.

    Args:
        config: a loaded config, or the path of its file; when None, the config in use (see `load_config`).
        lake: the lake's name; may be None where the config has one lake.
        read_only: refuse every statement that changes the lake or its files.

    Returns:
        The connection. The lake is attached as `lake`, so a table is `lake.main.sales`, or `sales`. A lake that
        MotherDuck manages has the name of its database.

    Raises:
        ConfigError: the config cannot be read or is not valid, it has no such lake or several, or the lake cannot be
            attached read-only.
        NoLakeError: there is no lake yet.
        CatalogLockedError: another process, or a connection of this one, keeps the catalog's file for too long.
        CatalogUnreachableError: the catalog's server does not answer.
        CatalogError: the lake cannot be attached.
    """
    config = loaded(config)
    return connected(config.lakes[chosen("lake", config.lakes, lake)], read_only=read_only)
