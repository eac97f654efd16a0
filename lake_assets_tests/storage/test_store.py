from pathlib import Path

import pytest

from dev.servers.s3 import S3Server
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.errors import SourceChangedError, StorageError
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets_tests.world_fixtures import bucket_on

KEYS = [
    "region=NW/date=2026-02-11/b.parquet",
    "region=NW/date=2026-02-11/a.parquet",
    "region=N%2FA x/date=2026-02-11/a.parquet",
    "region=ünïcode/date=2026-02-11/a.parquet",
    "region=NW/date=2026-02-110/a.parquet",
]


def fill(storage: AnyStorage, *keys: str) -> Store:
    for key in keys:
        with ArrowStore(storage).create(key) as file:
            file.write(key.encode())
    return Store(storage)


def test_a_listing_is_the_folders_objects_sorted_with_etag_and_size(storage: AnyStorage) -> None:
    store = fill(storage, *KEYS)

    objects = store.list("region=NW/date=2026-02-11/")

    assert [obj.key for obj in objects] == [KEYS[1], KEYS[0]]
    assert all(item.etag and '"' not in item.etag for item in objects)
    assert [o.size for o in objects] == [len(KEYS[1]), len(KEYS[0])]
    assert all(o.uri == store.uri(o.key) == ArrowStore(storage).uri(o.key) for o in objects)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ("*.parquet", ["a.parquet", "in/a.parquet", "in/x/b.parquet", "in/x/y/b.parquet"]),
        ("/*.parquet", ["a.parquet"]),
        ("in/*.parquet", ["in/a.parquet"]),
        ("/in/**/*.parquet", ["in/a.parquet", "in/x/b.parquet", "in/x/y/b.parquet"]),
        ("**/b.*", ["in/x/b.parquet", "in/x/y/b.parquet"]),
        ("/**/x/**/b.parquet", ["in/x/b.parquet", "in/x/y/b.parquet"]),
        ("/*/?/*", ["in/x/b.parquet"]),
        ("/i[mn]/*", ["in/a.parquet"]),
        ("/a.parquet", ["a.parquet"]),
        ("/in", []),
        ("/in/x/**", []),
    ],
)
def test_a_pattern_with_a_slash_is_of_the_whole_path(tmp_path: Path, files: str, found: list[str]) -> None:
    keys = ["a.parquet", "in/a.parquet", "in/x/b.parquet", "in/x/y/b.parquet", "_in/x/b.parquet", "in/_b.parquet"]
    store = fill(LocalStorage(path=str(tmp_path)), *keys)

    assert [obj.key for obj in store.list(files=files)] == found


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_read_as_it_was_listed(storage: AnyStorage, key: str) -> None:
    store = fill(storage, *KEYS)
    (listed,) = (obj for obj in store.list() if obj.key == key)

    assert bytes(store.get(key, listed.etag)) == key.encode()


def test_an_object_that_is_not_the_listed_one_is_refused(storage: AnyStorage) -> None:
    store = fill(storage, "a.parquet")
    etag = store.list()[0].etag
    with ArrowStore(storage).create("a.parquet") as file:
        file.write(b"another")
    with pytest.raises(SourceChangedError, match=r"a\.parquet changed while"):
        store.get("a.parquet", etag)
    store.delete(("a.parquet",))
    with pytest.raises(SourceChangedError, match=r"a\.parquet changed while"):
        store.get("a.parquet", etag)


def test_hidden_and_other_files_are_not_data(storage: AnyStorage) -> None:
    store = fill(storage, "d=1/_SUCCESS.parquet", "d=1/.x.parquet", "d=1/_tmp/a.parquet", "d=1/a.csv", "d=1/b.parquet")

    assert [obj.key for obj in store.list("d=1/", "*.parquet")] == ["d=1/b.parquet"]


def test_a_folder_that_is_not_there_is_empty(storage: AnyStorage) -> None:
    assert fill(storage, *KEYS).list("region=XX/date=2026-02-11/") == ()


def test_many_objects_are_deleted_though_some_are_gone(storage: AnyStorage) -> None:
    keys = [f"region=N&<{n:02}> x/ü.parquet" for n in range(40)]
    store = fill(storage, *keys, "a.parquet")
    store.delete(tuple(keys[5:8]))
    store.delete(())

    store.delete((*keys, "never/there.parquet"))

    assert [obj.key for obj in store.list()] == ["a.parquet"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"the folder .*nowhere does not exist: create it"):
        Store(LocalStorage(path=str(tmp_path / "nowhere"))).list()


def test_a_missing_bucket_is_named(s3: S3Server) -> None:
    storage = S3Storage.model_validate(bucket_on(s3) | {"bucket": "not-there"})

    with pytest.raises(StorageError, match=r"the bucket 'not-there' does not exist"):
        Store(storage).list()


def test_a_wrong_key_is_an_error_without_the_secret(s3: S3Server) -> None:
    storage = S3Storage.model_validate(bucket_on(s3) | {"secret": "hunter2hunter2"})

    with pytest.raises(StorageError, match="refuses access: check key_id and secret") as raised:
        Store(storage).list()
    assert "hunter2" not in str(raised.value)
