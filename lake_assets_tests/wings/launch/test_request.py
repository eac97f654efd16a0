"""What a launcher hands to a driver: no secret in arguments, environment or context, and the same stream."""

import datetime as dt
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.base.errors import LauncherError
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import SparkSubmit
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.streams.load import load_config
from lake_assets.wings.launch.request import Request, facts_of
from lake_assets.wings.launch.spark_submit import spark_submit, submission
from lake_assets_tests.wings.launch import requests

SECRETS = ("lake-password", "landing-key", "landing-secret", "lake-secret")
CONFIG: dict[str, Any] = {
    "lakes": {
        "shop": {
            "catalog": {"type": "postgres", "database": "lake", "user": "me", "password": "${LAKE_PASSWORD}"},
            "storage": {"type": "s3", "bucket": "lake", "key_id": "k", "secret": "lake-secret"},
        }
    },
    "streams": {
        "sales": {
            "source": {"type": "s3", "bucket": "landing", "key_id": "landing-key", "secret": "landing-secret"},
            "partitions": {"region": {}},
            "destination": {"table": "sales"},
        }
    },
    "spark": {"spark.driver.memory": "1g"},
    "runs": "spark_submit",
}
RUNS = SparkSubmit(launcher="spark_submit")
SENT = replace(requests.request("r1"), config="s3://b/lake.yaml", launcher_config="/etc/lake.yaml")


@pytest.fixture
def config(tmp_path: Path) -> LakeConfig:
    file = tmp_path / "lake.yaml"
    file.write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    return load_config(file, {"LAKE_PASSWORD": "lake-password"})


def request(config: LakeConfig) -> Request:
    return Request.of(
        config,
        "sales",
        [config.streams["sales"].partition("region=NW")],
        IngestOptions(force=True, run_id="r1", run_at=dt.datetime(2026, 2, 11, tzinfo=dt.UTC), requested_by="me"),
    )


def test_no_secret_is_handed_on(config: LakeConfig) -> None:
    driver = submission(config, RUNS, transforms=False)
    handed = [*driver.command, *driver.environment.values(), json.dumps(request(config).extras)]
    assert any("spark.driver.memory=1g" in text for text in handed)
    assert any("region=NW" in text for text in handed)
    assert [secret for secret in SECRETS if any(secret in text for text in handed)] == []


def test_a_request_arrives_as_it_was(config: LakeConfig, tmp_path: Path) -> None:
    sent = request(config)
    assert Request.of_extras(json.loads(json.dumps(sent.extras))) == sent
    assert sent.config == str(tmp_path / "lake.yaml")


def test_a_request_of_another_version_is_refused(config: LakeConfig) -> None:
    extras = request(config).extras | {"version": "0.0.1", "new": 1}
    with pytest.raises(LauncherError, match=r"the run's launcher has 0\.0\.1: install the same version for both"):
        Request.of_extras(extras)


def test_a_config_without_a_file_is_refused() -> None:
    written = CONFIG | {"lakes": {"shop": {"catalog": {"type": "sqlite", "path": "c"}, "storage": "data"}}}
    with pytest.raises(LauncherError, match="write the config to a file"):
        request(LakeConfig.model_validate(written))


def test_the_program_is_that_of_the_config_of_spark_home_or_of_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert spark_submit(RUNS).endswith("/pyspark/bin/spark-submit")
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text("")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(LauncherError, match=r"from SPARK_HOME, is not a program: .*runs\.command"):
        spark_submit(RUNS)
    program.chmod(0o755)
    assert spark_submit(RUNS) == str(program)
    other = SparkSubmit(launcher="spark_submit", command=sys.executable)
    assert spark_submit(other) == sys.executable


def test_a_spark_connect_server_of_the_environment_is_refused(
    config: LakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host/;token=s3cret")
    with pytest.raises(LauncherError, match="names another: use launcher in_process") as raised:
        submission(config, RUNS, transforms=False)
    assert "s3cret" not in str(raised.value)


def with_stream(stream: dict[str, Any] | None = None, **lake: Any) -> LakeConfig:
    postgres = {"type": "postgres", "database": "lake", "host": "db", "user": "me", "password": "lake-password"}
    storage = {"type": "s3", "bucket": "lake", "key_id": "key", "secret": "lake-secret"}
    sales = {"source": "s3://landing/sales", "partitions": {"region": {}}, "destination": {"table": "sales"}}
    return LakeConfig.model_validate(
        {
            "lakes": {"shop": {"catalog": postgres, "storage": storage} | lake},
            "streams": {"sales": sales | (stream or {})},
        }
    )


def check(other: LakeConfig) -> None:
    replace(SENT, facts=facts_of(with_stream(), "sales")).check_same(other)


def test_credentials_and_addresses_may_differ() -> None:
    check(with_stream())
    check(
        with_stream(
            storage="s3://lake", catalog={"type": "postgres", "database": "lake", "host": "10.0.0.1", "user": "u"}
        )
    )
    check(with_stream({"source": {"type": "s3", "bucket": "landing", "prefix": "sales", "region": "eu-central-1"}}))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            with_stream({"mode": "append"}),
            "streams.sales.mode is 'replace' in the launcher's config /etc/lake.yaml, and 'append'",
        ),
        (with_stream({"source": "s3://other/sales"}), "streams.sales.source is 's3://landing/sales' in the launcher's"),
        (with_stream(storage="s3://other"), "lakes.shop.storage is 's3://lake' in the launcher's"),
        (with_stream(ledger="runs"), "lakes.shop.ledger is 'ingest_runs' in the launcher's"),
        (
            with_stream(catalog={"type": "postgres", "database": "other", "user": "me"}),
            "lakes.shop.catalog.database is 'lake' in the launcher's config /etc/lake.yaml, and 'other' in",
        ),
        (with_stream({"partitions": {"area": {}}}), "streams.sales.partitions.area.empty is absent in the launcher's"),
    ],
)
def test_another_stream_is_refused(other: LakeConfig, text: str) -> None:
    with pytest.raises(LauncherError) as raised:
        check(other)
    assert str(raised.value).startswith(text)
    assert "in the driver's s3://b/lake.yaml: copy the launcher's config" in str(raised.value)


def test_a_stream_that_the_driver_lacks_is_named() -> None:
    with pytest.raises(
        LauncherError, match=r"/etc/lake\.yaml has the stream returns, and the driver's s3://b/lake\.yaml"
    ):
        replace(SENT, stream="returns").check_same(with_stream())


def test_facts_have_no_secret() -> None:
    facts = facts_of(with_stream(), "sales")
    assert "lake-password" not in str(facts)
    assert "lake-secret" not in str(facts)
    assert facts["streams.sales.destination.table"] == "sales"
