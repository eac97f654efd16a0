"""The indexes that `catalog optimize` creates: the catalog works with them as without them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.lake.catalog.backup import INDEXES, create_indexes, missing_indexes
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.catalog.files import files_of_partitions
from lake_assets.lake.catalog.table import read_folder, read_partitioning
from lake_assets.upkeep.doctor import examine
from lake_assets_tests.lake.worlds import BY_DRIVER
from lake_assets_tests.world import NW, SW, World


def indexed(world: World) -> None:
    world.commit(SW, 7)
    with world.stream.lake.open() as lake:
        assert len(create_indexes(lake)) == 2


def optimize(world: World, folder: Path, *arguments: str) -> str:
    config = str(world.config_file(folder))
    result = CliRunner().invoke(main, ["--config", config, "catalog", "optimize", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@BY_DRIVER
def test_the_command_which_the_doctor_names_creates_what_is_missing_and_drops_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.commit(SW, 7)
    config = world.config_file(tmp_path)

    def doctor() -> str:
        return next(found.text for found in examine(config) if found.subject == "catalog of test")

    assert "index" not in doctor()  # for few files
    monkeypatch.setattr("lake_assets.upkeep.doctor.MANY_FILES", 0)
    assert doctor().endswith("; 1 data file without indexes: run `lake-assets catalog optimize`")
    created = optimize(world, tmp_path)
    assert "index" not in doctor()
    assert created.splitlines() == [
        f"test: created {index.name} on {index.table} ({', '.join(index.columns)})" for index in INDEXES
    ]
    assert optimize(world, tmp_path) == "test: has all of the indexes\n"
    with world.stream.lake.open() as lake, lake.write() as database:
        database.execute("DROP INDEX lake_assets_column_bounds")  # as by a migration
    assert optimize(world, tmp_path).count("created") == 1
    assert optimize(world, tmp_path, "--drop") == created.replace("created", "dropped")
    assert optimize(world, tmp_path, "--drop") == "test: has none of the indexes\n"
    with world.stream.lake.open() as lake:
        assert len(missing_indexes(lake)) == 2


@pytest.mark.parametrize("world", [("duckdb", "local")], indirect=True)
def test_a_duckdb_file_gets_none(world: World, tmp_path: Path) -> None:
    world.commit(SW, 7)

    assert "no index is created: DuckDB refuses later changes of a table with an index" in optimize(world, tmp_path)


@pytest.mark.more
@BY_DRIVER
def test_every_client_writes_to_a_catalog_with_indexes(world: World) -> None:
    indexed(world)
    for totals in ((1, 2), (3,)):
        assert world.commit(NW, *totals).status == "committed"
    assert world.ingest(NW).row.status == "skipped"

    world.execute(  # DuckLake's extension
        "INSERT INTO lake.sales VALUES (9, 9, 'NW', '2026-02-11')",
        "ALTER TABLE lake.sales ADD COLUMN note VARCHAR",
        "ALTER TABLE lake.sales DROP COLUMN note",
        "DELETE FROM lake.sales WHERE region = 'SW'",
        "CREATE TABLE lake.other AS SELECT 1 AS a",
        "ALTER TABLE lake.other SET PARTITIONED BY (a)",
        "INSERT INTO lake.other VALUES (2)",
        "DROP TABLE lake.other",
    )
    assert world.totals() == [3, 9]
    assert world.ingest(NW, force=True).row.rows_before == 2
    world.tidy(30)

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

    with local_world.stream.lake.open() as lake, lake.read() as database:
        table_id, *_ = read_folder(database, local_world.stream.table)
        partitioning = read_partitioning(database, table_id)
        monkeypatch.setattr(CatalogDatabase, "rows", rows)
        files = files_of_partitions(database, table_id, partitioning, [key := ("SW", "2026-02-11")])[key]

    assert len(files) == 1
    (text,) = plans
    assert text.count("USING COVERING INDEX lake_assets_partition_values") == 2
    assert "SCAN" not in text
