"""Objects of a store are listed, read, written once and deleted if unchanged; a manifest has a fingerprint."""

import dataclasses
import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import LocalStore

from dev.servers.proxy import Request, Rule, S3Proxy
from dev.servers.s3 import S3Server
from lake_assets.base.errors import SourceChangedError, SourceError, StorageError, StorageUnreachableError
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.storage.manifest import LandedObject, Manifest, digest_of
from lake_assets.storage.store import Store
from lake_assets_tests.storage.conftest import SERVERS, STORAGES
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
        with Store(storage).create(key) as file:
            file.write(key.encode())
    return Store(storage)


def test_a_listing_is_the_folders_objects_sorted_with_etag_and_size(storage: AnyStorage) -> None:
    store = fill(storage, *KEYS)

    objects = store.list("region=NW/date=2026-02-11/")

    assert [obj.key for obj in objects] == [KEYS[1], KEYS[0]]
    assert all(item.etag and '"' not in item.etag for item in objects)
    assert [o.size for o in objects] == [len(KEYS[1]), len(KEYS[0])]
    assert all(o.uri == store.uri(o.key) == Store(storage).uri(o.key) for o in objects)


PATTERNS = {
    "*.parquet": ["a.parquet", "in/a.parquet", "in/x/b.parquet", "in/x/y/b.parquet"],
    "/*.parquet": ["a.parquet"],
    "in/*.parquet": ["in/a.parquet"],
    "/in/**/*.parquet": ["in/a.parquet", "in/x/b.parquet", "in/x/y/b.parquet"],
    "**/b.*": ["in/x/b.parquet", "in/x/y/b.parquet"],
    "/**/x/**/b.parquet": ["in/x/b.parquet", "in/x/y/b.parquet"],
    "/*/?/*": ["in/x/b.parquet"],
    "/i[mn]/*": ["in/a.parquet"],
    "/a.parquet": ["a.parquet"],
    "/in": [],
    "/in/x/**": [],
}


def test_a_pattern_with_a_slash_is_of_the_whole_path(tmp_path: Path) -> None:
    keys = ["a.parquet", "in/a.parquet", "in/x/b.parquet", "in/x/y/b.parquet", "_in/x/b.parquet", "in/_b.parquet"]
    store = fill(LocalStorage(path=str(tmp_path)), *keys)

    assert {files: [obj.key for obj in store.list(files=files)] for files in PATTERNS} == PATTERNS


def test_a_key_is_read_as_it_was_listed(storage: AnyStorage) -> None:
    store = fill(storage, *KEYS)

    assert {obj.key: bytes(store.get(obj.key, obj.etag)) for obj in store.list()} == {key: key.encode() for key in KEYS}


def test_an_object_that_is_not_the_listed_one_is_refused(storage: AnyStorage) -> None:
    store = fill(storage, "a.parquet")
    etag = store.list()[0].etag
    assert store.digest("a.parquet", etag) == digest_of(bytes(store.get("a.parquet", etag)))
    with Store(storage).create("a.parquet") as file:
        file.write(b"another")
    for read in (store.get, store.digest):
        with pytest.raises(SourceChangedError, match=r"a\.parquet changed while"):
            read("a.parquet", etag)
    store.delete(("a.parquet",))
    for read in (store.get, store.digest):
        with pytest.raises(SourceChangedError, match=r"a\.parquet changed while"):
            read("a.parquet", etag)


def test_hidden_and_other_files_are_not_data(storage: AnyStorage) -> None:
    store = fill(storage, "d=1/_SUCCESS.parquet", "d=1/.x.parquet", "d=1/_tmp/a.parquet", "d=1/a.csv", "d=1/b.parquet")

    assert [obj.key for obj in store.list("d=1/", "*.parquet")] == ["d=1/b.parquet"]
    assert store.list("d=2/") == ()


def test_many_objects_are_deleted_though_some_are_gone(storage: AnyStorage) -> None:
    keys = [f"region=N&<{n:02}> x/ü.parquet" for n in range(40)]
    store = fill(storage, *keys, "a.parquet")
    store.delete(tuple(keys[5:8]))
    store.delete(())

    store.delete((*keys, "never/there.parquet"))

    assert [obj.key for obj in store.list()] == ["a.parquet"]


