"""Dagster Pipes' protocol for a launcher: a driver's request, variables and messages, in files or in a bucket."""

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from dagster_pipes import (
    DAGSTER_PIPES_CONTEXT_ENV_VAR,
    DAGSTER_PIPES_MESSAGES_ENV_VAR,
    PipesContextData,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
    encode_param,
)

from lake_assets.base.errors import DriverLostError, LauncherError
from lake_assets.base.events import Event, pass_on
from lake_assets.config.connections import NetworkSettings, environment_network
from lake_assets.config.uris import bucket_and_key
from lake_assets.ingest.outcome import Outcome, report_outcome
from lake_assets.storage.boto import boto_options
from lake_assets.wings.launch.request import End, PipesMessage, Request, report_of

ATTEMPTS = 10
"""Of a request, the first one included: a lost message would make the launcher count its partition as lost."""


def client(service: str, region: str | None = None) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client with the credentials of the environment, on the way that its variables have."""
    session = Session()
    way = environment_network(session.client(service, region_name=region).meta.endpoint_url, os.environ)
    config = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
    return session.client(service, region_name=region, **boto_options(NetworkSettings.model_validate(way), config))


def read_text(client: Any, bucket: str, key: str) -> str | None:  # noqa: ANN401 - boto3 has no types
    """Return the text of an object; None if it does not exist. Other errors are boto3's."""
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except client.exceptions.NoSuchKey:
        return None
    text: str = answer["Body"].read().decode()
    return text


def unreachable_folder(folder: str, error: Exception) -> LauncherError:
    """Return the error for a folder of messages."""
    return LauncherError(
        f"runs.messages, {folder}, cannot be used ({error}):",
        "correct it, or let the credential chain have s3:GetObject, s3:PutObject and s3:DeleteObject there.",
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver's process ended."""

    reason: str  # for errors of partitions without an outcome
    hint: str = "its own output, on stdout and stderr, says why."  # where the driver's own output is, or what to do
    may_pass: bool = True  # whether a retry may succeed if the driver had started


class Received:
    """Takes the messages of one driver."""

    def __init__(
        self,
        pending: Sequence[Outcome],
        note: Callable[[Outcome], None],
        opened: Callable[[], None] = lambda: None,
        log: Callable[[str | None, str], object] = lambda *_: None,
    ) -> None:
        # The outcomes that are not known yet, by the partitions' paths
        self.pending = {outcome.partition.path: outcome for outcome in pending}
        self._partitions = {path: outcome.partition for path, outcome in self.pending.items()}
        self._note = note  # is called with the outcome of each partition when it arrives, after its event
        self._opened = opened  # is called when the driver has started
        # Is called with level and text of messages of the driver's log, and of the launcher's warnings; without a level
        # with the lines of the driver's own output, where the engine has it
        self.log = log
        self._has_started = False
        self._end: End | None = None
        self._problem: BaseException | None = None  # of this process, with a message

    def open(self) -> None:
        """Note that the driver has started."""
        self._has_started = True
        self._opened()

    @contextmanager
    def warning(self, consequence: str) -> Iterator[None]:
        """Warn of a launcher's error in the block, where an interrupt or what the driver has reported counts more."""
        try:
            yield
        except LauncherError as error:
            self.log("WARNING", f"{consequence}: {error}")

    def receive(self, message: PipesMessage) -> None:
        """Take a message. An error of this process is raised by `finish`, in the thread that launched the driver."""
        try:
            report = report_of(message, self._partitions)
            if isinstance(report, Event):
                pass_on(report)
            elif isinstance(report, End):
                self._end = report
            else:
                self.take(report)
        except BaseException as error:  # noqa: BLE001 - see above
            self._problem = self._problem or error

    def finish(self, ended: Ended) -> None:
        """Take the end of the driver's process: partitions without an outcome get an error.

        Raises what ended the run in the driver, or what a message raised here.
        """
        if self._problem is not None:
            raise self._problem
        if self._end is not None and self._end.error is not None:
            raise self._end.error
        self.fail(self._lost(ended))

    def fail(self, error: LauncherError) -> None:
        """Give the partitions without an outcome this error."""
        for outcome in list(self.pending.values()):
            self.take(replace(outcome, error=error))

    def take(self, outcome: Outcome) -> None:
        """Take the outcome of a partition."""
        self.pending.pop(outcome.partition.path, None)
        report_outcome(outcome)
        self._note(outcome)

    def _lost(self, ended: Ended) -> LauncherError:
        if not self._has_started:
            return LauncherError(f"the driver of the run did not start ({ended.reason}):", ended.hint)
        kind = DriverLostError if ended.may_pass else LauncherError
        return kind(f"the driver of the run ended before the partition did ({ended.reason}):", ended.hint)


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
            raise unreachable_folder(self._folder, error) from error
