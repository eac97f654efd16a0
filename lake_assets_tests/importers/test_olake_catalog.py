"""Reading OLake's catalog.json."""

import json

import pytest

from lake_assets.errors import ConfigError
from lake_assets.importers.olake import OlakeStream, read_catalog
from lake_assets.layout.template import Template

REGEX = "/{title,,}/{now(),2025,YYYY}/{latest_revision,,}"
CATALOG = {
    "selected_streams": {
        "shop": [
            {"stream_name": "orders", "partition_regex": REGEX, "normalization": True, "filter": "id > 5"},
            {"stream_name": "plain", "partition_regex": ""},
        ],
        "日本": [{"stream_name": "名前"}],
    },
    "streams": [
        {"stream": {"name": "orders", "namespace": "shop", "sync_mode": "cdc", "type_schema": {"properties": {}}}},
        {"stream": {"name": "plain", "namespace": "shop", "sync_mode": "full_refresh"}},
        {"stream": {"name": "not selected", "namespace": "shop", "sync_mode": "cdc"}},
        {"stream": {"name": "名前", "namespace": "shop", "sync_mode": "cdc"}},
    ],
}


def test_the_selected_streams_are_read_in_order() -> None:
    assert read_catalog(json.dumps(CATALOG)) == (
        OlakeStream("shop", "orders", Template.parse(REGEX, compat="olake"), "cdc", "shop/orders"),
        OlakeStream("shop", "plain", None, "full_refresh", "shop/plain"),
        OlakeStream("日本", "名前", None, None, "日本/名前"),
    )


def test_a_catalog_of_selected_streams_alone_is_read() -> None:
    catalog = {"selected_streams": {"otter_db": [{"stream_name": "s", "partition_regex": "{a,,}"}]}}
    (stream,) = read_catalog(json.dumps(catalog))
    assert stream.sync_mode is None
    assert stream.template is not None
    assert stream.template.render_row({"a": None}) == "default_a"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{", "the file"),
        ("[]", "the file"),
        ("{}", "selected_streams"),
        ('{"selected_streams": []}', "selected_streams"),
        ('{"selected_streams": {"n": [{}]}}', "selected_streams.n.0.stream_name"),
        ('{"selected_streams": {"n": [{"stream_name": ""}]}}', "selected_streams.n.0.stream_name"),
        ('{"selected_streams": {"n": [{"stream_name": "s", "partition_regex": 1}]}}', "partition_regex"),
        ('{"selected_streams": {}, "streams": [{}]}', "streams.0.stream"),
    ],
)
def test_another_file_is_an_error_that_names_the_key(text: str, key: str) -> None:
    with pytest.raises(ConfigError, match="the OLake catalog is not valid") as caught:
        read_catalog(text)
    assert f"{key}: " in caught.value.problem
