"""The storage is away, or refuses, while Spark's tasks read and write: they try again, or one error says it all."""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from dev.servers.proxy import Request, Rule, S3Proxy
from lake_assets.config.storages import S3Storage
from lake_assets.duckdb_engine import open_engine
from lake_assets.errors import LakeUnreachableError, StorageError, StorageUnreachableError
from lake_assets.ingest.api import ingest_all
from lake_assets.lake.failures import translated
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.outage import HURRIED, Outage, is_committed, is_looked_at, is_read, is_written, outage
from lake_assets_tests.ingest.index.indexing import land_numbers
from lake_assets_tests.lake.commit.test_deltas import committed, exporting, stored, visible
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["outage"]

AWAY = 4.0  # seconds
Begin = Callable[..., Outage]


def large() -> pa.Table:
    """More than is fetched by one request."""
    rows = 1_500_000
    return pa.table({"id": pa.array(range(rows), pa.int64()), "total": np.random.default_rng(1).random(rows)})


def errors_of(world: World, *texts: str) -> list[Exception | None]:
    """The error of each partition of a run."""
    partitions = [world.partition(text) for text in texts]
    outcomes = {outcome.partition: outcome.error for outcome in ingest_all(world.stream, partitions, world.sessions)}
    return [outcomes[partition] for partition in partitions]


def assert_may_pass(error: Exception | None) -> None:
    """Dagster retries a run with this error."""
    from lake_assets.orchestration.stream_run import TRANSIENT  # noqa: PLC0415 - imports Dagster

    assert isinstance(error, TRANSIENT)


@pytest.mark.more
@pytest.mark.parametrize(
    ("place", "when"), [("storage", is_written), *soak([("storage", is_committed), ("source", is_read)])]
)
def test_a_storage_that_is_away_for_four_seconds_fails_nothing(
    local_world: World, s3_proxy: S3Proxy, outage: Begin, place: str, when: Callable[[Request], bool]
) -> None:
    rows = sales(1, 2) if place == "storage" else large()
    setattr(local_world, place, bucket_on(s3_proxy.s3))
    local_world.land(NW, rows, row_group_size=200_000)
    away = outage(when, AWAY)

    result = local_world.ingest(NW)

    assert away.begun
    assert (result.row.status, result.row.row_count) == ("committed", rows.num_rows)
    assert local_world.query("SELECT count(*), count(DISTINCT id) FROM lake.sales") == [(rows.num_rows, rows.num_rows)]


@pytest.mark.soak
def test_objects_are_registered_though_their_storage_is_away_for_four_seconds(
    local_world: World, s3_proxy: S3Proxy, outage: Begin
) -> None:
    land_numbers(local_world, bucket_on(s3_proxy.s3), SW, NW, range(1, 5))
    away = outage(is_looked_at, AWAY)

    result = local_world.ingest(NW)

    assert away.begun
    assert (result.row.status, result.row.files_written) == ("committed", 4)
    assert local_world.totals() == [0, 1, 2, 3, 4]


def away_at_export(world: World, to: dict[str, object], begin: Begin, seconds: float) -> Outage:
    """A lake with one export to this bucket, which goes away when the next is written."""
    exporting(world, to, latest=True)
    committed(world, NW, 1, 2)
    return begin(lambda request: request.bucket == to["bucket"] and request.method in ("PUT", "POST"), seconds)


@pytest.mark.soak
@pytest.mark.usefixtures("spark")
def test_changes_are_exported_though_their_storage_is_away_for_four_seconds(
    local_world: World, s3_proxy: S3Proxy, outage: Begin
) -> None:
    away = away_at_export(local_world, bucket_on(s3_proxy.s3), outage, AWAY)

    committed(local_world, NW, 1, 3)

    assert away.begun
    assert_sound(local_world)
    assert stored(local_world) == {uri for _, uri in visible(local_world)}


