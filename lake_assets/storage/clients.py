"""The clients of a storage: obstore, Arrow, boto3, and DuckDB by a secret.

Each gets server, region and keys from the config, so that all reach the same bucket. From the environment they take
credentials alone, where the config has none.
"""

import datetime as dt
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, S3Store
from pyarrow import fs

from lake_assets.base.errors import StorageError
from lake_assets.base.retrying import doublings
from lake_assets.config.connections import RequestedStorage, Requests
from lake_assets.config.storages import (
    AnyStorage,
    AzureStorage,
    GcsStorage,
    LakeStorage,
    LocalStorage,
    R2Storage,
    S3Storage,
    WebStorage,
    has_role,
)
from lake_assets.storage.boto import boto_client, s3_client
from lake_assets.storage.storage_errors import no_credentials, no_role

if TYPE_CHECKING:
    from obstore.store import RetryConfig

Client = LocalStore | S3Store | GCSStore | AzureStore | HTTPStore

_LEAST_TIME = 30.0  # seconds in which obstore retries a request
_ENVIRONMENT = Lock()
_CHECKSUMS = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION")
_FIRST_PAUSE = 0.05  # seconds, of Arrow's client of S3; each pause is twice as long as the last one
_NO_PROXY = {"proxy_url": "http://none.invalid", "proxy_excludes": "*,0.0.0.0/0,::/0"}  # of obstore
_FRESH = dt.timedelta(minutes=10)  # for which obstore keeps keys of a chain or role
_RENEWED = 20 * 60  # seconds before keys of a role expire
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


def as_obstore(storage: AnyStorage) -> Client:
    """Make obstore's client, whose keys are relative to the storage's root; nothing is connected yet.

    The client's own refusal, such as of a key file that does not exist, is an ObstoreError.
    """
    if isinstance(storage, LocalStorage):
        return LocalStore(storage.path)
    if isinstance(storage, WebStorage):
        return HTTPStore.from_url(storage.url, **_limits(storage))
    options: dict[str, Any] = {"prefix": storage.prefix or None, **_limits(storage)}
    if isinstance(storage, GcsStorage):
        if storage.service_account is not None:
            options["service_account"] = storage.service_account
        return GCSStore(storage.bucket, **options)
    if isinstance(storage, AzureStorage):
        azure = storage.access
        keys = {"account_key": azure.key, "sas_key": azure.sas}
        options |= {name: key for name, key in keys.items() if key is not None}
        return AzureStore(storage.container, account_name=azure.account, endpoint=azure.url, **options)
    access = storage.access
    if access.is_anonymous:
        options["skip_signature"] = True
    elif has_role(storage) or access.key_id is None:
        options["credential_provider"] = _aws_chain(storage)
    else:
        options |= {"access_key_id": access.key_id, "secret_access_key": access.secret}
        options |= {} if access.token is None else {"session_token": access.token}
    if access.is_paid:
        options["request_payer"] = True
    # Without an endpoint, obstore takes that of the environment. This is its own of AWS.
    scheme, _, host = (access.endpoint or f"https://s3.{access.region}.amazonaws.com").partition("://")
    return S3Store(
        storage.bucket,
        region=access.region,
        endpoint=f"{scheme}://{storage.bucket}.{host}" if access.is_virtual else f"{scheme}://{host}",
        virtual_hosted_style_request=access.is_virtual,
        **options,
    )


def _limits(storage: RequestedStorage) -> dict[str, Any]:
    options: dict[str, Any] = {
        "allow_http": True,
        "connect_timeout": dt.timedelta(seconds=storage.requests.connect_timeout),
        "timeout": dt.timedelta(seconds=storage.requests.timeout),
    }
    if storage.certificates is not None:
        options["root_certificate"] = _certificates(storage.certificates)
    if storage.proxy is not None:  # else obstore takes that of the environment
        options |= {"proxy_url": storage.proxy.get_secret_value()} if storage.proxy else _NO_PROXY
    return {"client_options": options, "retry_config": _retry_config(storage.requests)}