def test_a_refusal_to_remove_one_object_leaves_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{number:02}.parquet" for number in range(40)]
    store, delete = fill(LocalStorage(path=str(tmp_path)), *keys), obstore.delete

    def refusing(client: LocalStore, paths: str | Sequence[str]) -> None:
        if keys[3] in ([paths] if isinstance(paths, str) else paths):
            raise PermissionDeniedError(
                f"Unable to delete file {tmp_path}/{keys[3]}: Operation not permitted (os error 1)"
            )
        delete(client, paths)

    monkeypatch.setattr(obstore, "delete", refusing)
    with pytest.raises(StorageError, match=r"03\.parquet"):
        store.delete(tuple(keys))

    assert [path.name for path in tmp_path.iterdir()] == [keys[3]]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"first")
    store = Store(LocalStorage(path=str(tmp_path)))
    (landed,) = store.list()
    assert bytes(store.get(landed.key, landed.etag)) == b"first"
    fstat = os.fstat

    def written_after_the_look(file: int) -> os.stat_result:
        status = fstat(file)
        path.write_bytes(b"second")
        return status

    monkeypatch.setattr(os, "fstat", written_after_the_look)
    with pytest.raises(SourceChangedError, match=r"a\.parquet changed while"):
        store.get(landed.key, landed.etag)


def test_a_pipe_is_no_object(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("n\n1\n")

    assert [obj.key for obj in Store(LocalStorage(path=str(tmp_path))).list()] == ["b.csv"]


@pytest.mark.parametrize("seconds", [-(2**31), -1, 0, 2**33])
def test_a_file_is_read_whatever_its_time_is(tmp_path: Path, seconds: int) -> None:
    (tmp_path / "a.csv").write_bytes(b"n")
    os.utime(tmp_path / "a.csv", (seconds, seconds))
    store = Store(LocalStorage(path=str(tmp_path)))
    (landed,) = store.list()

    assert bytes(store.get("a.csv", landed.etag)) == b"n"
    assert store.find("a.csv") == landed


def test_a_missing_folder_or_bucket_is_named_and_no_secret(tmp_path: Path, s3: S3Server) -> None:
    with pytest.raises(StorageError, match=r"the folder .*nowhere does not exist: create it"):
        Store(LocalStorage(path=str(tmp_path / "nowhere"))).list()
    (tmp_path / "link").symlink_to("away")
    with pytest.raises(StorageError, match=r"/away does not exist, and .*/link is a link to it: mount its disk, c"):
        Store(LocalStorage(path=str(tmp_path / "link"))).list()
    with pytest.raises(StorageError, match=r"the bucket 'not-there' does not exist"):
        Store(S3Storage.model_validate(bucket_on(s3) | {"bucket": "not-there"})).list()
    with pytest.raises(
        StorageError, match=r"refuses access \(SignatureDoesNotMatch: .*\): correct key_id and secret"
    ) as raised:
        Store(S3Storage.model_validate(bucket_on(s3) | {"secret": "hunter2hunter2"})).list()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("size", [3, pytest.param(6 * 2**20, id="in parts")])
def test_an_object_is_written_once(storage: AnyStorage, size: int) -> None:
    store = Store(storage)

    assert store.put_new(KEYS[2], b"1" * size, multipart_above=5 * 2**20)
    assert not store.put_new(KEYS[2], b"2" * size, multipart_above=5 * 2**20)
    with pytest.raises(StorageError, match=f"exists with {size} bytes, and another object of {size + 1} bytes"):
        store.put_new(KEYS[2], b"3" * (size + 1), multipart_above=5 * 2**20)

    (obj,) = store.list()
    assert (obj.key, bytes(store.get(obj.key, obj.etag))) == (KEYS[2], b"1" * size)


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(StorageError, match="has no space left"):
        Store(LocalStorage(path=str(tmp_path))).put_new("d/a.parquet", b"one", multipart_above=1)

    assert list((tmp_path / "d").iterdir()) == []


def test_a_root_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        Store(LocalStorage(path=str(tmp_path / "absent"))).put_new("a", b"one", multipart_above=1)

    assert not (tmp_path / "absent").exists()


A = LandedObject("s3://b/a.parquet", "a.parquet", "e1", 10, dt.datetime(2026, 2, 11, tzinfo=dt.UTC))
B = dataclasses.replace(A, uri="s3://b/b.parquet", key="b.parquet")
BASE = Manifest((A, B)).fingerprint("job")


@pytest.mark.parametrize(
    ("head", "checksum"),
    [
        ({"ChecksumCRC64NVME": "AbC=", "ChecksumType": "FULL_OBJECT"}, "CRC64NVME:AbC="),
        ({"ChecksumSHA256": "AbC="}, "SHA256:AbC="),
        ({"ChecksumSHA256": "AbC=-2", "ChecksumType": "COMPOSITE"}, ""),
        ({"ChecksumSHA256": "AbC=-2"}, ""),
        ({"ChecksumCRC32": "AbC="}, ""),
        ({}, ""),
    ],
)
def test_the_checksum_of_a_store_is_that_of_a_whole_object(
    monkeypatch: pytest.MonkeyPatch, head: dict[str, str], checksum: str
) -> None:
    asked: list[dict[str, str]] = []

    def head_object(**asks: str) -> dict[str, str]:
        asked.append(asks)
        return head

    monkeypatch.setattr("lake_assets.storage.s3._client", lambda _: SimpleNamespace(head_object=head_object))
    store = Store(S3Storage(type="s3", bucket="landing", prefix="in", region="eu-west-1"))

    assert store.checksum("a.csv", "1") == checksum
    assert asked == [{"Bucket": "landing", "Key": "in/a.csv", "IfMatch": '"1"', "ChecksumMode": "ENABLED"}]


@pytest.mark.parametrize(
    ("objects", "job"),
    [
        ((A,), "job"),
        ((A, dataclasses.replace(B, etag="e2")), "job"),
        ((A, dataclasses.replace(B, size=11)), "job"),
        ((A, dataclasses.replace(B, key="c.parquet")), "job"),
        ((A, B), "another job"),
    ],
    ids=["fewer", "etag", "size", "name", "job"],
)
def test_the_fingerprint_changes_with_objects_and_job(objects: tuple[LandedObject, ...], job: str) -> None:
    assert Manifest(objects).fingerprint(job) != BASE


def test_the_fingerprint_stays_when_only_the_time_changes() -> None:
    touched = dataclasses.replace(A, last_modified=dt.datetime(2027, 1, 1, tzinfo=dt.UTC))

    assert Manifest((touched, B)).fingerprint("job") == BASE


def test_an_empty_object_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match=r"s3://b/a\.parquet is empty \(0 bytes\)"):
        Manifest((dataclasses.replace(A, size=0), B)).refuse_empty()


