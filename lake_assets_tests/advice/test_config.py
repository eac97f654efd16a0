"""A config that is refused says what to write, and that is one which it accepts: in each mode, source and lake."""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import combinations, product
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.lake import ATTACH_OPTIONS
from lake_assets.config.messages import sentence
from lake_assets.config.models import LakeConfig
from lake_assets_tests.advice.test_sentences import sentences
from lake_assets_tests.tiers import more, soak

Document = dict[str, Any]

S3 = {"type": "s3", "bucket": "landing", "region": "eu-central-1", "key_id": "k", "secret": "s"}
SQLITE = {"catalog": {"type": "sqlite", "path": "/c.sqlite"}, "storage": "/data"}
MOTHERDUCK = {"catalog": {"type": "motherduck", "database": "m"}}
MODES = ("replace", "append", "index")
SOURCES: dict[str, Any] = {
    "folder": "/landing",
    "s3": S3,
    "anonymous": {"type": "s3", "bucket": "landing", "anonymous": True},
    "web": "https://example.org/landing",
    "gcs": {"type": "gcs", "bucket": "landing"},
}
LAKES: dict[str, Any] = {
    "files": SQLITE,
    "encrypted": SQLITE | {"attach_options": {"encrypted": True}},
    "managed": MOTHERDUCK,
    "motherduck": MOTHERDUCK | {"storage": S3 | {"bucket": "lake"}},
}
COLUMNS = [{}, {"in": "rows"}, {"empty": "null"}]
OPTIONS: list[tuple[str, Any]] = [
    *(("after_load", value) for value in ("delete", "tag", {"move": "/gone"})),
    *(("on_empty", value) for value in ("clear", "keep")),
    ("on_changed", "refresh"),
    ("owns_source", True),
    *(("schema_policy", value) for value in ("evolve", "ignore_extra")),
    ("on_bad_object", "quarantine"),
    ("on_bad_row", "dead_letter"),
    ("dead_letters", {"to": "/letters"}),
    *(
        ("checks", {"blocking": [check]})
        for check in ("appended_objects", "indexed_objects", "quarantine", "dead_letters", "freshness", "ledger")
    ),
    *(("format", value) for value in ("csv", "auto", "avro")),
    *(("copy", value) for value in ("never", "any")),
    ("verify", "pages"),
    ("immutable_source", True),
    ("compression", "zstd"),
    ("target_file_size", "128MiB"),
    ("commit_batch", 5),
    ("transform", {"sql": "SELECT * FROM source"}),
    ("deltas", {"to": "/deltas"}),
    ("rescue", "_rescued"),
    ("file_columns", {"u": "uri"}),
    ("sensor", {"type": "objects"}),
    ("sensor", {"type": "sqs", "queue_url": "https://host/1/queue"}),
    ("automation", {"cron": "0 1 * * *"}),
    ("schedule", {"cron": "0 1 * * *", "lookback": 2}),
    ("landing", {}),
    ("landing", {"columns": {"region": "string", "total": "double"}}),
    ("freshness", {"newest_partition_hours": 3}),
    ("columns", {"note": {"type": "varchar", "default": "a"}}),
    ("columns", {"note": {"omit": True}}),
    ("columns", {"note": {"from": "b", "type": "varchar"}}),
    ("columns", {"region": {"omit": True}}),
]
STEPS = 8  # of advice, from the worst config to one that is right


def refusal(document: Document) -> str | None:
    """Return the first thing that the config says is wrong."""
    try:
        LakeConfig.model_validate(document)
    except ValidationError as error:
        return sentence(error.errors(include_url=False)[0])
    return None


def stream_of(document: Document) -> Document:
    stream: Document = document["streams"]["sales"]
    return stream