def _certificates(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(
            f"the certificates {path} cannot be read: {error.strerror}:",
            "correct `certificates` of the storage, or AWS_CA_BUNDLE and SSL_CERT_FILE.",
        ) from error


def _retry_config(requests: Requests) -> "RetryConfig":
    longest = requests.wait_limit
    # The pauses are random, but none is shorter than the first one. The time that bounds them all leaves room for one
    # request without an answer.
    seconds = max(_LEAST_TIME, requests.retries * longest + requests.timeout)
    first, most = dt.timedelta(seconds=requests.first_wait), dt.timedelta(seconds=longest)
    return {
        "max_retries": requests.retries,
        "backoff": {"init_backoff": first, "max_backoff": most, "base": 2},
        "retry_timeout": dt.timedelta(seconds=seconds),
    }


def _aws_chain(storage: S3Storage | R2Storage) -> object:
    """Return the storage's role, or AWS's own chain: environment, profiles, container and instance roles."""
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - boto3 takes its time

    try:
        provider = Boto3CredentialProvider(assumed(storage) if has_role(storage) else None, ttl=_FRESH)
    except ValueError as error:
        raise no_credentials(storage.root) from error
    provider.config = {}  # the region is the storage's, not the profile's
    return provider


@lru_cache(maxsize=8)
def assumed(storage: S3Storage) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return boto3's session with the keys of a storage's role, which it renews; raises StorageError without them.

    Keys that it gives are valid for 20 minutes at least, if the server gives them for that long.
    """
    import boto3  # noqa: PLC0415 - boto3 takes its time
    from botocore.config import Config  # noqa: PLC0415
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    requests = storage.requests
    retries = {"total_max_attempts": requests.retries + 1, "mode": "standard"}
    config = Config(retries=retries, connect_timeout=requests.connect_timeout, read_timeout=requests.timeout)
    own = boto3.session.Session(*storage.keys)
    request = {"RoleArn": storage.role_arn, "RoleSessionName": storage.session_name}
    request |= {"ExternalId": storage.external_id} if storage.external_id else {}

    def renewed() -> dict[str, str]:
        sts = boto_client("sts", storage, config, own, region_name=storage.region, endpoint_url=storage.sts)
        keys = sts.assume_role(**request)["Credentials"]
        of_boto = {"access_key": "AccessKeyId", "secret_key": "SecretAccessKey", "token": "SessionToken"}
        return {name: keys[key] for name, key in of_boto.items()} | {"expiry_time": keys["Expiration"].isoformat()}

    session = Session()
    try:
        session._credentials = RefreshableCredentials.create_from_metadata(  # noqa: SLF001 - it has no other way
            renewed(), renewed, "role", advisory_timeout=_RENEWED, mandatory_timeout=_RENEWED
        )
    except (ClientError, BotoCoreError) as error:
        raise no_role(error, storage) from error
    return boto3.session.Session(botocore_session=session)


def as_arrow(storage: LakeStorage) -> fs.FileSystem:
    """Make Arrow's client; nothing is connected yet, except to fetch the token of a service account."""
    if isinstance(storage, LocalStorage):
        return fs.LocalFileSystem()
    if isinstance(storage, GcsStorage):
        return _arrows_gcs(storage)
    if isinstance(storage, AzureStorage):
        azure = storage.access
        blob, scheme = azure.authority, urlsplit(azure.url).scheme
        return fs.AzureFileSystem(
            azure.account,
            account_key=azure.key,
            # pyarrow appends it to the URL unchanged.
            sas_token=f"?{azure.sas}" if azure.sas else None,
            blob_storage_authority=blob,
            dfs_storage_authority=blob.replace(".blob.", ".dfs.", 1),
            blob_storage_scheme=scheme,
            dfs_storage_scheme=scheme,
        )
    access = storage.access
    endpoint = urlsplit(access.endpoint) if access.endpoint else None
    # Arrow calls the retries attempts, and makes no pause before the first of them.
    pauses = doublings(_FIRST_PAUSE, storage.requests.retry_seconds)
    options = {} if storage.certificates is None else {"tls_ca_file_path": storage.certificates}
    options |= {} if not storage.proxy else {"proxy_options": storage.proxy.get_secret_value()}
    with _checksums(storage.checksums):
        return fs.S3FileSystem(
            access_key=access.key_id,
            secret_key=access.secret,
            session_token=access.token,
            anonymous=access.is_anonymous,
            region=access.region,
            endpoint_override=endpoint.netloc if endpoint else None,
            scheme=endpoint.scheme if endpoint else "https",
            force_virtual_addressing=access.is_virtual,
            # A small file is one request, and not a multipart upload of three.
            allow_delayed_open=True,
            connect_timeout=storage.requests.connect_timeout,
            request_timeout=storage.requests.timeout,
            # By default the pauses are 0.05, 0.1, 0.2 … 3.2 seconds, 6.4 in all. The standard strategy has random
            # pauses, which may all be short: the driver, which Spark does not retry, then gave up too early.
            retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=pauses + 1 if pauses else 0),
            **options,
        )


