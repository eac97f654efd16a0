"""Each row of the table of contradicting keys refuses its stream, and no stream without one of its keys."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config.contradictions import CONTRADICTIONS, Contradiction
from lake_assets.config.streams import StreamConfig

S3 = {"type": "s3", "bucket": "landing", "key_id": "k", "secret": "s"}
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
    ({"mode": "append", "on_empty": "clear"}, "mode: append takes no rows away, .*: use fail or keep"),
    ({"on_changed": "refresh"}, "on_changed: refresh is for mode: append, .* has mode: replace: remove it"),
    ({"owns_source": True}, "owns_source is for mode: index, and in mode: replace the lake has files of its own"),
    (index(format="csv"), "a lake reads Parquet only, not csv: use mode: replace or mode: append"),
    (index(**ROWS), "partitions.region is in: rows, and mode: index registers whole files, .*: use mode: replace"),
    (index(partitions={"region": {"empty": "null"}}), "region is empty: null, .*: write empty: value, or use mode"),
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
    ({"source": S3 | {"key_id": None, "secret": None, "anonymous": True}, "after_load": "tag"}, "is anonymous and so"),
    (
        {"mode": "append", "after_load": "delete", **ROWS},
        r"may have rows of several partitions \(in: rows\): remove it",
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
    row: Contradiction, keys: dict[str, Any], message: str
) -> None:
    text = said(keys)
    assert re.search(message, text)

    plain = WEB if keys.get("source") == WEB["source"] else PLAIN
    for key in {"copy" if key == "copying" else key for key in row.keys} & keys.keys() - {"source"}:
        rest = {name: value for name, value in keys.items() if name != key}
        assert said(rest | ({key: plain[key]} if key in plain else {})) != text
