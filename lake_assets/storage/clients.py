"""obstore's client of each storage: the driver lists and deletes with it, and tasks fetch small objects."""

import datetime as dt
import os
from typing import TYPE_CHECKING, Any

from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, S3Store

from lake_assets.config.bucket_requests import Requests
from lake_assets.config.storages import (
    AnyStorage,
    AzureStorage,
    GcsStorage,
    LocalStorage,
    R2Storage,
    S3Storage,
    WebStorage,
)
from lake_assets.errors import StorageError
from lake_assets.storage.failures import no_credentials

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

Client = LocalStore | S3Store | GCSStore | AzureStore | HTTPStore

_LEAST_TIME = 30.0  # seconds in which a request is retried


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


def _client_config(requests: Requests) -> "ClientConfig":
    return {
        "allow_http": True,
        "connect_timeout": dt.timedelta(seconds=requests.connect_timeout),
        "timeout": dt.timedelta(seconds=requests.timeout),
    }


def client(storage: AnyStorage) -> Client:
    """A client whose keys are relative to the storage's root; nothing is connected yet.

    Raises:
        StorageError: the credential chain has no credentials.
        ObstoreError: the client refuses the config, such as a key file that does not exist.
    """
    if isinstance(storage, LocalStorage):
        return LocalStore(storage.path)
    if isinstance(storage, GcsStorage):
        return _gcs(storage)
    if isinstance(storage, AzureStorage):
        return _azure(storage)
    if isinstance(storage, WebStorage):
        return web_client(storage)
    return _s3(storage)


def _s3(storage: S3Storage | R2Storage) -> S3Store:
    service = storage.service
    if service.endpoint is None:
        _refuse_other_endpoint(storage)
    options: dict[str, Any] = {"skip_signature": True} if service.anonymous else {}
    if storage.key_id is not None and storage.secret is not None:
        options |= {"access_key_id": storage.key_id, "secret_access_key": storage.secret.get_secret_value()}
        if storage.session_token is not None:
            options["session_token"] = storage.session_token.get_secret_value()
    elif not service.anonymous:
        options["credential_provider"] = _aws_chain(storage)
    if service.endpoint is not None:
        options["endpoint"] = service.endpoint
    return S3Store(
        storage.bucket,
        prefix=storage.prefix or None,
        region=service.region,
        virtual_hosted_style_request=service.endpoint is None,
        client_options=_client_config(storage.requests),
        retry_config=_retry_config(storage.requests),
        **options,
    )


def _refuse_other_endpoint(storage: S3Storage | R2Storage) -> None:
    """Refuse an endpoint that obstore alone would take from the environment: it would ask there for an empty list.

    Raises:
        StorageError: the environment has one.
    """
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        if os.environ.get(name):
            raise StorageError(
                f"{name} is set, and {storage.root} has no endpoint in the config:",
                f"write `endpoint: ${{{name}}}` to the storage, or unset the variable if the bucket is on AWS.",
            )


def _aws_chain(storage: S3Storage | R2Storage) -> object:
    """AWS's own chain, as in DuckDB and pyarrow: environment, profiles, container and instance roles."""
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - boto3 takes its time

    try:
        provider = Boto3CredentialProvider()
    except ValueError as error:
        raise no_credentials(storage.root) from error
    provider.config = {}  # the region is the storage's, not the profile's
    return provider


def web_client(storage: WebStorage) -> HTTPStore:
    """A client of a web server."""
    return HTTPStore.from_url(
        storage.url, client_options=_client_config(storage.requests), retry_config=_retry_config(storage.requests)
    )


def _gcs(storage: GcsStorage) -> GCSStore:
    options: dict[str, Any] = {}
    if storage.service_account is not None:
        options["service_account"] = storage.service_account
    return GCSStore(
        storage.bucket,
        prefix=storage.prefix or None,
        client_options=_client_config(storage.requests),
        retry_config=_retry_config(storage.requests),
        **options,
    )


def _azure(storage: AzureStorage) -> AzureStore:
    access = storage.access
    options: dict[str, Any] = {"account_key": access.key, "sas_key": access.sas}
    return AzureStore(
        storage.container,
        prefix=storage.prefix or None,
        account_name=access.account,
        endpoint=access.url,
        client_options=_client_config(storage.requests),
        retry_config=_retry_config(storage.requests),
        **{name: value for name, value in options.items() if value is not None},
    )
