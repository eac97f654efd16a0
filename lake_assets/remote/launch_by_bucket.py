"""Launches a driver whose messages are in a bucket, without Dagster."""

from collections.abc import Callable

from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark_submit import SparkSubmit
from lake_assets.remote.attended import ElsewhereDriver, attend
from lake_assets.remote.bucket import BucketMessages
from lake_assets.remote.cluster_driver import ClusterDriver
from lake_assets.remote.emr_serverless import JobDriver
from lake_assets.remote.pipes import take
from lake_assets.remote.received import Received
from lake_assets.remote.request import Request


def launch_job(config: LakeConfig, runs: EmrServerless, request: Request, received: Received) -> None:
    """Start a job run of EMR Serverless, take its messages while it runs, and wait for its end.

    Raises:
        LauncherError: the application refuses, or the bucket of the messages. After an interrupt it is a warning.
        BaseException: an interrupt, after the job run is cancelled and its last messages are taken; or as `finish`.
    """
    _launch(JobDriver(config, runs, request.stream), runs.messages, request, received)


def launch_on_cluster(
    config: LakeConfig, runs: SparkSubmit, request: Request, received: Received, output: Callable[[str], None]
) -> None:
    """Start a driver on a worker by `spark-submit`, take its messages while it runs, and wait for its end.

    Args:
        config: with the Spark settings.
        runs: the launcher.
        request: for the driver.
        received: takes the messages.
        output: takes the output of `spark-submit`, line by line.

    Raises:
        LauncherError: the settings do not fit, or the bucket of the messages refuses. After an interrupt it is a
            warning.
        SparkUnavailableError: there is no usable Java for `spark-submit`.
        BaseException: an interrupt, after the driver has ended and its last messages are taken; or as `finish`.
    """
    driver = ClusterDriver(config, runs, received, output)
    _launch(driver, driver.messages, request, received)


def _launch(driver: ElsewhereDriver, folder: str, request: Request, received: Received) -> None:
    messages = BucketMessages(folder)

    def take_new() -> None:
        for line in messages.new():
            take(line, received)

    with messages.opened(request, received) as variables:
        driver.start(variables)
        try:
            attend(driver, received, take_new)
        except BaseException:
            with received.warning("The driver's last messages are not read"):
                take_new()
            raise
        take_new()
    received.finish(driver.ended())
