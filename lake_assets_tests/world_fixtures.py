"""Fixtures that make worlds: `local_world` on files alone, `world` on pairs that cover every catalog and storage."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lake_assets.base.retrying import Limit
from lake_assets_tests.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dev.servers.postgres import PostgresServer
    from dev.servers.s3 import S3Server

# Every pair of catalog and storage: `end_to_end/test_every_pair.py` runs one whole life of a stream on each.
PAIRS = [
    ("sqlite", "local"),
    ("duckdb", "local"),
    ("postgres", "local"),
    ("sqlite", "s3"),
    ("duckdb", "s3"),
    ("postgres", "s3"),
    ("postgres", "r2"),
]
# Pairs that have every catalog and every storage, for the tests of one subject each. `make test` runs them on the
# first: what differs by catalog or storage is a test of its own there. R2 is S3 with other names in its config.
COVERING = [
    ("sqlite", "local"),
    pytest.param(("postgres", "s3"), marks=pytest.mark.more),
    pytest.param(("duckdb", "s3"), marks=pytest.mark.soak),
    pytest.param(("postgres", "r2"), marks=pytest.mark.soak),
]


def bucket_on(server: "S3Server") -> dict[str, Any]:
    """A storage config for a new bucket of this server."""
    return {
        "type": "s3",
        "bucket": server.new_bucket(),
        "prefix": "some/prefix",
        "endpoint": server.endpoint,
        "key_id": server.access_key,
        "secret": server.secret_key,
        "region": server.region,
    }


def r2_bucket_on(server: "S3Server") -> dict[str, Any]:
    """The same as an R2 storage: region auto, the bucket in the path, the endpoint this server in place of R2's."""
    s3 = bucket_on(server)
    kept = {name: s3[name] for name in ("bucket", "prefix", "endpoint", "key_id", "secret")}
    return {"type": "r2", "account_id": "0123456789abcdef", **kept}


def database_on(server: "PostgresServer") -> dict[str, Any]:
    """A catalog config for a new database of this server."""
    return {
        "type": "postgres",
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "database": server.new_database(),
    }


@pytest.fixture
def sessions(request: pytest.FixtureRequest) -> Callable[[], "SparkSession"]:
    """The run's one Spark session, started by the first test that has work for it."""
    return lambda: request.getfixturevalue("spark")


@pytest.fixture
def local_world(tmp_path: Path, sessions: Callable[[], "SparkSession"]) -> World:
    return World.in_folder(tmp_path, sessions)


@pytest.fixture(params=["files", "encrypted"])
def either_lake(request: pytest.FixtureRequest, local_world: World) -> World:
    """A local world whose lake takes data files, and one whose encrypted lake takes rows by INSERT."""
    if request.param == "encrypted":
        local_world.lake_options = {"attach_options": {"encrypted": True}}
    return local_world


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of storages try once, where a test is not about their own retries with a server that is away."""
    monkeypatch.setattr("lake_assets.storage.patience.of_obstore", lambda _: {"max_retries": 0})
    monkeypatch.setattr("lake_assets.storage.patience.retries", lambda _: Limit(retries=0))


@pytest.fixture
def s3_location(request: pytest.FixtureRequest) -> Callable[[], dict[str, Any]]:
    """Gives a storage config for a new bucket on the real S3 server."""
    server = request.getfixturevalue("s3")
    return lambda: bucket_on(server)


@pytest.fixture(params=COVERING, ids="-".join)
def world(request: pytest.FixtureRequest, local_world: World, tmp_path: Path) -> World:
    """A world on each covering pair, or on the pairs that a test is parametrized with (`indirect=True`)."""
    catalog, storage = request.param
    if storage == "s3":
        location = request.getfixturevalue("s3_location")
        local_world.storage, local_world.source = location(), location()
    if storage == "r2":
        server = request.getfixturevalue("s3")
        local_world.storage, local_world.source = r2_bucket_on(server), r2_bucket_on(server)
    if catalog == "duckdb":
        local_world.catalog = {"type": "duckdb", "path": str(tmp_path / "catalog.duckdb")}
    if catalog == "postgres":
        local_world.catalog = database_on(request.getfixturevalue("postgres"))
    return local_world
