"""A driver as a job run of EMR Serverless: its request, its states, its cancellation.

Source: the API's reference, https://docs.aws.amazon.com/emr-serverless/latest/APIReference/, and the user guide's pages
on Python libraries, `driverEnv` and Secrets Manager.
"""

import gzip
import time
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lake_assets.base.errors import DriverLostError, LauncherError
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import EmrServerless
from lake_assets.config.uris import bucket_and_key
from lake_assets.storage.server_answers import request_may_pass
from lake_assets.wings.launch.cancellation import GRACE_SECONDS
from lake_assets.wings.launch.pipes import BucketMessages, Ended, Received, client
from lake_assets.wings.launch.request import Request

POLL_SECONDS = 5.0
CANCEL_SECONDS = 4 * GRACE_SECONDS  # for the application to end a job and its workers
DRIVER_VARIABLE = "spark.emr-serverless.driverEnv."

_ENVIRONMENT = "environment"  # the folder of the unpacked archive
_PYTHON = f"./{_ENVIRONMENT}/bin/python"
_ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})


def start_parameters(
    config: LakeConfig, runs: EmrServerless, request: Request, variables: Mapping[str, str]
) -> dict[str, Any]:
    """Return the request StartJobRun; it has no secret, because the Spark settings are validated to have none.

    `variables` are more of the driver, such as Pipes' own, which have neither spaces nor secrets.
    """
    settings = {f"{DRIVER_VARIABLE}{key}": value for key, value in runs.environment.items()}
    if runs.archive:
        settings |= {
            "spark.archives": f"{runs.archive}#{_ENVIRONMENT}",
            f"{DRIVER_VARIABLE}PYSPARK_DRIVER_PYTHON": _PYTHON,
            f"{DRIVER_VARIABLE}PYSPARK_PYTHON": _PYTHON,
            "spark.executorEnv.PYSPARK_PYTHON": _PYTHON,
        }
    settings |= config.spark.settings
    overrides: dict[str, Any] = {
        "applicationConfiguration": [{"classification": "spark-defaults", "properties": settings}]
    }
    if runs.logs:
        overrides["monitoringConfiguration"] = {"s3MonitoringConfiguration": {"logUri": f"{runs.logs}/"}}
    written = " ".join(f"--conf {DRIVER_VARIABLE}{name}={value}" for name, value in variables.items())
    parameters: dict[str, Any] = {
        "applicationId": runs.application_id,
        "executionRoleArn": runs.execution_role,
        "name": f"lake-assets {request.stream} {request.options.run_id}"[:256],
        "jobDriver": {"sparkSubmit": {"entryPoint": runs.entry_point, "sparkSubmitParameters": written}},
        "configurationOverrides": overrides,
        "tags": {**runs.tags, "lake-assets/run": request.options.run_id, "lake-assets/stream": request.stream},
    }
    if runs.timeout_minutes is not None:
        parameters["executionTimeoutMinutes"] = runs.timeout_minutes
    return parameters


class JobDriver:
    """A driver as one job run."""

    def __init__(self, config: LakeConfig, runs: EmrServerless, request: Request, received: Received) -> None:
        self.messages = BucketMessages(runs.messages)
        self._runs = runs
        # Its log takes the id of the job run, and the driver's own output after its end, if `runs.logs` has it
        self._received = received
        self._config = config
        self._request = request
        self._client = client("emr-serverless", runs.region)
        self._id: str | None = None
        self._answer: Mapping[str, Any] = {}

    @property
    def id(self) -> str:
        """The job run's id, once it has been started."""
        assert self._id is not None  # noqa: S101 - the callers have started it
        return self._id

    @property
    def name(self) -> str:
        """For messages."""
        return f"job run {self.id}"

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks at it."""
        return POLL_SECONDS

    def start(self, variables: Mapping[str, str]) -> None:
        """Start it, and the application if that is stopped."""
        parameters = start_parameters(self._config, self._runs, self._request, variables)
        answer = self._call("start a job run", lambda: self._client.start_job_run(**parameters))
        self._id = answer["jobRunId"]
        self._received.log("INFO", f"EMR Serverless {self.name} of application {answer['applicationId']}.")

    def cancel(self, look: Callable[[], None]) -> None:  # noqa: ARG002 - the launcher's form
        """Cancel it, and wait until its driver has ended, which records what it had begun."""
        if self.has_ended():
            return
        self._call(
            f"cancel the {self.name}",
            lambda: self._client.cancel_job_run(
                applicationId=self._runs.application_id,
                jobRunId=self.id,
                shutdownGracePeriodInSeconds=int(GRACE_SECONDS),
            ),
        )
        deadline = time.monotonic() + CANCEL_SECONDS
        while not self.has_ended() and time.monotonic() < deadline:
            time.sleep(min(POLL_SECONDS, 1))

    def ended(self) -> Ended:
        """Return how it ended, for the errors of partitions without an outcome."""
        folder = f"{self._runs.logs}/applications/{self._runs.application_id}/jobs/{self.id}/SPARK_DRIVER"
        if self._runs.logs:
            self._print_logs(folder)
        job = self._answer.get("jobRun", {})
        state = job.get("state", "unknown")
        details = f": {text}" if (text := str(job.get("stateDetails") or "").strip()) else ""
        reason = f"EMR Serverless job run {self.id} of application {self._runs.application_id} is {state}{details}"
        if state == "CANCELLED":
            return Ended(reason, "start the run again.", may_pass=False)
        where = f"{folder}/" if self._runs.logs else "the application's logs"
        return Ended(reason, f"the driver's output, in {where}, says why.")

    def _print_logs(self, folder: str) -> None:
        bucket, prefix = bucket_and_key(folder)
        for name in ("stdout", "stderr"):
            try:
                body = client("s3").get_object(Bucket=bucket, Key=f"{prefix}/{name}.gz")["Body"].read()
                for line in gzip.decompress(body).decode(errors="replace").splitlines():
                    self._received.log(None, line)
            except (ClientError, BotoCoreError, OSError, EOFError) as error:
                self._received.log("INFO", f"The driver's {name} is not in {folder}/ yet, or cannot be read: {error}")

    def has_ended(self) -> bool:
        """Return whether it has ended, by one request."""
        application, job = self._runs.application_id, self.id
        self._answer = self._call(
            f"look at the {self.name}", lambda: self._client.get_job_run(applicationId=application, jobRunId=job)
        )
        return self._answer["jobRun"]["state"] in _ENDED

    def _call(self, doing: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - boto3 has no types
        application = self._runs.application_id
        try:
            return call()
        except ClientError as error:
            text = error.response["Error"]
            raise (DriverLostError if request_may_pass(error) else LauncherError)(
                f"EMR Serverless, application {application}, refuses to {doing} ({text['Code']}: {text['Message']}):",
                "correct `runs` of the config, or the role's policy, or start the application.",
            ) from error
        except BotoCoreError as error:
            raise (DriverLostError if request_may_pass(error) else LauncherError)(
                f"EMR Serverless, application {application}, did not answer a request to {doing} ({error}):",
                "correct runs.region or the credentials of the credential chain, or run it again when it answers.",
            ) from error
