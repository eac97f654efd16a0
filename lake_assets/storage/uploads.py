"""boto3's client of S3 and R2, for what obstore's lacks; and the removal of abandoned multipart uploads.

S3 keeps the parts of such uploads, and no listing of objects shows them.
"""

from contextlib import suppress
from typing import Any

from lake_assets.config.storages import AnyStorage, R2Storage, S3Storage

_TIMEOUT = 5  # seconds


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
        client = s3_client(storage)
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=storage.bucket, Prefix=beginning):
            for upload in page.get("Uploads", ()):
                if upload["Key"].startswith(beginning):
                    client.abort_multipart_upload(Bucket=storage.bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def s3_client(storage: S3Storage | R2Storage, *, seconds: float = _TIMEOUT, tries: int = 2) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes when it runs
    """A client of the storage's server; nothing is connected yet.

    Args:
        storage: its server, region and keys.
        seconds: that an answer may take.
        tries: of each request.
    """
    import boto3  # noqa: PLC0415 - boto3 takes its time
    from botocore import UNSIGNED  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    service = storage.service
    config = Config(
        s3={"addressing_style": "path" if service.endpoint else "auto"},
        connect_timeout=_TIMEOUT,
        read_timeout=seconds,
        retries={"total_max_attempts": tries, "mode": "standard"},
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
