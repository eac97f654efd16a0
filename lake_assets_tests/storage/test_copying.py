"""Copies have the content of the listing or fail, and the store itself makes them where it can."""

import os
from pathlib import Path
from typing import Any

import pytest

from dev.servers.azurite import AzureServer
from dev.servers.s3 import S3Server
from lake_assets.base.errors import SourceChangedError
from lake_assets.config.storages import AnyStorage, AzureStorage, LocalStorage, R2Storage, S3Storage
from lake_assets.storage import folder, store
from lake_assets.storage import s3 as by_boto
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets_tests.tiers import more
from lake_assets_tests.world_fixtures import bucket_on, r2_bucket_on

KEY = "region=N W/ü+%41 x.parquet"
BODY = bytes(range(256)) * 1000


def land(storage: AnyStorage, body: bytes = BODY) -> LandedObject:
    store = Store(storage)
    store.put_new(KEY, body, multipart_above=10 * 2**20)
    if isinstance(storage, LocalStorage):
        os.utime(Path(storage.path, KEY), (1, 1))  # so that any change has another time
    (landed,) = store.list()
    return landed


def content(storage: AnyStorage, key: str) -> bytes:
    store = Store(storage)
    landed = store.find(key)
    assert landed is not None
    return bytes(store.get(key, landed.etag))


def change(storage: AnyStorage) -> None:
    with Store(storage).create(KEY) as sink:
        sink.write(BODY[::-1])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[LocalStorage, LocalStorage]:
    for name in ("landing", "lake"):
        (tmp_path / name).mkdir()
    return LocalStorage(path=str(tmp_path / "landing")), LocalStorage(path=str(tmp_path / "lake"))


BY_THE_STORE = ["s3", *more(["r2", "in parts"])]
BYTE_BY_BYTE = ["from a folder", *more(["no right to read", "azure key", "azure signature"])]


@pytest.fixture
def places(
    request: pytest.FixtureRequest, s3: S3Server, azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[AnyStorage, AnyStorage]:
    """A landing zone and a lake, between which objects are copied in the way that the test's parameter names."""
    match request.param:
        case "r2":
            return R2Storage.model_validate(r2_bucket_on(s3)), R2Storage.model_validate(r2_bucket_on(s3))
        case "azure key" | "azure signature" as kind:
            credential = azure.connection_string if kind == "azure key" else azure.signed_connection_string
            place = {"prefix": "a prefix", "connection_string": credential}
            landing, lake = (
                AzureStorage.model_validate(place | {"container": azure.new_container()}) for _ in range(2)
            )
            return landing, lake
        case "from a folder":
            return LocalStorage(path=str(tmp_path)), S3Storage.model_validate(bucket_on(s3))
    buckets = S3Storage.model_validate(bucket_on(s3)), S3Storage.model_validate(bucket_on(s3))
    if request.param == "in parts":
        monkeypatch.setattr(by_boto, "COPIED_WHOLE", 6 * 2**20)
        monkeypatch.setattr(by_boto, "PART", 5 * 2**20)
    if request.param == "no right to read":
        key_id, secret = s3.narrow["lister"]
        narrow = S3Storage.model_validate(buckets[1].model_dump() | {"key_id": key_id, "secret": secret})
        real = by_boto.S3Bucket(narrow)
        monkeypatch.setattr(by_boto, "_client", lambda _, seconds=0: real.as_boto(seconds=seconds))
        monkeypatch.setattr(store, "CHUNK", 100_000)  # several, and a rest
    return buckets


def copies(places: tuple[AnyStorage, AnyStorage], body: bytes) -> None:
    """Copy an object, and none that has changed meanwhile."""
    landing, lake = places
    original = land(landing, body)

    Store(lake).copy(landing, original, "main/t/a=1/copy.parquet")
    assert content(lake, "main/t/a=1/copy.parquet") == body
    change(landing)
    with pytest.raises(SourceChangedError, match="changed while its partition was being read"):
        Store(lake).copy(landing, original, "other.parquet")


@pytest.mark.parametrize("places", BY_THE_STORE, indirect=True)
def test_the_store_makes_the_copy_and_none_of_a_changed_original(
    places: tuple[AnyStorage, AnyStorage], s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("bytes pass through this process")

    monkeypatch.setattr(Store, "_copy_bytes", fail)

    copies(places, BODY * 50)

    lake: Any = places[1]
    assert [landed.key for landed in Store(lake).list()] == ["main/t/a=1/copy.parquet"]
    assert not s3.client().list_multipart_uploads(Bucket=lake.bucket).get("Uploads")


@pytest.mark.parametrize("places", BYTE_BY_BYTE, indirect=True)
def test_bytes_pass_where_the_store_cannot_copy_and_none_of_a_changed_original(
    places: tuple[AnyStorage, AnyStorage],
) -> None:
    copies(places, BODY)


@pytest.mark.more
def test_metadata_and_tags_stay_behind(s3: S3Server) -> None:
    landing, lake = (S3Storage.model_validate(bucket_on(s3)) for _ in range(2))
    client, key = s3.client(), f"{landing.prefix}/{KEY}"
    client.put_object(Bucket=landing.bucket, Key=key, Body=BODY, Metadata={"owner": "them"}, Tagging="delete=soon")
    (landed,) = Store(landing).list()

    Store(lake).copy(landing, landed, "copy.parquet")

    place = {"Bucket": lake.bucket, "Key": f"{lake.prefix}/copy.parquet"}
    assert client.head_object(**place)["Metadata"] == {}
    assert client.get_object_tagging(**place)["TagSet"] == []


@pytest.mark.parametrize("in_kernel", [True, False])
def test_a_file_is_a_file_of_its_own(
    folders: tuple[LocalStorage, LocalStorage], monkeypatch: pytest.MonkeyPatch, *, in_kernel: bool
) -> None:
    landing, lake = folders
    if not in_kernel:

        def refuse(*_: Any) -> int:
            raise OSError(18, "another file system")

        monkeypatch.setattr("os.copy_file_range", refuse)
    original = land(landing)

    Store(lake).copy(landing, original, "a/copy.parquet")

    path, copy = Path(landing.path, KEY), Path(lake.path, "a/copy.parquet")
    assert copy.read_bytes() == BODY
    with path.open("r+b") as file:
        file.write(b"changed")
    assert copy.read_bytes() == BODY
    with pytest.raises(SourceChangedError):
        Store(lake).copy(landing, original, "a/other.parquet")


def test_a_file_that_changes_while_it_is_copied(
    folders: tuple[LocalStorage, LocalStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    landing, lake = folders
    original = land(landing)
    fill = folder.fill

    def fill_and_change(file: int, target: int, size: int) -> None:
        fill(file, target, size)
        with Path(landing.path, KEY).open("r+b") as other:
            other.write(b"changed")

    monkeypatch.setattr(folder, "fill", fill_and_change)

    with pytest.raises(SourceChangedError):
        Store(lake).copy(landing, original, "copy.parquet")


def test_a_hard_link_only_if_files_never_change(folders: tuple[LocalStorage, LocalStorage]) -> None:
    landing, lake = folders
    original = land(landing)

    Store(lake).copy(landing, original, "link.parquet", may_link=True)
    Store(lake).copy(landing, original, "copy.parquet")

    inode = Path(landing.path, KEY).stat().st_ino
    assert Path(lake.path, "link.parquet").stat().st_ino == inode
    assert Path(lake.path, "copy.parquet").stat().st_ino != inode
