"""Advice of errors about texts and formats of landed objects."""

import datetime as dt
import gzip

import pyarrow as pa
import pytest

from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.advice.landing import of_avro, text
from lake_assets_tests.ingest.landed_as import as_orc
from lake_assets_tests.world import NW, SW, World

case = Cases()
large = Cases(pytest.mark.more)


@case
def a_log_is_split_where_its_fields_change(local_world: World) -> Steps:
    local_world.options = {"format": {"type": "csv", "comment": "#", "delimiter": " "}}
    parts = [b"#Version: 1.0\n#Fields: id total\n0 1.5\n", b"#Version: 1.0\n#Fields: total id\n2.5 1\n"]
    local_world.land(NW, b"".join(parts), "a.csv")
    yield "let its writer begin a new file when its fields change | split it at that line"
    for name, part in zip(("a.csv", "b.csv"), parts, strict=True):
        local_world.land(NW, part, name)
    return [1.5, 2.5]


@case
def a_name_that_shows_no_format_is_given_one(local_world: World) -> Steps:
    local_world.options = {"format": "auto", "files": "*"}
    text(local_world, "total\n1.0\n", "rows")
    yield "give it as the stream's format"
    local_world.options = {"format": "csv", "files": "*"}
    return [1]


@case
def a_name_that_shows_no_format_is_left_out(local_world: World) -> Steps:
    local_world.options = {"format": "auto", "files": "*"}
    text(local_world, "total\n1.0\n", "rows.csv")
    text(local_world, "a note", "README")
    yield "let the stream's files leave it out"
    local_world.options = {"format": "auto", "files": "*.csv"}
    return [1]


@case
def a_header_with_a_name_twice_is_given_names(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "total,total\n1.0,2.0\n", "a.csv")
    yield "give names in the stream's format | rename one"
    local_world.options = {"format": {"type": "csv", "names": ["total", "net"]}}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"format": "csv"}
    text(local_world, "total,net\n3.0,2.0\n", "a.csv")
    return [3]


@case
def a_text_that_is_larger_than_the_limit_is_read_with_another(local_world: World) -> Steps:
    local_world.options = {"format": {"type": "csv", "most_decompressed": "10B"}}
    text(local_world, gzip.compress(b"total\n1.0\n2.0\n3.0\n"), "a.csv.gz")
    yield "raise most_decompressed"
    local_world.options = {"format": {"type": "csv", "most_decompressed": "1kB"}}
    return [1, 2, 3]


@case
def an_encoding_that_the_header_shows_is_named(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "größe,total\n7,1.0\n".encode("utf-16-le"), "a.csv")
    yield "name the text's encoding | correct `format` or `files` of the stream"
    local_world.options = {"format": {"type": "csv", "encoding": "utf-16-le"}}
    local_world.ingest(NW)
    assert local_world.query("SELECT größe, total FROM lake.sales") == [(7, 1)]
    text(local_world, "größe,total\n7,2.0\n".encode("latin-1"), "b.csv")
    local_world.options = {"format": "csv", "files": "b*"}
    yield "name the text's encoding in the stream's format"
    local_world.options["format"] = {"type": "csv", "encoding": "latin-1"}
    return [2]


@case
def a_header_that_no_reader_takes_is_corrected(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, f"{'x' * 200_000},total\n7,1.0\n", "a.csv")
    yield "csv_text.py: correct it"
    text(local_world, "x,total\n7,1.0\n", "a.csv")
    return [1]


@case
def lines_that_end_with_a_carriage_return_get_a_line_feed(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "total\r1.0\r2.0\r", "a.csv")
    yield "let its writer end them with a line feed"
    text(local_world, "total\n1.0\n2.0\n", "a.csv")
    return [1, 2]


