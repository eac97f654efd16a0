"""Retries, pauses, time-outs and the multipart threshold of a storage, as the S3 server sees them from each client.

And requests for many objects, which overlap if they wait.
"""

import datetime as dt
import threading
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from dev.servers.proxy import Fault, Request, Rule, S3Proxy
from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.errors import StorageError, StorageUnreachableError
from lake_assets.config.connections import Requests
from lake_assets.config.lake import Lake
from lake_assets.config.storages import AzureStorage, GcsStorage, LocalStorage, S3Storage, WebStorage
from lake_assets.lake.attach import extensions, http_limits
from lake_assets.spark.task.job import discard_unfinished
from lake_assets.storage import overlapping
from lake_assets.storage.overlapping import LONG, requested
from lake_assets.storage.storage_kinds import backend_of
from lake_assets.storage.store import Store
from lake_assets_tests.tiers import more
from lake_assets_tests.world_fixtures import bucket_on

QUICK = {"first_wait": 0.02, "longest_wait": 0.03}


def write(storage: S3Storage, key: str, size: int) -> None:
    with Store(storage).create(key) as file:
        file.write(b"x" * size)


def copy(storage: S3Storage, key: str) -> None:
    found = Store(storage).find("original")
    assert found is not None
    Store(storage).copy(storage, found, key)


def delete_unchanged(storage: S3Storage, key: str) -> None:
    found = Store(storage).find("original")
    assert found is not None
    assert Store(storage).delete_unchanged(found), key


OPERATIONS: dict[str, tuple[Callable[[S3Storage], object], Callable[[Request], bool]]] = {
    "list": (lambda s: Store(s).list(), lambda r: r.method == "GET" and not r.key),
    "look": (lambda s: Store(s).find("original"), lambda r: r.method == "HEAD"),
    "put": (lambda s: Store(s).put_own("new", b"x", multipart_above=9), lambda r: r.method == "PUT"),
    "write": (lambda s: write(s, "new", 9), lambda r: r.method == "PUT"),
    "copy": (lambda s: copy(s, "new"), lambda r: r.method == "PUT"),
    "delete": (lambda s: Store(s).delete(("original",)), lambda r: r.method in {"DELETE", "POST"}),
    "delete unchanged": (lambda s: delete_unchanged(s, "original"), lambda r: r.method == "DELETE"),
}


@pytest.fixture
def storage_of(s3_proxy: S3Proxy) -> Callable[..., S3Storage]:
    """Makes the storage of a new bucket with an object, for requests with these keys."""
    where = bucket_on(s3_proxy.s3)
    write(S3Storage.model_validate(where), "original", 5)
    s3_proxy.forget()
    return lambda **requests: S3Storage.model_validate(where | {"requests": requests})


FIRST = [("list", "status"), ("write", "hang_up")]
OTHERS = [case for case in product(OPERATIONS, ["status", "hang_up"]) if case not in FIRST]


@pytest.mark.parametrize(("name", "fault"), [*FIRST, *more(OTHERS)])
def test_each_operation_is_retried_as_often_as_the_config_says(
    s3_proxy: S3Proxy, storage_of: Callable[..., S3Storage], name: str, fault: Fault
) -> None:
    operation, when = OPERATIONS[name]
    rule = s3_proxy.inject(Rule(fault, when, times=1))
    operation(storage_of(retries=1, **QUICK))
    assert rule.times == 0
    write(storage_of(), "original", 5)

    s3_proxy.inject(Rule(fault, when, times=100))
    s3_proxy.forget()
    with pytest.raises((StorageError, OSError)):
        operation(storage_of(retries=0, **QUICK))
    assert len([request for request in s3_proxy.requests() if when(request)]) == 1


