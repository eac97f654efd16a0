"""What the config says of modes and commits, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage
from lake_assets.lake.attach import extensions, secret_statements
from lake_assets.streams.load import parse_config

BUCKET = {"type": "s3", "bucket": "landing", "prefix": "sales", "key_id": "id", "secret": "s3cret"}
ENCRYPTED: dict[str, Any] = {"attach_options": {"encrypted": True}}
MOTHERDUCK: dict[str, Any] = {"catalog": {"type": "motherduck", "database": "retail"}}
MANAGED = MOTHERDUCK | {"storage": None}


def config(lake: dict[str, Any] | None = None, **stream: Any) -> LakeConfig:
    plain = {"source": BUCKET, "partitions": {"region": {}}, "destination": {"table": "sales"}, "mode": "index"}
    own = {"catalog": {"type": "sqlite", "path": "c.sqlite"}, "storage": "/lake"} | (lake or {})
    return LakeConfig.model_validate({"lakes": {"test": own}, "streams": {"sales": plain | stream}})


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"on_changed": "keep"}, "'fail' or 'refresh'"),
        ("append", {"owns_source": True}, "in mode: append the lake has files of its own"),
        ("append", {"after_load": {"move": "s3://landing/sales/old"}}, "is within the landing zone of stream sales"),
        ("index", {"source": "gs://landing"}, "accesses Google Cloud Storage with an HMAC key"),
    ],
)
def test_what_does_not_fit_the_mode_is_refused(mode: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(mode=mode, **options)


@pytest.mark.parametrize(
    ("lake", "options", "message"),
    [
        (ENCRYPTED, {"mode": "replace", "commit_batch": 2}, "commit_batch: 2, and lake test is encrypted: its rows"),
        (MANAGED, {"mode": "replace", "commit_batch": 2}, "lake test is managed by MotherDuck: its rows are written"),
        (ENCRYPTED, {}, "stream sales has mode: index, and lake test is encrypted"),
        (MANAGED, {}, "stream sales has mode: index, and lake test is managed by MotherDuck"),
        (MOTHERDUCK | {"storage": BUCKET}, {"source": "/landing"}, "MotherDuck cannot read a folder"),
        (MANAGED, {"mode": "replace", "checks": {"blocking": ["ledger"]}}, "names ledger.* of lake test: remove it"),
    ],
)
def test_what_a_lake_cannot_do_is_refused(lake: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(lake, **options)


@pytest.mark.parametrize(
    ("lake", "options", "key", "value"),
    [
        ({}, {"mode": "append", "on_changed": "refresh"}, "on_changed", "refresh"),
        ({}, {"mode": "replace"}, "commit_batch", "auto"),
        ({}, {"mode": "append", "commit_batch": 50}, "commit_batch", 50),
        (MANAGED, {"mode": "replace", "commit_batch": 1}, "commit_batch", 1),
    ],
)
def test_other_streams_are_accepted(lake: dict[str, Any], options: dict[str, Any], key: str, value: object) -> None:
    assert getattr(config(lake, **options).streams["sales"], key) == value


@pytest.mark.parametrize(
    ("lake", "mode", "check"),
    [
        ({}, "append", "appended_objects"),
        ({}, "index", "indexed_objects"),
        (MOTHERDUCK | {"storage": BUCKET}, "replace", "ledger"),
    ],
)
def test_a_check_of_the_mode_and_the_lake_may_block(lake: dict[str, Any], mode: str, check: str) -> None:
    assert config(lake, mode=mode, checks={"blocking": [check]}).streams["sales"].checks.blocking == (check,)


def test_the_json_of_what_is_written_is_valid() -> None:
    text = config(source="landing").model_dump_json(by_alias=True, exclude_unset=True)

    (source,) = parse_config(text, Path("/etc/lake/lake.yaml"), {}).lakes["test"].indexed

    assert source == LocalStorage(path="/etc/lake/landing")


def test_readers_of_the_lake_get_the_secrets_of_its_indexed_sources() -> None:
    lake = config().lakes["test"]

    assert extensions(lake) == ("ducklake", "sqlite_scanner", "httpfs")
    (statement,) = secret_statements(lake)
    assert "SECRET source_0 (TYPE s3, SCOPE 's3://landing/sales/', KEY_ID 'id'" in statement
    assert config(mode="replace").lakes["test"].indexed == ()
    assert secret_statements(config(mode="replace").lakes["test"]) == ()


def test_a_source_around_the_lake_is_read_with_the_lakes_own_secret() -> None:
    storage = BUCKET | {"prefix": "sales/lake", "key_id": "writer"}

    (statement,) = secret_statements(config({"storage": storage}).lakes["test"])

    assert "lake_storage" in statement
    assert "writer" in statement


def test_a_public_source_is_read_without_keys() -> None:
    lake = config(source={"type": "s3", "bucket": "landing", "anonymous": True}).lakes["test"]

    assert extensions(lake) == ("ducklake", "sqlite_scanner", "httpfs")
    (statement,) = secret_statements(lake)
    assert "credential_chain" not in statement
