"""The driver's stream is the launcher's, or the error names the key and both configs."""

from typing import Any

import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.errors import LauncherError
from lake_assets.ingest.options import IngestOptions
from lake_assets.remote.request import Request, facts_of


def config(stream: dict[str, Any] | None = None, **lake: Any) -> LakeConfig:
    postgres = {"type": "postgres", "database": "lake", "host": "db", "user": "me", "password": "lake-password"}
    storage = {"type": "s3", "bucket": "lake", "key_id": "key", "secret": "lake-secret"}
    sales = {"source": "s3://landing/sales", "partitions": {"region": {}}, "destination": {"table": "sales"}}
    return LakeConfig.model_validate(
        {
            "lakes": {"shop": {"catalog": postgres, "storage": storage} | lake},
            "streams": {"sales": sales | (stream or {})},
        }
    )


def request(stream: str, facts: dict[str, str]) -> Request:
    return Request(
        config="s3://b/lake.yaml",
        launcher_config="/etc/lake.yaml",
        launcher="of the test",
        stream=stream,
        facts=facts,
        partitions=[],
        options=IngestOptions(),
    )


def check(other: LakeConfig) -> None:
    request("sales", facts_of(config(), "sales")).check_same(other)


def test_credentials_and_addresses_may_differ() -> None:
    check(config())
    check(
        config(storage="s3://lake", catalog={"type": "postgres", "database": "lake", "host": "10.0.0.1", "user": "u"})
    )
    check(config({"source": {"type": "s3", "bucket": "landing", "prefix": "sales", "region": "eu-central-1"}}))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            config({"mode": "append"}),
            "streams.sales.mode is 'replace' in the launcher's config /etc/lake.yaml, and 'append'",
        ),
        (config({"source": "s3://other/sales"}), "streams.sales.source is 's3://landing/sales' in the launcher's"),
        (config(storage="s3://other"), "lakes.shop.storage is 's3://lake' in the launcher's"),
        (config(ledger="runs"), "lakes.shop.ledger is 'ingest_runs' in the launcher's"),
        (
            config(catalog={"type": "postgres", "database": "other", "user": "me"}),
            "lakes.shop.catalog.database is 'lake' in the launcher's config /etc/lake.yaml, and 'other' in",
        ),
        (config({"partitions": {"area": {}}}), "streams.sales.partitions.area.empty is absent in the launcher's"),
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
        request("returns", {}).check_same(config())


def test_facts_have_no_secret() -> None:
    facts = facts_of(config(), "sales")
    assert "lake-password" not in str(facts)
    assert "lake-secret" not in str(facts)
    assert facts["streams.sales.destination.table"] == "sales"
