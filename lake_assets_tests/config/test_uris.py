"""A config that is an object of a bucket, on a real S3 server, and URIs in a config."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest
import yaml
from click.testing import CliRunner

from dev.servers.s3 import S3Server
from lake_assets.base.errors import ConfigError, StorageError
from lake_assets.cli import main
from lake_assets.config.uris import bucket_and_key, is_uri
from lake_assets.streams.load import load_config
from lake_assets_tests.world import World


@pytest.fixture
def environment(s3: S3Server) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_REGION": s3.region,
    }


@pytest.fixture
def bucket(s3: S3Server, local_world: World, environment: dict[str, str]) -> Iterator[str]:
    """A bucket with a config."""
    name = s3.new_bucket()
    local_world.options["description"] = "${ABOUT}"
    s3.put(name, "some/lake.yaml", yaml.safe_dump(local_world.document).encode())
    with patch.dict(os.environ, environment):
        yield name


def test_a_config_is_read_from_a_bucket_with_the_credentials_of_the_environment(
    bucket: str, environment: dict[str, str], local_world: World
) -> None:
    config = load_config(f"s3://{bucket}/some/lake.yaml", environment | {"ABOUT": "shops"})
    assert (config.uri, config.file) == (f"s3://{bucket}/some/lake.yaml", None)
    assert config.streams["sales"].description == "shops"
    named = load_config(None, environment | {"ABOUT": "shops", "LAKE_CONFIG": f"s3://{bucket}/some/lake.yaml"})
    assert named == config
    assert named.lakes == local_world.config.lakes


def test_the_command_takes_the_uri(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["--config", f"s3://{bucket}/some/lake.yaml", "validate"]
    result = CliRunner().invoke(main, command, env={"ABOUT": "shops"})
    assert result.exit_code == 0, result.output
    monkeypatch.delenv("ABOUT", raising=False)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert f"Error: s3://{bucket}/some/lake.yaml:" in result.output
    assert "ABOUT" in result.output


def test_a_relative_path_of_such_a_config_is_refused(bucket: str, s3: S3Server, environment: dict[str, str]) -> None:
    uri = f"s3://{bucket}/lake.yaml"
    text = """\
lakes: {shop: {catalog: {type: sqlite, path: catalog.sqlite}, storage: /srv/lake}}
streams: {sales: {source: landing, partitions: {region: {}}, destination: {table: sales}}}
"""
    s3.put(bucket, "lake.yaml", text.encode())
    with pytest.raises(ConfigError) as raised:
        load_config(uri, environment)
    first, second = str(raised.value).splitlines()
    problem = "is a relative path, and a config that is read from a URI has no folder: write the whole path"
    assert first.startswith(f"{uri}:1:")
    assert f"catalog.path: 'catalog.sqlite' {problem}" in first
    assert second.startswith(f"{uri}:2:")
    assert f"'landing' {problem}" in second


def test_what_is_not_there_or_too_large_is_named(bucket: str, s3: S3Server, environment: dict[str, str]) -> None:
    s3.put(bucket, "big.yaml", b"#" * (2**20 + 1))
    with pytest.raises(ConfigError, match=f"there is no config s3://{bucket}/no.yaml: copy one there"):
        load_config(f"s3://{bucket}/no.yaml", environment)
    with pytest.raises(ConfigError, match=r"there is no config s3://no-such-bucket-here/lake\.yaml"):
        load_config("s3://no-such-bucket-here/lake.yaml", environment)
    with pytest.raises(ConfigError, match="has more than 1,048,576 bytes"):
        load_config(f"s3://{bucket}/big.yaml", environment)


@pytest.mark.usefixtures("impatient")
def test_a_refusal_of_the_store_names_the_object(bucket: str, environment: dict[str, str]) -> None:
    with patch.dict(os.environ, {"AWS_SECRET_ACCESS_KEY": "wrong"}), pytest.raises(StorageError) as raised:
        load_config(f"s3://{bucket}/some/lake.yaml", environment)
    assert f"s3://{bucket}/some/lake.yaml" in str(raised.value)


def test_only_objects_of_buckets_are_read_and_a_path_is_no_uri() -> None:
    for uri in ("https://example.com/lake.yaml", "file:///etc/lake.yaml", "ftp://host/lake.yaml", "az://x/y"):
        with pytest.raises(ConfigError, match=r"the config's URI .* names no object of a bucket"):
            load_config(uri, {})
    assert all(map(is_uri, ("s3://b/k", "gs://b/k")))
    assert not any(map(is_uri, ("/a//b", "lake.yaml", "C:/x", "a:b")))
    assert bucket_and_key("s3://lake-runs/a/b/") == ("lake-runs", "a/b")
    assert bucket_and_key("s3://lake-runs") == ("lake-runs", "")
