"""The driver of a run on a worker of a cluster: `spark-submit` in a session of Dagster Pipes."""

import sys

import dagster as dg
from botocore.exceptions import BotoCoreError, ClientError

from lake_assets.config.models import LakeConfig
from lake_assets.config.spark_submit import SparkSubmit
from lake_assets.orchestration.dagster_private import StepContext
from lake_assets.orchestration.pipes_messages import BucketReader, PassingReader
from lake_assets.remote.attended import attend
from lake_assets.remote.bucket import unreachable
from lake_assets.remote.cluster_driver import ClusterDriver
from lake_assets.remote.received import Ended, Received
from lake_assets.remote.request import Request


def run_on_cluster(
    context: StepContext, config: LakeConfig, runs: SparkSubmit, request: Request, received: Received
) -> Ended:
    """Start a driver, and wait for its end.

    Raises:
        LauncherError: the settings do not fit, or the bucket of the messages refuses.
        SparkUnavailableError: there is no usable Java for `spark-submit`.
        DagsterExecutionInterruptedError: the run was cancelled; the driver has ended.
    """
    driver = ClusterDriver(config, runs, received, _print)
    try:
        messages = BucketReader(driver.messages)
        with dg.open_pipes_session(
            context=context,
            context_injector=messages.injector,
            message_reader=PassingReader(messages, received),
            extras=request.extras,
        ) as session:
            driver.start(session.get_bootstrap_env_vars())
            attend(driver, received)
    except (ClientError, BotoCoreError) as error:  # of Pipes' own requests
        raise unreachable(driver.messages, error) from error
    return driver.ended()


def _print(line: str) -> None:
    """Print a line to the output of this process, which Dagster keeps with the run."""
    sys.stderr.write(f"{line}\n")