@pytest.mark.parametrize(
    ("operation", "fault"), [(Store.list, "truncate"), *more([(Store.list, "reset_body"), (Store.folders, "truncate")])]
)
def test_a_listing_whose_answer_breaks_off_is_repeated(
    s3_proxy: S3Proxy, storage_of: Callable[..., S3Storage], operation: Callable[[Store], Any], fault: Fault
) -> None:
    rule = s3_proxy.inject(Rule(fault, times=2))

    found = operation(Store(storage_of(retries=2, **QUICK)))

    assert rule.times == 0
    assert len(found) == (1 if operation is Store.list else 0)
    rule = s3_proxy.inject(Rule(fault, times=100))
    with pytest.raises(StorageUnreachableError, match=r"cannot be reached"):
        operation(Store(storage_of(retries=2, **QUICK)))
    assert rule.times == 97


def test_arrows_client_retries_for_as_long_as_the_config_says(
    s3_proxy: S3Proxy, storage_of: Callable[..., S3Storage]
) -> None:
    """Its pauses are 0, 0.05, 0.1, 0.2 … seconds, so four retries for 0.3 seconds."""
    s3_proxy.inject(Rule("status", lambda r: r.method == "PUT", times=100))

    file = Store(storage_of(retries=30, first_wait=0.01)).stream("new")
    file.write(b"x")
    with pytest.raises(OSError, match=r"SLOW_DOWN|injected"):
        file.close()

    assert len(s3_proxy.requests("PUT")) == 1 + 4


