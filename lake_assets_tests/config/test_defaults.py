"""`defaults`: a stream has the keys that it does not write itself; errors name the place where a value is written."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.config.sections import SqsSensor
from lake_assets.config.storages import S3Storage
from lake_assets.streams.load import parse_config

LAKES = "lakes: {shop: {catalog: {type: sqlite, path: c.sqlite}, storage: lake}}\n"
DEFAULTS = """\
defaults:
  source: s3://landing/{stream}
  partitions:
    region: {values: [NW, SW]}
    date: {type: date, start: 2026-01-01}
  destination: {schema: raw, table: "{stream}"}
  schedule: {cron: "15 * * * *", lookback: 2}
  automation: "0 * * * *"
  owners: ["team:shop"]
  tags: {team: shop, level: raw}
  checks: {blocking: [positive], sql: {positive: SELECT * FROM refreshed WHERE total < 0}}
streams:
"""
SCHEMA = jsonschema.Draft202012Validator(LakeConfig.model_json_schema())


def parsed(streams: str, defaults: str = DEFAULTS) -> LakeConfig:
    """The config; the schema for editors accepts it too."""
    text = LAKES + defaults + streams
    assert [
        error.message for error in SCHEMA.iter_errors(json.loads(json.dumps(yaml.safe_load(text), default=str)))
    ] == []
    return parse_config(text, Path("/etc/lake.yaml"), {})


def problems(streams: str, defaults: str = DEFAULTS) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(LAKES + defaults + streams, Path("lake.yaml"), {})
    return str(caught.value).splitlines()


def test_a_stream_without_keys_has_the_defaults_with_its_name() -> None:
    config = parsed("  sales: {}\n  returns:\n")

    assert [stream.source.root for stream in config.streams.values()] == ["s3://landing/sales", "s3://landing/returns"]
    sales, returns = config.streams.values()
    assert (returns.destination.schema_name, returns.destination.table) == ("raw", "returns")
    assert list(sales.partitions) == ["region", "date"]
    assert sales.owners == ("team:shop",)
    assert sales.schedule is not None
    assert (sales.schedule.cron, sales.schedule.lookback) == ("15 * * * *", 2)
    assert LakeConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config


@pytest.mark.parametrize(
    ("own", "key", "expected"),
    [
        ("owners: [me@example.com]", "owners", ["me@example.com"]),  # a list replaces a list
        ("tags: {level: gold}", "tags", {"team": "shop", "level": "gold"}),  # mappings are merged
        ("tags: {level: null}", "tags", {"team": "shop"}),  # null removes
        ("schedule: {lookback: 0}", "schedule", {"cron": "15 * * * *", "lookback": 0}),
        ("schedule: '@daily'", "schedule", {"cron": "@daily"}),  # a text replaces a mapping
        ("automation: {lookback: 7}", "automation", {"cron": "0 * * * *", "lookback": 7}),  # a short form
        ("partitions: {region: null}", "partitions", {"date": {"type": "date", "start": "2026-01-01"}}),
        (
            "partitions: {region: null, date: {start: 2026-03-01}}",  # by name and by key
            "partitions",
            {"date": {"type": "date", "start": "2026-03-01"}},
        ),
    ],
)
def test_a_streams_own_key_overrides_the_defaults(own: str, key: str, expected: Any) -> None:
    stream = parsed(f"  sales: {{{own}}}\n").streams["sales"]

    assert stream.model_dump(mode="json", by_alias=True, exclude_unset=True).get(key) == expected


def test_a_mapping_of_another_type_replaces_that_of_the_defaults() -> None:
    defaults = DEFAULTS.replace("  owners", "  sensor: {type: objects, scan: 6000}\n  owners")
    own = "  sales: {automation: null, sensor: {type: sqs, queue_url: 'https://sqs.eu.amazonaws.com/1/q'}}\n"

    assert isinstance(parsed(own, defaults).streams["sales"].sensor, SqsSensor)


def test_a_storage_may_be_shared_and_its_prefix_not() -> None:
    shared = "source: {type: s3, bucket: landing, region: eu-central-1}"
    defaults = DEFAULTS.replace("source: s3://landing/{stream}", shared)

    source = parsed("  sales: {source: {prefix: shops/sales}}\n", defaults).streams["sales"].source

    assert isinstance(source, S3Storage)
    assert (source.root, source.region) == ("s3://landing/shops/sales", "eu-central-1")


def test_the_braces_of_a_layout_are_columns_and_those_of_files_the_stream_too() -> None:
    layout = DEFAULTS.replace("  owners", '  layout: "{region}/{stream}/{date}"\n  owners')
    files = DEFAULTS.replace("  owners", '  files: "{stream}_{date}_*.parquet"\n  owners')

    assert parsed("  sales: {}\n", layout).streams["sales"].template.columns == ("region", "stream", "date")
    assert parsed("  sales: {}\n", files).streams["sales"].files == "sales_{date}_*.parquet"


def test_an_error_names_the_key_where_the_value_is_written_and_once() -> None:
    wrong = DEFAULTS.replace("lookback: 2", "lookback: -2").replace("[NW, SW]", "[]").replace("owners", "ownerss")

    assert problems("  sales: {}\n  returns: {partitions: {date: {start: never}}}\n", wrong) == [
        "lake.yaml:5:5: defaults.partitions.region: values must be at least one: write each once, or remove values.",
        "lake.yaml:8:34: defaults.schedule.lookback: must be 0 or more: write a greater number.",
        "lake.yaml:10:3: defaults.ownerss: unknown key: did you mean owners?",
        "lake.yaml:15:33: streams.returns.partitions.date.start: must be a date: write it as 2026-01-31.",
    ]


def test_what_is_missing_or_contradicts_by_a_default_is_named() -> None:
    assert problems("  sales: {destination: {table: null}}\n") == [
        "lake.yaml:14:25: streams.sales.destination.table: is missing: add it."
    ]
    (line,) = problems("  sales: {}\n  returns: {}\n", DEFAULTS.replace('table: "{stream}"', "table: everything"))
    assert line.startswith("lake.yaml:7:3: streams sales and returns both fill raw.everything of lake shop")


@pytest.mark.more
@pytest.mark.parametrize(
    ("defaults", "text"),
    [
        ("defaults: [a]\nstreams:\n", "lake.yaml:2:1: defaults must be a mapping: write keys of a stream below it."),
        (
            f"defaults: {{owners: {['me@example.com'] * 30_000}}}\nstreams:\n",
            "lake.yaml:2:1: the 2 streams have more than 50,000 values with the defaults: write fewer.",
        ),
    ],
)
def test_defaults_that_are_none_are_refused(defaults: str, text: str) -> None:
    assert problems("  sales: {}\n  returns: {}\n", defaults) == [text]


def test_the_schema_still_asks_for_what_a_stream_needs_where_there_are_no_defaults() -> None:
    found = {error.message for error in SCHEMA.iter_errors({"streams": {"sales": {}}, "lakes": {}})}
    assert "'source' is a required property" in found
    whole = "streams:\n  sales: {source: landing, partitions: {region: {}}, destination: {table: sales}}\n"
    assert parsed(whole, "defaults: ~\n").defaults is None
    assert not SCHEMA.is_valid(yaml.safe_load(LAKES + "defaults: ~\nstreams: {sales: {source: landing}}"))
