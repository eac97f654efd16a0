"""EMR Serverless: moto's API, and in place of AWS's machines a `spark-submit` of this one that executes each job.

What only AWS can show stays untried: its images, its network, its roles, and how it stops a job.
"""

import gzip
import os
import shlex
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from dev.servers.moto import REGION, Moto, moto
from dev.servers.s3 import S3Server
from lake_assets.config.uris import bucket_and_key
from lake_assets.spark.jvm import find_java
from lake_assets.wings.launch.emr_serverless import DRIVER_VARIABLE
from lake_assets.wings.launch.spark_submit import ENTRY

__all__ = ["moto"]

ACCOUNT = "123456789012"  # moto's
ROLE = f"arn:aws:iam::{ACCOUNT}:role/lake/driver"


@dataclass
class Emr:
    """An application, and a bucket with the driver's script.

    Attributes:
        jobs: the job runs that were started, as moto has them.
    """

    api: Moto
    server: S3Server
    folder: Path
    bucket: str
    application: str = ""
    jobs: list[Any] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def runs(self) -> dict[str, Any]:
        """The section `runs` of a config."""
        return {
            "launcher": "emr_serverless",
            "application_id": self.application,
            "execution_role": ROLE,
            "region": REGION,
            "entry_point": f"s3://{self.bucket}/code/driver.py",
            "archive": f"s3://{self.bucket}/code/environment.tar.gz",
            "messages": f"s3://{self.bucket}/messages",
        }

    def upload(self, key: str, body: bytes) -> str:
        self.server.put(self.bucket, key, body)
        return f"s3://{self.bucket}/{key}"

    def keys(self, prefix: str) -> list[str]:
        answer = self.server.client().list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"] for entry in answer.get("Contents", ())]

    def execute(self, job: Any) -> None:
        """Execute a job run in another thread."""
        self.jobs.append(job)
        self.threads.append(threading.Thread(target=self._execute, args=(job,), daemon=True))
        self.threads[-1].start()

    def _execute(self, job: Any) -> None:
        place = self.folder / job.id
        place.mkdir()
        command, environment = self._command(job, place)
        with (place / "stdout").open("wb") as out, (place / "stderr").open("wb") as err:
            process = subprocess.Popen(
                command, cwd=place, env=environment, stdout=out, stderr=err, start_new_session=True
            )
            if job.state == "SUBMITTED":
                job.state = "RUNNING"
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
                if job.state == "CANCELLING":
                    self._stop(process)
        self._publish_logs(job, place)
        if process.returncode and job.state != "CANCELLING":
            job.state_details = f"Job failed, exit code {process.returncode}."
        job.state = "CANCELLED" if job.state == "CANCELLING" else "FAILED" if process.returncode else "SUCCESS"

    def _command(self, job: Any, place: Path) -> tuple[list[str], dict[str, str]]:
        submit = job.job_driver["sparkSubmit"]
        (classification,) = job.configuration_overrides["applicationConfiguration"]
        assert classification["classification"] == "spark-defaults"
        settings = dict(classification["properties"])
        words = shlex.split(submit["sparkSubmitParameters"])
        assert set(words[::2]) == {"--conf"}
        settings |= dict(word.split("=", 1) for word in words[1::2])
        variables = {
            name.removeprefix(DRIVER_VARIABLE): settings.pop(name)
            for name in list(settings)
            if name.startswith(DRIVER_VARIABLE)
        }
        folder = settings.pop("spark.archives").partition("#")[2]
        (place / folder).symlink_to(sys.prefix)  # the unpacked archive
        bucket, key = bucket_and_key(submit["entryPoint"])
        self.server.client().download_file(bucket, key, str(place / "driver.py"))
        program = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages/pyspark/bin"
        conf = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER_", "PYSPARK_"))}
        command = [str(program / "spark-submit"), "--master", "local[2]", "--deploy-mode", "client", *conf, "driver.py"]
        return command, kept | {"JAVA_HOME": str(find_java().home)} | variables

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        """Ask the driver's Python to end, once; a job without one is killed."""
        has_driver = False
        with suppress(psutil.NoSuchProcess):  # the job ends just now
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):  # a worker that ends just now
                    if not has_driver and child.cmdline()[-1].endswith("driver.py"):
                        child.terminate()
                        has_driver = True
        if not has_driver:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)

    def _publish_logs(self, job: Any, place: Path) -> None:
        monitoring = job.configuration_overrides.get("monitoringConfiguration")
        if monitoring is None:
            return
        bucket, prefix = bucket_and_key(monitoring["s3MonitoringConfiguration"]["logUri"])
        for name in ("stdout", "stderr"):
            key = f"{prefix}/applications/{job.application_id}/jobs/{job.id}/SPARK_DRIVER/{name}.gz"
            self.server.put(bucket, key, gzip.compress((place / name).read_bytes()))


@pytest.fixture
def emr(moto: Moto, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emr]:
    """An EMR Serverless application on moto; the environment has the keys of the S3 server."""
    from moto.emrserverless import models  # noqa: PLC0415 - may not be installed

    folder = tmp_path / "emr"
    folder.mkdir()
    found = Emr(moto, s3, folder, s3.new_bucket())
    answer = moto.client("emr-serverless").create_application(
        name="lake", releaseLabel="emr-7.0.0", type="SPARK", clientToken=uuid.uuid4().hex
    )
    found.application = answer["applicationId"]
    found.upload("code/driver.py", ENTRY.read_bytes())
    backend = models.EMRServerlessBackend
    start, cancel = backend.start_job_run, backend.cancel_job_run

    def start_and_execute(self: Any, *arguments: Any, **options: Any) -> Any:
        job = start(self, *arguments, **options)
        found.execute(job)
        return job

    def cancel_slowly(self: Any, application_id: str, job_run_id: str) -> tuple[str, str]:
        job = self.get_job_run(application_id, job_run_id)
        answer: tuple[str, str] = cancel(self, application_id, job_run_id)
        job.state = "CANCELLING"
        return answer

    monkeypatch.setattr(models, "JOB_STATUS", "SUBMITTED")
    monkeypatch.setattr(backend, "start_job_run", start_and_execute)
    monkeypatch.setattr(backend, "cancel_job_run", cancel_slowly)
    monkeypatch.setattr("lake_assets.wings.launch.emr_serverless.POLL_SECONDS", 0.2)
    variables = {
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_REGION": s3.region,
        "AWS_DEFAULT_REGION": s3.region,
    }
    with patch.dict(os.environ, variables):
        os.environ.pop("AWS_SESSION_TOKEN", None)
        yield found
        for thread in found.threads:
            thread.join(60)
