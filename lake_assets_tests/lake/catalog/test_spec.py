"""A catalog of another version of DuckLake's specification: its tables are neither read nor written."""

import logging

import pytest

from lake_assets.base.errors import CatalogError, SpecificationError
from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.described import describe
from lake_assets.lake.catalog.transaction import Transaction
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.maintenance_run import maintain
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture
def unknown(local_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with a partition that was committed before its specification became unknown."""
    local_world.commit(NW, 1)
    monkeypatch.setattr(spec, "TESTED", frozenset({"0.9"}))
    return local_world


def test_the_extension_commits_and_logs_the_reason(unknown: World, caplog: pytest.LogCaptureFixture) -> None:
    unknown.land(NW, sales(2, 3))
    unknown.land(SW, sales(10))
    with caplog.at_level(logging.WARNING):
        assert unknown.ingest(NW).row.status == "committed"
    assert unknown.ingest(SW).row.rows_before == 0
    assert unknown.ingest(SW).row.status == "skipped"
    assert unknown.totals() == [2, 3, 10]
    reason = "the catalog is of version 1.0 of DuckLake's specification, and lake_assets was tested with 0.9"
    assert set(caplog.messages) == {f"DuckLake's extension makes this commit: {reason}."}


def test_maintenance_is_refused_and_deletes_nothing(unknown: World) -> None:
    unknown.ingest(NW, force=True)
    before = unknown.data_files()
    for dry_run in (True, False):
        with pytest.raises(SpecificationError, match=r"lake test is not maintained.*version 1\.0.*tested with 0\.9"):
            maintain(unknown.config, "test", unknown.sessions, dry_run=dry_run)
    assert unknown.data_files() == before
    assert unknown.totals() == [1]


def test_a_check_that_needs_the_tables_fails_with_the_reason(unknown: World) -> None:
    with pytest.raises(SpecificationError, match=r"tested with 0\.9"):
        run_check(unknown.stream, "ledger", Scope())


def test_a_migration_while_the_lake_is_open_is_detected(local_world: World) -> None:
    local_world.commit(NW, 1)
    with local_world.stream.lake.open() as lake:
        described = describe(lake, [local_world.stream.table])
        lake.rows(f"UPDATE {lake.metadata}.{spec.METADATA} SET value = '9.9' WHERE key = 'version'")
        assert lake.unknown_specification is None  # as it was when the lake was opened
        with pytest.raises(NotDirectError, match=r"version 9\.9"), lake.write() as database:
            Transaction(database, described)


def test_a_refused_version_is_reported_with_the_option_to_migrate(local_world: World) -> None:
    local_world.commit(NW, 1)
    local_world.execute("UPDATE __ducklake_metadata_lake.ducklake_metadata SET value = '0.4' WHERE key = 'version'")
    with pytest.raises(CatalogError, match=r"is 0\.4, but .* requires version 1\.0.*attach_options"):
        local_world.ingest(NW)
