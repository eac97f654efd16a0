"""The request of a run and the messages of its driver as objects of a bucket, for a launcher without Dagster.

The driver writes objects `1.json`, `2.json`, … with a message a line, as `dagster_pipes` does.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lake_assets.config.uris import bucket_and_key
from lake_assets.errors import LauncherError
from lake_assets.remote.aws import client
from lake_assets.remote.pipes import context_of, variables
from lake_assets.remote.received import Received
from lake_assets.remote.request import Request


def bucket_client() -> Any:  # noqa: ANN401 - boto3 has no types
    """A client of S3 with the credentials of the environment."""
    return client("s3")


def read_text(client: Any, bucket: str, key: str) -> str | None:  # noqa: ANN401 - boto3 has no types
    """The text of an object; None if it does not exist.

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
    """The error for a folder of messages."""
    return LauncherError(
        f"runs.messages, {folder}, cannot be used ({error}):",
        "correct it, or let the credentials of the credential chain read, write and delete there.",
    )


class BucketMessages:
    """The request and the messages of one run.

    Args:
        folder: URI of the folder for those of all runs.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._bucket, prefix = bucket_and_key(folder)
        self._prefix = "/".join(filter(None, [prefix, uuid.uuid4().hex]))
        self._client = bucket_client()
        self._next = 1

    @contextmanager
    def opened(self, request: Request, received: Received) -> Iterator[dict[str, str]]:
        """Write the request, and yield Pipes' variables for the driver; the end of the block removes the request.

        Args:
            request: for the driver.
            received: takes a warning if the request cannot be removed.

        Raises:
            LauncherError: the bucket cannot be reached, or refuses.
        """
        place = {"Bucket": self._bucket, "Key": f"{self._prefix}/context.json"}
        body = json.dumps(context_of(request)).encode()
        self._call(lambda: self._client.put_object(Body=body, **place))
        try:
            yield variables(
                {"bucket": self._bucket, "key": place["Key"]}, {"bucket": self._bucket, "key_prefix": self._prefix}
            )
        finally:
            with received.warning(f"The request of the run, {self._folder}/…/context.json, stays"):
                self._call(lambda: self._client.delete_object(**place))

    def new(self) -> list[str]:
        """The lines since the last call.

        Raises:
            LauncherError: the bucket cannot be reached, or refuses.
        """
        lines: list[str] = []
        while (text := self._call(self._read)) is not None:
            self._next += 1
            lines += filter(None, text.split("\n"))
        return lines

    def _read(self) -> str | None:
        return read_text(self._client, self._bucket, f"{self._prefix}/{self._next}.json")

    def _call(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - boto3 has no types
        try:
            return call()
        except (ClientError, BotoCoreError) as error:
            raise unreachable(self._folder, error) from error
