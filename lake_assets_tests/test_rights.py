"""The least rights of readers, writers and maintenance, as the security page has them: each suffices and is needed.

Those of writers and maintenance on servers are in `deploy/test_postgres_roles.py` and `deploy/test_aws_policies.py`.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev.servers.s3 import S3Server
from lake_assets.base.errors import LakeAssetsError
from lake_assets_tests.deploy.test_postgres_roles import Roles, roles
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.rights import BOUND_BY_MODES, COMMAND, only_readable, reads_all, run
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["roles", "sessions"]


@pytest.fixture(params=["sqlite", *more(["duckdb"])])
def apart(request: pytest.FixtureRequest, local_world: World, tmp_path: Path) -> World:
    """A catalog, its files and what has landed in a folder each, and a partition that is to be replaced."""
    (tmp_path / "catalog").mkdir()
    local_world.catalog = {"type": request.param, "path": str(tmp_path / "catalog" / "lake.db")}
    local_world.lake_options = {"maintenance": {"expire_older_than": 1e-6, "delete_older_than": 0}}
    for total in (1, 2):
        local_world.commit(NW, total)
    local_world.land(NW, sales(3))
    return local_world


def read(world: World, folder: Path) -> None:
    reads_all(world.config_file(folder))


def write(world: World, _: Path) -> None:
    assert world.ingest(NW).row.status == "committed"
    assert world.totals() == [3]


def maintain(world: World, _: Path) -> None:
    assert world.tidy(days=30).cleaned.deleted


WORKS: dict[str, Callable[[World, Path], None]] = {"reader": read, "writer": write, "maintenance": maintain}
WRITES = {"reader": (), "writer": ("catalog", "data"), "maintenance": ("catalog", "data")}
FOLDERS = ("catalog", "data", "landing")


@pytest.mark.parametrize("user", WORKS)
def test_modes_of_files_suffice(apart: World, tmp_path: Path, user: str) -> None:
    with only_readable(*(tmp_path / name for name in FOLDERS if name not in WRITES[user])):
        WORKS[user](apart, tmp_path)


@pytest.mark.parametrize(
    ("user", "folder"), [("writer", "catalog"), *more([("writer", "data"), ("maintenance", "catalog")])]
)
def test_who_writes_a_folder_must_be_permitted_to(apart: World, tmp_path: Path, user: str, folder: str) -> None:
    with only_readable(tmp_path / folder), pytest.raises(LakeAssetsError):
        WORKS[user](apart, tmp_path)


TAKES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "after_load": ({"mode": "append"}, {"after_load": "delete"}),
    "owns_source": ({"mode": "index"}, {"owns_source": True}),
}


@pytest.mark.more
@pytest.mark.parametrize("key", TAKES)
def test_maintenance_that_takes_landed_objects_away_may_write_their_folder(
    local_world: World, tmp_path: Path, key: str
) -> None:
    local_world.options, takes = TAKES[key]
    landed = Path(local_world.land(NW, sales(1)))
    local_world.ingest(NW)
    local_world.options |= takes
    local_world.lake_options = {"maintenance": {"expire_older_than": 1e-9, "delete_older_than": 0}}
    if key == "owns_source":
        local_world.execute("DELETE FROM lake.sales")
        assert local_world.tidy().expired
    command = [*BOUND_BY_MODES, *COMMAND, "--config", str(local_world.config_file(tmp_path)), "maintain"]

    with only_readable(tmp_path / "landing"):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert landed.exists()
    assert "Permission denied" in refused.stdout + refused.stderr
    subprocess.run(command, check=True)
    assert not landed.exists()


LACKS = {"catalog": "catalog of test ", "data": "rows of sales ", "landing": "source of sales "}


@pytest.mark.parametrize("folder", ["data", *more(["catalog", "landing"])])
def test_the_doctor_names_what_a_reader_may_not_read(apart: World, tmp_path: Path, folder: str) -> None:
    arguments = ["--config", str(apart.config_file(tmp_path)), "doctor", "--as", "reader"]
    for path in (tmp_path / folder).rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0)

    ended = subprocess.run([*BOUND_BY_MODES, *COMMAND, *arguments], capture_output=True, text=True, check=False)

    line, *_ = [line for line in ended.stdout.splitlines() if line.startswith("✗")]
    assert line.startswith(f"✗ {LACKS[folder]}")
    assert "Permission denied" in line
    assert ended.returncode == 1


def test_the_doctor_names_the_table_that_a_reader_may_not_read(roles: Roles, tmp_path: Path) -> None:
    roles.become("lake_reader")
    config = roles.world.config_file(tmp_path)
    reads_all(config)

    roles.execute(f"REVOKE SELECT ON ducklake_data_file FROM {roles.names['lake_reader']}")

    said = run(config, "doctor", "--as", "reader", code=1)
    assert "permission denied for table ducklake_data_file: grant it to the catalog's user" in said


@pytest.mark.more
def test_the_doctor_names_the_bucket_that_a_reader_may_not_read(
    local_world: World, s3: S3Server, tmp_path: Path
) -> None:
    local_world.storage = bucket_on(s3)
    local_world.commit(NW, 1)
    key, secret = s3.narrow["lister"]
    local_world.storage = local_world.storage | {"key_id": key, "secret": secret}

    said = run(local_world.config_file(tmp_path), "doctor", "--as", "reader", code=1)

    assert "✗ rows of sales" in said
    assert "grant s3:GetObject" in " ".join(said.split())
