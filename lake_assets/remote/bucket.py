"""AWS's clients of launchers and drivers."""

import os
from typing import Any

from boto3.session import Session
from botocore.config import Config

from lake_assets.config.bucket_requests import Reached, way_to
from lake_assets.errors import LauncherError
from lake_assets.storage.boto import boto_client

ATTEMPTS = 10
"""Of a request, the first one included: a lost message would make the launcher count its partition as lost."""


def client(service: str, region: str | None = None) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client with the credentials of the environment, on the way that its variables have."""
    session = Session()
    way = way_to(session.client(service, region_name=region).meta.endpoint_url, os.environ)
    config = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
    return boto_client(service, Reached.model_validate(way), config, session, region_name=region)


def read_text(client: Any, bucket: str, key: str) -> str | None:  # noqa: ANN401 - boto3 has no types
    """Return the text of an object; None if it does not exist. Other errors are boto3's."""
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except client.exceptions.NoSuchKey:
        return None
    text: str = answer["Body"].read().decode()
    return text


def unreachable(folder: str, error: Exception) -> LauncherError:
    """Return the error for a folder of messages."""
    return LauncherError(
        f"runs.messages, {folder}, cannot be used ({error}):",
        "correct it, or let the credential chain have s3:GetObject, s3:PutObject and s3:DeleteObject there.",
    )
