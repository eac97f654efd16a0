"""Passes messages of this package on when they arrive; Dagster Pipes would keep them until the driver has ended."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster_aws.pipes import PipesS3ContextInjector, PipesS3MessageReader

from lake_assets.config.uris import bucket_and_key
from lake_assets.remote.bucket import bucket_client
from lake_assets.remote.received import Received

READ_SECONDS = 1.0  # between two looks for messages in a bucket


class PassingReader(dg.PipesMessageReader):
    """Another reader, whose messages of this package go to the launcher at once."""

    def __init__(self, reader: dg.PipesMessageReader, received: Received) -> None:
        self._reader = reader
        self._received = received

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[dict[str, Any]]:
        """Read with the other reader."""
        passing: Any = PassingHandler(handler, self._received)
        with self._reader.read_messages(passing) as parameters:
            yield dict(parameters)

    def on_opened(self, opened_payload: Any) -> None:  # noqa: ANN401 - Dagster's type
        """Tell the other reader."""
        self._reader.on_opened(opened_payload)

    def no_messages_debug_text(self) -> str:
        """The other reader's text."""
        return self._reader.no_messages_debug_text()


class PassingHandler:
    """Pipes' own handler for all messages but this package's."""

    def __init__(self, handler: dg.PipesMessageHandler, received: Received) -> None:
        self._handler = handler
        self._received = received

    def handle_message(self, message: Any) -> None:  # noqa: ANN401 - Dagster's type
        """Take one message."""
        if message["method"] == "report_custom_message":
            self._received.receive(message["params"]["payload"])
            return
        if message["method"] == "opened":
            self._received.open()
        self._handler.handle_message(message)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an attribute of the handler
        return getattr(self._handler, name)


class BucketReader(PipesS3MessageReader):
    """Pipes' reader, whose keys are below a folder."""

    def __init__(self, folder: str) -> None:
        bucket, self._prefix = bucket_and_key(folder)
        super().__init__(bucket=bucket, client=bucket_client(), interval=READ_SECONDS)

    @property
    def injector(self) -> PipesS3ContextInjector:
        """Writes the request below the same folder."""
        return PipesS3ContextInjector(bucket=self.bucket, client=self.client, key_prefix=self._below(""))

    @contextmanager
    def get_params(self) -> Iterator[Mapping[str, Any]]:
        """Pipes' parameters for the driver."""
        with super().get_params() as parameters:
            yield {**parameters, "key_prefix": self._below(parameters["key_prefix"])}

    def _below(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key
