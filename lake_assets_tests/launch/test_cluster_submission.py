"""What `spark-submit` is given for a driver on a worker: no secret, nothing of this machine, and Spark's own names."""

from itertools import pairwise
from typing import Any

import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import SparkSubmit
from lake_assets.errors import LauncherError
from lake_assets.launch.cluster import ClusterSubmission, cluster_submission
from lake_assets.launch.spark_submit import ENTRY
from lake_assets_tests.remote.test_request import CONFIG, SECRETS

PIPES = {"DAGSTER_PIPES_MESSAGES": "eJx"}


def submitted(master: str, *, spark: dict[str, str] | None = None, **runs: Any) -> ClusterSubmission:
    options = {"launcher": "spark_submit", "deploy_mode": "cluster", "messages": "s3://bucket/m", **runs}
    sections = {"spark": {"master": master, **(spark or {})}, "runs": options | {"config": "/etc/lake.yaml"}}
    lakes = {"shop": {"catalog": {"type": "sqlite", "path": "c"}, "storage": "data"}}
    config = LakeConfig.model_validate(CONFIG | {"lakes": lakes} | sections)
    assert isinstance(config.runs, SparkSubmit)
    return cluster_submission(config, config.runs, PIPES)


def settings_of(command: tuple[str, ...]) -> dict[str, str]:
    pairs = pairwise(command)
    return dict(value.split("=", 1) for option, value in pairs if option == "--conf")


def test_a_standalone_cluster_gets_no_variable_that_the_config_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, secret in enumerate(SECRETS):
        monkeypatch.setenv(f"LAKE_SECRET_{number}", secret)
    monkeypatch.setenv("PATH", "/usr/bin")

    made = submitted("spark://host:7077", environment={"AWS_REGION": "eu"})

    assert set(made.environment) <= {
        *("PATH", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "AWS_REGION", "DAGSTER_PIPES_MESSAGES")
    }
    assert made.environment["PATH"].endswith("/bin:/usr/bin")
    assert [text for text in (*made.command, *made.environment.values()) if text in SECRETS] == []


def test_a_standalone_cluster_gets_a_class_that_starts_python() -> None:
    made = submitted("spark://host:7077", spark={"spark.pyspark.python": "/opt/lake/bin/python"})

    settings = settings_of(made.command)
    *_, option, name, jar, module, files, package = made.command
    assert (option, name) == ("--class", "org.apache.spark.deploy.PythonRunner")
    assert jar.startswith("file:///")
    assert (module, files, package) == ("-m", "", "lake_assets.remote")
    assert settings["spark.pyspark.python"] == "/opt/lake/bin/python"
    assert settings["spark.driver.supervise"] == "false"
    assert made.command[1:3] == ("--deploy-mode", "cluster")


def test_a_driver_is_killed_with_the_settings_of_the_network_only() -> None:
    spark = {"spark.driver.memory": "64g", "spark.ssl.enabled": "true"}

    command = submitted("spark://one:7077,two:7077", spark=spark).kill("driver-1")

    assert settings_of(command) == {"spark.ssl.enabled": "true"}
    assert command[-5:] == (
        *("org.apache.spark.deploy.Client", "spark-internal", "kill", "spark://one:7077,two:7077", "driver-1"),
    )


@pytest.mark.parametrize(
    ("master", "prefix", "script"),
    [
        ("yarn", "spark.yarn.appMasterEnv.", str(ENTRY)),
        ("k8s://https://host:6443", "spark.kubernetes.driverEnv.", f"local://{ENTRY}"),
    ],
)
def test_other_clusters_run_the_script_and_have_its_variables_as_settings(
    master: str, prefix: str, script: str
) -> None:
    made = submitted(master, environment={"AWS_REGION": "eu"})

    settings = settings_of(made.command)
    assert made.command[-1] == script
    assert settings[f"{prefix}AWS_REGION"] == "eu"
    assert settings[f"{prefix}DAGSTER_PIPES_MESSAGES"] == "eJx"
    assert "--class" not in made.command
    assert "spark.pyspark.python" not in settings
    assert settings.get("spark.yarn.maxAppAttempts") == ("1" if master == "yarn" else None)


def test_a_program_outside_of_an_installation_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LauncherError, match=r"is not in an installation of Spark, which has a folder jars: set SPARK_"):
        submitted("spark://host:7077", command=str(program))
