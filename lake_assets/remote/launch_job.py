"""Launches a driver as a job run of EMR Serverless without Dagster."""

import time

from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.config.models import LakeConfig
from lake_assets.remote import emr_serverless
from lake_assets.remote.bucket import BucketMessages
from lake_assets.remote.emr_serverless import Job, start_parameters, with_variables
from lake_assets.remote.pipes import take
from lake_assets.remote.received import Received
from lake_assets.remote.request import Request


def launch_job(config: LakeConfig, runs: EmrServerless, request: Request, received: Received) -> None:
    """Start a driver, take its messages while it runs, and wait for its end.

    Raises:
        LauncherError: the application refuses, or the bucket of the messages. After an interrupt it is a warning.
        BaseException: an interrupt, after the job run is cancelled and its last messages are taken; or as `finish`.
    """
    messages, job = BucketMessages(runs.messages), Job(runs)

    def take_new() -> None:
        for line in messages.new():
            take(line, received)

    with messages.opened(request, received) as variables:
        job.start(with_variables(start_parameters(config, runs, f"lake-assets {request.stream}"), variables))
        try:
            while not job.has_ended():
                take_new()
                time.sleep(emr_serverless.POLL_SECONDS)
        except BaseException:
            with received.warning(f"The job run {job.id} goes on"):
                job.cancel()
            with received.warning("The driver's last messages are not read"):
                take_new()
            raise
        take_new()
    received.finish(job.ended())
