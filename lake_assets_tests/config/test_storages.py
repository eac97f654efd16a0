"""What a storage's config says, in each of its forms, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.base.errors import ConfigError
from lake_assets.config.connections import parse_connection_string
from lake_assets.config.fields import Model, validation_context
from lake_assets.config.storages import (
    AnyStorage,
    AzureStorage,
    GcsStorage,
    LocalStorage,
    R2Storage,
    S3Storage,
    Storage,
)


class Holder(Model):
    """A model of the config with a storage in it."""

    storage: Storage


KEYS = {"key_id": "id", "secret": "hunter2"}
ACCOUNT = {"account": "retail", "container": "lake"}
AZURE = {"type": "azure", **ACCOUNT}
CHAIN = {"provider": "credential_chain"}
S3 = {"type": "s3", "bucket": "lake"}
GCS = {"type": "gcs", "bucket": "lake"}


@pytest.mark.parametrize(
    ("text", "storage", "root"),
    [
        ("/data/lake", LocalStorage(path="/data/lake"), "/data/lake"),
        ("file:///data/lake", LocalStorage(path="/data/lake"), "/data/lake"),
        ("s3://lake", S3Storage(bucket="lake"), "s3://lake"),
        ("s3://lake/a/b/", S3Storage(bucket="lake", prefix="a/b"), "s3://lake/a/b"),
        ("r2://abc123/lake/a", R2Storage(account_id="abc123", bucket="lake", prefix="a"), "s3://lake/a"),
        ("gs://lake_1/a", GcsStorage(bucket="lake_1", prefix="a"), "gs://lake_1/a"),
        ("gcs://lake/a", GcsStorage(bucket="lake", prefix="a"), "gs://lake/a"),
        ("abfss://lake@retail.dfs.core.windows.net/a", AzureStorage(**ACCOUNT, prefix="a"), "az://lake/a"),
        ("azure://retail.blob.core.windows.net/lake/a", AzureStorage(**ACCOUNT, prefix="a"), "az://lake/a"),
    ],
)
def test_a_uri_is_short_for_the_mapping(text: str, storage: AnyStorage, root: str) -> None:
    assert Holder.model_validate({"storage": text}).storage == storage
    assert storage.root == root


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ftp://host/x", "ftp:// is not a known storage"),
        ("r2://lake", "R2 needs the account too"),
        ("abfss://lake@retail/a", "Azure needs account and container"),
        ("gs://lake/../x", "may not have"),
        (S3 | {"key_id": "id"}, "key_id and secret go together"),
        (S3 | CHAIN | KEYS, "exclude each other"),
        (GCS | CHAIN | {"service_account": "/k.json"}, "exclude each other"),
        (GCS | {"service_account": "k.json"}, "absolute path"),
        (AZURE | CHAIN | {"sas": "sig=x"}, "exclude each other"),
        (AZURE | {"account_key": "a2V5", "sas": "sig=x"}, "account_key and sas exclude each other"),
        (AZURE | {"account": None}, "the storage account is missing"),
        (AZURE | {"connection_string": "AccountName=other;AccountKey=a2V5"}, "is of the account 'other'"),
        (AZURE | {"connection_string": "hunter2"}, "not of the form Name=value"),
        (AZURE | {"connection_string": "AccountKey=hunter2"}, "names no account"),
        (AZURE | {"account_key": "hunter2"}, "account_key is not base64"),
        (AZURE | {"sas": "hunter2"}, "sas is not of the form name=value"),
        (S3 | KEYS | {"anonymous": True}, "anonymous goes without"),
        (S3 | CHAIN | {"anonymous": True}, "anonymous goes without"),
        (S3 | {"session_token": "x"}, "session_token goes with"),
        (S3 | {"provider": "instance"}, "credential_chain"),
        (S3 | {"endpoint": "https://me:hunter2@host"}, "no user or password"),
        ({"type": "r2", "account_id": "a", "bucket": "lake", "endpoint": "host:80"}, "not of the form http"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Holder.model_validate({"storage": value})

    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("value", [S3, {"type": "r2", "account_id": "a", "bucket": "lake"}, GCS, AZURE])
def test_the_chain_may_be_said_in_words(value: dict[str, Any]) -> None:
    silent, said = (Holder.model_validate({"storage": v}).storage for v in (value, value | CHAIN))

    assert said == silent.model_copy(update=CHAIN)


SERVERS = {"AWS_ENDPOINT_URL": "http://s3:1", "AWS_ENDPOINT_URL_S3": "http://s3:2/"}
REGIONS = {"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-west-1"}


@pytest.mark.parametrize(
    ("environment", "given", "endpoint", "region"),
    [
        ({}, {}, None, "us-east-1"),
        (SERVERS | REGIONS, {}, "http://s3:2", "eu-central-1"),
        ({"AWS_ENDPOINT_URL": "http://s3:1", "AWS_DEFAULT_REGION": "eu-west-1"}, {}, "http://s3:1", "eu-west-1"),
        ({"AWS_ENDPOINT_URL_S3": "", "AWS_REGION": ""}, {}, None, "us-east-1"),
        (SERVERS | REGIONS, {"region": "us-west-1"}, "http://s3:2", "us-west-1"),
        (SERVERS | REGIONS, {"endpoint": "http://config"}, "http://config", "eu-central-1"),
        # So one config has `endpoint: ${NAME:-}` for AWS and for other servers.
        (SERVERS, {"endpoint": ""}, None, "us-east-1"),
    ],
)
def test_a_bucket_is_completed_from_the_environment(
    environment: dict[str, str], given: dict[str, str], endpoint: str | None, region: str
) -> None:
    for value in ({"type": "s3", "bucket": "lake", **given}, *([] if given else ["s3://lake"])):
        found = Holder.model_validate({"storage": value}, context=validation_context(None, environment)).storage
        assert found == S3Storage(bucket="lake", endpoint=endpoint, region=region)


def test_a_malformed_endpoint_of_the_environment_is_named() -> None:
    context = validation_context(None, {"AWS_ENDPOINT_URL": "localhost:8333"})
    with pytest.raises(ConfigError, match=r"^AWS_ENDPOINT_URL: 'localhost:8333' is not of the form http"):
        Holder.model_validate({"storage": "s3://lake"}, context=context)
    Holder.model_validate({"storage": "r2://abc/lake"}, context=context)


def test_r2_has_the_endpoint_of_its_account() -> None:
    storage = R2Storage(account_id="abc123", bucket="lake")

    assert storage.server_url == "https://abc123.r2.cloudflarestorage.com"
    assert storage.region == "auto"
    eu = storage.model_copy(update={"endpoint": "https://abc123.eu.r2.cloudflarestorage.com"})
    assert eu.server_url == "https://abc123.eu.r2.cloudflarestorage.com"


WINDOWS, GOVERNMENT = ".blob.core.windows.net", ".blob.core.usgovcloudapi.net"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "DefaultEndpointsProtocol=https;AccountName=retail;AccountKey=a2V5==;EndpointSuffix=core.windows.net",
            ("retail", f"https://retail{WINDOWS}", WINDOWS, "a2V5==", None),
        ),
        (
            "AccountName=retail;AccountKey=a2V5;EndpointSuffix=core.usgovcloudapi.net;",
            ("retail", f"https://retail{GOVERNMENT}", GOVERNMENT, "a2V5", None),
        ),
        (
            f"BlobEndpoint=https://retail{WINDOWS}/;SharedAccessSignature=?sv=2024-11-04&sig=x%3D",
            ("retail", f"https://retail{WINDOWS}", WINDOWS, None, "sv=2024-11-04&sig=x%3D"),
        ),
        (
            "AccountName=dev;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:10000/dev",
            ("dev", "http://127.0.0.1:10000/dev", "127.0.0.1:10000", "a2V5", None),
        ),
    ],
)
def test_a_connection_string_is_read_and_written_again(text: str, parts: tuple[str | None, ...]) -> None:
    access = parse_connection_string(text)

    assert (access.account, access.url, access.authority, access.key, access.sas) == parts
    assert parse_connection_string(access.connection_string) == access
    assert "a2V5" not in repr(access)
