"""Dagster Pipes' protocol for a launcher: a driver's request, variables and messages, in files or in a bucket."""

import json
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError
from dagster_pipes import (
    DAGSTER_PIPES_CONTEXT_ENV_VAR,
    DAGSTER_PIPES_MESSAGES_ENV_VAR,
    PipesContextData,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
    encode_param,
)

from lake_assets.config.uris import bucket_and_key
from lake_assets.launch.received import Received
from lake_assets.remote.bucket import client, read_text, unreachable
from lake_assets.remote.request import Request


def context_of(request: Request) -> PipesContextData:
    """Return Pipes' context with the request."""
    return {
        "asset_keys": None,
        "code_version_by_asset_key": None,
        "provenance_by_asset_key": None,
        "partition_key": None,
        "partition_key_range": None,
        "partition_time_window": None,
        "run_id": request.options.run_id,
        "job_name": None,
        "retry_number": 0,
        "extras": request.extras,
    }


def variables(context: Mapping[str, object], messages: Mapping[str, object]) -> dict[str, str]:
    """Return the variables of a driver: where its context is, and where its messages go."""
    return {
        DAGSTER_PIPES_CONTEXT_ENV_VAR: encode_param(dict(context)),
        DAGSTER_PIPES_MESSAGES_ENV_VAR: encode_param(dict(messages)),
    }


def take(line: str, received: Received) -> None:
    """Take a line with one message."""
    message = json.loads(line)
    parameters = message["params"]
    match message["method"]:
        case "opened":
            received.open()
        case "report_custom_message":
            received.receive(parameters["payload"])
        case "log":
            received.log(parameters["level"], parameters["message"])


class FileMessages:
    """The request and the messages of one run in files, for a driver on this machine."""

    def __init__(self) -> None:
        self._reader: IO[str] | None = None
        self._begun = ""

    @contextmanager
    def opened(self, request: Request, received: Received) -> Iterator[dict[str, str]]:  # noqa: ARG002 - the launcher's form
        """Write the request, and yield Pipes' variables for the driver."""
        with tempfile.TemporaryDirectory(prefix="lake-assets-") as folder:
            self.folder = Path(folder)
            context, messages = self.folder / "context", self.folder / "messages"
            context.write_text(json.dumps(context_of(request)), encoding="utf-8")
            messages.touch()
            with messages.open(encoding="utf-8") as self._reader:
                yield variables(
                    {PipesDefaultContextLoader.FILE_PATH_KEY: str(context)},
                    {PipesDefaultMessageWriter.FILE_PATH_KEY: str(messages)},
                )

    def new(self) -> list[str]:
        """Return the whole lines since the last call."""
        assert self._reader is not None  # noqa: S101 - the launcher has opened it
        *lines, self._begun = (self._begun + self._reader.read()).split("\n")
        return lines


class BucketMessages:
    """The request and the messages of one run in a bucket, for a driver on another machine.

    The driver writes objects `1.json`, `2.json`, … with a message a line, as `dagster_pipes` does.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder  # URI of the folder for those of all runs
        self._bucket, prefix = bucket_and_key(folder)
        self._prefix = "/".join(filter(None, [prefix, uuid.uuid4().hex]))
        self._client = client("s3")
        self._next = 1

    @contextmanager
    def opened(self, request: Request, received: Received) -> Iterator[dict[str, str]]:
        """Write the request, and yield Pipes' variables for the driver; the end of the block removes the request.

        `received` takes a warning if the request cannot be removed.
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
        """Return the lines since the last call."""
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
