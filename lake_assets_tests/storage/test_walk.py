"""Listing in the order of the keys, from any key on: folders and real buckets alike."""

import pytest

from lake_assets.base.errors import KeyOrderError, StorageError
from lake_assets.config.storages import AnyStorage, LocalStorage, R2Storage, S3Storage
from lake_assets.storage.overlapping import listing_position
from lake_assets.storage.store import Store
from lake_assets_tests.storage.test_store import fill

KEYS = sorted(
    [
        "a-b/c.parquet",
        "a/b/c.parquet",
        "a/b.parquet",
        "a/x.parquet",
        "a0.parquet",
        "b.parquet",
        "region=N%2FA x/date=2026-02-11/a.parquet",
        "region=NW/_SUCCESS",
        "region=NW/date=2026-02-11/a.parquet",
        "region=NW/date=2026-02-110/a.parquet",
        "region=ünïcode/date=2026-02-11/a.parquet",
    ]
)


def listed(store: Store, prefix: str = "", after: str = "") -> list[str]:
    tree = isinstance(store.storage, S3Storage | R2Storage)  # SeaweedFS goes folder by folder
    return [landed.key for page in store.pages(prefix, after, tree=tree) for landed in page]


def sorts(store: Store, key: str) -> str:
    return listing_position(key, tree=not isinstance(store.storage, LocalStorage))


def test_keys_come_in_their_order_from_any_text_on(storage: AnyStorage) -> None:
    store = fill(storage, *KEYS)

    for after in ["", *KEYS, "a", "a/", "a/b", "a/b/", "a0", "region=NW/", "region=NW/date=2026-02-11", "z"]:
        expected = [key for key in KEYS if sorts(store, key) > sorts(store, after)]
        assert listed(store, after=after) == sorted(expected, key=lambda key: sorts(store, key)), after


def test_a_prefix_is_a_folder(storage: AnyStorage) -> None:
    store = fill(storage, *KEYS)

    assert sorted(listed(store, "a/")) == ["a/b.parquet", "a/b/c.parquet", "a/x.parquet"]
    assert listed(store, "region=NW/", "region=NW/date=2026-02-11/a") == [
        "region=NW/date=2026-02-11/a.parquet",
        "region=NW/date=2026-02-110/a.parquet",
    ]
    assert listed(store, "none/") == []


def test_a_prefix_may_be_the_beginning_of_names(storage: AnyStorage) -> None:
    names = [f"in/{name}.parquet" for name in ("sales-1", "sales-2", "sales-2/x", "sales", "stock-2")]
    store = fill(storage, *KEYS, *names)

    prefixes = [f"in/{name}" for name in ("s", "sales", "sales-", "sales-2", "sales-2.parquet", "sales-3", "t")]
    for prefix in (*prefixes, "a", "a0"):
        expected = sorted(key for key in (*KEYS, *names) if key.startswith(prefix))
        assert sorted(listed(store, prefix)) == expected, prefix
        found = [landed.key for landed in store.all(prefix, hides=lambda _: False)]
        assert found == expected, prefix
    assert sorted(listed(store, "in/sales-", "in/sales-1.parquet")) == ["in/sales-2.parquet", "in/sales-2/x.parquet"]


def test_folders_are_those_right_below(storage: AnyStorage) -> None:
    store = fill(storage, *KEYS)

    assert store.folders() == ("a", "a-b", "region=N%2FA x", "region=NW", "region=ünïcode")
    assert store.folders("region=NW/") == ("region=NW/date=2026-02-11", "region=NW/date=2026-02-110")
    assert store.folders("none/") == ()


def test_an_object_has_the_same_etag_until_it_is_written_again(storage: AnyStorage) -> None:
    store = fill(storage, "a/b.parquet", "a/c.parquet")
    before = {landed.key: landed.etag for page in store.pages() for landed in page}
    Store(storage).delete(("a/b.parquet",))
    fill(storage, "a/b.parquet/d")  # other bytes, and in a folder another file
    after = {landed.key: landed.etag for page in store.pages() for landed in page}

    assert {landed.key: landed.etag for landed in Store(storage).all(hides=lambda _: False)} == after
    assert after["a/c.parquet"] == before["a/c.parquet"]
    assert before["a/b.parquet"] not in after.values()


def test_a_store_that_lists_in_another_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    page: list[object] = [{"path": key, "e_tag": "a", "size": 1, "last_modified": None} for key in ("b", "a")]
    monkeypatch.setattr("lake_assets.storage.bucket.obstore.list", lambda *_, **__: iter([page]))
    store = Store(S3Storage(bucket="bucket", anonymous=True))

    with pytest.raises(StorageError, match="general purpose bucket"):
        list(store.pages(tree=True))
    with pytest.raises(KeyOrderError):
        list(store.pages())
