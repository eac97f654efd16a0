"""What a lake's catalog and its ATTACH options may be, and which storage goes with it."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.models import Lake

SQLITE = {"catalog": {"type": "sqlite", "path": "c.sqlite"}, "storage": "data"}
MOTHERDUCK = {"catalog": {"type": "motherduck", "database": "retail"}, "storage": "s3://retail-lake/tables"}


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as error:
        Lake.model_validate(data)
    return str(error.value)


def test_options_that_ducklake_knows_pass_whatever_the_case() -> None:
    options = {"OVERRIDE_DATA_PATH": True, "data_inlining_row_limit": 10, "encrypted": False}

    lake = Lake.model_validate(SQLITE | {"attach_options": options})

    assert lake.attach_options == {"override_data_path": True, "data_inlining_row_limit": 10, "encrypted": False}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"override_data_pth": True}, "has no option 'override_data_pth' for ATTACH: did you mean override_data_path?"),
        ({"zzz": 1}, "for ATTACH: there are automatic_migration,"),
        ({"data_path": "x"}, "from the lake's `storage`"),
        ({"DATA_PATH": "x"}, "from the lake's `storage`"),
        ({"metadata_path": "x"}, "from the lake's `catalog`"),
        ({"metadata_catalog": "x"}, "sets it itself"),
        ({"read_only": True}, "sets it itself"),
        ({"create_if_not_exists": True}, "the first ingest makes the lake"),
        ({"snapshot_version": 1}, "AT (VERSION"),
        ({"snapshot_time": "2026-01-01"}, "AT (TIMESTAMP"),
        ({"encrypted": True}, "files that Spark writes cannot be registered"),
        ({"encrypted": "true"}, "encrypted is true or false"),
        ({"busy_timeout": -1}, "a number of milliseconds"),
        ({"busy_timeout": True}, "a number of milliseconds"),
        ({"metadata_schema": "lakes"}, "for catalogs of type postgres and duckdb: a sqlite catalog holds one lake"),
        ({"metadata_schema": "a; DROP"}, "the name of a schema"),
        ({"metadata_schema": 1}, "the name of a schema"),
        ({"meta_journal_mode": "WAL"}, "is written as metadata_parameters: {journal_mode: …}"),
        ({"metadata_parameters": {"journal_mode": "WAL"}}, "WAL mode"),
        ({"metadata_parameters": {"SECRET": "x"}}, "sets it itself"),
        ({"metadata_parameters": {"encryption_key": "x"}}, "no place for secrets"),
        ({"metadata_parameters": {"a b": "x"}}, "not an identifier"),
        ({"metadata_parameters": "x"}, "a mapping of"),
        ({"busy_timeout": 1, "BUSY_TIMEOUT": 2}, "twice"),
    ],
)
def test_other_options_are_refused_with_the_reason(options: dict[str, Any], message: str) -> None:
    assert message in refused(SQLITE | {"attach_options": options})


def test_a_lake_on_motherduck_needs_a_bucket_of_its_own() -> None:
    assert Lake.model_validate(MOTHERDUCK).own_storage.root == "s3://retail-lake/tables"
    assert "Bring Your Own Bucket" in refused({"catalog": MOTHERDUCK["catalog"]})
    assert "cannot read a folder of this machine" in refused(MOTHERDUCK | {"storage": "/data"})
    assert "storage" in refused({"catalog": SQLITE["catalog"]})


def test_a_token_in_the_config_is_refused_unseen() -> None:
    catalog = {"type": "motherduck", "database": "retail", "token": "hunter2"}

    text = refused(MOTHERDUCK | {"catalog": catalog})

    assert "catalog.motherduck.token" in text
    assert "hunter2" not in text


def test_a_public_bucket_is_no_lake() -> None:
    public = {"type": "s3", "bucket": "open-data", "anonymous": True}

    assert "cannot be anonymous" in refused(SQLITE | {"storage": public})


def test_a_lake_on_google_needs_what_duckdb_reaches_it_by() -> None:
    assert "an HMAC key" in refused(SQLITE | {"storage": "gs://retail-lake"})
    for extra in ({"provider": "credential_chain"}, {"key_id": "GOOG1", "secret": "x"}):
        Lake.model_validate(SQLITE | {"storage": {"type": "gcs", "bucket": "retail-lake", **extra}})
