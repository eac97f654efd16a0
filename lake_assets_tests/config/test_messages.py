"""A wrong value is reported in words of the config, with the fix, and never in those of Python's types."""

import re

import pytest
from pydantic import BaseModel

from lake_assets.config.fields import Model
from lake_assets.config.messages import FORMS, advice
from lake_assets.config.models import LakeConfig
from lake_assets_tests.config.test_load import FILE, GOOD, refused

CONFIG = GOOD.replace('[NW, "NO"]', "[NW]")


def without_column(told: str) -> str:
    return re.sub(r"^(.*lake\.yaml:\d+):\d+:", r"\1:", told)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[NW]", "NW", "10: streams.sales.partitions.region.values: must be a list: write it in brackets"),
        ("catalog.sqlite", "5", "4: lakes.retail.catalog.path: must be a text: write one value, in quotes if"),
        ("catalog.sqlite", "''", "4: lakes.retail.catalog.path: is empty: write something"),
        ("type: sqlite", "type: sqllite", "4: lakes.retail.catalog: unknown type 'sqllite': did you mean sqlite?"),
        ("type: sqlite", "type: oracle", "4: lakes.retail.catalog: unknown type: use sqlite, "),
        ("type: sqlite, ", "", "4: lakes.retail.catalog: has no type: add 'type'"),
        ("{table: sales}", "sales", "12: streams.sales.destination: must be a mapping: write its keys"),
        ("s3://landing", "s3://Landing", "8: streams.sales.source.bucket: has the wrong form: write the b"),
        ("type: date", "type: dat", "11: streams.sales.partitions.date.type: is not one of the allowed words"),
        (CONFIG, "- a", "1: the file: must be a mapping: write its keys with their values, such as {key: value}"),
        ("    source: s3://landing/sales\n", "", "7: streams.sales.source: is missing"),
        ("  sales:\n", "  sa-les:\n", "7: streams.sa-les: 'sa-les' is not an identifier"),
        ("[NW]", "[NO]", "10: streams.sales.partitions.region.values"),
        (", start: 2026-01-01", "", "11: streams.sales.partitions.date: a date column needs start"),
        ("2026-01-01", "2026-01-01, end: 2025-01-01", "11: streams.sales.partitions.date: end 2025-01-01 is before s"),
        ("{table: sales}", "{table: sales}\n    lake: other", "13: stream sales has the unknown lake 'other'"),
        ("{table: sales}", "{table: ingest_runs}", "12: stream sales would fill the lake's own table ingest_runs"),
        ("s3://landing/sales", "s3://landing/../sales", "8: streams.sales.source"),
    ],
)
def test_each_kind_of_fault_has_a_sentence(old: str, new: str, told: str) -> None:
    assert old in CONFIG
    (line,) = refused(CONFIG.replace(old, new)).splitlines()
    assert without_column(line).startswith(f"{FILE}:{told}")
    assert "Input" not in line
    assert line.endswith((".", "?"))


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ("max_partitions_per_run: 1.5", "max_partitions_per_run: must be a whole number"),
        ("freshness: {fail_hours: a}", "freshness.fail_hours: must be a number"),
        ("owns_source: maybe", "owns_source: must be true or false"),
        ("target_file_size: big", "target_file_size: must be a size: write a number and a unit"),
        ("target_file_size: 1KB", "target_file_size: 1000B is outside 1 MiB to 4 GiB"),
        ("kinds: [a, b, c, d]", "kinds: has too many entries: leave 3 at most"),
        ("landing: {columns: {}}", "landing.columns: has too few entries: write 1"),
        ("tags: {a: [b]}", "tags.a: must be a text"),
        ("transform: {}", "transform: give either sql or function"),
        ("layout: 'r={region}/{date'", "layout"),
        ("owners: [me]", "owners"),
    ],
)
def test_each_key_of_a_stream_too(added: str, told: str) -> None:
    error = refused(f"{CONFIG}    {added}\n")

    assert without_column(error).startswith(f"{FILE}:13: streams.sales.{told}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("storage: data", "storage: {type: s3, bucket: a-b, prefx: x}", "prefx: unknown key: did you mean prefix?"),
        ("    source:", "    Group: x\n    source:", "Group: unknown key: did you mean group?"),
        (
            "    source:",
            "    landing: {outputs: [{type: local, path: a}, {type: local, pth: b}]}\n    source:",
            "landing.outputs.1.pth: unknown key: did you mean path?",
        ),
        ("start:", "strat:", "date.strat: unknown key: did you mean start?"),
        # `interval` is a key of a sensor, which is not meant elsewhere.
        ("    source:", "    intervall: x\n    source:", "intervall: unknown key: remove it, or use one of after_load"),
    ],
)
def test_an_unknown_key_is_reported_with_the_one_of_its_place_that_is_meant(old: str, new: str, told: str) -> None:
    assert old in CONFIG
    assert f".{told}" in refused(CONFIG.replace(old, new, 1))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("dlete", "after_load: is not one of the allowed words: write 'keep', 'tag' or 'delete'"),
        ("[delete]", "after_load: is not one of the allowed words"),
        ("{move: 5}", "after_load.move: must be a mapping"),
        ("{mov: archive}", "after_load.move: is missing"),
    ],
)
def test_where_a_word_or_a_mapping_is_allowed_the_error_is_of_what_is_written(value: str, told: str) -> None:
    text = refused(CONFIG.replace("    source:", f"    after_load: {value}\n    source:", 1))
    assert f"streams.sales.{told}" in text
    assert ("allowed words" in text) == ("allowed words" in told)


def models(base: type[BaseModel] = Model) -> list[type[BaseModel]]:
    return [model for child in base.__subclasses__() for model in (child, *models(child))]


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("streams.sales.delta_export_path", "write deltas.to of the stream"),
        ("streams.sales.delta_export_compression", "write deltas.compression of the stream"),
        ("streams.sales.destination.lake", "write it one level higher, as lake of the stream"),
        ("lakes.test.metadata_schema", "write it below attach_options of the lake"),
    ],
)
def test_a_key_of_another_name_or_place_is_reported_with_ours(key: str, fix: str) -> None:
    assert advice(LakeConfig, key.split(".")) == f": {fix}"


def test_each_form_has_words() -> None:
    assert LakeConfig in models()
    formed = {
        name
        for model in models()
        if model.__module__.startswith("lake_assets.")
        for name, field in model.model_fields.items()
        if any(getattr(metadata, "pattern", None) for metadata in field.metadata)
    }

    assert formed == FORMS.keys()
