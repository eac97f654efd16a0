"""Deleting an object only if it is still the one that was seen."""

import os
from pathlib import Path

import pytest

from dev.servers.proxy import Request, Rule, S3Proxy
from dev.servers.s3 import S3Server
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.errors import StorageError, StorageUnreachableError
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets_tests.storage.conftest import SERVERS, STORAGES
from lake_assets_tests.world_fixtures import bucket_on

KEY = "region=N%2FA x/ü?&=+~#'.parquet"


def put(storage: AnyStorage, text: str, key: str = KEY) -> LandedObject:
    with ArrowStore(storage).create(key) as file:
        file.write(text.encode())
    if isinstance(storage, LocalStorage):  # the clock of a file system may stand still between two writes
        os.utime(Path(storage.path, key), ns=(int.from_bytes(text.encode()) * 1000,) * 2)
    result = Store(storage).find(key)
    assert result is not None
    return result


@pytest.mark.parametrize(
    "storage",
    [*STORAGES, pytest.param("azure", marks=SERVERS)],
    indirect=True,
)
def test_the_very_object_goes_and_another_stays(storage: AnyStorage) -> None:
    store, key = Store(storage), KEY.replace("?", "") if storage.type == "azure" else KEY
    before = put(storage, "one", key)
    assert store.list() == (before,)  # what is compared comes from a listing
    now = put(storage, "two", key)

    assert not store.delete_unchanged(key, before.etag, before.size)
    assert not store.delete_unchanged(key, now.etag, now.size + 1)
    assert store.find(key) == now
    assert store.delete_unchanged(key, now.etag, now.size)
    assert store.find(key) is None
    assert store.delete_unchanged(key, now.etag, now.size)  # gone already


@pytest.fixture
def bucket(s3_proxy: S3Proxy) -> S3Storage:
    return S3Storage.model_validate(bucket_on(s3_proxy.s3) | {"requests": {"first_wait": 0.02, "longest_wait": 0.03}})


def deletion(request: Request) -> bool:
    return request.method == "DELETE"


def test_an_object_that_lands_before_the_deletion_stays(bucket: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    before = put(bucket, "one")
    monkeypatch.setattr(Store, "find", lambda *_: before)
    now = ArrowStore(bucket)
    with now.create(KEY) as file:
        file.write(b"two")

    assert not Store(bucket).delete_unchanged(KEY, before.etag, before.size)

    monkeypatch.undo()
    assert Store(bucket).find(KEY) is not None


def test_a_refusal_is_reported_and_a_server_without_the_condition_gets_a_plain_deletion(
    bucket: S3Storage, s3_proxy: S3Proxy
) -> None:
    before = put(bucket, "one")
    s3_proxy.inject(Rule("status", deletion, status=403))
    with pytest.raises(StorageError, match="refuses access"):
        Store(bucket).delete_unchanged(KEY, before.etag, before.size)
    assert Store(bucket).find(KEY) == before

    s3_proxy.inject(Rule("status", deletion, status=501))
    assert Store(bucket).delete_unchanged(KEY, before.etag, before.size)
    assert Store(bucket).find(KEY) is None
    assert [r.status for r in s3_proxy.requests("DELETE")] == [403, 501]


def test_a_deletion_whose_answer_is_lost_is_tried_again(bucket: S3Storage, s3_proxy: S3Proxy) -> None:
    before = put(bucket, "one")
    s3_proxy.inject(Rule("lose_answer", deletion, times=2))

    assert Store(bucket).delete_unchanged(KEY, before.etag, before.size)
    assert Store(bucket).find(KEY) is None


def test_a_fault_that_stays_is_an_error_without_the_signature(bucket: S3Storage, s3_proxy: S3Proxy) -> None:
    before = put(bucket, "one")
    bucket = S3Storage.model_validate(bucket.model_dump() | {"requests": {"retries": 1, "first_wait": 0.02}})
    s3_proxy.inject(Rule("hang_up", deletion, times=1000))

    with pytest.raises(StorageUnreachableError, match="no answer") as raised:
        Store(bucket).delete_unchanged(KEY, before.etag, before.size)

    error: BaseException | None = raised.value
    while error is not None:
        assert "Signature" not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert Store(bucket).find(KEY) == before


def test_keys_of_the_credential_chain_sign_too(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    place = bucket_on(s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", place.pop("key_id"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", place.pop("secret"))
    storage = S3Storage.model_validate(place)
    before = put(storage, "one")

    assert Store(storage).delete_unchanged(KEY, before.etag, before.size)
    assert Store(storage).find(KEY) is None
