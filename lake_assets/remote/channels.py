"""The driver's end of Dagster Pipes: files, the log of a pod, or a bucket, as the launcher's parameters say.

Source of the parameters: `dagster_pipes`, its loaders and writers.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from dagster_pipes import (
    PipesContext,
    PipesContextLoader,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
    PipesEnvVarParamsLoader,
    PipesMessageWriter,
    PipesMessageWriterChannel,
    PipesS3ContextLoader,
    PipesS3MessageWriter,
    open_dagster_pipes,
)

WRITE_SECONDS = 1.0  # between two objects with messages
_BUCKET = "bucket"


def open_pipes() -> PipesContext:
    """Take the request, and open the way for messages."""
    loader = PipesEnvVarParamsLoader()  # type: ignore[no-untyped-call]
    return open_dagster_pipes(
        context_loader=_context_loader(loader.load_context_params()),
        message_writer=_message_writer(loader.load_messages_params()),
    )


def has_bucket() -> bool:
    """Return whether this driver's messages go to a bucket."""
    return _BUCKET in PipesEnvVarParamsLoader().load_messages_params()  # type: ignore[no-untyped-call]


def _context_loader(parameters: Any) -> PipesContextLoader:  # noqa: ANN401 - Pipes' type
    return PipesS3ContextLoader(_s3()) if _BUCKET in parameters else PipesDefaultContextLoader()


def _message_writer(parameters: Any) -> "PipesMessageWriter[Any]":  # noqa: ANN401 - Pipes' type
    if _BUCKET in parameters:
        return PipesS3MessageWriter(_s3(), interval=WRITE_SECONDS)
    if parameters.get(PipesDefaultMessageWriter.STDIO_KEY) == PipesDefaultMessageWriter.STDERR:
        return _StderrWriter()
    return PipesDefaultMessageWriter()


def _s3() -> Any:  # noqa: ANN401 - boto3 has no types
    from lake_assets.remote.bucket import bucket_client  # noqa: PLC0415 - imports boto3, and only some launchers use it

    return bucket_client()


class _StderrWriter(PipesMessageWriter["_Lines"]):
    """Writes messages to standard error, which is theirs alone: all other output goes to standard output.

    The JVM writes to the same streams without a lock, so its text could be within a message.
    """

    @contextmanager
    def open(self, params: Any) -> Iterator["_Lines"]:  # noqa: ANN401, ARG002 - Pipes' form
        sys.stderr.flush()
        own = os.dup(2)
        os.dup2(1, 2)
        try:
            with os.fdopen(own, "w", encoding="utf-8") as stream:
                yield _Lines(stream)
        finally:
            sys.stderr.flush()


class _Lines(PipesMessageWriterChannel):
    """One line a message, also from several threads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write_message(self, message: Any) -> None:  # noqa: ANN401 - Pipes' type
        """Write one message at once."""
        with self._lock:
            self._stream.write(f"{json.dumps(message)}\n")
            self._stream.flush()
