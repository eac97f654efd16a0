"""A bucket whose server only the environment names: each command, and so each client, reaches it."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from dev.servers.s3 import S3Server
from lake_assets.cli import main

CONFIG = """
lakes:
  retail:
    catalog: {{type: sqlite, path: catalog.sqlite}}
    storage: {{type: s3, bucket: {bucket}, prefix: lake, key_id: {key_id}, secret: {secret}}}
streams:
  sales:
    source: {{type: s3, bucket: {bucket}, prefix: landing, key_id: {key_id}, secret: {secret}}}
    layout: region={{region}}
    partitions: {{region: {{values: [NW, SW]}}}}
    destination: {{table: sales}}
    mode: {mode}
"""
RECORDS = "".join(f'{{"region": "{region}", "total": {total}}}\n' for region, total in (("NW", 1.5), ("SW", 2.0)))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without variables of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.more
@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize(
    ("mode", "endpoint", "region"),
    [
        ("replace", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"),
        pytest.param("index", "AWS_ENDPOINT_URL_S3", "AWS_REGION", marks=pytest.mark.more),
    ],
)
def test_each_command_reaches_the_bucket(
    s3: S3Server, project: Path, monkeypatch: pytest.MonkeyPatch, mode: str, endpoint: str, region: str
) -> None:
    bucket = s3.new_bucket()
    (project / "lake.yaml").write_text(
        CONFIG.format(bucket=bucket, mode=mode, key_id=s3.access_key, secret=s3.secret_key)
    )
    for name, value in {endpoint: s3.endpoint, region: s3.region}.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, records: str | None = None) -> str:
        result = CliRunner().invoke(main, arguments, input=records)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("doctor")
    run("land", "sales", "-", records=RECORDS)
    run("ingest", "sales", "--all")
    run("ingest", "sales", "--all", *(["--force"] if mode == "replace" else []))
    assert run("query", "SELECT region, total FROM sales ORDER BY 1").splitlines()[1:] == ["NW,1.5", "SW,2.0"]
    run("check", "sales")
    run("maintain")

    folders = {entry["Key"].split("/")[0] for entry in s3.client().list_objects_v2(Bucket=bucket)["Contents"]}
    assert folders == ({"landing", "lake"} if mode == "replace" else {"landing"})
