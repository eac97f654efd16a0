"""Copies have the content of the listing or fail, and the store itself makes them where it can."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from dev.servers.azurite import AzureServer, azure
from dev.servers.s3 import S3Server
from lake_assets.config.storages import AnyStorage, AzureStorage, GcsStorage, LocalStorage, R2Storage, S3Storage
from lake_assets.errors import SourceChangedError
from lake_assets.storage import copying, server_copy
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.copying import copy_object
from lake_assets.storage.server_copy import Original, copy_in_gcs
from lake_assets.storage.store import Store
from lake_assets.storage.uploads import s3_client
from lake_assets_tests.world_fixtures import bucket_on, r2_bucket_on

__all__ = ["azure"]

KEY = "region=N W/ü+%41 x.parquet"
BODY = bytes(range(256)) * 1000


def land(storage: AnyStorage, body: bytes = BODY) -> Original:
    store = Store(storage)
    store.put_new(KEY, body, multipart_above=10 * 2**20)
    (landed,) = store.list()
    return Original(landed.key, landed.etag, landed.size)


def content(storage: AnyStorage, key: str) -> bytes:
    store = Store(storage)
    landed = store.find(key)
    assert landed is not None
    return store.get(key, landed.etag).to_bytes()


def change(storage: AnyStorage) -> None:
    with ArrowStore(storage).create(KEY) as sink:
        sink.write(BODY[::-1])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[LocalStorage, LocalStorage]:
    for name in ("landing", "lake"):
        (tmp_path / name).mkdir()
    return LocalStorage(path=str(tmp_path / "landing")), LocalStorage(path=str(tmp_path / "lake"))


@pytest.fixture(params=["s3", "r2", "azure-key", "azure-signature"])
def buckets(request: pytest.FixtureRequest) -> tuple[AnyStorage, AnyStorage]:
    """Two buckets of one server."""
    if request.param.startswith("azure"):
        server: AzureServer = request.getfixturevalue("azure")
        is_key = request.param == "azure-key"
        credential = server.connection_string if is_key else server.signed_connection_string
        place = {"prefix": "a prefix", "connection_string": credential}
        landing, lake = (AzureStorage.model_validate(place | {"container": server.new_container()}) for _ in range(2))
        return landing, lake
    s3: S3Server = request.getfixturevalue("s3")
    if request.param == "r2":
        return R2Storage.model_validate(r2_bucket_on(s3)), R2Storage.model_validate(r2_bucket_on(s3))
    return S3Storage.model_validate(bucket_on(s3)), S3Storage.model_validate(bucket_on(s3))


@pytest.fixture
def no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a store may copy."""

    def fail(*_: Any) -> None:
        raise AssertionError("bytes pass through this process")

    monkeypatch.setattr(copying, "_copy_bytes", fail)


@pytest.mark.usefixtures("no_bytes")
def test_the_store_makes_the_copy(buckets: tuple[AnyStorage, AnyStorage]) -> None:
    landing, lake = buckets

    copy_object(landing, land(landing), lake, "main/t/a=1/copy.parquet")

    assert content(lake, "main/t/a=1/copy.parquet") == BODY


@pytest.mark.usefixtures("no_bytes")
def test_a_changed_original_is_not_copied(buckets: tuple[AnyStorage, AnyStorage]) -> None:
    landing, lake = buckets
    original = land(landing)
    change(landing)

    with pytest.raises(SourceChangedError, match="changed while its partition was being read"):
        copy_object(landing, original, lake, "copy.parquet")

    assert Store(lake).list() == ()


@pytest.mark.usefixtures("no_bytes")
def test_a_large_object_is_copied_in_parts(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_copy, "WHOLE", 6 * 2**20)
    monkeypatch.setattr(server_copy, "PART", 5 * 2**20)
    landing, lake = (S3Storage.model_validate(bucket_on(s3)) for _ in range(2))
    body = BODY * 50
    original = land(landing, body)
    assert original.size > 2 * server_copy.PART

    copy_object(landing, original, lake, "copy.parquet")
    assert content(lake, "copy.parquet") == body
    change(landing)
    with pytest.raises(SourceChangedError):
        copy_object(landing, original, lake, "other.parquet")

    assert [landed.key for landed in Store(lake).list()] == ["copy.parquet"]
    uploads = s3.client().list_multipart_uploads(Bucket=lake.bucket)
    assert not uploads.get("Uploads")


