"""The backup of `deploy/one-vm.md`: the catalog first and then the storage, while other runs commit."""

from dataclasses import replace
from pathlib import Path

import pytest

from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets.checks.check_run import run_check
from lake_assets.checks.result import Scope
from lake_assets.storage.store import Store
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["sessions"]


@pytest.fixture
def production(local_world: World, postgres: PostgresServer, s3: S3Server) -> World:
    """A lake in PostgreSQL and S3 with one partition."""
    local_world.catalog, local_world.storage = database_on(postgres), bucket_on(s3)
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    return local_world


def commit_more(world: World) -> None:
    """Replace the partition, and add another one."""
    world.land(NW, sales(2))
    world.land(SW, sales(3))
    for partition in (NW, SW):
        assert world.ingest(partition).row.status == "committed"


@pytest.fixture
def restored(production: World, postgres: PostgresServer, s3: S3Server) -> World:
    """The world of the copies; it has nothing yet."""
    return replace(
        production,
        catalog=production.catalog | {"database": postgres.new_database()},
        storage=production.storage | {"bucket": s3.new_bucket()},
        lake_options={"attach_options": {"override_data_path": True}},
    )


def copy_catalog(source: World, target: World, postgres: PostgresServer, folder: Path) -> None:
    file = folder / "lake.dump"
    dumped = postgres.run("pg_dump", "--format=custom", f"--file={file}", source.catalog["database"])
    assert dumped.returncode == 0, dumped.stderr
    restored = postgres.run("pg_restore", "--no-owner", f"--dbname={target.catalog['database']}", file)
    assert restored.returncode == 0, restored.stderr


def copy_storage(source: World, target: World, s3: S3Server) -> None:
    """Copy all objects, as a vendor's tool does."""
    bucket, other = str(source.storage["bucket"]), str(target.storage["bucket"])
    for obj in Store(source.config.lakes["test"].own_storage).list():
        key = f"{source.storage['prefix']}/{obj.key}"
        s3.client().copy_object(Bucket=other, Key=key, CopySource={"Bucket": bucket, "Key": key})


def test_the_catalog_first_is_the_lake_at_that_moment(
    production: World, restored: World, postgres: PostgresServer, s3: S3Server, tmp_path: Path
) -> None:
    copy_catalog(production, restored, postgres, tmp_path)
    commit_more(production)
    copy_storage(production, restored, s3)

    assert restored.totals() == [1]
    assert run_check(restored.stream, "data_files", Scope()).passed

    commit_again = [restored.ingest(partition).row.status for partition in (NW, SW)]
    assert commit_again == ["committed", "committed"]
    assert restored.totals() == [2, 3]
    assert run_check(restored.stream, "data_files", Scope()).passed


def test_the_storage_first_lacks_files(
    production: World, restored: World, postgres: PostgresServer, s3: S3Server, tmp_path: Path
) -> None:
    """Why the order is as it is."""
    copy_storage(production, restored, s3)
    commit_more(production)
    copy_catalog(production, restored, postgres, tmp_path)

    assert not run_check(restored.stream, "data_files", Scope()).passed
