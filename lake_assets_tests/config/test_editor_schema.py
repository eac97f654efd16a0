"""The schema for editors and `dg check yaml` never refuses a config that the models accept."""

import re

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.config.editor_schema import LAYOUT, TIME_ZONE
from lake_assets.config.models import LakeConfig
from lake_assets.errors import LayoutError
from lake_assets.layout.template import Template
from lake_assets_tests.layout.strategies import templates


def fits(text: str) -> bool:
    return re.search(LAYOUT["pattern"], text) is not None


@given(templates())
def test_every_layout_fits(text: str) -> None:
    assert fits(text)


@given(st.text("{{}},'aéYDH/=-()* ", max_size=12))
def test_a_text_that_does_not_fit_is_no_layout(text: str) -> None:
    if not fits(text):
        with pytest.raises(LayoutError):
            Template.parse(text)


def test_a_malformed_layout_does_not_fit_and_one_with_variables_or_quotes_does() -> None:
    malformed = ["{region/{date}", "{region", "region}", "{a,b,c}", "{a,b,YY,}", "{a,b,yy}", "", "region=*/{date}"]
    assert [text for text in malformed if fits(text)] == []
    assert all(map(fits, ["${LAYOUT}", "{{ env.LAYOUT }}", "raw/${DEPTH:-{region}}", "{'a,{b}''(c)',,YYYY}"]))


def test_every_zone_that_is_named_exists_and_the_schema_names_them() -> None:
    zones = TIME_ZONE["anyOf"][0]["enum"]

    assert {"UTC", "Europe/Berlin", "US/Pacific"} <= set(zones)
    assert all(pendulum.timezone(zone) for zone in zones)
    models = LakeConfig.model_json_schema()["$defs"]
    assert models["Stream"]["properties"]["time_zone"]["anyOf"][0]["enum"] == zones
    assert models["LayoutOptions"]["properties"]["time_zone"]["anyOf"][0]["enum"] == zones
    assert {"type": "string", **LAYOUT} in models["Stream"]["properties"]["layout"]["anyOf"]
