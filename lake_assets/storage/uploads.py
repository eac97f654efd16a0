"""boto3's client of S3 and R2, for what obstore's lacks; and the removal of abandoned multipart uploads.

S3 keeps the parts of such uploads, and no listing of objects shows them.
"""

import http
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from lake_assets.config.storages import AnyStorage, R2Storage, S3Storage
from lake_assets.retrying import retry
from lake_assets.storage.retry_window import pauses, retries

Result = TypeVar("Result")

_LATER = {http.HTTPStatus.REQUEST_TIMEOUT, http.HTTPStatus.TOO_MANY_REQUESTS}


def abort_uploads(storage: AnyStorage, prefix: str) -> None:
    """Abort the uploads to keys with this prefix, if the store permits it; only S3 and R2 have such uploads.

    Google Cloud Storage and Azure delete theirs after a week.

    Args:
        storage: of the uploads.
        prefix: of keys below the storage's root; no other attempt has it.
    """
    if not isinstance(storage, S3Storage | R2Storage):
        return
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    beginning = f"{storage.prefix}/{prefix}" if storage.prefix else prefix
    # If this fails, a rule of the bucket's lifecycle removes the parts.
    with suppress(BotoCoreError, ClientError):
        retried(storage, partial(_abort, storage, beginning))


def _abort(storage: S3Storage | R2Storage, beginning: str) -> None:
    client = s3_client(storage)
    for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=storage.bucket, Prefix=beginning):
        for upload in page.get("Uploads", ()):
            if upload["Key"].startswith(beginning):
                client.abort_multipart_upload(Bucket=storage.bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def retried(storage: S3Storage | R2Storage, work: Callable[[], Result]) -> Result:
    """Call `work`, which sends requests of boto3's client, with the storage's retries and pauses.

    boto3 retries too, but its pauses are random from zero on, so that it may give up at once.

    Raises:
        ClientError, BotoCoreError: the last error.
    """
    return retry(work, passes=_may_pass, limit=retries(storage.requests), pause=pauses(storage.requests))


def _may_pass(error: BaseException) -> bool:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - boto3 takes its time

    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_of_server = status >= http.HTTPStatus.INTERNAL_SERVER_ERROR and status != http.HTTPStatus.NOT_IMPLEMENTED
        return is_of_server or status in _LATER
    return isinstance(error, BotoCoreError)


def s3_client(storage: S3Storage | R2Storage, *, seconds: float = 0) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """A client of the storage's server, which sends each request once; nothing is connected yet.

    Args:
        storage: its server, region, keys and time-outs.
        seconds: that an answer may take, if that is longer than the storage's `timeout`.
    """
    import boto3  # noqa: PLC0415 - boto3 takes its time
    from botocore import UNSIGNED  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    service = storage.service
    config = Config(
        s3={"addressing_style": "path" if service.endpoint else "auto"},
        connect_timeout=storage.requests.connect_timeout,
        read_timeout=max(seconds, storage.requests.timeout),
        retries={"total_max_attempts": 1, "mode": "standard"},
        **({"signature_version": UNSIGNED} if service.anonymous else {}),
    )
    return boto3.session.Session().client(
        "s3",
        endpoint_url=service.endpoint,
        region_name=service.region,
        aws_access_key_id=storage.key_id,
        aws_secret_access_key=storage.secret and storage.secret.get_secret_value(),
        aws_session_token=storage.session_token and storage.session_token.get_secret_value(),
        config=config,
    )
