"""Configs of which two of Dagster's definitions would have one name."""

from typing import Any

import dagster as dg
import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partition_keys import step_of

DATE = {"date": {"type": "date", "start": "2026-01-01"}}
ALL: dict[str, Any] = {
    "schedule": "0 * * * *",
    "automation": "0 * * * *",
    "sensor": {},
    "landing": {"buffer": {"path": "/buffer"}},
}


def config(streams: dict[str, dict[str, Any]], lakes: tuple[str, ...] = ("retail",), **options: Any) -> LakeConfig:
    return LakeConfig.model_validate(
        {
            "lakes": {
                name: {
                    "catalog": {"type": "sqlite", "path": f"/{name}.sqlite"},
                    "storage": f"/{name}",
                    "maintenance": {},
                }
                for name in lakes
            },
            "streams": {
                name: {"source": "/landing", "partitions": columns, "destination": {"table": name}, "lake": lakes[0]}
                | options
                for name, columns in streams.items()
            },
            "orchestration": {"report_asset": True, "ledger_asset": True},
        }
    )


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("sales_report", "the report of streams.sales"),
        ("sales_landing", "the landing zone of streams.sales"),
        ("retail_ledger", "the ledger of lakes.retail"),
        ("check_sales", "the checks of streams.sales"),
        ("ingest_sales", "the ingest of selected partitions of streams.sales"),
        ("restore_sales", "the restore of streams.sales"),
        ("restore_partition_of_sales", "the restore's step of streams.sales"),
        ("refresh_sales", "the schedule's job of streams.sales"),
        ("observe_sales", "the automation's job of streams.sales"),
        ("drain_sales", "the buffer's job of streams.sales"),
        ("drain_sales_buffer", "the buffer's step of streams.sales"),
        ("audit_retail", "the audit of lakes.retail"),
        ("maintain_retail", "the maintenance of lakes.retail"),
        ("maintain_retail_lake", "the maintenance's step of lakes.retail"),
    ],
)
def test_a_stream_with_the_name_of_another_definition_is_refused(name: str, whose: str) -> None:
    with pytest.raises(ConfigError, match=f"streams.{name} and {whose} would both be called {name} in Dagster: rename"):
        build_definitions(config({"sales": DATE, name: DATE}, **ALL))


def test_two_names_that_are_made_for_streams_or_lakes_are_not_one() -> None:
    with pytest.raises(ConfigError, match="would both be called drain_sales_buffer"):
        build_definitions(config({"sales": DATE, "sales_buffer": DATE}, **ALL))
    with pytest.raises(ConfigError, match="would both be called maintain_retail_lake"):
        build_definitions(config({"sales": DATE}, ("retail", "retail_lake")))


def test_a_step_has_the_name_that_dagster_gives_it() -> None:
    key = dg.AssetKey(["re-tail", "raw_1", "sales"])
    assert step_of(key) == key.to_python_identifier()


def test_a_name_of_dagsters_own_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"streams.__ASSET_JOB and a job of Dagster's own would both .*: rename it"):
        build_definitions(config({"__ASSET_JOB": DATE}))


@pytest.mark.parametrize("name", ["refresh_sales", "observe_sales", "drain_sales", "sales_sensor", "sales_buffer"])
def test_a_name_that_nothing_has_is_free(name: str) -> None:
    dg.Definitions.validate_loadable(build_definitions(config({"sales": DATE, name: DATE})))


def test_two_streams_do_not_share_dynamic_partitions() -> None:
    streams: dict[str, dict[str, Any]] = {"sales": {"eu_region": {}}, "sales_eu": {"region": {}}}
    with pytest.raises(
        ConfigError,
        match=r"streams.sales_eu.partitions.region and streams.sales.partitions.eu_region would share the dynamic "
        "partitions sales_eu_region in Dagster: rename one of the streams, or give one of the columns its values",
    ):
        build_definitions(config(streams))

    streams["sales_eu"]["region"] = {"values": ["NW"]}
    dg.Definitions.validate_loadable(build_definitions(config(streams)))
