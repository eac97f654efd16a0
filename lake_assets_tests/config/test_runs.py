"""`runs`: the launcher, in its long and short form, and the Spark settings that it does not fit."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.config.modes import LAUNCHERS
from lake_assets.config.spark import EmrServerless, InProcess, SparkSubmit
from lake_assets.streams.load import load_config
from lake_assets_tests.config.test_schema_agreement import WRITTEN

EMR = {
    "launcher": "emr_serverless",
    "application_id": "00f5q3k2abcdef01",
    "execution_role": "arn:aws:iam::123456789012:role/lake/driver",
    "region": "eu-central-1",
    "entry_point": "s3://lake-runs/driver.py",
    "messages": "s3://lake-runs/messages",
    "config": "s3://lake-runs/lake.yaml",
}


def written(tmp_path: Path, **sections: Any) -> LakeConfig:
    document = {key: value for key, value in yaml.safe_load(WRITTEN).items() if key not in ("spark", "runs")}
    file = tmp_path / "lake.yaml"
    file.write_text(yaml.safe_dump(document | sections), encoding="utf-8")
    return load_config(file)


def test_the_launcher_has_a_short_and_a_long_form(tmp_path: Path) -> None:
    assert written(tmp_path).runs == InProcess(launcher="in_process")
    assert written(tmp_path, runs="in_process").runs == InProcess(launcher="in_process")
    assert written(tmp_path, runs="spark_submit").runs == SparkSubmit(launcher="spark_submit")
    runs = {"launcher": "spark_submit", "command": "bin/spark-submit"}
    config = written(tmp_path, runs=runs)
    assert config.runs == SparkSubmit(launcher="spark_submit", command=str(tmp_path / "bin" / "spark-submit"))
    assert config.file == tmp_path / "lake.yaml"


def test_the_names_of_the_command_are_those_of_the_config(tmp_path: Path) -> None:
    options: dict[str, dict[str, Any]] = {"emr_serverless": EMR}
    runs = [options.get(name, {}) | {"launcher": name} for name in LAUNCHERS]
    assert [written(tmp_path, runs=section).runs.launcher for section in runs] == list(LAUNCHERS)
    with pytest.raises(ConfigError, match=r"lake\.yaml:\d+:\d+: runs"):
        written(tmp_path, runs="yarn")


def test_emr_serverless_has_its_own_options(tmp_path: Path) -> None:
    runs = written(tmp_path, runs=EMR | {"messages": "s3://lake-runs/", "tags": {"paid": True}}).runs
    assert isinstance(runs, EmrServerless)
    assert (runs.messages, runs.tags, runs.archive) == ("s3://lake-runs", {"paid": "true"}, None)


RELATIVE = "runs.config: a relative path: write an absolute path on the driver, or s3://"
ABSENT = "runs.config is missing, and the driver has no file of this machine: write runs.config"
SECRET = "runs has a secret of this config, and the launcher would"


@pytest.mark.parametrize(
    ("runs", "change", "spark", "text"),
    [
        (EMR, {"execution_role": "lake-driver"}, {}, "runs.execution_role: has the wrong form: write arn:aws:iam::"),
        (EMR, {"entry_point": "/driver.py"}, {}, "runs.entry_point: not of the form s3://bucket/key"),
        (EMR, {"config": "lake.yaml"}, {}, RELATIVE),
        (EMR, {"environment": {"LAKE_PASSWORD": "correct horse"}}, {}, SECRET),
        (EMR, {}, {"master": "local"}, "launcher emr_serverless runs Spark in its application"),
    ],
)
def test_what_does_not_fit_the_launcher_is_named(
    tmp_path: Path, runs: dict[str, Any], change: dict[str, Any], spark: dict[str, str], text: str
) -> None:
    lakes = yaml.safe_load(WRITTEN)["lakes"]
    lakes["shop"]["catalog"]["password"] = "correct horse"
    with pytest.raises(ConfigError) as raised:
        written(tmp_path, lakes=lakes, spark=spark, runs=runs | change)
    assert text in str(raised.value)
    assert "correct horse" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"spark.remote": "sc://host"}, "names another: use launcher in_process"),
        (
            {"spark.submit.deployMode": "cluster"},
            "and spark.submit.deployMode is another: remove spark",
        ),
    ],
)
def test_settings_that_do_not_fit_the_launcher_are_refused(tmp_path: Path, settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        written(tmp_path, spark=settings, runs="spark_submit")
    line = next(n for n, text in enumerate((tmp_path / "lake.yaml").read_text().splitlines(), 1) if "runs:" in text)
    assert str(raised.value).startswith(f"{tmp_path}/lake.yaml:{line}:1: launcher spark_submit")
    assert written(tmp_path, spark=settings).spark.settings == settings
