"""The backup of `deploy/one-vm.md`: the catalog first and then the storage, while other runs commit."""

from dataclasses import replace
from pathlib import Path

import pytest

from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets.storage.store import Store
from lake_assets.upkeep.checks.facts import Scope
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["sessions"]


def copy_catalog(source: World, target: World, postgres: PostgresServer, folder: Path) -> None:
    file = folder / "lake.dump"
    for command in (
        ("pg_dump", "--format=custom", f"--file={file}", source.catalog["database"]),
        ("pg_restore", "--no-owner", f"--dbname={target.catalog['database']}", file),
    ):
        done = postgres.run(*command)
        assert done.returncode == 0, done.stderr


def copy_storage(source: World, target: World, s3: S3Server) -> None:
    """Copy all objects, as a vendor's tool does."""
    bucket, other = str(source.storage["bucket"]), str(target.storage["bucket"])
    for obj in Store(source.config.lakes["test"].own_storage).list():
        key = f"{source.storage['prefix']}/{obj.key}"
        s3.client().copy_object(Bucket=other, Key=key, CopySource={"Bucket": bucket, "Key": key})


@pytest.mark.more
def test_a_backup_is_the_lake_of_one_moment_because_the_catalog_is_first(
    local_world: World, postgres: PostgresServer, s3: S3Server, tmp_path: Path
) -> None:
    local_world.catalog, local_world.storage = database_on(postgres), bucket_on(s3)
    local_world.commit(NW, 1)
    restored = replace(
        local_world,
        catalog=local_world.catalog | {"database": postgres.new_database()},
        storage=local_world.storage | {"bucket": s3.new_bucket()},
        lake_options={"attach_options": {"override_data_path": True}},
    )

    copy_catalog(local_world, restored, postgres, tmp_path)
    assert local_world.commit(NW, 2).status == "committed"
    assert local_world.commit(SW, 3).status == "committed"
    copy_storage(local_world, restored, s3)

    assert run_check(restored.stream, "data_files", Scope()).passed
    assert restored.totals() == [1]
    assert [restored.ingest(partition).row.status for partition in (NW, SW)] == ["committed", "committed"]
    assert restored.totals() == [2, 3]
    assert run_check(restored.stream, "data_files", Scope()).passed
