"""The clients of storages that no server here can play: what they are made of, and what they send."""

import datetime as dt
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import fs

from dev.servers.listener import Listener, listener
from lake_assets.base.duckdb_engine import open_engine
from lake_assets.base.errors import StorageError
from lake_assets.config.lake import Lake
from lake_assets.config.storages import AzureStorage, GcsStorage, R2Storage, S3Storage
from lake_assets.lake.attach import extensions, secret_statements
from lake_assets.storage import s3
from lake_assets.storage.s3 import S3Bucket
from lake_assets.storage.storage_kinds import backend_of
from lake_assets.storage.store import Store

__all__ = ["listener"]

KEYS = {"key_id": "id", "secret": "key"}
ARROWS: dict[str, Any] = {"access_key": "id", "secret_key": "key", "allow_delayed_open": True} | {
    "connect_timeout": 5,
    "request_timeout": 60,
}


def azure(listener: Listener, credential: str) -> AzureStorage:
    text = f"AccountName=retail;BlobEndpoint={listener.url}/retail;{credential}"
    return AzureStorage.model_validate({"container": "lake", "prefix": "pre", "connection_string": text})


def test_requests_to_azure_have_the_container_and_the_accounts_key(listener: Listener) -> None:
    storage = azure(listener, "AccountKey=a2V5")

    with pytest.raises(StorageError, match=r"refuses access: grant .*correct account_key, connection_string or sas"):
        Store(storage).list("region=NW/")
    with pytest.raises(OSError, match="403"):
        Store(storage).open("a.parquet")

    (listing, headers), (path, arrows) = listener.asked[0], listener.asked[-1]
    assert listing.startswith("/retail/lake?")
    assert "prefix=pre%2Fregion%3DNW" in listing
    assert path.startswith("/retail/lake/pre/a.parquet")
    assert headers["authorization"].startswith("SharedKey retail:")
    assert arrows["authorization"].startswith("SharedKey retail:")


def test_all_three_clients_send_azure_the_signature(listener: Listener) -> None:
    storage = azure(listener, "SharedAccessSignature=?sv=2024-11-04&sig=x%3D")
    lake = Lake.model_validate({"catalog": {"type": "duckdb", "path": "c"}, "storage": storage.model_dump()})

    with pytest.raises(StorageError, match="refuses access"):
        Store(storage).list()
    with pytest.raises(OSError, match="403"):
        Store(storage).open("a.parquet")
    with open_engine(extensions(lake)) as engine:
        engine.execute(*secret_statements(lake))
        with pytest.raises(duckdb.IOException):
            engine.execute("FROM read_parquet('az://lake/pre/b.parquet')")

    for name in ("/retail/lake?", "/retail/lake/pre/a.parquet", "/retail/lake/pre/b.parquet"):
        path = next(path for path, _ in listener.asked if path.startswith(name))
        assert "sig=x%3D" in path, name


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"account_key": "a2V5"}, {"account_key": "a2V5"}),
        ({"sas": "?v=1&sig=x"}, {"sas_token": "?v=1&sig=x"}),
        ({}, {}),
    ],
)
def test_arrows_client_of_azure_has_the_documented_options(given: dict[str, Any], options: dict[str, Any]) -> None:
    """pyarrow's manual: account_name with account_key or sas_token, neither for the default credential."""
    result = backend_of(AzureStorage.model_validate({"account": "retail", "container": "lake", **given})).as_arrow()

    assert result == fs.AzureFileSystem("retail", **options)
    assert result != fs.AzureFileSystem("other", **options)


def test_obstores_client_of_azure_has_the_documented_options() -> None:
    storage = AzureStorage.model_validate(
        {"account": "retail", "container": "lake", "prefix": "a", "account_key": "a2V5"}
    )

    found: Any = backend_of(storage).as_obstore()

    assert found.config == {
        "account_name": "retail",
        "account_key": "a2V5",
        "container_name": "lake",
        "endpoint": "https://retail.blob.core.windows.net",
    }
    assert found.prefix == "a"


@pytest.fixture
def key_file(listener: Listener, tmp_path: Path) -> Path:
    """A service account's key file in the form that obstore has for servers other than Google's."""
    file = tmp_path / "key.json"
    key = {"client_email": "", "private_key": "", "private_key_id": ""}
    file.write_text(json.dumps({"gcs_base_url": listener.url, "disable_oauth": True, **key}))
    return file