def with_key(document: Document, key: str, value: object) -> Document:
    """Return the document with a key of its stream, `section.key`, or `lakes.test.key`, or without it for None."""
    changed = deepcopy(document)
    *sections, last = key.split(".")
    place = changed if sections[:1] == ["lakes"] else stream_of(changed)
    for section in sections:
        place = place.setdefault(section, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return changed


def without(document: Document, key: str) -> Document:
    """Return the document without a key, a name of `checks.blocking`, a rule of a column, or a key of the lake."""
    stream, lake = stream_of(document), document["lakes"]["test"]
    for place, keys in (("lakes.test", lake), ("lakes.test.catalog", lake["catalog"])):
        if key in keys and key not in stream:
            return with_key(document, f"{place}.{key}", None)
    if key in stream or "." in key:
        return with_key(document, key, None)
    if key in stream.get("checks", {}).get("blocking", ()):
        return with_key(document, "checks", None)
    (column,) = (name for name, rules in stream.get("columns", {}).items() if key in rules)
    return with_key(document, f"columns.{column}.{key}", None)


def subject(problem: str) -> str:
    """Return what a problem is about, which `it` is."""
    return re.split("[:, ]", re.sub(r"^(?:stream \w+: )?(?:checks\.)?blocking names ", "", problem))[0]


BUCKET, ROOMS = S3 | {"bucket": "lake"}, ("storage", "staging")
CHAIN = {"provider": "credential_chain"}
CRON = {"cron": "0 1 * * *"}
GCS = SOURCES["gcs"]
WORDS: list[tuple[str, str, object]] = [
    (r"use (?:delete or )?move\b", "after_load", {"move": "/gone"}),
    (r"use delete\b", "after_load", "delete"),
    ("use type objects", "sensor", {"type": "objects"}),
    ("write empty: value", "partitions.region.empty", "value"),
    ("write plaintext: true below deltas", "deltas.plaintext", True),
    ("write plaintext: true below dead_letters", "dead_letters.plaintext", True),
    (r"name another storage in dead_letters\.to", "dead_letters", {"to": "/letters"}),
    ("give a bucket", "source", S3),
    ("give the source key_id and secret", "source", GCS | {"key_id": "k", "secret": "s"}),
    ("give the source .* or provider: credential_chain", "source", GCS | CHAIN),
    ("set on_bad_object", "on_bad_object", "quarantine"),
    ("set on_bad_row", "on_bad_row", "dead_letter"),
    ("give a folder or a bucket", "lakes.test.storage", "/data"),
    ("give (?:a folder or|the lake's storage) a bucket|or give storage", "lakes.test.storage", BUCKET),
    *((f"{key} is written to: remove anonymous, and use keys or a role", f"lakes.test.{key}", BUCKET) for key in ROOMS),
    *((f"lake's {key} key_id and secret", f"lakes.test.{key}", GCS | {"key_id": "k", "secret": "s"}) for key in ROOMS),
    *((f"lake's {key} .* or provider: credential_chain", f"lakes.test.{key}", GCS | CHAIN) for key in ROOMS),
    ("give each another name", "lakes.test.ledger", "runs"),
    ("set fail_hours", "freshness.fail_hours", 3),
    (r"set freshness\.newest_partition_hours", "freshness", {"newest_partition_hours": 3}),
]
"""What a problem says to write, and the key and value that one then writes."""


def written(problem: str) -> Iterator[tuple[str, object]]:
    """Yield each key and value that a problem says to write."""
    for modes in re.findall(r"\buse mode: (\w+)(?: or mode: (\w+))?", problem):
        yield from (("mode", mode) for mode in modes if mode)
    for key, *values in re.findall(r"so (\w+) (?:cannot be \w+: use (\w+) or (\w+)|must be (\w+))", problem):
        yield from ((key, value) for value in values if value)
    yield from re.findall(r"or (after_load): (\w+)", problem)
    yield from ((key, value) for words, key, value in WORDS if re.search(words, problem))


def ways(document: Document, problem: str) -> Iterator[tuple[str, object, Document]]:
    """Yield each way that a problem names: a key, its new value or None, and the document that has it."""
    yield from ((key, value, with_key(document, key, value)) for key, value in written(problem))
    for words in re.findall(r"leave (it|them|attach_options)\b", problem):
        key = subject(problem) if words in {"it", "them"} else words
        yield key, None, without(document, key)
    for words in (
        ()
        if "remove anonymous" in problem
        else re.findall(r"remove ((?:\w[\w.]*(?: and |, (?!or\b|so\b)|$|(?=\W)))+)", problem)
    ):
        gone = document
        for word in re.split(", | and ", words):
            gone = without(gone, subject(problem) if word in {"it", "one"} else word.rstrip("."))
        yield words, None, gone
    for key in re.findall(r"(schedule|automation)\b(?=.*$)", problem.partition(": use ")[2]):
        of_event = next(name for name in ("sensor", "automation") if name in stream_of(document))
        yield key, CRON, with_key(without(document, of_event), key, CRON)


def has(stream: Document, key: str, value: object) -> bool:
    """Return whether a stream has the value of a key, or a mapping with it and more."""
    of_key = stream.get(key)
    return of_key == value or (isinstance(of_key, dict) and isinstance(value, dict) and value.items() <= of_key.items())


def leads_to_a_config(document: Document, before: Sequence[Document] = ()) -> bool:
    """Follow each way that a refused config names, to its end; return whether one is a config that is accepted.

    A way is named, and none is refused at once: what is said of the config then names a way that keeps the new value.
    """
    if (problem := refusal(document)) is None:
        return True
    trail = [*before, document]
    assert len(trail) < STEPS, problem
    named = list(ways(document, problem))
    assert named, f"no way: {problem}"
    for key, value, changed in named:
        after = refusal(changed)
        if after is not None and value is not None and key != "mode" and "." not in key:
            kept = [way for *_, way in ways(changed, after) if has(stream_of(way), key, value)]
            assert kept, f"{problem}\n then: {after}"
    ends = [changed not in trail and leads_to_a_config(changed, trail) for *_, changed in named]  # each is followed
    return any(ends)


def words_of_keys(schema: Any, definitions: Document) -> Iterator[tuple[str, set[object]]]:
    """Yield each key of the config, with its words; none for one that takes any value."""
    if isinstance(schema, dict):
        for key, value in schema.get("properties", {}).items():
            yield key, set(words(value, definitions))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from words_of_keys(part, definitions)


def words(schema: Document, definitions: Document) -> Iterator[object]:
    """Yield the words that a key may have, and `true` and `false` of a switch."""
    if "$ref" in schema:
        yield from words(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    yield from schema.get("enum", [schema["const"]] if "const" in schema else [])
    yield from ("true", "false") if schema.get("type") == "boolean" else ()
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from words(part, definitions)


def test_each_key_and_word_that_an_error_advises_is_one_of_the_config() -> None:
    schema = LakeConfig.model_json_schema()
    known: dict[str, set[object]] = {name: {"true", "false"} for name in ATTACH_OPTIONS}
    for key, values in words_of_keys(schema, schema["$defs"]):
        known[key] = known.get(key, set()) | values

    pairs = {pair for text in sentences() for pair in re.findall(r"\b([a-z]+(?:_[a-z]+)*): ([a-z_]+)\b", text)}
    advised = {(key, word) for key, word in pairs if key in known or "_" in key}

    assert ("schema_policy", "evolve") in advised
    assert {
        (key, word) for key, word in advised if key not in known or (known[key] and word not in known[key])
    } == set()


def places(*, every: bool) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield modes with sources, lakes and partition columns: all together, or those of which one is not the first."""
    for source, lake, column in product(SOURCES, LAKES, COLUMNS):
        if every or [source != "folder", lake != "files", column != COLUMNS[0]].count(True) < 2:
            yield from ((mode, source, lake, column) for mode in MODES)


DATE = {"type": "date", "start": "2026-01-01"}


@pytest.mark.parametrize(
    ("keys", "words", "corrected"),
    [
        ({"partitions": {"d": DATE | {"values": ["a"]}}}, "remove values", {"partitions": {"d": DATE}}),
        ({"partitions": {"d": {"type": "date"}}}, "needs start, the first date", {"partitions": {"d": DATE}}),
        ({"partitions": {"d": {"start": "2026-01-01"}}}, "write one, or remove them", {"partitions": {"d": DATE}}),
        ({"partitions": {"d": {"start": "2026-01-01"}}}, "or remove them", {"partitions": {"d": {}}}),
        (
            {"partitions": {"d": DATE | {"end": "2025-01-01"}}},
            "correct one of them",
            {"partitions": {"d": DATE | {"end": "2027-01-01"}}},
        ),
        ({"partitions": {"d": {"values": ["a", "a"]}}}, "write each once", {"partitions": {"d": {"values": ["a"]}}}),
        ({"partitions": {"d": {"values": []}}}, "or remove values", {"partitions": {"d": {}}}),
        (
            {"partitions": {"d": DATE | {"keys": "date"}}},
            "write year, month",
            {"partitions": {"d": DATE | {"keys": "month"}}},
        ),
        ({"partitions": {"d": DATE, "D": DATE}}, "rename one of them", {"partitions": {"d": DATE, "e": DATE}}),
        ({"path_columns": {"area": "string"}}, "remove it", {}),
        (
            {"layout": "a/{area}"},
            "a column of the layout with `from` (area)",
            {"partitions": {"region": {"from": "area"}}},
        ),
        (
            {"partitions": {"d": DATE | {"from": "ts"}}, "files": "*_{d}.csv"},
            "the partition columns are ts: name one of these",
            {"files": "*_{ts}.csv", "format": "csv"},
        ),
        (
            {"freshness": {"fail_hours": 2, "warn_hours": 3}},
            "write fewer",
            {"freshness": {"fail_hours": 2, "warn_hours": 1}},
        ),
        ({"file_columns": {"region": "uri"}}, "choose another name", {"file_columns": {"u": "uri"}}),
    ],
)
def test_a_key_that_is_refused_is_corrected_as_it_says(keys: Document, words: str, corrected: Document) -> None:
    stream = {"source": "/landing", "partitions": {"region": {}}, "destination": {"table": "sales"}}
    document = {"lakes": {"test": SQLITE}, "streams": {"sales": stream | keys}}
    assert words in (refusal(document) or "")
    document["streams"]["sales"] = {
        name: v for name, v in (stream | keys).items() if corrected or name in stream
    } | corrected
    assert refusal(document) is None


def lakes(count: int) -> Iterator[Document]:
    """Yield configs of each catalog and storage, with so many options of the lake, or fewer."""
    server = {"type": "postgres", "host": "h", "database": "d", "user": "u"}
    files = ({"type": kind, "path": "/c"} for kind in ("sqlite", "duckdb"))
    stored = MOTHERDUCK["catalog"] | {"store_secret": True}
    storages = (None, "/data", BUCKET, SOURCES["anonymous"], SOURCES["gcs"])
    for catalog, storage, number in product(
        (*files, server, MOTHERDUCK["catalog"], stored), storages, range(count + 1)
    ):
        for options in map(dict, combinations(OF_LAKES, number)):
            lake = {"catalog": catalog, **({} if storage is None else {"storage": storage}), **options}
            stream = {"source": S3, "partitions": {"region": {}}, "destination": {"table": "sales"}}
            yield {"lakes": {"test": lake}, "streams": {"sales": stream}}


OF_LAKES: list[tuple[str, Any]] = [
    *(("staging", storage) for storage in ("/staging", SOURCES["anonymous"], SOURCES["gcs"])),
    *(("attach_options", {name: value}) for name, value in (("encrypted", True), ("metadata_schema", "m"))),
    *(("ledger", name) for name in ("ingest_files", "runs")),
    ("manifest", "ingest_runs"),
]


def test_what_a_refused_lake_says_to_write_is_accepted() -> None:
    for document in lakes(2):
        assert leads_to_a_config(document), refusal(document)


def documents(count: int, *, every: bool) -> Iterator[Document]:
    """Yield configs with so many of the options, or fewer, in each place."""
    for (mode, source, lake, column), number in product(places(every=every), range(count + 1)):
        for options in map(dict, combinations(OPTIONS, number)):
            if len(options) < number:
                continue  # two values of one key
            stream = {"mode": mode, "source": SOURCES[source], "destination": {"table": "sales"}}
            stream |= {"partitions": {"region": {"values": ["NW"], **column}}}
            stream |= {"files": "a.parquet"} if source == "web" else {}
            yield {"lakes": {"test": LAKES[lake]}, "streams": {"sales": stream | options}}


CASES = [(1, False), *more([(1, True)]), *soak([(2, False)])]


@pytest.mark.parametrize(("count", "every"), CASES, ids=["one option", "one option in every place", "two options"])
def test_what_a_refused_config_says_to_write_is_accepted(count: int, *, every: bool) -> None:
    for document in documents(count, every=every):
        assert leads_to_a_config(document), refusal(document)
