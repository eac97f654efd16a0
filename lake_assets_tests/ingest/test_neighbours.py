"""Partitions of a run whose folders are neighbours in a bucket: few requests list them, and what changes is seen."""

import datetime as dt
from collections.abc import Sequence

import pytest

from dev.servers.proxy import S3Proxy
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.ingest.replace.replace_run import StreamSteps
from lake_assets.lake.commit import direct
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task.job import DataFile
from lake_assets.storage.store import Store
from lake_assets_tests.faults.test_storage_lost import errors_of
from lake_assets_tests.world import World, sales
from lake_assets_tests.world_fixtures import bucket_on

TEXTS = [f"region=NW,date={dt.date(2026, 2, 1) + dt.timedelta(days)}" for days in range(40)]


@pytest.mark.servers
def test_few_requests_list_the_neighbours_of_a_run_and_see_what_has_changed(
    local_world: World, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.source, local_world.storage = bucket_on(s3_proxy.s3), bucket_on(s3_proxy.s3)
    for number, text in enumerate(TEXTS):
        local_world.land(text, sales(number))
    verify, changes = StreamSteps.verify, iter([(5, sales(5.5), "batch_1.parquet"), (6, sales(6.5), "new.parquet")])

    def late(steps: StreamSteps, runs: Sequence[PartitionRun]) -> None:
        for number, rows, name in changes:
            local_world.land(TEXTS[number], rows, name)
        verify(steps, runs)

    monkeypatch.setattr(StreamSteps, "verify", late)
    s3_proxy.forget()
    errors = errors_of(local_world, *TEXTS)
    requests = s3_proxy.requests()

    assert errors == [None] * len(TEXTS)
    # The object that landed during the run is for the next one.
    assert local_world.totals() == sorted([*range(5), 5.5, *range(6, len(TEXTS))])
    looks = [request for request in requests if request.method == "HEAD" or not request.key]
    assert len(looks) < len(TEXTS) / 2
    assert errors_of(local_world, *TEXTS) == [None] * len(TEXTS)
    assert local_world.totals() == sorted([*range(5), 5.5, *range(6, len(TEXTS)), 6.5])


@pytest.mark.servers
def test_a_written_file_that_is_lost_among_its_neighbours_is_not_registered(
    local_world: World, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.source, local_world.storage = bucket_on(s3_proxy.s3), bucket_on(s3_proxy.s3)
    check = direct._check_stored

    def late(session: LakeSession, files: Sequence[DataFile]) -> None:
        store = Store(session.config.own_storage)
        for key in (file.uri.removeprefix(f"{store.root}/") for file in files[7:8]):
            store.put_own(f"{key}.part", bytes(files[7].size), multipart_above=2**20)  # another one of that size
            store.delete((key,))
        check(session, files)

    monkeypatch.setattr(direct, "_check_stored", late)
    for number, text in enumerate(TEXTS):
        local_world.land(text, sales(number))

    errors = errors_of(local_world, *TEXTS)
    assert [number for number, error in enumerate(errors) if error is not None] == [7]
    assert "is gone" in str(errors[7])
    assert local_world.totals() == sorted({*range(len(TEXTS))} - {7})
