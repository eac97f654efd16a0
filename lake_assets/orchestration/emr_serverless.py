"""The driver of a run as a job run of EMR Serverless, by dagster-aws's client of Dagster Pipes."""

import gzip
import sys
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from dagster_aws.pipes import PipesEMRServerlessClient

from lake_assets.config.emr_serverless import EmrServerless
from lake_assets.config.models import LakeConfig
from lake_assets.config.uris import bucket_and_key
from lake_assets.errors import LauncherError
from lake_assets.orchestration.dagster_private import StepContext
from lake_assets.orchestration.pipes_messages import BucketReader, PassingReader
from lake_assets.remote.bucket import bucket_client, unreachable
from lake_assets.remote.emr_serverless import Job, start_parameters
from lake_assets.remote.received import Ended, Received
from lake_assets.remote.request import Request


def run_job(
    context: StepContext, config: LakeConfig, runs: EmrServerless, request: Request, received: Received
) -> Ended:
    """Start a driver, and wait for its end.

    Raises:
        LauncherError: the application refuses, or the bucket of the messages.
        DagsterExecutionInterruptedError: the run was cancelled; the driver has ended.
    """
    job = Job(runs)
    messages = BucketReader(runs.messages)
    client = JobClient(job, messages, received)
    try:
        client.run(
            context=context,
            start_job_run_params=start_parameters(config, runs, f"lake-assets {request.stream} {context.run.run_id}"),
            extras=request.extras,
        )
    except (ClientError, BotoCoreError) as error:  # of the bucket: `Job` has errors of its own
        raise unreachable(runs.messages, error) from error
    if runs.logs:
        _print_logs(context, f"{runs.logs}/{job.log_prefix}")
    return job.ended()


def _print_logs(context: StepContext, folder: str) -> None:
    """Copy the driver's output from a bucket to that of this process, which Dagster keeps with the run."""
    client, (bucket, prefix) = bucket_client(), bucket_and_key(folder)
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        try:
            body = client.get_object(Bucket=bucket, Key=f"{prefix}/{name}.gz")["Body"].read()
            stream.write(gzip.decompress(body).decode(errors="replace"))
        except (ClientError, BotoCoreError, OSError, EOFError) as error:
            context.log.info(f"The driver's {name} is not in {folder}/ yet, or cannot be read: {error}")


class JobClient(PipesEMRServerlessClient):
    """Dagster's client, which leaves a job run's states, errors and cancellation to `Job`.

    Dagster's own logs the signed address of a dashboard, does not name a failed job, and does not wait for the driver
    of a cancelled run, which records what it had begun.
    """

    def __init__(self, job: Job, messages: BucketReader, received: Received) -> None:
        super().__init__(
            client=job.client,
            context_injector=messages.injector,
            message_reader=PassingReader(messages, received),
        )
        self._job = job

    def _start(self, context: Any, params: Any) -> Any:  # noqa: ANN401 - Dagster's types
        answer = self._job.start(params)
        context.log.info(f"EMR Serverless job run {self._job.id} of application {answer['applicationId']}.")
        return answer

    def _wait_for_completion(self, context: Any, start_response: Any) -> Any:  # noqa: ANN401, ARG002
        return self._job.wait()

    def _read_messages(self, context: Any, session: Any, response: Any) -> None:  # noqa: ANN401
        """Nothing: the bucket has been read while the driver ran."""

    def _terminate(self, context: Any, start_response: Any) -> None:  # noqa: ANN401, ARG002
        context.log.warning(f"The run is cancelled: so is the job run {self._job.id}.")
        try:
            self._job.cancel()
        except LauncherError as error:  # the interrupt counts more
            context.log.error(f"The job run {self._job.id} goes on: {error}")  # noqa: TRY400 - its text says it all
