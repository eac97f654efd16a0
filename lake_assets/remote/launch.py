"""Launches a driver without Dagster: Pipes' parameters, context and messages in files."""

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from dagster_pipes import (
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
)

from lake_assets.remote.pipes import context_of, take, variables
from lake_assets.remote.received import Ended, Received
from lake_assets.remote.request import Request
from lake_assets.remote.spark_submit import Submission
from lake_assets.remote.supervise import WAIT_SECONDS

_POLL_SECONDS = 0.05


def launch(driver: Submission, request: Request, received: Received) -> None:
    """Start a driver, take its messages while it runs, and wait for its end.

    Raises:
        BaseException: an interrupt, after the driver has ended and its last messages are taken; or as `finish`.
    """
    with tempfile.TemporaryDirectory(prefix="lake-assets-") as name:
        folder = Path(name)
        messages = folder / "messages"
        messages.touch()
        environment = {**os.environ, **driver.environment, **_parameters(folder, request)}
        process = subprocess.Popen(driver.command, env=environment)  # noqa: S603 - our own command
        with messages.open(encoding="utf-8") as reader:
            lines = _Lines(reader)
            try:
                while process.poll() is None:
                    _take(lines, received)
                    time.sleep(_POLL_SECONDS)
            except BaseException:
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(WAIT_SECONDS)
                raise
            finally:
                _take(lines, received)
    received.finish(Ended(f"exit code {process.returncode}"))


def _parameters(folder: Path, request: Request) -> dict[str, str]:
    """Pipes' variables: the paths of the files of context and messages."""
    file = folder / "context"
    file.write_text(json.dumps(context_of(request)), encoding="utf-8")
    messages = {PipesDefaultMessageWriter.FILE_PATH_KEY: str(folder / "messages")}
    return variables({PipesDefaultContextLoader.FILE_PATH_KEY: str(file)}, messages)


class _Lines:
    """The whole lines of a file that grows."""

    def __init__(self, reader: IO[str]) -> None:
        self._reader = reader
        self._begun = ""

    def new(self) -> list[str]:
        """The lines since the last call."""
        *lines, self._begun = (self._begun + self._reader.read()).split("\n")
        return lines


def _take(lines: _Lines, received: Received) -> None:
    for line in lines.new():
        take(line, received)
