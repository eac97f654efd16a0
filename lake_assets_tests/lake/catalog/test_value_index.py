"""The index of partition values that docs/performance.md names: the catalog works with it as without it."""

import datetime as dt
from pathlib import Path

import pytest

from dev.benchmarks.table_size import INDEX
from lake_assets.lake.catalog.database import CatalogDatabase, catalog_reading, catalog_transaction
from lake_assets.lake.catalog.partition_files import partition_files
from lake_assets.lake.catalog.table import read_folder, read_partitioning
from lake_assets.maintenance.maintenance_run import maintain
from lake_assets_tests.world import NW, SW, World

PERFORMANCE = Path(__file__).parents[3] / "docs/performance.md"
WITH_INDEXES = [("sqlite", "local"), ("postgres", "local")]


def indexed(world: World) -> None:
    world.commit(SW, 7)
    with world.stream.lake.open() as lake, catalog_transaction(lake) as database:
        database.execute(INDEX)


def test_the_documentation_has_the_statement() -> None:
    assert INDEX in " ".join(PERFORMANCE.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("world", WITH_INDEXES, indirect=True, ids="-".join)
def test_every_client_writes_to_a_catalog_with_the_index(world: World) -> None:
    indexed(world)
    for totals in ((1, 2), (3,)):
        assert world.commit(NW, *totals).status == "committed"
    assert world.ingest(NW).row.status == "skipped"

    with world.stream.lake.open() as lake:  # DuckLake's extension
        lake.rows("INSERT INTO lake.sales VALUES (9, 9, 'NW', '2026-02-11')")
        lake.rows("ALTER TABLE lake.sales ADD COLUMN note VARCHAR")
        lake.rows("ALTER TABLE lake.sales DROP COLUMN note")
        lake.rows("DELETE FROM lake.sales WHERE region = 'SW'")
        lake.rows("CREATE TABLE lake.other AS SELECT 1 AS a")
        lake.rows("ALTER TABLE lake.other SET PARTITIONED BY (a)")
        lake.rows("INSERT INTO lake.other VALUES (2)")
        lake.rows("DROP TABLE lake.other")
    assert world.totals() == [3, 9]
    assert world.ingest(NW, force=True).row.rows_before == 2
    maintain(world.config, "test", world.sessions, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=30))

    assert world.totals() == [3]
    assert world.ingest(NW).row.status == "skipped"


def plan(database: CatalogDatabase, sql: str, parameters: object) -> str:
    return " ".join(map(str, database._connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()))


def test_sqlite_finds_the_files_of_a_partition_by_the_index(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(local_world)
    plans: list[str] = []
    query = CatalogDatabase.rows

    def rows(database: CatalogDatabase, sql: str, parameters: object = ()) -> object:
        plans.append(plan(database, sql, parameters))
        return query(database, sql, parameters)  # type: ignore[arg-type]

    with local_world.stream.lake.open() as lake, catalog_reading(lake) as database:
        table_id, *_ = read_folder(database, local_world.stream.table)
        partitioning = read_partitioning(database, table_id)
        monkeypatch.setattr(CatalogDatabase, "rows", rows)
        files = partition_files(database, table_id, partitioning, ("SW", "2026-02-11"))

    assert len(files) == 1
    (text,) = plans
    assert text.count("USING COVERING INDEX partition_values") == 2
    assert "SCAN" not in text
