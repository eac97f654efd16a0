"""`runs`: the launcher, in its long and short form, and the Spark settings that it does not fit."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.launchers import LAUNCHERS
from lake_assets.config.load import load_config
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import InProcess, SparkSubmit
from lake_assets.errors import ConfigError
from lake_assets_tests.config.test_schema_agreement import WRITTEN


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
    assert [written(tmp_path, runs=name).runs.launcher for name in LAUNCHERS] == list(LAUNCHERS)
    with pytest.raises(ConfigError, match=r"lake\.yaml:\d+:\d+: runs"):
        written(tmp_path, runs="emr_serverless")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"spark.remote": "sc://host"}, "names a Spark Connect server: use launcher in_process"),
        ({"spark.submit.deployMode": "cluster"}, "spark.submit.deployMode is cluster: remove it"),
    ],
)
def test_settings_that_do_not_fit_the_launcher_are_refused(tmp_path: Path, settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        written(tmp_path, spark=settings, runs="spark_submit")
    line = next(n for n, text in enumerate((tmp_path / "lake.yaml").read_text().splitlines(), 1) if "runs:" in text)
    assert str(raised.value).startswith(f"{tmp_path}/lake.yaml:{line}:1: launcher spark_submit")
    assert written(tmp_path, spark=settings).spark.settings == settings
