"""The storage stays away, or refuses: one error says it all, for all partitions of a run."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dev.servers.proxy import Request, Rule, S3Proxy
from lake_assets.base.duckdb_engine import HttpLimits, open_engine
from lake_assets.base.errors import TRANSIENT, LakeUnreachableError, StorageError, StorageUnreachableError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.storages import S3Storage
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.lake.failures import translated
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.stream import Listed, OpenStream
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.outage import (
    HURRIED,
    Outage,
    is_listed,
    is_looked_at,
    is_read,
    is_written,
    noise,
    outage,
    small_disk,
)
from lake_assets_tests.ingest.index.indexing import land_numbers
from lake_assets_tests.lake.commit.test_deltas import committed, exporting, stored, visible
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["outage"]


def errors_of(world: World, *texts: str) -> list[Exception | None]:
    """The error of each partition of a run."""
    partitions = [world.partition(text) for text in texts]
    outcomes = {outcome.partition: outcome.error for outcome in ingest_all(world.stream, partitions, world.sessions)}
    return [outcomes[partition] for partition in partitions]


def may_pass(error: Exception | None) -> bool:
    """Whether Dagster retries a run with this error."""
    return isinstance(error, TRANSIENT)


@pytest.mark.more
@pytest.mark.usefixtures("spark")
def test_a_storage_of_exported_changes_that_stays_away_is_one_error_and_the_next_run_exports_once(
    local_world: World, s3_proxy: S3Proxy, outage: Callable[..., Outage]
) -> None:
    to = bucket_on(s3_proxy.s3) | HURRIED
    exporting(local_world, to, latest=True)
    committed(local_world, NW, 1, 2)
    away = outage(lambda request: request.bucket == to["bucket"] and request.method in ("PUT", "POST"), 600)
    for text in (NW, SW):
        local_world.land(text, sales(1, 3))

    first, second = errors_of(local_world, NW, SW)

    assert first is second, "the storage was tried for each partition"
    assert may_pass(first)
    deltas = local_world.config.streams["sales"].deltas
    assert deltas is not None
    for words in ("cannot be reached or fails", f"{deltas.to.root}/"):
        assert words in str(first)
    assert local_world.totals() == [1, 2]
    assert [row.status for row in local_world.ledger()[:2]] == ["failed", "failed"]
    assert len(visible(local_world)) == 1

    away.end()
    assert {local_world.ingest(text).row.status for text in (NW, SW)} == {"committed"}
    assert_sound(local_world)
    assert stored(local_world) == {uri for _, uri in visible(local_world)}


@pytest.mark.more
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("storage", "when", "of_object"),
    [("storage", is_written, "main/sales/region="), ("source", is_read, "region="), ("source", is_listed, "")],
)
def test_a_storage_that_stays_away_is_one_error_that_may_pass_and_no_row_is_there_twice(
    local_world: World,
    s3_proxy: S3Proxy,
    outage: Callable[..., Outage],
    storage: str,
    when: Callable[[Request], bool],
    of_object: str,
) -> None:
    place = bucket_on(s3_proxy.s3) | HURRIED
    setattr(local_world, storage, place)
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))
    local_world.land(SW, sales(4))
    away = outage(when, 600)

    first, second = errors_of(local_world, NW, SW)

    assert first is second
    assert may_pass(first)
    root = f"s3://{place['bucket']}/{place['prefix']}"
    assert f"{root} at {place['endpoint']} cannot be reached" in str(first)
    assert f"{root}/{of_object}" in str(first) or not of_object
    assert "correct endpoint of the storage, or run it again when it answers" in str(first)
    away.end()
    assert local_world.totals() == [1]
    assert errors_of(local_world, NW, SW) == [None, None]
    assert local_world.totals() == [2, 3, 4]


def test_a_disk_that_is_full_is_an_error_that_does_not_pass_by_itself(local_world: World, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data"):
        for text in (NW, SW):
            local_world.land(text, noise())
        first, second = errors_of(local_world, NW, SW)
        assert local_world.data_files() == set()

    assert isinstance(first, StorageError)
    assert not may_pass(first)
    assert "data has no space left: " in str(first)
    assert "free space there" in str(second)


@pytest.mark.usefixtures("impatient")
def test_a_storage_that_cannot_be_listed_is_one_error_for_all_partitions_and_is_asked_once(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.storage.overlapping.AT_ONCE", 1)
    asked: list[Partition] = []
    landed_at = OpenStream.landed_at

    def noting(stream: OpenStream, partition: Partition, listed: Listed) -> Manifest:
        asked.append(partition)
        return landed_at(stream, partition, listed)

    monkeypatch.setattr(OpenStream, "landed_at", noting)
    keys = {"key_id": "key", "secret": "a-secret"}
    local_world.source = {"type": "s3", "bucket": "nowhere", "endpoint": "http://127.0.0.1:9", **keys}

    errors = errors_of(local_world, NW, SW)

    assert len(asked) == 1
    assert {str(error) for error in errors} == {
        (
            "s3://nowhere at http://127.0.0.1:9 cannot be reached: HTTP error: error sending request: "
            "correct endpoint of the storage, or run it again when it answers."
        )
    }


@pytest.mark.usefixtures("impatient")
def test_an_object_that_is_not_read_is_named_with_its_storage() -> None:
    keys = {"key_id": "key", "secret": "a-secret"}
    nowhere = S3Storage.model_validate({"bucket": "nowhere", "endpoint": "http://127.0.0.1:9", **keys})

    with pytest.raises(
        StorageUnreachableError,
        match=r"^s3://nowhere at http://127\.0\.0\.1:9 cannot be reached or fails: s3://nowhere/x was not read: .+: ",
    ):
        Store(nowhere).get("x", "etag")


def test_a_storage_that_does_not_answer_duckdb_is_an_error_that_may_pass(local_world: World) -> None:
    with open_engine(("httpfs",)) as engine:
        engine.execute("SET http_retries = 0")
        message = r"a storage cannot be reached .*127\.0\.0\.1:9/x"
        with (
            pytest.raises(LakeUnreachableError, match=message) as raised,
            translated(local_world.config.lakes["test"]),
        ):
            engine.execute("FROM read_parquet('http://127.0.0.1:9/x.parquet')")
    assert may_pass(raised.value)


def test_a_name_that_the_lakes_folder_cannot_take_is_named_and_leaves_the_other_partitions_alone(
    local_world: World, s3_location: Callable[[], dict[str, object]]
) -> None:
    local_world.source = s3_location()
    texts = (f"region={'x' * 300},date=2026-02-11", NW)
    for text in texts:
        local_world.land(text, sales(1))

    error, of_other = errors_of(local_world, *texts)

    assert isinstance(error, StorageError)
    assert not isinstance(error, StorageUnreachableError)
    assert re.search(r"takes no name as long as that of .*xxx(.|\n)*shorten the partition's value", str(error))
    assert of_other is None
    assert local_world.totals() == [1]


@pytest.fixture
def unread(local_world: World, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> World:
    """A table, and eight new objects, whose files the server refuses to give; the engine has no retries."""
    monkeypatch.setattr("lake_assets.lake.ducklake.http_limits", lambda _: HttpLimits(0))
    land_numbers(local_world, bucket_on(s3_proxy.s3), SW, NW, range(1, 9))
    s3_proxy.forget()
    s3_proxy.inject(Rule("status", when=is_looked_at, times=1000))
    return local_world


def test_a_store_that_is_away_is_not_asked_for_each_of_its_files(
    unread: World, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(_: Store) -> bool:
        raise StorageUnreachableError("the store is away.")

    monkeypatch.setattr(Store, "probe", probe)

    assert [str(error) for error in errors_of(unread, NW)] == ["the store is away."]
    asked = [request for request in s3_proxy.requests() if is_looked_at(request)]
    assert len(asked) == 2  # quickly, and with the retries of the storage


def test_files_that_a_store_fails_to_give_are_named_and_may_be_given_later(unread: World) -> None:
    (error,) = errors_of(unread, NW)

    assert may_pass(error)
    assert "8 of 8 new objects of region=NW/date=2026-02-11 were not registered:" in str(error)
    assert f"{unread.landing.uri('region=NW/date=2026-02-11/1.parquet')} was not read" in str(error)
    assert "remove it" not in str(error)
