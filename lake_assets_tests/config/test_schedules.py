"""When a stream is refreshed, and how old its data may be."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.api.stream import open_stream
from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import Stream
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.world import STREAM


def config(freshness: dict[str, Any]) -> LakeConfig:
    lake = {"catalog": {"type": "sqlite", "path": "/lake/catalog"}, "storage": "/lake/data"}
    stream = STREAM | {"source": "/landing", "freshness": freshness}
    return LakeConfig.model_validate({"lakes": {"test": lake}, "streams": {"sales": stream}})


@pytest.mark.parametrize(
    "freshness",
    [
        {"fail_hours": 0.0001},
        {"fail_hours": 0},
        {"fail_hours": 1, "warn_hours": 0.016},
        {"fail_hours": 1e9},
        {"fail_hours": ".inf"},
        {"fail_hours": ".nan"},
    ],
)
def test_an_age_that_dagster_does_not_take_is_refused(freshness: dict[str, Any]) -> None:
    freshness = {name: float(str(hours).removeprefix(".")) for name, hours in freshness.items()}

    with pytest.raises(ValidationError, match=r"hours is outside 0\.017 \(one minute\) to 876000"):
        config(freshness)


@pytest.mark.parametrize("freshness", [{"fail_hours": 0.0334, "warn_hours": 1 / 60}, {"fail_hours": 876_000}])
def test_an_age_that_is_taken_is_one_that_dagster_takes(freshness: dict[str, Any]) -> None:
    asset = stream_asset(specs_of(open_stream(config(freshness), "sales")))

    assert next(iter(asset.specs)).freshness_policy is not None


@pytest.mark.parametrize("lookback", [1, 2])
def test_a_lookback_that_is_written_needs_a_clock_also_with_the_value_of_the_default(lookback: int) -> None:
    stream = STREAM | {"source": "/landing", "partitions": {"region": {}}}
    schedule = {"cron": "@daily"}

    assert Stream.model_validate(stream | {"schedule": schedule}).schedule is not None
    with pytest.raises(ValidationError, match=r"schedule\.lookback counts days or hours"):
        Stream.model_validate(stream | {"schedule": schedule | {"lookback": lookback}})
