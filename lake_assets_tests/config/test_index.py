"""What the config says of mode index, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.load import parse_config
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage
from lake_assets.lake.attach import extensions, secret_statements

KEYS = {"key_id": "id", "secret": "s3cret"}
BUCKET = {"type": "s3", "bucket": "landing", "prefix": "sales", **KEYS}


def config(lake: dict[str, Any] | None = None, **stream: Any) -> LakeConfig:
    plain = {"source": BUCKET, "partitions": {"region": {}}, "destination": {"table": "sales"}, "mode": "index"}
    catalog = {"type": "sqlite", "path": "c.sqlite"}
    return LakeConfig.model_validate(
        {
            "lakes": {"test": {"catalog": catalog, "storage": "/lake", **(lake or {})}},
            "streams": {"sales": plain | stream},
        }
    )


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ({"transform": {"sql": "SELECT 1"}}, "registers files as they are, untransformed"),
        ({"compression": "snappy"}, "compression is for written files"),
        ({"compression": "zstd"}, "compression is for written files"),
        ({"target_file_size": "1GiB"}, "target_file_size is for written files"),
        ({"target_file_size": "256MiB"}, "target_file_size is for written files"),
        ({"on_empty": "clear"}, "only adds files"),
        ({"schema_policy": "evolve"}, "schema_policy: evolve is for tables that a refresh writes"),
        ({"schema_policy": "ignore_extra"}, "schema_policy: ignore_extra is for tables that a refresh writes"),
        ({"mode": "replace", "checks": {"blocking": ["indexed_objects"]}}, "which is a check of mode: index: remove"),
        ({"mode": "replace", "owns_source": True}, "owns_source is for mode: index"),
        ({"source": "gs://landing"}, "accesses Google Cloud Storage with an HMAC key"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_mode_index_cannot_do_is_refused(stream: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(**stream)


def test_a_check_of_the_mode_may_block() -> None:
    assert config(checks={"blocking": ["indexed_objects"]}).streams["sales"].checks.blocking == ("indexed_objects",)


@pytest.mark.parametrize("check", ["ledger", "data_files"])
def test_a_check_that_a_managed_lake_has_not_cannot_block(check: str) -> None:
    lake = {"catalog": {"type": "motherduck", "database": "retail"}}
    options: dict[str, Any] = {"mode": "replace", "checks": {"blocking": [check]}}

    with pytest.raises(
        ValidationError, match=f"checks.blocking names {check}.* MotherDuck has those of lake test: remove it"
    ):
        config(lake | {"storage": None}, **options)
    assert config(lake | {"storage": BUCKET}, **options).streams["sales"].checks.blocking == (check,)


def test_motherduck_cannot_read_an_indexed_folder() -> None:
    lake = {"catalog": {"type": "motherduck", "database": "retail"}, "storage": BUCKET}
    with pytest.raises(ValidationError, match="MotherDuck cannot read a folder"):
        config(lake, source="/landing")


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
