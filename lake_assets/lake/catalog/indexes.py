"""Indexes of the catalog's own database, which DuckLake does not make: without them it scans the facts of all files."""

from dataclasses import dataclass

from lake_assets.duckdb_engine import identifier
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase, catalog_reading, catalog_transaction
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession


@dataclass(frozen=True, slots=True)
class Index:
    """An index of one of DuckLake's tables."""

    name: str
    table: str
    columns: tuple[str, ...]


INDEXES = (
    # Finds the files of a partition.
    Index(
        "lake_assets_partition_values",
        spec.FILE_PARTITION_VALUE,
        ("partition_value", "partition_key_index", "table_id", "data_file_id"),
    ),
    # A reader's conditions leave out files by the bounds of a column (duckdb/ducklake#1147).
    Index("lake_assets_column_bounds", spec.FILE_COLUMN_STATS, ("table_id", "column_id")),
)


def missing_indexes(session: LakeSession) -> list[Index]:
    """Return the indexes that the catalog does not have.

    Raises NotDirectError for a database of DuckDB, which refuses later changes of a table with an index.
    """
    with catalog_reading(session) as database:
        return _missing(database)


def create_indexes(session: LakeSession) -> list[Index]:
    """Create the indexes that the catalog does not have, and return them. Other writers wait meanwhile.

    In PostgreSQL the user has to own DuckLake's tables.
    """

    def create() -> list[Index]:
        with catalog_transaction(session) as database:
            made = _missing(database)
            for index in made:
                columns = ", ".join(map(identifier, index.columns))
                database.execute(f"CREATE INDEX {identifier(index.name)} ON {identifier(index.table)} ({columns})")
                database.execute(f"ANALYZE {identifier(index.table)}")  # a new index is used by its statistics
            return made

    return under_lock(session, create, "the indexes of the catalog")


def drop_indexes(session: LakeSession) -> list[Index]:
    """Drop the indexes that the catalog has, and return them."""

    def drop() -> list[Index]:
        with catalog_transaction(session) as database:
            missing = _missing(database)
            dropped = [index for index in INDEXES if index not in missing]
            for index in dropped:
                database.execute(f"DROP INDEX {identifier(index.name)}")
            return dropped

    return under_lock(session, drop, "the indexes of the catalog")


def _missing(database: CatalogDatabase) -> list[Index]:
    names = database.indexes()
    return [index for index in INDEXES if index.name not in names]
