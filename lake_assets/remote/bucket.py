"""AWS's clients of launchers and drivers, and the mark in a bucket by which a launcher cancels its driver."""

from collections.abc import Mapping
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from dagster_pipes import DAGSTER_PIPES_MESSAGES_ENV_VAR, decode_param

from lake_assets.errors import LauncherError

ATTEMPTS = 10
"""Of a request, the first one included: a lost message would make the launcher count its partition as lost."""


def client(service: str, region: str | None = None) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client with the credentials of the environment.

    Args:
        service: its name in boto3.
        region: that of the environment when None.
    """
    retries = {"mode": "standard", "total_max_attempts": ATTEMPTS}
    return boto3.client(service, region_name=region, config=Config(retries=retries))


def bucket_client() -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client of S3 with the credentials of the environment."""
    return client("s3")


def read_text(client: Any, bucket: str, key: str) -> str | None:  # noqa: ANN401 - boto3 has no types
    """Return the text of an object; None if it does not exist.

    Raises:
        ClientError, BotoCoreError: the bucket cannot be reached, or refuses.
    """
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
        "correct it, or let the credentials of the credential chain read, write and delete there.",
    )


class CancelMark:
    """The object `cancel` in the folder of a run's messages.

    Args:
        bucket: of the messages.
        prefix: of their keys.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._key = f"{prefix}/cancel"
        self._client = bucket_client()

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self | None:
        """Return that of the run whose Pipes variables these are; None if its messages are not in a bucket."""
        parameters = decode_param(variables[DAGSTER_PIPES_MESSAGES_ENV_VAR])
        return cls(parameters["bucket"], parameters["key_prefix"]) if "bucket" in parameters else None

    def put(self) -> None:
        """Cancel the run.

        Raises:
            LauncherError: the bucket cannot be reached, or refuses.
        """
        try:
            self._client.put_object(Bucket=self._bucket, Key=self._key, Body=b"cancel")
        except (ClientError, BotoCoreError) as error:
            raise unreachable(f"s3://{self._bucket}", error) from error

    def is_there(self) -> bool:
        """Return whether the run is cancelled.

        Raises:
            LauncherError: the bucket cannot be reached, or refuses.
        """
        try:
            return read_text(self._client, self._bucket, self._key) is not None
        except (ClientError, BotoCoreError) as error:
            raise unreachable(f"s3://{self._bucket}", error) from error
