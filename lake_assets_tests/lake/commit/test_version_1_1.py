"""The direct strategy on catalogs of DuckLake 1.1, built here by the published migration from 1.0.

No extension of version 1.1 could be had, so nothing but the statements and the tables is compared here. Where DuckDB 2
and its extension are installed, `test_differential.py` compares the two on catalogs that the extension made.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lake_assets.base.duckdb_engine import identifier
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.catalog import spec
from lake_assets.lake.commit.direct import register_directly, replace_directly
from lake_assets.lake.ducklake import version_without_attach
from lake_assets.lake.ledger.read import last_runs
from lake_assets_tests.lake.commit.strategy_pair import (
    COLUMNS,
    TABLE,
    Catalogs,
    StrategyLake,
    StrategyPair,
    empty_lake,
    empty_pair,
    row,
)

NW = "region=NW,date=2026-02-11"
SW = "region=SW,date=2026-02-11"
POSTGRES = pytest.param("postgres", marks=[pytest.mark.servers, pytest.mark.more])
pytestmark = pytest.mark.parametrize("catalog", ["sqlite", POSTGRES], indirect=True)


@pytest.fixture
def pair(catalog: Catalogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StrategyPair:
    """A lake of version 1.0 and one that was migrated to 1.1, each with a partition; both have direct commits."""
    monkeypatch.setattr(spec, "TESTED", frozenset(spec.VERSIONS))
    older, newer = pair = empty_pair(catalog, tmp_path)
    for side in pair:
        side.replace(NW, [row(5), row(6)], strategy=replace_directly)
    migrate(newer)
    return older, newer


@contextmanager
def statements(side: StrategyLake) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Runs SQL in the catalog's database."""
    with closing(catalog_backend(side.lake)) as backend, backend.transaction(writes=True) as database:

        def run(sql: str) -> list[tuple[Any, ...]]:
            if sql.startswith("SELECT"):
                return database.rows(sql)
            database.execute(sql)
            return []

        yield run


def rename(run: Callable[[str], list[tuple[Any, ...]]], old: spec.Version, new: spec.Version) -> None:
    for (table,) in run(f"SELECT table_name FROM {spec.INLINED_DATA_TABLES}"):
        for name in ("row_id", "begin_snapshot", "end_snapshot"):
            run(f"ALTER TABLE {identifier(table)} RENAME COLUMN {getattr(old, name)} TO {getattr(new, name)}")


def migrate(side: StrategyLake) -> None:
    """The migration from 1.0 to 1.1 of DuckLake's manual, "Upgrading to DuckLake 1.1"."""
    with statements(side) as run:
        rename(run, spec.VERSIONS["1.0"], spec.VERSIONS["1.1"])
        for table in (spec.DATA_FILE, spec.DELETE_FILE):
            run(f"ALTER TABLE {table} ADD COLUMN row_group_count BIGINT")
        run(
            "CREATE TABLE ducklake_view_column_tag (view_id BIGINT, column_name VARCHAR, begin_snapshot BIGINT, "
            "end_snapshot BIGINT, key VARCHAR, value VARCHAR)"
        )
        run(f"UPDATE {spec.METADATA} SET value = '1.1' WHERE key = 'version'")


def migrate_back(side: StrategyLake) -> None:
    """A catalog of version 1.0 again, which the installed extension can read."""
    with statements(side) as run:
        rename(run, spec.VERSIONS["1.1"], spec.VERSIONS["1.0"])
        for table in (spec.DATA_FILE, spec.DELETE_FILE):
            run(f"ALTER TABLE {table} DROP COLUMN row_group_count")
        run("DROP TABLE ducklake_view_column_tag")
        run(f"UPDATE {spec.METADATA} SET value = '1.0' WHERE key = 'version'")


def agree(pair: StrategyPair) -> None:
    older, newer = pair
    migrate_back(newer)
    expected = older.catalog()
    for title, rows in newer.catalog().items():
        assert repr(rows).replace(str(newer.folder), str(older.folder)) == repr(expected[title]), title


def test_commits_are_in_the_same_tables_and_row_groups_are_counted(pair: StrategyPair) -> None:
    for side in pair:
        side.replace(SW, [row(n) for n in range(20)], strategy=replace_directly)
        side.replace(NW, [row(7)], [row(8)], strategy=replace_directly)
        side.replace(SW, strategy=replace_directly)
        side.register({SW: [row(1), row(2)], "region=NE,date=2026-02-12": [row(3)]}, register_directly)
        side.replace(SW, [row(n) for n in range(5)], [row(9)], strategy=replace_directly, row_group_size=2)
    _, newer = pair
    with statements(newer) as run:
        counts = [n for (n,) in run(f"SELECT row_group_count FROM {spec.DATA_FILE} ORDER BY data_file_id")]
    assert (counts[0], counts[-2:]) == (None, [3, 1])  # of the file from before the migration it is unknown
    partition = Partition.parse(COLUMNS, SW)
    with newer.ducklake.open(read_only=True) as session:
        assert last_runs(session, TABLE, [partition])[partition.path].rows == 6
    agree(pair)


@pytest.mark.more
def test_without_a_test_against_the_extension_it_is_not_written_directly(catalog: Catalogs, tmp_path: Path) -> None:
    newer = empty_lake(catalog, tmp_path / "lake", replace_directly)
    migrate(newer)

    with closing(catalog_backend(newer.lake)) as backend:
        assert version_without_attach(backend, is_read_only=True) is None  # the extension attaches it
    assert "version 1.1 of DuckLake's specification, and lake_assets was tested with 1.0" in (spec.unknown("1.1") or "")
