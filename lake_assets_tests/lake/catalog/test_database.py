"""The catalog's own database: its tables are found, also in a separate schema beside another lake's."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from lake_assets.config.lake import Lake
from lake_assets.lake.catalog.database import catalog_transaction
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets_tests.lake.commit.strategy_pair import StrategyLake, row
from lake_assets_tests.world_fixtures import database_on

NW = "region=NW,date=2026-02-11"
SCHEMA = "Shop"  # in mixed case, as one that is not quoted would not be found


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.servers)])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "postgres":
        return database_on(request.getfixturevalue("postgres"))
    return {"type": request.param, "path": str(tmp_path / "catalog")}


def empty_lake(catalog: dict[str, Any], folder: Path, options: dict[str, Any] | None = None) -> StrategyLake:
    lake = {"catalog": catalog, "storage": str(folder), "attach_options": options or {}}
    return StrategyLake(replace_directly, Lake.model_validate(lake), folder)


def test_existing_tables_are_found(catalog: dict[str, Any], tmp_path: Path) -> None:
    with empty_lake(catalog, tmp_path / "data").ducklake.open() as session, catalog_transaction(session) as database:
        assert database.has_table("ducklake_snapshot")
        assert not database.has_table("ducklake_inlined_delete_99")
        assert database.rows("SELECT count(*) FROM ducklake_schema") == [(1,)]


@pytest.mark.parametrize("catalog", ["duckdb", "postgres"], indirect=True)
def test_a_lake_in_a_schema_of_its_own_is_written_by_both_strategies(catalog: dict[str, Any], tmp_path: Path) -> None:
    lakes = {
        "own": empty_lake(catalog, tmp_path / "own", {"metadata_schema": SCHEMA}),
        "default": empty_lake(catalog, tmp_path / "default"),
    }
    for number, lake in enumerate(lakes.values()):
        lake.replace(NW, [row(number)], strategy=replace_by_extension)
        lake.replace(NW, [row(10 + number)])
        lake.replace("region=SW,date=2026-02-11", [row(20 + number), row(30 + number)])

    for number, lake in enumerate(lakes.values()):
        values = [(100 + 10 * number,), (200 + 10 * number,), (300 + 10 * number,)]
        assert lake.query("SELECT i64 FROM lake.t ORDER BY ALL") == values
        assert lake.query("SELECT count(*) FROM lake.ingest_runs WHERE status = 'committed'") == [(3,)]
    assert snapshots_in(SCHEMA, catalog) == snapshots_in("default", catalog)


def snapshots_in(schema: str, catalog: dict[str, Any]) -> int:
    """The number of snapshots in a schema of the catalog's database, by a client without DuckLake."""
    if catalog["type"] == "duckdb":
        name = "main" if schema == "default" else schema
        with duckdb.connect(catalog["path"], read_only=True) as client:
            ((count,),) = client.execute(f'SELECT count(*) FROM "{name}".ducklake_snapshot').fetchall()
            return int(count)
    import psycopg  # noqa: PLC0415 - may not be installed

    name = "public" if schema == "default" else schema
    keys = {"host": "host", "port": "port", "user": "user", "password": "password", "database": "dbname"}
    with psycopg.connect(**{theirs: catalog[ours] for ours, theirs in keys.items()}) as connection:
        result = connection.execute(f'SELECT count(*) FROM "{name}".ducklake_snapshot'.encode()).fetchone()
    assert result is not None
    return int(result[0])
