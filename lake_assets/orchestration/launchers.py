"""The driver of a run as a process of its own: Dagster's log and output are sinks of its launcher."""

import sys
from collections.abc import Callable, Sequence

from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import InProcess, RemoteRuns
from lake_assets.errors import LakeAssetsError, LauncherError
from lake_assets.ingest.options import IngestOptions
from lake_assets.launch.launcher import driver_of, launch
from lake_assets.launch.received import Received
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.dagster_private import StepContext
from lake_assets.remote.messages import Reported
from lake_assets.remote.request import Request
from lake_assets.streams.stream import OpenStream


class RemoteRun:
    """Launches drivers for the runs of one stream.

    Args:
        config: of the stream.
        runs: the launcher.
        stream: whose partitions are refreshed.
    """

    def __init__(self, config: LakeConfig, runs: RemoteRuns, stream: OpenStream) -> None:
        self._config = config
        self._runs = runs
        self._stream = stream

    def ingest(
        self,
        context: StepContext,
        partitions: Sequence[Partition],
        note: Callable[[Reported], None],
        options: IngestOptions,
    ) -> None:
        """Refresh partitions by a driver.

        Args:
            context: of the run.
            partitions: each once.
            note: is called with the outcome of each partition when it ends. If the driver is lost or cannot be started,
                the partitions without an outcome have that error.
            options: of the run.

        Raises:
            Exception: what ended the run in the driver.
            DagsterExecutionInterruptedError: the run was cancelled; the driver has ended.
        """
        if not partitions:
            return
        received = Received(partitions, note, log=context.log.log)
        try:
            request = Request.of(self._config, self._runs, self._stream.name, partitions, options)
            ended = launch(driver_of(self._config, self._runs, request, received, _print), request, received)
        except LakeAssetsError as error:
            received.fail(error if isinstance(error, LauncherError) else LauncherError(error.problem, error.hint))
            return
        received.finish(ended)


def remote_run(stream: OpenStream, config: LakeConfig | None) -> RemoteRun | None:
    """What launches the drivers of a stream's runs; None if they execute in the runs' process, as without a config."""
    return None if config is None or isinstance(config.runs, InProcess) else RemoteRun(config, config.runs, stream)


def _print(line: str) -> None:
    """Print a line to the output of this process, which Dagster keeps with the run."""
    sys.stderr.write(f"{line}\n")