def test_parts_of_a_copy_are_retried(
    s3_proxy: S3Proxy, storage_of: Callable[..., S3Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.storage.s3.COPIED_WHOLE", 2)
    rules = [
        s3_proxy.inject(Rule("status", lambda r: r.method == "POST" and "uploads" in r.query, times=2)),
        s3_proxy.inject(Rule("status", lambda r: "partNumber" in r.query, times=2)),
        s3_proxy.inject(Rule("status", lambda r: r.method == "POST" and "uploadId" in r.query, times=2)),
    ]

    copy(storage_of(retries=2, **QUICK), "new")

    assert [rule.times for rule in rules] == [0, 0, 0]


@pytest.mark.more
def test_the_upload_of_a_failed_writer_is_aborted_though_the_storage_fails_meanwhile(
    s3_proxy: S3Proxy, storage_of: Callable[..., S3Storage]
) -> None:
    storage = storage_of(retries=2, **QUICK)
    client = s3_proxy.s3.client()
    client.create_multipart_upload(Bucket=storage.bucket, Key=f"{storage.prefix}/new")
    rule = s3_proxy.inject(Rule("status", lambda r: "uploads" in r.query, times=2))

    discard_unfinished(storage, [f"{storage.root}/new"], ValueError())

    assert rule.times == 0
    assert "Uploads" not in client.list_multipart_uploads(Bucket=storage.bucket)


MIB = 2**20


def in_blocks(storage: S3Storage, mib: int) -> None:
    with Store(storage).create("new") as file:
        for _ in range(mib):
            file.write(b"x" * MIB)
        assert file.tell() == mib * MIB


def at_once(storage: S3Storage, mib: int) -> None:
    Store(storage).put_new("new", b"x" * mib * MIB)


@pytest.mark.parametrize(
    ("upload", "threshold", "mib", "in_parts"),
    [
        (in_blocks, None, 7, False),
        (in_blocks, "6MiB", 7, True),
        (at_once, None, 7, True),
        *more([(in_blocks, None, 11, True), (in_blocks, "16MiB", 11, False), (in_blocks, "16MiB", 17, True)]),
        *more([(in_blocks, "6MiB", 5, False), (at_once, "8MiB", 7, False)]),
    ],
)
def test_tasks_and_landing_upload_files_above_the_threshold_in_parts(
    s3_proxy: S3Proxy,
    storage_of: Callable[..., S3Storage],
    upload: Callable[[S3Storage, int], object],
    threshold: str | None,
    mib: int,
    *,
    in_parts: bool,
) -> None:
    storage = storage_of(**({"multipart_threshold": threshold} if threshold else {}))
    upload(storage, mib)

    parts = [request for request in s3_proxy.requests("PUT") if "partNumber" in request.query]
    assert bool(parts) == in_parts
    assert in_parts or len(s3_proxy.requests()) == 1
    found = Store(storage).find("new")
    assert found is not None
    assert found.size == mib * MIB


def lake_of(*storages: dict[str, Any]) -> Lake:
    storage, staging = (*storages, None)[:2]
    options = {"staging": staging, "attach_options": {"encrypted": True}} if staging else {}
    return Lake.model_validate({"catalog": {"type": "duckdb", "path": "c"}, "storage": storage} | options)


def test_duckdb_is_as_patient_as_the_most_patient_storage_of_the_lake() -> None:
    bucket = {"type": "s3", "bucket": "lake"}
    patient = bucket | {"requests": {"retries": 60, "first_wait": 1, "timeout": 90.5}}
    names = ("http_retries", "http_retry_wait_ms", "http_timeout")
    asked = f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}"
    expected = {
        (9, 500, 60): lake_of(bucket),  # no pause before the first
        (61, 1000, 91): lake_of(patient, bucket),
        (0, 500, 60): lake_of(bucket | {"requests": {"retries": 0}}),
    }
    for settings, lake in expected.items():
        with open_engine(extensions(lake), http_limits(lake)) as engine:
            assert engine.execute(asked).fetchall() == [settings]


REQUESTS = {"requests": {"retries": 20, "first_wait": 2}}


@pytest.mark.parametrize(
    "storage",
    [
        S3Storage.model_validate({"bucket": "lake", "anonymous": True, **REQUESTS}),
        GcsStorage.model_validate({"bucket": "lake", **REQUESTS}),
        AzureStorage.model_validate({"account": "retail", "container": "lake", **REQUESTS}),
        WebStorage.model_validate({"url": "https://example.com/x", **REQUESTS}),
    ],
    ids=lambda storage: storage.type,
)
def test_no_wait_of_a_client_of_any_storage_is_shorter_than_the_first(storage: Any) -> None:
    client: Any = backend_of(storage).as_obstore()

    assert client.retry_config == {
        "max_retries": 20,
        "backoff": {"init_backoff": dt.timedelta(seconds=2), "max_backoff": dt.timedelta(seconds=6), "base": 2},
        "retry_timeout": dt.timedelta(seconds=20 * 6 + 60),
    }


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({"first_wait": 2, "longest_wait": 1}, "longest_wait (1) is shorter than first_wait (2)"),
        ({"retries": -1}, "greater than or equal to 0"),
        ({"multipart_threshold": "1MiB"}, "1.0MiB is outside 5 MiB to 5 GiB"),
        ({"timeout": 0}, "greater than 0"),
    ],
)
def test_what_does_not_fit_is_refused(requests: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Requests.model_validate(requests)

    assert message in str(refused.value)


def test_requests_of_a_bucket_overlap_in_the_order_of_their_items() -> None:
    both = threading.Barrier(2, timeout=10)

    def work(number: int) -> int:
        both.wait()  # for another one
        return number

    assert list(requested(S3Storage(bucket="bucket"), work, range(4))) == [0, 1, 2, 3]


def test_work_in_a_folder_overlaps_as_soon_as_one_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, seconds = dict[int, threading.Thread](), [0.0]
    monkeypatch.setattr(overlapping, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))

    def work(number: int) -> int:
        threads[number] = threading.current_thread()
        seconds[0] += 2 * LONG if number == 2 else 0
        return number

    assert list(requested(LocalStorage(path="/"), work, range(6))) == [0, 1, 2, 3, 4, 5]
    assert all((threads[number] is threading.main_thread()) == (number <= 2) for number in range(6))


def test_an_error_of_one_request_ends_the_others() -> None:
    def work(number: int) -> int:
        return 1 // (number - 3)

    for storage in (S3Storage(bucket="bucket"), LocalStorage(path="/")):
        with pytest.raises(ZeroDivisionError):
            list(requested(storage, work, range(6)))