@case
def a_column_of_orc_with_a_time_of_another_age_is_left_out(local_world: World) -> Steps:
    local_world.options = {"format": "orc"}
    rows = pa.table({"total": [1.0], "until": pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us"))})  # noqa: DTZ001 - as ORC has it
    local_world.land(NW, as_orc(rows), "a.orc")
    yield "leave the column out by omit: true | let its writer land times of 1677 to 2262"
    local_world.options |= {"columns": {"until": {"omit": True}}}
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"format": "orc", "destination": {"table": "ends"}}
    local_world.land(NW, as_orc(rows.set_column(1, "until", pa.array([0], pa.timestamp("us")))), "a.orc")
    local_world.ingest(NW)
    return [1]


@case
def a_value_of_a_text_is_corrected(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "id,total\n0,5.0\n", "a.csv")
    local_world.ingest(NW)
    text(local_world, "id,total\n0,much\n", "a.csv")
    yield "correct it and land the object again"
    text(local_world, "id,total\n0,1.0\n", "a.csv")
    return [1]


@case
def a_value_of_a_text_becomes_a_dead_letter(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, "id,total\n0,5.0\n", "a.csv")
    local_world.ingest(NW)
    text(local_world, "id,total\n0,1.0\n0,much\n", "a.csv")
    yield "set on_bad_row: dead_letter | give the form of its values in the stream's format"
    local_world.options["on_bad_row"] = "dead_letter"
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.options = {"format": {"type": "csv", "nulls": ["much"]}}
    local_world.ingest(NW, force=True)
    assert local_world.totals() == [1, None]
    return None


@case
def a_text_that_is_no_json_is_landed_again(local_world: World) -> Steps:
    local_world.options = {"format": "json"}
    text(local_world, '[{"total": 1.0}, {"total"]', "a.json")
    yield "let its writer land it again"
    text(local_world, '[{"total": 1.0}, {"total": 2.0}]', "a.json")
    return [1, 2]


@case
def avro_without_fields_is_landed_as_records(local_world: World) -> Steps:
    local_world.options = {"format": "avro"}
    text(local_world, of_avro("double", 1.0), "a.avro")
    yield "let its writer land records with fields | let the stream's files leave it out"
    record = {"type": "record", "name": "row", "fields": [{"name": "total", "type": "double"}]}
    text(local_world, of_avro(record, {"total": 1.0}), "a.avro")
    local_world.ingest(NW)
    text(local_world, of_avro("double", 1.0), "other.avro")
    local_world.options |= {"files": "a*"}
    return [1]


@case
def a_quote_that_ends_in_no_record_is_closed(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    for rows in ('total,note\n1.0,"a"\n2.0,b\n', 'total,note\n1.0,"a\n2.0,"\n'):
        text(local_world, 'total,note\n1.0,"a\n2.0,b\n', "a.csv")
        yield "land the object again, whole | blocks.py: correct it"
        text(local_world, rows, "a.csv")
        local_world.ingest(NW)
    return [1]


@large
def a_record_that_has_no_end_is_on_a_line(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    rest = f"2.0,{'b' * 2**20}\n" * 17
    text(local_world, f'total,note\n1.0,5" pipe\n3.0,"a\n{rest}', "a.csv")
    yield "write each record on its own line | close each quote | give the right format"
    text(local_world, 'total,note\n1.0,5" pipe\n3.0,"a"\n2.0,b\n', "a.csv")
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2, 3]
    local_world.options = {"format": {"type": "csv", "quote": None}}
    text(local_world, f'total,note\n1.0,5" pipe\n3.0,"a\n{rest}', "a.csv")
    local_world.ingest(NW)
    return [1, *[2] * 17, 3]


@case
def a_header_whose_quote_is_open_is_left_out(local_world: World) -> Steps:
    local_world.options = {"format": "csv"}
    text(local_world, '"total\n1.0\n2.0\n', "a.csv")
    yield "close its quotes | leave it out by skip_lines: 1, header: false and names"
    local_world.options = {"format": {"type": "csv", "skip_lines": 1, "header": False, "names": ["total"]}}
    local_world.ingest(NW)
    assert local_world.totals() == [1, 2]
    local_world.options = {"format": "csv"}
    text(local_world, '"total"\n1.0\n2.0\n', "a.csv")
    return [1, 2]


@case
def a_list_is_landed_as_json(local_world: World) -> Steps:
    local_world.options = {"format": "auto"}
    local_world.land(SW, b'{"x": [1], "total": 5.0}\n', "a.json")
    local_world.ingest(SW)
    text(local_world, 'x,total\n"[1]",1.0\n', "a.csv")
    yield "land JSON lines"
    local_world.unland(NW, "a.csv")
    text(local_world, '{"x": [1], "total": 1.0}\n', "a.json")
    return [1, 5]


@large
def lines_before_a_header_end_in_line_feeds(local_world: World) -> Steps:
    local_world.options = {"format": {"type": "csv", "skip_lines": 1}}
    text(local_world, "a note\rtotal\r" + "1.0\r" * 2**22, "a.csv")
    yield "let its writer end lines with a line feed | let the stream's files leave the object out"
    text(local_world, "a note\ntotal\n1.0\n", "a.csv")
    local_world.ingest(NW)
    text(local_world, "x" * 2**24, "other.csv")
    local_world.options |= {"files": "a*"}
    return [1]


@case
def a_text_of_another_format_is_landed_again(local_world: World) -> Steps:
    local_world.options = {"format": "json"}
    text(local_world, "total\n1.0\n", "a.json")
    yield "give the right format | correct the text"
    text(local_world, '{"total": 1.0}\n', "a.json")
    local_world.ingest(NW)
    text(local_world, "total\n1.0\n", "a.json")
    local_world.options = {"format": "csv", "files": "*.json"}
    return [1]


@pytest.mark.parametrize("steps", [*case, *large])
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