KEY = "region=N%2FA x/ü?&=+~#'.parquet"


def put(storage: AnyStorage, text: str, key: str = KEY) -> LandedObject:
    with Store(storage).create(key) as file:
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

    assert not store.delete_unchanged(before)
    assert not store.delete_unchanged(dataclasses.replace(now, size=now.size + 1))
    assert store.find(key) == now
    assert store.delete_unchanged(now)
    assert store.find(key) is None
    assert store.delete_unchanged(now)  # gone already


@pytest.fixture
def bucket(s3_proxy: S3Proxy) -> S3Storage:
    return S3Storage.model_validate(bucket_on(s3_proxy.s3) | {"requests": {"first_wait": 0.02, "longest_wait": 0.03}})


def deletion(request: Request) -> bool:
    return request.method == "DELETE"


def test_an_object_that_lands_before_the_deletion_stays(bucket: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    before = put(bucket, "one")
    monkeypatch.setattr(Store, "find", lambda *_: before)
    now = Store(bucket)
    with now.create(KEY) as file:
        file.write(b"two")

    assert not Store(bucket).delete_unchanged(before)

    monkeypatch.undo()
    assert Store(bucket).find(KEY) is not None


def test_a_refusal_is_reported_and_a_server_without_the_condition_gets_a_plain_deletion(
    bucket: S3Storage, s3_proxy: S3Proxy
) -> None:
    before = put(bucket, "one")
    s3_proxy.inject(Rule("status", deletion, status=403))
    with pytest.raises(StorageError, match="refuses access"):
        Store(bucket).delete_unchanged(before)
    assert Store(bucket).find(KEY) == before

    s3_proxy.inject(Rule("status", deletion, status=501))
    assert Store(bucket).delete_unchanged(before)
    assert Store(bucket).find(KEY) is None
    assert [r.status for r in s3_proxy.requests("DELETE")] == [403, 501]


def test_a_deletion_whose_answer_is_lost_is_tried_again(bucket: S3Storage, s3_proxy: S3Proxy) -> None:
    before = put(bucket, "one")
    s3_proxy.inject(Rule("lose_answer", deletion, times=2))

    assert Store(bucket).delete_unchanged(before)
    assert Store(bucket).find(KEY) is None


def test_a_fault_that_stays_is_an_error_without_the_signature(bucket: S3Storage, s3_proxy: S3Proxy) -> None:
    before = put(bucket, "one")
    bucket = S3Storage.model_validate(bucket.model_dump() | {"requests": {"retries": 1, "first_wait": 0.02}})
    s3_proxy.inject(Rule("hang_up", deletion, times=1000))

    with pytest.raises(StorageUnreachableError, match=r"cannot be reached or fails: .* was not deleted") as raised:
        Store(bucket).delete_unchanged(before)

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

    assert Store(storage).delete_unchanged(before)
    assert Store(storage).find(KEY) is None
