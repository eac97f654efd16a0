"""The landing zone of a stream in mode index fails while DuckDB reads footers."""

import pytest

from dev.servers.proxy import Rule, S3Proxy
from lake_assets.errors import StorageUnreachableError
from lake_assets.ingest.api import ingest_all
from lake_assets.orchestration.stream_run import TRANSIENT
from lake_assets.storage.store import Store
from lake_assets_tests.faults.outage import is_looked_at
from lake_assets_tests.ingest.index.indexing import land_numbers
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import bucket_on


@pytest.fixture
def world(local_world: World, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> World:
    """A table, and eight new objects, whose files the server refuses to give; the engine asks for each once."""
    monkeypatch.setattr("lake_assets.duckdb_engine._http_retries", lambda _: 0)
    land_numbers(local_world, bucket_on(s3_proxy.s3), SW, NW, range(1, 9))
    s3_proxy.forget()
    s3_proxy.inject(Rule("status", when=is_looked_at, times=1000))
    return local_world


def error_of(world: World) -> Exception | None:
    (outcome,) = ingest_all(world.stream, [world.partition(NW)], world.sessions)
    return outcome.error


def test_a_store_that_is_away_is_not_asked_for_each_of_its_files(
    world: World, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(_: Store) -> bool:
        raise StorageUnreachableError("the store is away.")

    monkeypatch.setattr(Store, "probe", probe)

    assert str(error_of(world)) == "the store is away."
    assert len([request for request in s3_proxy.requests() if is_looked_at(request)]) == 1


def test_files_that_a_store_fails_to_give_are_named_and_may_be_given_later(world: World) -> None:
    error = error_of(world)

    assert isinstance(error, TRANSIENT)
    assert "8 of 8 new objects of region=NW/date=2026-02-11 were not registered:" in str(error)
    assert f"the object {world.landing.uri('region=NW/date=2026-02-11/1.parquet')} was not read" in str(error)
    assert "remove it" not in str(error)
