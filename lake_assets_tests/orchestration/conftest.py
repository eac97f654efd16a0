"""Fixtures of several files of this room. Its runs ingest in the test's process; a transform starts Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from dev.servers.postgres import PostgresServer
from lake_assets.config.spark import REMOTE
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.translator import specs_of
from lake_assets.spark.spark_session import start_session
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.orchestration.in_process import REGIONS, Materialize
from lake_assets_tests.orchestration.instances import in_memory
from lake_assets_tests.orchestration.ticks import Ticks, ticks_of
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World

__all__ = ["sessions"]


def run_by(sessions: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of Dagster have these sessions; with `spark.remote` they ask for that server."""
    monkeypatch.setattr(
        "lake_assets.orchestration.resources.start_session",
        lambda conf: start_session(conf) if REMOTE in conf else sessions(),
    )


@pytest.fixture(autouse=True, scope="session")
def migrations_are_read_once() -> Iterator[None]:
    """Spare each database of an instance the import of the files of all of Dagster's migrations, half a second."""
    read, scripts = ScriptDirectory.from_config, {}

    def once(config: Config) -> ScriptDirectory:
        place = tuple(config.get_main_option(name) for name in ("script_location", "version_locations"))
        if place not in scripts:
            scripts[place] = read(config)
        return scripts[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", once)
        yield


@pytest.fixture(autouse=True)
def runs_here(sessions: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs ingest as the worlds of this room do."""
    run_by(sessions, monkeypatch)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An empty instance of Dagster, without a daemon."""
    with in_memory() as instance:
        yield instance


@pytest.fixture(params=["sqlite", *more(["postgres"])])
def storage(request: pytest.FixtureRequest) -> Iterator[dg.DagsterInstance]:
    """An instance with each database that Dagster has: for what depends on that, as its lock and its statements."""
    overrides = {}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = {"hostname": server.host, "port": server.port, "username": server.user, "password": server.password}
        database |= {"db_name": server.new_database(), "scheme": "postgresql+psycopg2"}
        overrides = {"storage": {"postgres": {"postgres_db": database}}}
    with dg.instance_for_test(overrides) as instance:
        yield instance


@pytest.fixture
def materialize(local_world: World, monkeypatch: pytest.MonkeyPatch) -> Materialize:
    """Materializes partitions of the world's stream as Dagster's in-process executor does.

    The instance is an empty one if none is given.
    """
    run_by(local_world.sessions, monkeypatch)
    local_world.options |= REGIONS

    def run(*keys: str, **options: Any) -> dg.ExecuteInProcessResult:
        if len(keys) == 1:
            options["partition_key"] = keys[0]
        else:
            first, last = keys
            options["tags"] = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        options["resources"] = {"pyspark": pyspark_resource(local_world.config.spark)}
        with in_memory() as empty:
            return dg.materialize([stream_asset(specs_of(local_world.stream))], **{"instance": empty} | options)

    return run


@pytest.fixture
def ticks(local_world: World) -> Iterator[Ticks]:
    """Ticks of the sensor that lists the landing zone."""
    Path(local_world.source["path"]).mkdir()
    local_world.options["sensor"] = {"type": "objects"}
    with ticks_of(local_world) as ticks:
        yield ticks