@pytest.mark.usefixtures("spark")
def test_a_storage_of_exported_changes_that_stays_away_is_one_error_and_the_next_run_exports_once(
    local_world: World, s3_proxy: S3Proxy, outage: Begin
) -> None:
    away = away_at_export(local_world, bucket_on(s3_proxy.s3) | HURRIED, outage, 600)
    for text in (NW, SW):
        local_world.land(text, sales(1, 3))

    first, second = errors_of(local_world, NW, SW)

    assert first is second, "the storage was tried for each partition"
    assert_may_pass(first)
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
def test_write_and_commit_are_retried_as_often_as_the_lakes_storage_says(local_world: World, s3_proxy: S3Proxy) -> None:
    """More often than by default: 8 times before a commit."""
    local_world.storage = bucket_on(s3_proxy.s3) | {"requests": {"retries": 12, "first_wait": 0.02}}
    local_world.land(NW, sales(1, 2))
    rules = [
        s3_proxy.inject(Rule("status", when, times=times)) for when, times in ((is_written, 4), (is_committed, 12))
    ]

    result = local_world.ingest(NW)

    assert (result.row.status, [rule.times for rule in rules]) == ("committed", [0, 0])
    assert local_world.totals() == [1, 2]


@pytest.mark.more
def test_a_lake_storage_that_stays_away_is_one_error_for_all_partitions(
    local_world: World, s3_proxy: S3Proxy, outage: Callable[..., Outage], capfd: pytest.CaptureFixture[str]
) -> None:
    local_world.storage = bucket_on(s3_proxy.s3) | HURRIED
    for text in (NW, SW):
        local_world.land(text, sales(1))
    outage(is_written, 600)

    first, second = errors_of(local_world, NW, SW)

    assert first is second
    assert isinstance(first, StorageUnreachableError)
    endpoint = local_world.storage["endpoint"]
    for words in (
        f"at {endpoint} cannot be reached or fails: s3://",
        "main/sales/region=",
        "check endpoint and network",
    ):
        assert words in str(first)
    assert "Traceback" not in str(first)
    assert "Traceback" not in capfd.readouterr().err
    assert [row.status for row in local_world.ledger()] == ["failed", "failed"]


@pytest.mark.usefixtures("impatient")
def test_a_storage_that_cannot_be_listed_is_one_error_for_all_partitions_and_is_asked_once(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.ingest.replace.stream_steps.LISTINGS", 1)
    asked: list[Partition] = []
    landed_at = OpenStream.landed_at

    def noting(stream: OpenStream, partition: Partition) -> Manifest:
        asked.append(partition)
        return landed_at(stream, partition)

    monkeypatch.setattr(OpenStream, "landed_at", noting)
    keys = {"key_id": "key", "secret": "a-secret"}
    local_world.source = {"type": "s3", "bucket": "nowhere", "endpoint": "http://127.0.0.1:9", **keys}

    errors = errors_of(local_world, NW, SW)

    assert len(asked) == 1
    assert {str(error) for error in errors} == {
        (
            "s3://nowhere at http://127.0.0.1:9 cannot be reached: HTTP error: error sending request: "
            "check endpoint and network, and run it again."
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
        message = r"a storage of the lake cannot be reached .*127\.0\.0\.1:9/x"
        with (
            pytest.raises(LakeUnreachableError, match=message) as raised,
            translated(local_world.config.lakes["test"]),
        ):
            engine.execute("FROM read_parquet('http://127.0.0.1:9/x.parquet')")
    assert_may_pass(raised.value)


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
    """A table, and eight new objects, whose files the server refuses to give; the engine asks for each once."""
    monkeypatch.setattr("lake_assets.duckdb_engine._http_retries", lambda _: 0)
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
    assert len([request for request in s3_proxy.requests() if is_looked_at(request)]) == 1


def test_files_that_a_store_fails_to_give_are_named_and_may_be_given_later(unread: World) -> None:
    (error,) = errors_of(unread, NW)

    assert_may_pass(error)
    assert "8 of 8 new objects of region=NW/date=2026-02-11 were not registered:" in str(error)
    assert f"the object {unread.landing.uri('region=NW/date=2026-02-11/1.parquet')} was not read" in str(error)
    assert "remove it" not in str(error)
