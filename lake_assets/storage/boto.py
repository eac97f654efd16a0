"""Clients of boto3, reached on the way that a config describes, and what a bucket tells to anybody."""

import base64
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lake_assets.config.connections import NetworkSettings
from lake_assets.config.storages import R2Storage, S3Storage
from lake_assets.storage import patience

if TYPE_CHECKING:
    from botocore.config import Config

_CONNECTIONS = 16  # as many as there are threads that delete
_REGION_SECONDS = 5  # for the answer that names a region


def boto_options(way: NetworkSettings, config: "Config") -> dict[str, Any]:
    """Return what a session of boto3 takes for a client that is reached on this way."""
    from botocore.config import Config  # noqa: PLC0415 - boto3 takes its time

    proxies = dict.fromkeys(("http", "https"), way.proxy.get_secret_value()) if way.proxy else {}
    return {"verify": way.certificates, "config": config.merge(Config(proxies=proxies))}


def s3_client(storage: S3Storage | R2Storage, session: Any, seconds: float = 0) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """Make the client of a bucket's server, which sends each request once; nothing is connected yet.

    An answer may take the storage's `timeout`, or `seconds` if that is longer.
    """
    from botocore import UNSIGNED  # noqa: PLC0415 - boto3 takes its time
    from botocore.config import Config  # noqa: PLC0415

    config = patience.of_boto(storage.requests, seconds=seconds).merge(
        Config(
            s3={"addressing_style": "virtual" if storage.is_virtual else "path"},
            request_checksum_calculation=storage.checksums,
            response_checksum_validation=storage.checksums,
            max_pool_connections=_CONNECTIONS,
            ignore_configured_endpoint_urls=True,  # those of the environment
            **({"signature_version": UNSIGNED} if storage.anonymous else {}),
        )
    )
    options = boto_options(storage, config)
    client = session.client("s3", endpoint_url=storage.server_url, region_name=storage.region, **options)
    if storage.checksums == "when_required":
        client.meta.events.register("before-call.s3.PutObjectTagging", _add_md5)
    if storage.requester_pays:
        client.meta.events.register("before-call.s3", _add_payer)
    # It stays in the config's region, as the others do: it would ask for the bucket's own, for ever if nobody names it.
    client.meta.events.register_last("before-parameter-build.s3", _stay_in_region)
    return client


def region_of(storage: S3Storage) -> str | None:
    """Return the region of a bucket, which S3 names to anybody; None if its server does not.

    This is one request without a signature, so that it needs no keys.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    try:
        answer = _anonymous_client(storage).head_bucket(Bucket=storage.bucket)
    except ClientError as error:
        answer = error.response  # of 301 and 403, which name it too
    except BotoCoreError:
        return None  # the region is an addition to another error, which the caller has, and which says what to do
    region: str | None = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")
    return region


@lru_cache(maxsize=8)
def _anonymous_client(storage: S3Storage) -> Any:  # noqa: ANN401 - as above
    """Make the client of a bucket without keys; that takes longer than its request."""
    from boto3.session import Session  # noqa: PLC0415 - boto3 takes its time

    storage_without_keys: Any = patience.quick(storage.model_copy(update={"anonymous": True}), _REGION_SECONDS)
    return s3_client(storage_without_keys, Session())


def _add_md5(params: dict[str, Any], **_: object) -> None:
    """Add the checksum that all servers know; that of boto3 is a newer one."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


def _add_payer(params: dict[str, Any], **_: object) -> None:
    params["headers"]["x-amz-request-payer"] = "requester"


def _stay_in_region(context: dict[str, Any], **_: object) -> None:
    context["s3_redirect"]["redirected"] = True