def test_metadata_and_tags_stay_behind(s3: S3Server) -> None:
    landing, lake = (S3Storage.model_validate(bucket_on(s3)) for _ in range(2))
    client, key = s3.client(), f"{landing.prefix}/{KEY}"
    client.put_object(Bucket=landing.bucket, Key=key, Body=BODY, Metadata={"owner": "them"}, Tagging="delete=soon")
    (landed,) = Store(landing).list()

    copy_object(landing, Original(landed.key, landed.etag, landed.size), lake, "copy.parquet")

    place = {"Bucket": lake.bucket, "Key": f"{lake.prefix}/copy.parquet"}
    assert client.head_object(**place)["Metadata"] == {}
    assert client.get_object_tagging(**place)["TagSet"] == []


def test_keys_that_may_not_read_the_original_copy_its_bytes(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    landing, lake = (S3Storage.model_validate(bucket_on(s3)) for _ in range(2))
    key_id, secret = s3.narrow["lister"]
    real: Callable[..., Any] = s3_client
    narrow = S3Storage.model_validate(lake.model_dump() | {"key_id": key_id, "secret": secret})
    monkeypatch.setattr(server_copy, "s3_client", lambda _, **options: real(narrow, **options))
    monkeypatch.setattr(copying, "CHUNK", 100_000)  # several, and a rest
    original = land(landing)

    copy_object(landing, original, lake, "copy.parquet")
    assert content(lake, "copy.parquet") == BODY
    change(landing)

    with pytest.raises(SourceChangedError):
        copy_object(landing, original, lake, "other.parquet")


def test_bytes_pass_between_a_folder_and_a_bucket(s3: S3Server, folders: tuple[LocalStorage, LocalStorage]) -> None:
    landing, _ = folders
    lake = S3Storage.model_validate(bucket_on(s3))

    copy_object(landing, land(landing), lake, "copy.parquet")

    assert content(lake, "copy.parquet") == BODY


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

    copy_object(landing, original, lake, "a/copy.parquet")

    path, copy = Path(landing.path, KEY), Path(lake.path, "a/copy.parquet")
    assert copy.read_bytes() == BODY
    with path.open("r+b") as file:
        file.write(b"changed")
    assert copy.read_bytes() == BODY
    with pytest.raises(SourceChangedError):
        copy_object(landing, original, lake, "a/other.parquet")


def test_a_file_that_changes_while_it_is_copied(
    folders: tuple[LocalStorage, LocalStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    landing, lake = folders
    original = land(landing)
    fill = copying.fill

    def fill_and_change(file: int, target: int, size: int) -> None:
        fill(file, target, size)
        with Path(landing.path, KEY).open("r+b") as other:
            other.write(b"changed")

    monkeypatch.setattr(copying, "fill", fill_and_change)

    with pytest.raises(SourceChangedError):
        copy_object(landing, original, lake, "copy.parquet")


def test_a_hard_link_only_if_files_never_change(folders: tuple[LocalStorage, LocalStorage]) -> None:
    landing, lake = folders
    original = land(landing)

    copy_object(landing, original, lake, "link.parquet", may_link=True)
    copy_object(landing, original, lake, "copy.parquet")

    inode = Path(landing.path, KEY).stat().st_ino
    assert Path(lake.path, "link.parquet").stat().st_ino == inode
    assert Path(lake.path, "copy.parquet").stat().st_ino != inode


@pytest.mark.parametrize(("status", "result"), [(200, True), (403, False), (412, None)])
def test_google_is_asked_as_its_manual_says(monkeypatch: pytest.MonkeyPatch, status: int, result: bool | None) -> None:
    """No server here plays Google: the request is compared with the manual, and the answers are made up."""
    asked: list[tuple[str, str, dict[str, str]]] = []

    def answer(method: str, url: str, headers: dict[str, str], **_: Any) -> requests.Response:
        asked.append((method, url, headers))
        response = requests.Response()
        response.status_code = status
        return response

    monkeypatch.setattr(server_copy.requests, "request", answer)  # type: ignore[attr-defined]
    monkeypatch.setattr(server_copy, "_google_token", lambda _: "token")
    landing, lake = (GcsStorage(bucket=name, prefix="a b") for name in ("landing", "lake"))
    changed = Store(landing).changed(KEY)

    if result is None:
        with pytest.raises(SourceChangedError):
            copy_in_gcs(landing, Original(KEY, "etag", 7), lake, "copy.parquet", changed)
    else:
        assert copy_in_gcs(landing, Original(KEY, "etag", 7), lake, "copy.parquet", changed) is result

    ((method, url, headers),) = asked
    assert (method, url) == ("PUT", "https://storage.googleapis.com/lake/a%20b/copy.parquet")
    assert headers["x-goog-copy-source"] == "landing/a%20b/region%3DN%20W/%C3%BC%2B%2541%20x.parquet"
    assert headers["x-goog-copy-source-if-match"] == '"etag"'
    assert headers["Authorization"] == "Bearer token"