def test_requests_to_google_have_the_bucket(listener: Listener, key_file: Path) -> None:
    storage = GcsStorage(bucket="retail", prefix="pre", service_account=str(key_file))

    with pytest.raises(StorageError, match=r"gs://retail/pre refuses access: grant .*correct service_account"):
        Store(storage).list("region=NW/")

    path = listener.asked[0][0]
    assert path.startswith("/retail?")
    assert "prefix=pre%2Fregion%3DNW" in path


def test_a_bad_key_file_is_an_error_of_both_clients(key_file: Path) -> None:
    storage = GcsStorage(bucket="retail", service_account=str(key_file))
    with pytest.raises(StorageError, match=r"the service account of gs://retail cannot be used.*correct the key"):
        Store(storage).open("a")

    absent = GcsStorage(bucket="retail", service_account=str(key_file.with_name("absent.json")))
    for attempt in (lambda: Store(absent).open("a"), lambda: Store(absent).list()):
        with pytest.raises(StorageError, match=r"absent\.json"):
            attempt()


def test_without_a_key_file_arrow_takes_googles_default_credentials() -> None:
    client, limit = backend_of(GcsStorage(bucket="lake")).as_arrow(), dt.timedelta(seconds=60)

    assert client == fs.GcsFileSystem(retry_time_limit=limit)
    assert client != fs.GcsFileSystem(retry_time_limit=limit, anonymous=True)


def test_r2_is_s3_at_the_accounts_endpoint() -> None:
    """Cloudflare's manual, "S3 API compatibility": the account's endpoint, region auto."""
    place = {"bucket": "lake", "prefix": "a", **KEYS}
    for storage in (
        R2Storage.model_validate({"account_id": "abc", **place}),
        S3Storage.model_validate({"region": "auto", "endpoint": "https://abc.r2.cloudflarestorage.com", **place}),
    ):
        found: Any = backend_of(storage).as_obstore()
        assert found.config == {
            "access_key_id": "id",
            "secret_access_key": "key",
            "bucket": "lake",
            "region": "auto",
            "endpoint": "https://abc.r2.cloudflarestorage.com",
            "virtual_hosted_style_request": "false",
        }
        assert backend_of(storage).as_arrow() == fs.S3FileSystem(
            region="auto", endpoint_override="abc.r2.cloudflarestorage.com", **ARROWS
        )


def test_a_bucket_with_dots_is_in_the_path_of_its_url() -> None:
    """A certificate of AWS is of one name below its host."""
    storage = S3Storage.model_validate({"bucket": "retail.lake", "region": "eu-west-1", **KEYS})

    obstores: Any = backend_of(storage).as_obstore()

    assert obstores.config["endpoint"] == "https://s3.eu-west-1.amazonaws.com"
    assert backend_of(storage).as_arrow() == fs.S3FileSystem(region="eu-west-1", **ARROWS)
    assert S3Bucket(storage).as_boto().meta.config.s3["addressing_style"] == "path"


def test_no_client_takes_an_endpoint_from_the_environment_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may have other variables than the driver, which has read the config."""
    storage = S3Storage.model_validate({"bucket": "retail", "region": "eu-west-1", "endpoint": "", **KEYS})
    expected = fs.S3FileSystem(force_virtual_addressing=True, region="eu-west-1", **ARROWS)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    obstores: Any = backend_of(storage).as_obstore()
    assert obstores.config["endpoint"] == "https://retail.s3.eu-west-1.amazonaws.com"
    assert backend_of(storage).as_arrow() == expected
    assert S3Bucket(storage).as_boto().meta.endpoint_url == "https://s3.eu-west-1.amazonaws.com"
    assert "ENDPOINT" not in backend_of(storage).as_duckdb_secret()


def test_threads_that_list_at_once_share_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def slowly(_: S3Bucket, **__: float) -> object:
        time.sleep(0.05)
        made.append(object())
        return made[-1]

    monkeypatch.setattr(S3Bucket, "as_boto", slowly)
    storage = S3Storage.model_validate({"bucket": "of-eight-threads", "region": "eu-west-1", **KEYS})
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: s3._client(storage), range(8)))
    assert clients == made * 8
