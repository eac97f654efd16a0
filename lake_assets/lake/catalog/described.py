"""What the catalog's own tables say of a table: the SQL types of its columns, and its options."""

from collections.abc import Sequence

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.bounds import duckdb_type
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.catalog.table import Column


def column_types(columns: Sequence[Column]) -> dict[str, str] | None:
    """Return the SQL type of each column, by its name; None if a type is unknown here.

    Args:
        columns: of a table, with the parts of nested ones, in their order.
    """
    types = {column.name: _sql_type(column, columns) for column in columns if column.parent is None}
    known = {name: text for name, text in types.items() if text is not None}
    return known if len(known) == len(types) else None


def _sql_type(column: Column, columns: Sequence[Column]) -> str | None:
    parts = [part for part in columns if part.parent == column.column_id]
    types = [_sql_type(part, columns) for part in parts]
    if None in types:
        return None
    match column.type, types:
        case "list", [element]:
            return f"{element}[]"
        case "map", [key, value]:
            return f"MAP({key}, {value})"
        case "struct", [_, *_]:
            fields = (f"{identifier(part.name)} {text}" for part, text in zip(parts, types, strict=True))
            return f"STRUCT({', '.join(fields)})"
        case name, []:
            return duckdb_type(name)
    return None


def read_options(database: CatalogDatabase, table_id: int | None) -> dict[str, str]:
    """Return the options of the lake, and those of a table in their place."""
    rows = database.rows(
        f"SELECT key, value FROM {spec.METADATA} WHERE scope IS NULL "
        f"OR (scope = 'table' AND scope_id = ?) ORDER BY scope IS NOT NULL",
        [table_id],
    )
    return dict(rows)
