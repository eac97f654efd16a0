"""Launchers by Dagster Pipes: the driver of a run is a process of its own, and reports while it runs."""

import subprocess
from collections.abc import Callable, Sequence
from typing import Unpack

import dagster as dg

from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.config.kubernetes import Kubernetes
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import InProcess, RemoteRuns
from lake_assets.config.spark_submit import SparkSubmit
from lake_assets.errors import LakeAssetsError, LauncherError
from lake_assets.layout.partition import Partition
from lake_assets.orchestration.dagster_private import DagsterPipesExecutionError, StepContext, allow_no_output
from lake_assets.orchestration.emr_serverless import run_job
from lake_assets.orchestration.kubernetes import run_pod
from lake_assets.orchestration.pipes_messages import PassingReader
from lake_assets.orchestration.spark_cluster import run_on_cluster
from lake_assets.remote.messages import Reported
from lake_assets.remote.received import Ended, Received
from lake_assets.remote.request import Request, RunOptions
from lake_assets.remote.spark_submit import submission
from lake_assets.remote.supervise import WAIT_SECONDS
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
        received = Received(partitions, note, warn=context.log.warning)
        try:
            request = Request.of(self._config, self._runs, self._stream.name, partitions, **options)
            ended = self._launch(context, request, received)
        except LakeAssetsError as error:
            received.fail(error if isinstance(error, LauncherError) else LauncherError(error.problem, error.hint))
            return
        finally:
            allow_no_output(context)
        received.finish(ended)

    def _launch(self, context: StepContext, request: Request, received: Received) -> Ended:
        if isinstance(self._runs, EmrServerless):
            return run_job(context, self._config, self._runs, request, received)
        if isinstance(self._runs, Kubernetes):
            return run_pod(context, self._runs, request, received)
        if self._runs.is_in_cluster:
            return run_on_cluster(context, self._config, self._runs, request, received)
        return self._submit(context, self._runs, request, received)

    def _submit(self, context: StepContext, runs: SparkSubmit, request: Request, received: Received) -> Ended:
        driver = submission(self._config, runs, transforms=self._stream.config.transform is not None)
        client = dg.PipesSubprocessClient(
            message_reader=PassingReader(dg.PipesTempFileMessageReader(), received),
            termination_timeout_seconds=WAIT_SECONDS,
        )
        try:
            client.run(context=context, command=driver.command, env=driver.environment, extras=request.extras)
        except subprocess.TimeoutExpired as error:
            raise dg.DagsterExecutionInterruptedError from error
        except DagsterPipesExecutionError as error:
            return Ended(str(error))
        return Ended("it was terminated")


def remote_run(stream: OpenStream, config: LakeConfig | None) -> RemoteRun | None:
    """What launches the drivers of a stream's runs; None if they execute in the runs' process, as without a config."""
    return None if config is None or isinstance(config.runs, InProcess) else RemoteRun(config, config.runs, stream)
