"""What a lake's catalog and its ATTACH options may be, and which storage goes with it."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage

SQLITE = {"catalog": {"type": "sqlite", "path": "c.sqlite"}, "storage": "data"}
MANAGED: dict[str, Any] = {"catalog": {"type": "motherduck", "database": "retail"}}
MOTHERDUCK: dict[str, Any] = MANAGED | {"storage": "s3://retail-lake/tables"}
ENCRYPTED = {"attach_options": {"encrypted": True}}


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as error:
        Lake.model_validate(data)
    return str(error.value)


def test_options_that_ducklake_knows_pass_whatever_the_case() -> None:
    options = {"OVERRIDE_DATA_PATH": True, "data_inlining_row_limit": 10, "ENCRYPTED": True}

    lake = Lake.model_validate(SQLITE | {"attach_options": options})

    assert lake.attach_options == {"override_data_path": True, "data_inlining_row_limit": 10, "encrypted": True}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"override_data_pth": True}, "has no option 'override_data_pth' for ATTACH: did you mean override_data_path?"),
        ({"data_path": "x"}, "from the lake's `storage`"),
        ({"read_only": True}, "sets it itself"),
        ({"create_if_not_exists": True}, "only the first ingest creates the lake"),
        ({"snapshot_version": 1}, "AT (VERSION"),
        ({"encrypted": "true"}, "encrypted is true or false"),
        ({"busy_timeout": -1}, "a number of milliseconds"),
        ({"metadata_schema": "lakes"}, "for catalogs of type postgres and duckdb: a sqlite catalog holds one lake"),
        ({"metadata_schema": "a; DROP"}, "the name of a schema"),
        ({"meta_journal_mode": "WAL"}, "is written as metadata_parameters: {journal_mode: …}"),
        ({"metadata_parameters": {"journal_mode": "WAL"}}, "WAL mode"),
        ({"metadata_parameters": {"SECRET": "x"}}, "sets it itself"),
        ({"metadata_parameters": {"encryption_key": "x"}}, "options must not have secrets"),
        ({"metadata_parameters": {"a b": "x"}}, "not an identifier"),
        ({"metadata_parameters": "x"}, "a mapping of"),
        ({"busy_timeout": 1, "BUSY_TIMEOUT": 2}, "twice"),
    ],
)
def test_other_options_are_refused_with_the_reason(options: dict[str, Any], message: str) -> None:
    assert message in refused(SQLITE | {"attach_options": options})


def test_only_motherduck_manages_the_files_of_a_lake() -> None:
    own, managed = Lake.model_validate(MOTHERDUCK), Lake.model_validate(MANAGED)

    assert (own.is_managed, own.inserts_only, own.own_storage.root) == (False, False, "s3://retail-lake/tables")
    assert (managed.is_managed, managed.inserts_only) == (True, True)
    assert "cannot read a folder of this machine" in refused(MOTHERDUCK | {"storage": "/data"})
    assert "storage is missing: give a folder or a bucket" in refused({"catalog": SQLITE["catalog"]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (MOTHERDUCK | ENCRYPTED, "does not document encrypted lakes"),
        (MANAGED | {"attach_options": {"override_data_path": True}}, "leave them out, or give storage"),
        ({"catalog": {**MOTHERDUCK["catalog"], "store_secret": True}}, "there is none: leave it out"),
        (SQLITE | {"staging": "s3://scratch"}, "staging is for lakes that are encrypted or managed"),
        (MANAGED | {"staging": {"type": "s3", "bucket": "scratch", "anonymous": True}}, "staging is written to"),
        (MANAGED | {"staging": "gs://scratch"}, "an HMAC key: give the lake's staging key_id"),
    ],
)
def test_what_does_not_go_with_lakes_that_take_inserts_only(data: dict[str, Any], message: str) -> None:
    assert message in refused(data)


def test_staged_files_go_where_the_config_says_or_beside_the_lakes_own() -> None:
    beside = Lake.model_validate(SQLITE | ENCRYPTED).staging_storage
    chosen = Lake.model_validate(SQLITE | ENCRYPTED | {"staging": "s3://scratch/x"}).staging_storage
    managed = Lake.model_validate(MANAGED).staging_storage

    assert beside.root.endswith("/data")
    assert chosen.root == "s3://scratch/x"
    assert isinstance(managed, LocalStorage)


@pytest.mark.parametrize(
    ("names", "table"),
    [
        ({"ledger": "Ingest_Runs"}, "ingest_runs"),
        ({"manifest": "Landed"}, "LANDED"),
        ({"ledger": "Runs"}, "runs_claim"),
        ({}, "Ingest_Runs_Claim"),
    ],
)
def test_no_stream_fills_the_lakes_own_table_by_another_case(names: dict[str, str], table: str) -> None:
    stream = {"source": "landing", "partitions": {"region": {}}, "destination": {"table": table}}

    with pytest.raises(ValidationError, match=f"would fill the lake's own table {table}: give it another table"):
        LakeConfig.model_validate({"lakes": {"retail": MANAGED | names}, "streams": {"sales": stream}})
    if "claim" in table.lower():  # only a managed lake has it
        LakeConfig.model_validate({"lakes": {"retail": SQLITE | names}, "streams": {"sales": stream}})


def test_the_lakes_own_tables_are_as_many_as_their_names() -> None:
    assert "give each another name" in refused(SQLITE | {"ledger": "Runs", "manifest": "runs"})
    assert "give each another name" in refused(MANAGED | {"ledger": "Runs", "manifest": "runs_claim"})
    Lake.model_validate(SQLITE | {"ledger": "Runs", "manifest": "runs_claim"})


def test_a_token_in_the_config_is_refused_unseen() -> None:
    text = refused(MOTHERDUCK | {"catalog": MANAGED["catalog"] | {"token": "hunter2"}})

    assert "catalog.motherduck.token" in text
    assert "hunter2" not in text


def test_a_lake_is_in_a_bucket_that_duckdb_reaches_and_may_write_to() -> None:
    assert "storage is written to: remove anonymous" in refused(
        SQLITE | {"storage": {"type": "s3", "bucket": "open", "anonymous": True}}
    )
    assert "an HMAC key" in refused(SQLITE | {"storage": "gs://retail-lake"})
    for extra in ({"provider": "credential_chain"}, {"key_id": "GOOG1", "secret": "x"}):
        Lake.model_validate(SQLITE | {"storage": {"type": "gcs", "bucket": "retail-lake", **extra}})
