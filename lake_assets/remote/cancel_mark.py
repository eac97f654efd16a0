"""An object beside the messages of a run, by which its launcher cancels a driver that no signal reaches."""

from collections.abc import Mapping
from typing import Self

from botocore.exceptions import BotoCoreError, ClientError
from dagster_pipes import DAGSTER_PIPES_MESSAGES_ENV_VAR, decode_param

from lake_assets.remote.bucket import bucket_client, read_text, unreachable


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
        """That of the run whose Pipes variables these are; None if its messages are not in a bucket."""
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
        """Whether the run is cancelled.

        Raises:
            LauncherError: the bucket cannot be reached, or refuses.
        """
        try:
            return read_text(self._client, self._bucket, self._key) is not None
        except (ClientError, BotoCoreError) as error:
            raise unreachable(f"s3://{self._bucket}", error) from error
