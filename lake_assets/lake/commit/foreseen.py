"""Which commit strategy a commit of a partition would use now."""

from collections.abc import Mapping
from typing import Literal

from lake_assets.config.catalogs import DuckdbCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.config.lake import Lake
from lake_assets.lake.catalog.database import NotDirectError, catalog_reading
from lake_assets.lake.catalog.table import key_values, read_partitioning, read_table
from lake_assets.lake.catalog.whole_files import refuse_inlined_rows, whole_files
from lake_assets.lake.commit.extension import refuse_files
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.layout.partition import Partition

StrategyName = Literal["direct", "extension", "INSERT"]


def foreseen_strategies(
    lake: Lake, session: LakeSession | None, table: TableName, adds: Mapping[Partition, bool]
) -> dict[Partition, StrategyName]:
    """The strategy of a commit of each partition, if nobody changes the lake before it.

    Args:
        lake: the lake's config.
        session: None if there is no lake yet.
        table: the destination.
        adds: the partitions, and whether the commit adds files to the present ones or replaces these.

    Raises:
        CatalogError: the catalog cannot be read, or the extension would refuse the files, as `refuse_files`.
    """
    if lake.inserts_only:
        return dict.fromkeys(adds, "INSERT")
    if session is None or not session.exists(table):
        has_driver = isinstance(lake.catalog, SqliteCatalog | PostgresCatalog | DuckdbCatalog)
        return dict.fromkeys(adds, "direct" if has_driver else "extension")
    found: dict[Partition, StrategyName] = dict.fromkeys(adds, "extension")
    try:
        with catalog_reading(session) as database:
            described = read_table(database, table)
            partitioning = read_partitioning(database, described.table_id)
            for partition, is_added in adds.items():
                values = key_values(partitioning, partition)
                try:
                    if is_added:
                        refuse_inlined_rows(database, described.table_id)
                    else:
                        whole_files(database, described, partitioning, values)
                except NotDirectError:
                    continue
                found[partition] = "direct"
    except NotDirectError:
        found = dict.fromkeys(adds, "extension")
    refuse_files(session, table, [partition for partition, strategy in found.items() if strategy == "extension"])
    return found
