"""Folders that are neighbours in a bucket: one listing has the objects of many of them, and few requests are wasted."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dev.servers.proxy import Rule, S3Proxy
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.storage.overlapping import AT_ONCE, WORTH, listing_position, neighbours, passed
from lake_assets.storage.store import Store
from lake_assets_tests.storage.conftest import SERVERS, STORAGES
from lake_assets_tests.storage.test_store import fill
from lake_assets_tests.world_fixtures import bucket_on

DAYS = [f"region=NW/date=2026-02-{day:02}/" for day in range(1, 2 * AT_ONCE)]


def pages(keys: Sequence[str], size: int = 1000) -> Iterator[list[Any]]:
    return iter([[{"path": key} for key in keys[at : at + size]] for at in range(0, len(keys), size)])


def below(keys: Sequence[str], prefix: str) -> list[str]:
    return sorted(key for key in keys if key.startswith(prefix))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("tree", [False, True], ids=["keys", "tree"])
def test_a_common_listing_has_all_objects_of_what_it_has_passed(seed: int, *, tree: bool) -> None:
    numbers = random.Random(seed)
    folders = [f"{a}{b}{c}/" for a in "ab" for b in "-./0" for c in ("x", "y", "z.z")]
    wanted = sorted(numbers.sample(folders, 12))
    keys = {f"{numbers.choice(folders)}{numbers.choice('ab')}{n}" for n in range(numbers.choice([3, 40, 400]))}
    ordered = sorted(keys, key=lambda key: listing_position(key, tree=tree))
    if numbers.random() < 0.2:
        numbers.shuffle(ordered)  # as a directory bucket of S3

    found = passed(pages(ordered, numbers.choice([5, 50])), wanted)

    assert {prefix: sorted(o["path"] for o in objects) for prefix, objects in found.items()} == {
        prefix: below(ordered, prefix) for prefix in found
    }


def test_a_listing_ends_when_its_pages_pass_few_folders() -> None:
    crowded = [f"b/{number:05}" for number in range(100_000)]
    wanted = sorted([f"a{number:03}/" for number in range(2 * WORTH)] + ["b/", "c/"])
    read = 0

    def counted() -> Iterator[list[Any]]:
        nonlocal read
        for page in pages([f"{prefix}x" for prefix in wanted[:-2]] + crowded):
            read += 1
            yield page

    assert passed(counted(), wanted).keys() == set(wanted[:-2])
    assert read == 2


def test_folders_are_listed_together_where_many_are_in_one_or_more_around_it() -> None:
    dates = [f"date=2026-{number:04}/region={name}/" for number in range(AT_ONCE) for name in ("NW", "SW")]
    assert neighbours(DAYS) == [DAYS]
    assert neighbours([*dates, *DAYS]) == [DAYS, dates]
    assert neighbours(DAYS[: AT_ONCE - 1]) == neighbours(dates[:-1]) == []
    assert neighbours([*DAYS, "region=NW/"]) == neighbours([*DAYS, ""]) == []
    assert neighbours([f"/{day}" for day in DAYS]) == neighbours([day.replace("/", "//", 1) for day in DAYS]) == []


@pytest.mark.parametrize(
    "storage", [*STORAGES, pytest.param("azure", marks=[*SERVERS, pytest.mark.more])], indirect=True
)
def test_what_is_listed_together_is_what_each_folder_has(storage: AnyStorage) -> None:
    odd = [
        "region=NW/date=2026-02-020/a",
        "region=NW/date=2026-02-02-a",
        "region=NW/a b%20",
        "region=N/date=2026-02-02/a",
    ]
    store = fill(storage, *(f"{day}{name}.parquet" for day in DAYS[:-3] for name in ("a", "b/c")), *odd)

    together = store.together(DAYS)

    assert together == ({} if isinstance(storage, LocalStorage) else {d: store.all(d, hides=bool) for d in DAYS})


@pytest.mark.servers
def test_few_requests_list_neighbours_and_a_refusal_is_not_repeated(s3_proxy: S3Proxy) -> None:
    storage = S3Storage.model_validate(bucket_on(s3_proxy.s3))
    store = fill(storage, *(f"{day}a.parquet" for day in DAYS))
    s3_proxy.forget()
    assert store.together(DAYS).keys() == set(DAYS)
    assert len(s3_proxy.requests()) == 1
    for status in (403, 503):
        s3_proxy.forget()
        s3_proxy.inject(Rule("status", status=status))
        assert Store(storage).together(DAYS) == {}
        assert sum(request.status == status for request in s3_proxy.requests()) == 1
