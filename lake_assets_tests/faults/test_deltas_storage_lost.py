"""The storage of exported changes is away: the run tries again or fails by one error, and exports once."""

from collections.abc import Callable

import pytest

from dev.servers.proxy import Request, S3Proxy
from lake_assets.errors import StorageUnreachableError
from lake_assets.ingest.api import ingest_all
from lake_assets.orchestration.stream_run import TRANSIENT
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.outage import HURRIED, Outage, outage
from lake_assets_tests.lake.commit.test_deltas import committed, exporting, stored, visible
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["outage"]


Begin = Callable[..., Outage]


def away(world: World, to: dict[str, object], begin: Begin, seconds: float) -> Outage:
    """A lake with one export to this bucket, which goes away when the next is written."""
    exporting(world, to, latest=True)
    committed(world, NW, 1, 2)

    def is_delta(request: Request) -> bool:
        return request.bucket == to["bucket"] and request.method in ("PUT", "POST")

    return begin(is_delta, seconds)


@pytest.mark.usefixtures("spark")
def test_an_outage_shorter_than_the_pauses_fails_nothing(local_world: World, s3_proxy: S3Proxy, outage: Begin) -> None:
    begun = away(local_world, bucket_on(s3_proxy.s3), outage, 4.0)

    committed(local_world, NW, 1, 3)

    assert begun.begun
    assert local_world.totals(NW) == [1, 3]
    assert_sound(local_world)
    assert stored(local_world) == {uri for _, uri in visible(local_world)}


@pytest.mark.usefixtures("spark")
def test_an_outage_that_stays_is_one_error_and_the_next_run_exports_once(
    local_world: World, s3_proxy: S3Proxy, outage: Begin
) -> None:
    begun = away(local_world, bucket_on(s3_proxy.s3) | HURRIED, outage, 600)
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
    assert_sound(local_world)
    assert stored(local_world) == {uri for _, uri in visible(local_world)}
