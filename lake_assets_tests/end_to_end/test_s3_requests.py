"""What a run asks of S3, counted by a proxy before the real server."""

import pytest

from dev.servers.proxy import S3Proxy
from lake_assets.base.errors import StorageError
from lake_assets.storage.store import Store
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["sessions"]


@pytest.fixture
def s3_world(local_world: World, s3_proxy: S3Proxy) -> World:
    """Landing zone and lake on S3, behind the proxy."""
    local_world.source, local_world.storage = bucket_on(s3_proxy.s3), bucket_on(s3_proxy.s3)
    return local_world


def landing_requests(world: World, proxy: S3Proxy) -> list[tuple[str, str]]:
    """Method and key, or the prefix of a listing, of each request to the landing bucket."""
    return [
        (r.method, r.key or f"list {r.query.get('prefix')}")
        for r in proxy.requests()
        if r.bucket == world.source["bucket"]
    ]


def test_only_the_target_partition_is_listed_and_read(s3_world: World, s3_proxy: S3Proxy) -> None:
    for text in (NW, SW, "region=NW,date=2026-02-12", "region=NWX,date=2026-02-11"):
        for name in ("a.parquet", "b.parquet"):
            s3_world.land(text, sales(1, 2), name)
    s3_world.ingest(SW)
    s3_proxy.forget()

    s3_world.ingest(NW)

    folder = "some/prefix/region=NW/date=2026-02-11/"
    asked = landing_requests(s3_world, s3_proxy)
    # A listing before and one after the job, to see that nothing moved; one request for each small object.
    assert sorted(asked) == [
        ("GET", f"list {folder}"),
        ("GET", f"list {folder}"),
        ("GET", f"{folder}a.parquet"),
        ("GET", f"{folder}b.parquet"),
    ]


@pytest.mark.more
def test_a_partition_of_a_flat_folder_is_listed_by_the_beginning_of_its_names(
    s3_world: World, s3_proxy: S3Proxy
) -> None:
    s3_world.options = {"files": "sales_{date}_{region}_*.parquet"}
    for text in (NW, SW, "region=NWX,date=2026-02-11", "region=NW,date=2026-02-12"):
        s3_world.land(text, sales(1), "a")
    for key in ("returns_1", *(f"stock_{number}" for number in range(1000))):  # these need a page of their own
        s3_proxy.s3.put(s3_world.source["bucket"], f"some/prefix/{key}.parquet", b"")
    s3_world.ingest(SW)
    s3_proxy.forget()

    s3_world.ingest(NW)

    asked = [r for r in s3_proxy.requests() if r.bucket == s3_world.source["bucket"]]
    name = "some/prefix/sales_2026-02-11_NW_"
    assert [r.key for r in asked if r.key] == [f"{name}a.parquet"]
    listings = [r.query for r in asked if not r.key]
    assert len(listings) == 2  # before and after the job, each one page of all that follows
    assert all(name[:-2] < query["start-after"] < name for query in listings)


def test_an_unchanged_partition_costs_one_listing(s3_world: World, s3_proxy: S3Proxy) -> None:
    s3_world.commit(NW, 1, 2)
    s3_proxy.forget()

    s3_world.ingest(NW)

    assert landing_requests(s3_world, s3_proxy) == [("GET", "list some/prefix/region=NW/date=2026-02-11/")]
    assert [r for r in s3_proxy.requests() if r.bucket == s3_world.storage["bucket"] and r.method != "GET"] == []


@pytest.mark.parametrize("policy", ["never", *more(["always"])])
def test_a_commit_writes_new_files_of_the_partition_and_reads_none_of_them(
    s3_world: World, s3_proxy: S3Proxy, policy: str
) -> None:
    s3_world.options = {"copy": policy}
    s3_world.commit(NW, 1, 2)
    s3_world.land(NW, sales(3))
    s3_proxy.forget()

    row = s3_world.ingest(NW).row

    asked = [r for r in s3_proxy.requests() if r.bucket == s3_world.storage["bucket"]]
    read = [r for r in s3_proxy.requests("GET") if r.bucket == s3_world.source["bucket"] and r.key]
    assert sorted(r.method for r in asked) == ["HEAD", "PUT"]
    assert len({r.key for r in asked}) == 1
    assert asked[0].key.startswith(f"some/prefix/main/sales/region=NW/date=2026-02-11/{row.run_id}-")
    assert len(read) == 1  # of a small object, for all that is asked of it
    assert s3_world.totals() == [3]


def replaced_often(world: World) -> list[str]:
    """Commit two partitions three times each; the data files that no snapshot needs once the old ones have expired."""
    for total in (1, 2, 3):
        for text in (NW, SW):
            world.commit(text, total)
    root = world.config.lakes["test"].own_storage.root
    return sorted({f"{root}/{key}" for key in world.data_files()} - set(world.live_files()))


@pytest.mark.more
def test_all_files_that_are_cleaned_up_are_deleted_by_one_request(s3_world: World, s3_proxy: S3Proxy) -> None:
    old = replaced_often(s3_world)
    s3_proxy.forget()

    done = s3_world.tidy(30)

    assert len(old) == 4
    assert sorted(done.cleaned.deleted) == old
    assert [(r.method, r.query) for r in s3_proxy.requests() if r.method != "GET"] == [("POST", {"delete": ""})]


@pytest.mark.more
def test_what_was_not_deleted_is_deleted_by_the_next_run(s3_world: World, s3_proxy: S3Proxy) -> None:
    old, owner = replaced_often(s3_world), s3_world.storage
    key_id, secret = s3_proxy.s3.narrow["reader"]
    s3_world.storage = owner | {"key_id": key_id, "secret": secret}

    with pytest.raises(StorageError, match=r"[0-9a-f]\.parquet was not deleted .*: grant s3:DeleteObject"):
        s3_world.tidy(30)

    s3_world.storage = owner
    key = old[0].removeprefix(f"{s3_world.config.lakes['test'].own_storage.root}/")
    Store(s3_world.config.lakes["test"].own_storage).delete((key,))  # as an earlier run that was killed
    assert sorted(s3_world.tidy(30).cleaned.deleted) == old
    assert len(s3_world.data_files()) == 2
