"""The storage of exported changes is away or full: the run retries or fails by one error, and exports once."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dev.servers.proxy import Request, S3Proxy
from lake_assets.errors import StorageUnreachableError, WholeStorageError
from lake_assets.ingest.api import ingest_all
from lake_assets.orchestration.stream_run import TRANSIENT
from lake_assets_tests.faults.outage import HURRIED, Outage, noise, outage, small_disk
from lake_assets_tests.lake.commit.test_deltas import committed, exported, exporting, history, rows, stored, visible
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["outage"]


@pytest.fixture
def away(
    local_world: World,
    s3_proxy: S3Proxy,
    outage: Callable[..., Outage],
    spark: object,
    request: pytest.FixtureRequest,
) -> Callable[[float], Outage]:
    """Exports to a bucket; begins an outage of it, of so many seconds, at the next delta that is written."""
    assert spark
    to = bucket_on(s3_proxy.s3) | getattr(request, "param", {})
    exporting(local_world, to, latest=True)
    committed(local_world, NW, 1, 2)

    def is_delta(request: Request) -> bool:
        return request.bucket == to["bucket"] and request.method in ("PUT", "POST")

    return lambda seconds: outage(is_delta, seconds)


def sound(world: World) -> None:
    """Every change is in one visible file, and there is no other file."""
    assert rows(exported(world)) == rows(history(world))
    assert stored(world) == {uri for _, uri in visible(world)}


def test_an_outage_shorter_than_the_pauses_fails_nothing(local_world: World, away: Callable[[float], Outage]) -> None:
    begun = away(4.0)

    committed(local_world, NW, 1, 3)

    assert begun.begun
    assert local_world.totals(NW) == [1, 3]
    sound(local_world)


@pytest.mark.parametrize("away", [HURRIED], indirect=True, ids=["hurried"])
def test_an_outage_that_stays_is_one_error_and_the_next_run_exports_once(
    local_world: World, away: Callable[[float], Outage]
) -> None:
    begun = away(600)
    for text in (NW, SW):
        local_world.land(text, sales(1, 3))

    partitions = [local_world.partition(text) for text in (NW, SW)]
    outcomes = list(ingest_all(local_world.stream, partitions, local_world.sessions))

    first, second = (outcome.error for outcome in outcomes)
    assert first is second, "the storage was tried for each partition"
    assert isinstance(first, StorageUnreachableError)
    assert isinstance(first, TRANSIENT)
    deltas = local_world.config.streams["sales"].deltas
    assert deltas is not None
    assert "cannot be reached or fails" in str(first)
    assert f"{deltas.to.root}/" in str(first)
    assert "Traceback" not in str(first)
    assert local_world.totals() == [1, 2]
    assert [row.status for row in local_world.ledger()[:2]] == ["failed", "failed"]
    assert len(visible(local_world)) == 1

    begun.end()
    assert {local_world.ingest(text).row.status for text in (NW, SW)} == {"committed"}
    assert local_world.totals() == [1, 1, 3, 3]
    sound(local_world)


def test_a_full_disk_is_one_error_and_the_next_run_exports_once(
    local_world: World, tmp_path: Path, spark: object
) -> None:
    assert spark
    with small_disk(tmp_path / "deltas"):
        exporting(local_world, tmp_path / "deltas")
        committed(local_world, NW, 1, 2)
        for text in (NW, SW):
            local_world.land(text, noise().append_column("id", pa.array(range(40_000), pa.int64())))

        partitions = [local_world.partition(text) for text in (NW, SW)]
        outcomes = list(ingest_all(local_world.stream, partitions, local_world.sessions))

        first, second = (outcome.error for outcome in outcomes)
        assert isinstance(first, WholeStorageError)
        assert first is second, "the disk was tried for each partition"
        assert "has no space left" in str(first)
        assert str(tmp_path / "deltas") in str(first)
        assert "free space there" in str(first)
        assert local_world.totals() == [1, 2]
        assert stored(local_world) == {uri for _, uri in visible(local_world)}

        committed(local_world, NW, 1, 3)
        sound(local_world)
