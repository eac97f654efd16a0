"""Each row of the table of contradicting keys refuses its stream, and no stream without one of its keys."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.contradictions import CONTRADICTIONS, IN_CONFIGS, Contradiction, PlacedStream
from lake_assets.config.fields import LocatedError
from lake_assets.config.models import LakeConfig
from lake_assets.config.stream_fields import StreamFields
from lake_assets.config.streams import StreamConfig

S3 = {"type": "s3", "bucket": "landing", "key_id": "k", "secret": "s"}
NO_KEYS = {"key_id": None, "secret": None, "anonymous": True}
WEB = {"source": "https://host/in", "files": "day.parquet", "partitions": {"region": {"values": ["NW"]}}}
DATE = {"type": "date", "start": "2026-01-01"}
ROWS = {"partitions": {"region": {"in": "rows"}}}
PLAIN: dict[str, Any] = {"source": "/landing", "partitions": {"region": {}}, "destination": {"table": "sales"}}


def index(**keys: Any) -> dict[str, Any]:
    return {"mode": "index", **keys}


def blocking(check: str, **keys: Any) -> dict[str, Any]:
    return {"checks": {"blocking": [check]}, **keys}


STREAMS: list[tuple[dict[str, Any], str]] = [
    ({"schedule": {"cron": "@daily", "lookback": 2}}, "schedule.lookback counts days or hours, .*: remove it"),
    ({"automation": {"cron": "@daily", "lookback": 2}}, "automation.lookback counts days or hours, .*: remove it"),
    (
        blocking("freshness", partitions={"day": DATE}),
        "checks.blocking names freshness: set freshness.newest_partition_hours, or remove it",
    ),
    ({"freshness": {"newest_partition_hours": 3}}, "is the age of a time, .*: remove freshness"),
    (blocking("freshness"), "freshness, a check of times, and no partition column of the stream is one: remove it"),
    ({"files": "x/*.parquet"}, r"files 'x/\*.parquet' has a slash, and the layout has the folders: write only"),
    (ROWS | {"sensor": {}}, "partitions.region is in: rows, .* sensor cannot find .*: use schedule"),
    (ROWS | {"automation": "@daily"}, "partitions.region is in: rows, .* automation cannot find .*: use schedule"),
    ({"layout": "{region}"} | ROWS, r"in: rows, and the layout '\{region\}' has \{region\}: remove one of them"),
    ({"mode": "append", "on_empty": "clear"}, "mode: append takes no rows away, .*: use fail or keep"),
    (
        {"mode": "append", "transform": {"sql": "SELECT 1", "tables": ["t"], "refresh_on": ["t"]}},
        "refresh_on: a refresh in mode: append reads new objects only, .*: remove it, or use mode: replace",
    ),
    ({"on_changed": "refresh"}, "on_changed: refresh is for mode: append, .* has mode: replace: remove it"),
    ({"owns_source": True}, "owns_source is for mode: index, and in mode: replace the lake has files of its own"),
    (index(format="csv"), "a lake reads Parquet only, not csv: use mode: replace or mode: append"),
    (index(**ROWS), "partitions.region is in: rows, and mode: index registers whole files, .*: use mode: replace"),
    (index(partitions={"region": {"empty": "null"}}), "region is empty: null, .*: write empty: value, or use mode"),
    (index(columns={"a": {"from": "b"}}), "columns.a: mode: index registers files as they are: remove from, or use"),
    (index(layout="a={a}/region={region}", path_columns={"a": "string"}), "as they are, without path_columns: use"),
    (index(file_columns={"u": "uri"}), "registers files as they are, without file_columns: use mode: replace"),
    (index(rescue="_rescued"), "registers files as they are, without rescue: use mode: replace"),
    (index(commit_batch=2), "all partitions in one commit already: remove commit_batch"),
    (index(transform={"sql": "SELECT 1"}), "registers files as they are, untransformed: use mode: replace"),
    (index(compression="zstd"), "compression is for written files, and mode: index writes none: remove it"),
    (index(target_file_size="128MiB"), "target_file_size is for written files"),
    (index(verify="pages"), "verify is for written files"),
    (index(immutable_source=True), "immutable_source is for written files"),
    (index(copy="any"), "copy is for written files"),
    (index(schema_policy="evolve"), "schema_policy: evolve is for tables that a refresh writes, .*: remove it, or use"),
    (index(on_empty="clear"), "mode: index only adds files, .*: use fail or keep"),
    (index(deltas={"to": "/deltas"}), "deltas are of rows .*: remove deltas, or use mode: replace"),
    (index(after_load="delete"), "mode: index makes landed objects the files of the table: remove it"),
    ({"source": S3 | NO_KEYS, "after_load": "tag"}, "is anonymous and so"),
    (
        {"mode": "append", "after_load": "delete", **ROWS},
        r"may have rows of several partitions \(in: rows\): remove it",
    ),
    (
        {"mode": "append", "after_load": {"move": S3 | NO_KEYS}},
        "after_load.move is written to, and is anonymous: remove anon",
    ),
    ({"mode": "append", "after_load": "tag"}, "is for objects in S3, .*: use delete or move"),
    ({"source": S3, "after_load": "delete"}, "cannot take them away: use mode: append, or after_load: tag"),
    (index(on_bad_object="quarantine"), "leaves an object that it cannot register out by itself: remove on_bad_object"),
    (index(on_bad_row="dead_letter"), "mode: index registers whole files: remove it, or use mode: replace"),
    ({"dead_letters": {"to": "/letters"}}, "dead_letters is for on_bad_row: dead_letter: remove it, or set on_bad_row"),
    (
        WEB | {"on_bad_row": "dead_letter"},
        "is a web server and so is read-only: name another storage in dead_letters.to",
    ),
    ({"format": "csv", "copy": "any"}, "copy is for landed Parquet files that become data files, and format is csv"),
    ({"format": "csv", "verify": "pages"}, "verify is for landed Parquet files"),
    ({"format": "csv", "immutable_source": True}, "immutable_source is for landed Parquet files"),
    ({"copy": "never", "verify": "pages"}, "verify is for copied files, and copy: never copies none: remove one of"),
    ({"copy": "never", "immutable_source": True}, "immutable_source is for copied files"),
    (
        {"format": "csv", "columns": {"a": {"type": "time"}}},
        "columns.a.type: time is not read from csv: declare string, and cast it in a transform",
    ),
    (
        {"on_bad_row": "dead_letter", "file_columns": {"_row": "row_number"}},
        "file_columns._row is a name of the dead letters' own columns: choose another name",
    ),
    (
        {"on_bad_row": "dead_letter", "rescue": "_reason"},
        "rescue: _reason is a name of the dead letters' own columns: choose another name",
    ),
    (blocking("appended_objects"), "appended_objects, which is a check of mode: append: remove it"),
    (blocking("indexed_objects"), "indexed_objects, which is a check of mode: index: remove it"),
    (blocking("quarantine"), "is a check of on_bad_object: quarantine: remove it, or set on_bad_object"),
    (blocking("dead_letters"), "is a check of on_bad_row: dead_letter: remove it, or set on_bad_row"),
    (WEB | {"files": "*.parquet"}, "files is a pattern: give the name of a partition's one file, or name the bucket"),
    (WEB | {"layout": "{region}/{batch}"}, "folders of the layout .* are in no partition: leave them out, or name"),
    (WEB | {"partitions": {"region": {}}}, "a web server cannot be listed, so partitions.region needs its values"),
    (WEB | {"mode": "index"}, "mode: index registers the files of a bucket or folder, .*: use mode: replace"),
    (WEB | {"sensor": {}}, "so a sensor finds nothing there: use schedule or automation"),
    (WEB | {"landing": {}}, "landing writes files, and a web server is read-only: remove landing"),
    (
        {"sensor": {"type": "sqs", "queue_url": "https://host/1/queue"}},
        "notifications of an S3 bucket: use type objects",
    ),
    ({"format": "csv", "landing": {}}, "landing writes Parquet files, and format is csv: remove one of them"),
    ({"files": "part-*.csv", "landing": {}}, "matches no file that land writes .*: write files: '\\*.parquet'"),
]


def said(keys: dict[str, Any]) -> str:
    """Return what is wrong with a stream; an empty text if nothing is."""
    try:
        StreamConfig.model_validate({**PLAIN, **keys})
    except ValidationError as error:
        return str(error.errors(include_url=False)[0]["msg"])
    return ""


@pytest.mark.parametrize(
    ("row", "keys", "message"),
    [pytest.param(row, *case, id=" ".join(row.keys)) for row, case in zip(CONTRADICTIONS, STREAMS, strict=True)],
)
def test_a_row_refuses_its_keys_together_and_not_one_without_the_others(
    row: Contradiction[StreamFields], keys: dict[str, Any], message: str
) -> None:
    text = said(keys)
    assert re.search(message, text)

    plain = WEB if keys.get("source") == WEB["source"] else PLAIN
    for key in {"copy" if key == "copying" else key for key in row.keys} & keys.keys() - {"source"}:
        rest = {name: value for name, value in keys.items() if name != key}
        assert said(rest | ({key: plain[key]} if key in plain else {})) != text


LAKE: dict[str, Any] = {"catalog": {"type": "sqlite", "path": "/lake.sqlite"}, "storage": "/lake"}
DUCK: dict[str, Any] = {"catalog": {"type": "motherduck", "database": "shop"}, "storage": S3 | {"bucket": "lake"}}
MANAGED = {"catalog": DUCK["catalog"]}
ENCRYPTED = LAKE | {"attach_options": {"encrypted": True}}
OTHER = PLAIN | {"source": "/other", "destination": {"table": "others"}}
LETTERS = {"on_bad_row": "dead_letter", "dead_letters": {"to": "/letters"}}


def config(lake: dict[str, Any] = LAKE, other: dict[str, Any] | None = None, /, **keys: Any) -> dict[str, Any]:
    """Return a config of the stream `sales` with these keys, and of another one."""
    streams = {"sales": PLAIN | keys} | ({} if other is None else {"others": OTHER | other})
    return {"lakes": {"shop": lake}, "streams": streams}


GROUP = {"release": {"both": ["sales", "others"]}}

CONFIGS: list[tuple[dict[str, Any], str]] = [
    (config(LAKE, {}, mode="index") | GROUP, "both: stream sales has mode: index, which registers .*: use replace"),
    (config(LAKE, {}, deltas={"to": "/deltas"}) | GROUP, "both: stream sales exports deltas, .*: remove one of both"),
    (config(ENCRYPTED, {}) | GROUP, "both: the lake takes rows only by INSERT, a partition at a time: its streams"),
    (
        config(LAKE, {}, previously=["others"]),
        "sales.previously: stream sales has others in previously, and others is a stream of the config: remove it",
    ),
    (
        config(LAKE, {"previously": ["till"]}, previously=["till"]),
        "others.previously: streams sales and others both have till in previously: remove it from one of them",
    ),
    (
        config(deltas={"to": "/landing/deltas"}),
        (
            "sales.deltas: stream sales exports to /landing/deltas, which is within the landing zone of stream sales, "
            "or the reverse: give deltas.to a folder of its own"
        ),
    ),
    (
        config(LAKE, {"deltas": {"to": "/deltas"}}, deltas={"to": "/deltas"}),
        "others.deltas: streams sales and others both export to /deltas: give each deltas.to of its own",
    ),
    (
        config(ENCRYPTED, deltas={"to": "/deltas"}),
        (
            "sales.deltas: stream sales would export plain files from the encrypted lake shop: write plaintext: true "
            "below deltas to permit it, or remove deltas"
        ),
    ),
    (
        config(LAKE | {"delta_manifest": "ingest_runs"}, deltas={"to": "/deltas"}),
        "sales.deltas: delta_manifest is a table of its own: give it another name than the lake's other tables",
    ),
    (
        config(LAKE, {"deltas": {"to": "/letters"}}, **LETTERS),
        (
            "sales.dead_letters: stream sales has its dead letters in /letters, which is within the deltas of stream "
            "others, or the reverse: give dead_letters.to a folder of its own"
        ),
    ),
    (
        config(ENCRYPTED, **LETTERS),
        (
            "sales.dead_letters: stream sales would write plain rows for the encrypted lake shop: write plaintext: "
            "true below dead_letters to permit it, or remove dead_letters, so that they are in the landing zone, which "
            "has these rows in plain files already"
        ),
    ),
    (
        config(LAKE | {"dead_letter_manifest": "ingest_runs"}, on_bad_row="dead_letter"),
        "sales.on_bad_row: dead_letter_manifest is a table of its own: give it another name than the lake's other",
    ),
    (
        config(mode="append", after_load={"move": "/lake/done"}),
        (
            "sales.after_load: stream sales moves loaded objects to /lake/done, which is within the storage of lake "
            "shop, or the reverse: give after_load.move a folder of its own"
        ),
    ),
    (
        config(LAKE, {"source": "/landing/a"}, mode="append", after_load="delete"),
        (
            "sales.after_load: stream sales takes loaded objects out of a landing zone that stream others reads too: "
            "give each a folder of its own, or use keep or tag"
        ),
    ),
    (
        config(LAKE, {"destination": {"table": "Sales"}}),
        r"others.destination: streams sales and others both fill main.Sales of lake shop: give each its own table",
    ),
    (
        config(destination={"table": "Ingest_Runs"}),
        (
            "sales.destination: stream sales would fill the lake's own table Ingest_Runs: give it another table, or "
            "the lake another ledger and manifest"
        ),
    ),
    (
        config(MANAGED, checks={"blocking": ["ledger", "data_files"]}),
        (
            "sales.checks: stream sales: checks.blocking names data_files, which reads DuckLake's own tables, and "
            "MotherDuck has those of lake shop: remove it"
        ),
    ),
    (
        config(MANAGED, commit_batch=2),
        (
            "sales.commit_batch: stream sales has commit_batch: 2, and lake shop is managed by MotherDuck: its rows "
            "are written with INSERT while the commit holds the lock, so each partition is a commit: remove"
        ),
    ),
    (
        config(ENCRYPTED, mode="index"),
        (
            "sales.mode: stream sales has mode: index, and lake shop is encrypted: files cannot be registered in such "
            "a lake, so use mode: replace"
        ),
    ),
    (
        config(mode="index", source="gs://landing"),
        (
            "sales.source: stream sales has mode: index, so DuckDB reads its source, and accesses Google Cloud Storage "
            "with an HMAC key: give the source key_id and secret, or provider: credential_chain"
        ),
    ),
    (
        config(DUCK, mode="index"),
        "sales.source: stream sales has mode: index, and MotherDuck cannot read a folder of .*: give a bucket",
    ),
]


@pytest.mark.parametrize(
    ("row", "data", "message"),
    [pytest.param(row, *case, id=" ".join(row.keys)) for row, case in zip(IN_CONFIGS, CONFIGS, strict=True)],
)
def test_a_row_refuses_a_stream_beside_its_lake_and_the_other_streams_at_its_key(
    row: Contradiction[PlacedStream], data: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        LakeConfig.model_validate(data)
    problem = caught.value.errors(include_url=False)[0]["ctx"]["error"]
    assert isinstance(problem, LocatedError)
    assert problem.location[-1] == ("both" if row.keys[0] == "release" else row.keys[0])
    assert re.fullmatch(f"{message}.*", f"{'.'.join(problem.location[1:])}: {problem}")
