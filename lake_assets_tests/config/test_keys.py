"""An unknown key is told with the key that was meant, of its own place, or with what another system's key is here."""

import re
from pathlib import Path

import pytest

from lake_assets.config import keys
from lake_assets.config.keys import _ELSEWHERE, _HERE
from lake_assets.config.load import parse_config
from lake_assets.config.model import Model
from lake_assets.config.models import LakeConfig
from lake_assets.errors import ConfigError
from lake_assets_tests.config.test_document import CONFIG
from lake_assets_tests.config.test_sentences import models

LAKE = "    storage: data"
BUCKET = "    storage: {type: s3, bucket: lake, "
STREAM = "    source: landing"


def told(text: str, key: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse_config(text, Path("lake.yaml"), {})
    (line,) = [line for line in str(refused.value).splitlines() if f".{key}: " in line or f" {key}: " in line]
    return line.partition("unknown key")[2]


@pytest.mark.parametrize(
    ("old", "new", "key", "advice"),
    [
        ("path: cat", "uri: cat", "uri", ": write path, the catalog's file."),
        (LAKE, f"{LAKE}\n    alias: x", "alias", ": a lake's name is its key below lakes"),
        (LAKE, f"{LAKE}\n    enable_map_datatype: true", "enable_map_datatype", ": MAP columns are always kept, so"),
        (LAKE, f"{LAKE}\n    data_inlining_row_limit: 1", "data_inlining_row_limit", ": write it below attach_options"),
        (LAKE, f"{LAKE}\n    metadata_schema: x", "metadata_schema", ": write it below attach_options of the lake."),
        (LAKE, BUCKET + "secret_parameters: {provider: credential_chain}}", "secret_parameters",
         ": write key_id and secret, or provider: credential_chain"),
        (LAKE, BUCKET + "secret_name: x}", "secret_name", ": secrets are made for each session"),
        (LAKE, BUCKET + "path: x}", "path", ": write prefix, the folder"),
        (LAKE, BUCKET + "secret_access_key: x}", "secret_access_key", ": write secret."),
        (LAKE, BUCKET + "prefx: x}", "prefx", ": did you mean prefix?"),
        (LAKE, "    storage: {type: local, uri: x}", "uri", ": write path."),
        (STREAM, f"{STREAM}\n    sink_mode: append", "sink_mode", ": write mode: replace for whole partitions"),
        (STREAM, f"{STREAM}\n    partition_regex: '/{{a}}'", "partition_regex", ": write layout: {template: …, compat"),
        (STREAM, f"{STREAM}\n    sync_mode: cdc", "sync_mode", ": a refresh reads all landed files"),
        (STREAM, f"{STREAM}\n    SOURCE_GLOB: x", "SOURCE_GLOB", ": write it as source of the stream."),
        (STREAM, f"{STREAM}\n    max_in_flight: 4", "max_in_flight", ": write landing.max_in_flight."),
        (STREAM, f"{STREAM}\n    landing: {{batching: {{count: 1}}}}", "batching", ": write batch."),
        (STREAM, f"{STREAM}\n    landing: {{batch: {{count: 1}}}}", "count", ": write records."),
        (STREAM, f"{STREAM}\n    landing: {{content_type: x}}", "content_type", ": files are Parquet, so remove it."),
        (STREAM, f"{STREAM}\n    delta_export_path: x", "delta_export_path", ": write deltas.to of the stream."),
        ("{table: sales}", "{table: sales, lake: x}", "lake", ": write it one level higher, as lake of the stream."),
        (STREAM, f"{STREAM}\n    Group: x", "Group", ": did you mean group?"),
        (STREAM, f"{STREAM}\n    on-empty: keep", "on-empty", ": did you mean on_empty?"),
        (STREAM, f"{STREAM}\n    landing: {{outputs: [{{type: local, path: a}}, {{type: local, pth: b}}]}}", "pth",
         ": did you mean path?"),
        ("start:", "strat:", "strat", ": did you mean start?"),
        (STREAM, f"{STREAM}\n    landing: {{Outputs: [out]}}", "Outputs", ": did you mean outputs?"),
        ("type: date,", "url: x, type: date,", "url", ": remove it, or write one of "),
        ("lakes:\n", "stores: {}\nlakes:\n", "stores", ": write lakes, with catalog and storage of each."),
        ("lakes:\n", "selected_streams: {}\nlakes:\n", "selected_streams", ": run `lake-assets import olake catalog"),
        ("lakes:\n", "output: {}\nlakes:\n", "output", ": records are landed by a stream, so write streams.NAME"),
    ],
)  # fmt: skip
def test_the_error_of_an_unknown_key_has_advice(old: str, new: str, key: str, advice: str) -> None:
    assert old in CONFIG

    assert told(CONFIG.replace(old, new, 1), key).startswith(advice)


def test_the_keys_that_hints_name_exist() -> None:
    hints = [*_ELSEWHERE.values(), *(hint for hints in _HERE.values() for hint in hints.values())]
    named = {(m[1], m[2]) for hint in hints for m in re.finditer(r"([a-z_.]+) of the (stream|lake)\b", hint)}

    assert {("deltas.to", "stream"), ("deltas.compression", "stream")} <= named
    for path, model in named:
        location = (f"{model}s", "x", *path.split("."))
        assert keys.advice(LakeConfig, location) == f": did you mean {location[-1]}?", (path, model)


def test_a_word_is_close_only_to_the_keys_of_its_own_place() -> None:
    """`url` is a key of a web server's storage, `interval` one of a sensor: neither is meant elsewhere."""
    for key in ("urll", "intervall", "fail_hour"):
        advice = told(CONFIG.replace(STREAM, f"{STREAM}\n    {key}: x"), key)
        assert "did you mean" not in advice
        assert "source" in advice


def test_no_advice_is_for_a_key_that_its_place_has_and_each_model_exists() -> None:
    fields: dict[str, type[Model]] = {model.__name__: model for model in models(Model) if issubclass(model, Model)}
    assert LakeConfig.__name__ in fields
    for name, advice in _HERE.items():
        assert not advice.keys() & {field.alias or key for key, field in fields[name].model_fields.items()}, name
    assert not _ELSEWHERE.keys() & fields["Stream"].model_fields.keys()
    assert not _ELSEWHERE.keys() & fields["Lake"].model_fields.keys()
