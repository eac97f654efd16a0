"""Options of a stream that do not fit each other are refused before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets_tests.faults.without_spark import no_session
from lake_assets_tests.world import World

HOURS = {
    "layout": "region={region}/date={date}/hour={hour}/on={day}",
    "path_columns": {"hour": "integer", "day": "date"},
}
URI = {"file_columns": {"at": "uri"}}
FORMATS: list[tuple[dict[str, Any], str]] = [
    ({"mode": "index", "format": "csv"}, "a lake reads Parquet only, not csv"),
    ({"mode": "index", "format": "orc"}, "a lake reads Parquet only, not orc"),
    ({"copy": "always", "format": "avro"}, "copy is for landed Parquet files"),
    ({"landing": {}, "format": "csv"}, "landing writes Parquet files, and format is csv"),
    ({"format": {"type": "csv", "delimiter": ",,"}}, "delimiter"),
    ({"format": {"type": "csv", "delimiter": '"'}}, "quote and delimiter are both"),
    ({"format": {"type": "csv", "header": False}}, "add names"),
    ({"format": {"type": "csv", "names": ["a", "b", "A"]}}, "names has 'a' twice: rename one"),
    ({"format": {"type": "csv", "encoding": "utf-9"}}, "there is no encoding 'utf-9'"),
    ({"format": {"type": "xml"}}, "format"),
]
RESCUE: list[tuple[dict[str, Any], str]] = [
    ({"rescue": "x", "mode": "index"}, "mode: index registers files as they are, without rescue"),
    ({"rescue": "region"}, "rescue: region is the name of another column of the table"),
    ({"rescue": "x", "columns": {"x": {"type": "VARCHAR"}}}, "because rescue decides the rest"),
]
FILE_COLUMNS: list[tuple[dict[str, Any], str]] = [
    (URI | {"mode": "index"}, "mode: index registers files as they are, without file_columns"),
    ({"file_columns": {"Region": "uri"}}, "file_columns.Region is the name of another column"),
    ({"file_columns": {"at": "uri", "AT": "run_id"}}, "file_columns.AT is the name of another column"),
    ({"file_columns": {"at": "commit"}}, "file_columns.at"),
    (URI | {"columns": {"at": {"type": "integer"}}}, "file_columns decides the rest"),
    (
        {"file_columns": {"_run_id": "run_id"}, "on_bad_row": "dead_letter"},
        "file_columns._run_id is a name of the dead letters' own columns",
    ),
]
PATH_COLUMNS: list[tuple[dict[str, Any], str]] = [
    ({"path_columns": {"hour": "integer"}}, "has no {hour}, which path_columns names"),
    (HOURS | {"path_columns": {"Region": "string"}}, "path_columns.Region is a partition column"),
    (HOURS | {"mode": "index"}, "mode: index registers files as they are, without path_columns"),
    (HOURS | {"path_columns": {"hour": "float"}}, "path_columns.hour"),
    ({"layout": "{region}/{date}/{ts,,HH}", "path_columns": {"ts": "date"}}, "path_columns.ts is date, and the"),
]
LISTED = {"region": {"values": ["NW"]}, "date": {"values": ["2026-02-11"]}}
WEB = {"source": "https://example.com/sales", "files": "a.parquet", "partitions": LISTED}
DEAD_LETTERS: list[tuple[dict[str, Any], str]] = [
    ({"on_bad_row": "dead_letter", "mode": "index"}, "on_bad_row: dead_letter is for modes that write rows"),
    ({"dead_letters": {"to": "/tmp/x"}}, "dead_letters is for on_bad_row: dead_letter"),
    ({"checks": {"blocking": ["dead_letters"]}}, "checks.blocking names dead_letters"),
    (WEB | {"on_bad_row": "dead_letter"}, "the source, which is a web server"),
]
QUARANTINE: list[tuple[dict[str, Any], str]] = [
    ({"mode": "index", "on_bad_object": "quarantine"}, "on_bad_object: quarantine is for mode: replace"),
    ({"checks": {"blocking": ["quarantine"]}}, "checks.blocking names quarantine"),
]


@pytest.mark.parametrize(
    ("options", "message"), [*FORMATS, *RESCUE, *FILE_COLUMNS, *PATH_COLUMNS, *DEAD_LETTERS, *QUARANTINE]
)
def test_options_that_do_not_fit_each_other_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _ = World.in_folder(tmp_path, no_session, **options).config