@contextmanager
def _checksums(rule: str) -> Iterator[None]:
    """Let Arrow's client, which is made in the block, have a rule of checksums: it takes that of variables only."""
    with _ENVIRONMENT:
        before = {name: os.environ[name] for name in _CHECKSUMS if name in os.environ}
        os.environ |= dict.fromkeys(_CHECKSUMS, rule)
        try:
            yield
        finally:
            for name in _CHECKSUMS:
                del os.environ[name]
            os.environ |= before


def _arrows_gcs(storage: GcsStorage) -> fs.GcsFileSystem:
    # It bounds all attempts of a request together, the first one too.
    retry_seconds = dt.timedelta(seconds=max(storage.requests.retry_seconds, storage.requests.timeout))
    if storage.service_account is None:
        return fs.GcsFileSystem(retry_time_limit=retry_seconds)
    # pyarrow takes a token instead of a key file; it is valid for an hour, and a task takes minutes.
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
    from google.auth.transport.requests import Request  # noqa: PLC0415
    from google.oauth2.service_account import Credentials  # noqa: PLC0415

    try:
        credentials = Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            storage.service_account, scopes=[_GOOGLE_SCOPE]
        )
        credentials.refresh(Request())
    except (OSError, ValueError, GoogleAuthError) as error:
        raise StorageError(
            f"the service account of {storage.root} cannot be used: {type(error).__name__}:",
            f"correct the key file {storage.service_account}.",
        ) from error
    return fs.GcsFileSystem(
        access_token=credentials.token,
        credential_token_expiration=credentials.expiry.replace(tzinfo=dt.UTC),
        retry_time_limit=retry_seconds,
    )


def as_boto(storage: S3Storage | R2Storage, *, seconds: float = 0) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """Make boto3's client with the keys of a storage; see `s3_client`."""
    from boto3.session import Session  # noqa: PLC0415 - boto3 takes its time

    return s3_client(storage, assumed(storage) if has_role(storage) else Session(*storage.keys), seconds)


def as_duckdb_secret(storage: AnyStorage) -> dict[str, str]:
    """Return the options of `CREATE SECRET` for the bucket of a lake or an indexed source, as SQL with secrets."""
    if isinstance(storage, AzureStorage):
        azure = storage.access
        options = {"TYPE": "azure", "SCOPE": _quoted(f"az://{storage.container}")}
        if azure.key is None and azure.sas is None:
            return options | {"PROVIDER": "credential_chain", "ACCOUNT_NAME": _quoted(azure.account)}
        return options | {"CONNECTION_STRING": _quoted(azure.connection_string)}
    if isinstance(storage, GcsStorage):
        secret = storage.secret.get_secret_value() if storage.secret else None
        return {"TYPE": "gcs", "SCOPE": _quoted(f"gs://{storage.bucket}"), **_duckdb_keys(storage.key_id, secret)}
    assert isinstance(storage, S3Storage | R2Storage), f"{storage.type} storage has no secret"  # noqa: S101 - the callers' duty
    access = storage.access
    # Type s3 for R2 too, because its URIs are S3's: DuckDB prefers any secret of type s3 to one of type r2, also a
    # secret that the user has stored for other buckets.
    options = {"TYPE": "s3", "SCOPE": _quoted(f"s3://{storage.bucket}")}
    keys = assumed(storage).get_credentials().get_frozen_credentials() if has_role(storage) else storage.keys
    options |= {} if access.is_anonymous else _duckdb_keys(*keys[:3])
    options["REGION"] = _quoted(access.region)
    if access.endpoint is not None:
        endpoint = urlsplit(access.endpoint)
        options |= {
            "ENDPOINT": _quoted(endpoint.netloc),
            "USE_SSL": str(endpoint.scheme == "https").lower(),
        }
    if access.endpoint is not None or not access.is_virtual:
        options["URL_STYLE"] = _quoted("vhost" if access.is_virtual else "path")
    return options | ({"REQUESTER_PAYS": "true"} if access.is_paid else {})


def _duckdb_keys(key_id: str | None, secret: str | None, token: str | None = None) -> dict[str, str]:
    if key_id is None or secret is None:
        # Refreshed when they have expired: an engine may live longer than a role's keys.
        return {"PROVIDER": "credential_chain", "REFRESH": "auto"}
    return {"KEY_ID": _quoted(key_id), "SECRET": _quoted(secret)} | (
        {} if token is None else {"SESSION_TOKEN": _quoted(token)}
    )


def _quoted(text: str) -> str:
    from lake_assets.base.duckdb_engine import literal  # noqa: PLC0415 - tasks use this room, and do without DuckDB

    return literal(text)
