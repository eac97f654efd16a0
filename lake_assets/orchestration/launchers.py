"""Launchers by Dagster Pipes: the driver of a run is a process of its own, and reports while it runs."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import dagster as dg

from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import RemoteRuns
from lake_assets.errors import LakeAssetsError, LauncherError
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.dagster_private import DagsterPipesExecutionError, allow_no_output
from lake_assets.remote.messages import Reported
from lake_assets.remote.received import Received
from lake_assets.remote.request import Request, RunOptions
from lake_assets.remote.spark_submit import submission
from lake_assets.remote.supervise import WAIT_SECONDS
from lake_assets.streams.stream import OpenStream


class RemoteRun:
    """Launches drivers for the runs of one stream.

    Args:
        config: of the stream, read from a file.
        runs: the launcher.
        stream: whose partitions are refreshed.
    """

    def __init__(self, config: LakeConfig, runs: RemoteRuns, stream: OpenStream) -> None:
        self._config = config
        self._runs = runs
        self._stream = stream

    def ingest(
        self,
        context: dg.AssetExecutionContext,
        partitions: Sequence[Partition],
        note: Callable[[Reported], None],
        **options: Unpack[RunOptions],
    ) -> None:
        """Refresh partitions by a driver.

        Args:
            context: of the run.
            partitions: each once.
            note: is called with the outcome of each partition when it ends, in another thread. If the driver is lost
                or cannot be started, the partitions without an outcome have that error.
            options: those of `ingest_all`.

        Raises:
            Exception: what ended the run in the driver.
            DagsterExecutionInterruptedError: the run was cancelled; the driver has ended.
        """
        if not partitions:
            return
        received = Received(partitions, note)
        reason = "it was terminated"
        try:
            self._launch(context, Request.of(self._config, self._stream.name, partitions, **options), received)
        except DagsterPipesExecutionError as error:
            reason = str(error)
        except LakeAssetsError as error:
            received.fail(LauncherError(error.problem, error.hint))
            return
        finally:
            allow_no_output(context)
        received.finish(reason)

    def _launch(self, context: dg.AssetExecutionContext, request: Request, received: Received) -> None:
        driver = submission(self._config, self._runs, transforms=self._stream.config.transform is not None)
        client = dg.PipesSubprocessClient(
            message_reader=_Reader(dg.PipesTempFileMessageReader(), received),
            termination_timeout_seconds=WAIT_SECONDS,
        )
        try:
            client.run(context=context, command=driver.command, env=driver.environment, extras=request.extras)
        except subprocess.TimeoutExpired as error:
            raise dg.DagsterExecutionInterruptedError from error


class _Reader(dg.PipesMessageReader):
    """Passes messages of this package on when they arrive; Pipes would keep them until the driver has ended."""

    def __init__(self, reader: dg.PipesMessageReader, received: Received) -> None:
        self._reader = reader
        self._received = received

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[dict[str, Any]]:
        with self._reader.read_messages(_Handler(handler, self._received)) as parameters:  # type: ignore[arg-type]
            yield dict(parameters)

    def on_opened(self, opened_payload: Any) -> None:  # noqa: ANN401 - Dagster's type
        self._received.open()
        self._reader.on_opened(opened_payload)

    def no_messages_debug_text(self) -> str:
        return self._reader.no_messages_debug_text()


class _Handler:
    """Pipes' own handler for all messages but this package's."""

    def __init__(self, handler: dg.PipesMessageHandler, received: Received) -> None:
        self._handler = handler
        self._received = received

    def handle_message(self, message: Any) -> None:  # noqa: ANN401 - Dagster's type
        """Take one message."""
        if message["method"] == "report_custom_message":
            self._received.receive(message["params"]["payload"])
        else:
            self._handler.handle_message(message)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an attribute of the handler
        return getattr(self._handler, name)
