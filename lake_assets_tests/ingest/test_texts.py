"""`format: csv` and `format: json`: landed texts become a table as landed Parquet does."""

import bz2
import datetime as dt
import gzip
import json
import lzma
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from lake_assets.config.models import LakeConfig
from lake_assets.errors import SchemaError, SourceError
from lake_assets.parquet.shares import WHOLE
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.world import NW, SW, World, plan


def moment(text: str) -> dt.datetime:
    """A time without a zone, as TIMESTAMP has it."""
    return dt.datetime.fromisoformat(text)


SALES = b'id,total,sold,note\n1,2.5,2026-02-11T08:00:00,first\n2,,2026-02-11T09:30:00,"a, b"\n'
ROWS = [(1, 2.5, moment("2026-02-11T08:00"), "first"), (2, None, moment("2026-02-11T09:30"), "a, b")]
QUERY = "SELECT id, total, sold, note FROM lake.sales ORDER BY id"

UNCOMPRESSED: Callable[[bytes], bytes] = bytes


def types(world: World) -> dict[str, str]:
    """The types of the table's columns, as DuckDB names them."""
    described = world.query("DESCRIBE lake.sales")
    return {name: kind for name, kind, *_ in described if name not in {"region", "date"}}


@pytest.fixture
def csv(world: World) -> World:
    world.options = {"format": "csv"}
    return world


@pytest.fixture
def local_csv(local_world: World) -> World:
    local_world.options = {"format": "csv"}
    return local_world


@pytest.fixture
def local_json(local_world: World) -> World:
    local_world.options = {"format": "json"}
    return local_world


def test_csv_becomes_a_table_whose_types_are_those_of_the_first_day(csv: World) -> None:
    csv.land(NW, SALES, "a.csv")
    csv.land(SW, b"note,id,total,sold\n7,3,4,2026-02-11 10:00:00.000001\n", "b.csv")

    first, second = csv.ingest(NW).row, csv.ingest(SW).row

    assert (first.status, first.row_count, second.row_count) == ("committed", 2, 1)
    assert types(csv) == {"id": "BIGINT", "total": "DOUBLE", "sold": "TIMESTAMP", "note": "VARCHAR"}
    assert csv.query(QUERY) == [*ROWS, (3, 4.0, moment("2026-02-11T10:00:00.000001"), "7")]
    assert csv.ingest(NW).row.status == "skipped"


def test_a_partition_is_replaced_by_the_text_that_is_there_now(csv: World) -> None:
    csv.land(NW, SALES, "a.csv")
    csv.ingest(NW)
    csv.land(NW, b"id,total,sold,note\n9,1,2026-02-11T08:00:00,\n", "a.csv")

    csv.ingest(NW)

    assert csv.query("SELECT id, total FROM lake.sales") == [(9, 1.0)]


@pytest.mark.parametrize("compress", [UNCOMPRESSED, gzip.compress, bz2.compress, lzma.compress, "zstd", "lz4"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
def test_a_text_is_read_in_each_compression_and_encoding(
    local_csv: World, compress: Callable[[bytes], bytes] | str, encoding: str
) -> None:
    declared = {} if encoding in {"utf-8-sig", "utf-16"} else {"encoding": encoding}  # a byte order mark tells them
    local_csv.options = {"format": {"type": "csv", **declared}, "files": "*"}
    body = "id,name\r\n1,Zürich\r\n2,Çok\r\n".encode(encoding)
    packed = compress(body) if callable(compress) else _packed(compress, body)
    local_csv.land(NW, packed, "a.txt")

    local_csv.ingest(NW)

    assert local_csv.query("SELECT id, name FROM lake.sales ORDER BY id") == [(1, "Zürich"), (2, "Çok")]


def _packed(codec: str, body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as file:
        file.write(body)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        ({"delimiter": ";", "decimal": ","}, b"a;b\n1;2,5\n", [(1, 2.5)]),
        ({"delimiter": "\t", "quote": None}, b'a\tb\n1\t"x\n', [(1, '"x')]),
        ({"quote": "'"}, b"a,b\n1,'x, ''y'''\n", [(1, "x, 'y'")]),
        ({"escape": "\\"}, b'a,b\n1,"say \\"hi\\", ok"\n', [(1, 'say "hi", ok')]),
        ({"header": False, "names": ["a", "b"]}, b"1,x\n2,y\n", [(1, "x"), (2, "y")]),
        ({"names": ["a", "b"]}, b"Count,Name\n1,x\n", [(1, "x")]),
        ({"skip_lines": 2}, b'report "of\nMay\na,b\n1,x\n', [(1, "x")]),
        ({"comment": "#"}, b"a,b\n# note, with, commas\n1,x\n#\n2,y\n", [(1, "x"), (2, "y")]),
        ({"nulls": ["", "n/a"]}, b'a,b\nn/a,x\n2,"n/a"\n', [(None, "x"), (2, "n/a")]),
        ({"ragged": "pad"}, b"a,b\n1\n2,x\n3\n", [(1, None), (2, "x"), (3, None)]),
        ({"thousands": ","}, b'a,b\n"1,234","1,234.5"\n2,3\n', [(2, 3.0), (1234, 1234.5)]),
        ({"delimiter": ";", "decimal": ",", "thousands": "."}, b"a;b\n1.234;1.234,5\n", [(1234, 1234.5)]),
        ({"date_format": "%d.%m.%Y"}, b"a,b\n1,11.02.2026\n", [(1, dt.date(2026, 2, 11))]),
        (
            {"timestamp_format": "%d/%m/%Y %H:%M"},
            b"a,b\n1,11/02/2026 08:30\n",
            [(1, moment("2026-02-11T08:30"))],
        ),
        ({}, b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n', [(1, "x\r\ny"), (2, "z")]),
        ({}, b"a,b\n\n1,x\n\n", [(1, "x")]),
        ({}, b'a,b\n1,5" pipe\n2,"ok"\n', [(1, '5" pipe'), (2, "ok")]),
        ({}, b"a,b\n007,x\n008,y\n", [("007", "x"), ("008", "y")]),
        ({"escape": "\\"}, b'a,b\n1,C:\\temp\n2,"D:\\x, \\\\ \\"q\\""\n', [(1, "C:\\temp"), (2, 'D:\\x, \\ "q"')]),
        ({"quoted_nulls": True}, b'a,b\n1,""\n2,x\n', [(1, None), (2, "x")]),
        ({"comment": "#"}, b'# by "them\n\n#\na,b\n1,x\n', [(1, "x")]),
        ({"comment": "#"}, b"# long " + b"-" * 100_000 + b"\na,b\n1,x\n", [(1, "x")]),
    ],
)
def test_a_dialect_is_read_as_it_says(
    local_csv: World, dialect: dict[str, Any], body: bytes, expected: list[tuple[object, ...]]
) -> None:
    local_csv.options = {"format": {"type": "csv", **dialect}}
    local_csv.land(NW, body, "a.csv")
    local_csv.ingest(NW)

    assert local_csv.query("SELECT a, b FROM lake.sales ORDER BY a NULLS FIRST") == expected

    local_csv.land(SW, body, "b.csv")  # by the table's types now
    local_csv.ingest(SW)
    assert local_csv.query("SELECT a, b FROM lake.sales WHERE region = 'SW' ORDER BY a NULLS FIRST") == expected


def test_a_value_that_does_not_fit_fails_its_partition_with_line_and_column(csv: World) -> None:
    csv.land(NW, SALES, "a.csv")
    csv.ingest(NW)
    csv.land(NW, b'id,total,sold,note\n1,2,,"x\ny"\n2,n/a,,\n', "a.csv")

    with pytest.raises(SchemaError, match=r"line 4 of the object .*a\.csv does not fit: column 'total'.*'n/a'"):
        csv.ingest(NW)

    assert csv.query(QUERY) == ROWS


def test_dead_letters_have_the_line_as_it_was_landed(csv: World) -> None:
    csv.options |= {"on_bad_row": "dead_letter"}
    csv.land(NW, SALES, "a.csv")
    csv.ingest(NW)
    body = b'id,total,sold,note\n1,2,,"x\ny"\n2,n/a,,"p\nq"\n3,4\n4,5,,last\n'
    uri = csv.land(NW, body, "b.csv")

    row = csv.ingest(NW).row

    assert (row.status, row.row_count, row.rows_dead_lettered) == ("committed", 4, 2)
    assert [(letter["_line"], letter["_raw"], letter["_object"]) for letter in letters(csv)] == [
        (4, '2,n/a,,"p\nq"', uri),
        (6, "3,4", uri),
    ]
    assert [letter["_reason"] for letter in letters(csv)] == [
        "line 4: column 'total', of type double, has an invalid value 'n/a'",
        "line 6: it has 2 values, and there are 4 columns",
    ]


def test_a_row_of_another_partition_is_a_dead_letter_with_its_line(local_csv: World) -> None:
    local_csv.options |= {"on_bad_row": "dead_letter"}
    local_csv.land(NW, b"id,region\n1,NW\n2,SW\n3,NW\n", "a.csv")

    local_csv.ingest(NW)

    (letter,) = letters(local_csv)
    assert (letter["_line"], letter["_raw"], letter["_row"]) == (3, "2,SW", None)
    assert local_csv.query("SELECT id FROM lake.sales ORDER BY id") == [(1,), (3,)]


def test_a_header_that_changes_is_refused_or_evolves_the_table(local_csv: World) -> None:
    local_csv.land(NW, b"id,total\n1,2\n", "a.csv")
    local_csv.ingest(NW)
    local_csv.land(NW, b"id,total,tax\n2,3,0.5\n", "b.csv")

    with pytest.raises(SchemaError, match=r"b\.csv does not fit the table: it has 'tax'"):
        local_csv.ingest(NW)
    local_csv.options |= {"schema_policy": "evolve"}
    local_csv.ingest(NW)

    assert local_csv.query("SELECT id, tax FROM lake.sales ORDER BY id") == [(1, None), (2, 0.5)]
    assert types(local_csv)["tax"] == "DOUBLE"


def test_types_are_those_that_hold_the_values_of_the_sampled_objects(local_csv: World) -> None:
    local_csv.land(NW, b"n,when,empty,code,text\n1,2026-02-11,,1,2\n", "a.csv")
    local_csv.land(NW, b"n,when,empty,code,text\n1.5,2026-02-11 08:00:00,7,01,2026-01-01\n", "b.csv")

    local_csv.ingest(NW)

    assert types(local_csv) == {
        "n": "DOUBLE",
        "when": "TIMESTAMP",
        "empty": "BIGINT",
        "code": "VARCHAR",
        "text": "VARCHAR",
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (gzip.compress(SALES * 100)[:-30], "a.csv cannot be read as CSV: Truncated compressed stream"),
        (b"id,total,sold,note\n" + b'1,2,,"x\n' + b"y\n" * 10, "a quote that is not closed"),
        (b'id,"total\n', "the header .* does not end"),
        (b"id,id\n1,2\n", "has the name 'id' twice"),
        (
            "id,total,sold,note\n1,2,,é\n".encode("cp1252"),
            "line 2 .* column 'note', of type string, has an inv",
        ),
        (b"id\x00,total\n1,2\n", "does not fit the table"),
        (b"id,total,sold,note\r1,2,,\r", "lines that end with a carriage return alone"),
        (b"id,total,sold,note\n1,2,,x\r2,3,,y\n", "a line ends with a carriage return alone"),
    ],
)
def test_a_damaged_text_is_one_error_that_names_it_and_the_old_partition_stays(
    local_csv: World, body: bytes, message: str
) -> None:
    local_csv.land(NW, SALES, "a.csv")
    local_csv.ingest(NW)
    local_csv.land(NW, body, "a.csv")

    with pytest.raises(SourceError, match=message) as error:
        local_csv.ingest(NW)

    assert "a.csv" in str(error.value)
    assert local_csv.query(QUERY) == ROWS


def test_a_damaged_text_is_quarantined_alone(local_csv: World) -> None:
    local_csv.options |= {"on_bad_object": "quarantine"}
    local_csv.land(NW, SALES, "a.csv")
    local_csv.land(NW, gzip.compress(SALES * 100)[:-30], "b.csv.gz")

    assert local_csv.ingest(NW).row.files_quarantined == 1

    assert local_csv.query(QUERY) == ROWS


def test_a_text_that_is_too_large_when_decompressed_is_refused(local_csv: World) -> None:
    local_csv.options = {"format": {"type": "csv", "most_decompressed": "1MiB"}}
    local_csv.land(NW, gzip.compress(b"id,note\n" + b"1,aaaaaaaaaaaaaa\n" * 200_000), "a.csv.gz")

    with pytest.raises(SourceError, match="more than 1,048,576 bytes when it is decompressed"):
        local_csv.ingest(NW)


RECORDS: list[dict[str, Any]] = [
    {"id": 1, "tags": ["a", "b"], "place": {"x": 1.5, "on": "2026-02-11"}, "big": 123456789012345678901234567890},
    {"id": 2, "place": None, "note": 'say "hi"\nbye', "big": 2},
]


@pytest.mark.parametrize(
    "body",
    [
        "\n".join(map(json.dumps, RECORDS)),
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        "\n".join(json.dumps(record, indent=1) for record in RECORDS),
        "\ufeff" + json.dumps(RECORDS),
    ],
    ids=["lines", "array", "indented array", "documents", "marked"],
)
def test_json_becomes_a_table_in_each_form(local_json: World, body: str) -> None:
    local_json.land(NW, body.encode(), "a.json")
    local_json.ingest(NW)
    local_json.land(SW, body.encode(), "a.json")
    local_json.ingest(SW)

    rows = local_json.query("SELECT id, tags, place, note, big FROM lake.sales WHERE region = 'SW' ORDER BY id")
    assert rows == [
        (1, ["a", "b"], {"x": 1.5, "on": "2026-02-11"}, None, Decimal(123456789012345678901234567890)),
        (2, None, None, 'say "hi"\nbye', Decimal(2)),
    ]


def test_objects_of_json_are_maps_if_declared_so(local_json: World) -> None:
    kinds = {
        "m": "MAP(VARCHAR, DECIMAL(12,2))",
        "nested": "MAP(INTEGER, MAP(VARCHAR, DATE))",
        "of": "MAP(VARCHAR, STRUCT(x BIGINT))",
        "within": "STRUCT(m MAP(VARCHAR, BIGINT), l MAP(VARCHAR, BOOLEAN)[])",
    }
    local_json.options |= {"columns": {name: {"type": kind} for name, kind in kinds.items()}}
    body = (
        b'{"id": 1, "m": {"a": 1.25, "b": null}, "nested": {"7": {"d": "2026-02-11"}, "8": null},'
        b' "of": {"p": {"x": 1}}, "within": {"m": {"a": 1}, "l": [{"b": true}, null, {}]}}\n'
        b'{"id": 2, "m": null, "nested": {}}\n'
    )
    local_json.land(NW, body, "a.json")
    local_json.ingest(NW)

    assert local_json.query("SELECT id, m, nested, of, within FROM lake.sales ORDER BY id") == [
        (
            1,
            {"a": Decimal("1.25"), "b": None},
            {7: {"d": dt.date(2026, 2, 11)}, 8: None},
            {"p": {"x": 1}},
            {"m": {"a": 1}, "l": [{"b": True}, None, {}]},
        ),
        (2, None, {}, None, None),
    ]
    local_json.land(SW, b'{"id": 3, "m": {"a": "x"}}\n{"id": 4, "m": {"a": 1}}\n', "b.json")
    with pytest.raises(SchemaError, match=r"line 1 .* does not fit"):
        local_json.ingest(SW)
    local_json.options |= {"on_bad_row": "dead_letter"}
    row = local_json.ingest(SW).row
    assert (row.row_count, row.rows_dead_lettered) == (1, 1)


@pytest.mark.parametrize("late", ['"m": {"a": {"x": 1, "z": 2}}', '"plain": {"x": 1, "z": 2}', '"z": 1'])
def test_unknown_fields_beside_maps_are_refused_as_elsewhere(local_json: World, late: str) -> None:
    kinds = {"m": "MAP(VARCHAR, STRUCT(x BIGINT))", "plain": "STRUCT(x BIGINT)"}
    local_json.options |= {
        "columns": {name: {"type": kind} for name, kind in kinds.items()},
        "on_bad_row": "dead_letter",
    }
    good = b'{"m": {"a": {"x": 1}}, "plain": {"x": 1}}\n' * 30_000
    local_json.land(NW, good + b"{%s}\n" % late.encode(), "a.json")

    row = local_json.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (30_000, 1)
    assert "unknown field" in letters(local_json)[0]["_reason"]
    local_json.options |= {"rescue": "_rescued"}
    local_json.ingest(NW)
    assert local_json.query("SELECT count(*), count(_rescued) FROM lake.sales") == [(30_001, 1)]


def test_a_new_field_within_another_evolves_the_table_behind_the_sample_too(local_json: World) -> None:
    local_json.options |= {"schema_policy": "evolve"}
    many = b'{"place": {"x": 1}, "text": "%s"}\n' % (b"x" * 100) * 12_000
    local_json.land(NW, many + b'{"place": {"x": 2, "y": 3}}\n', "a.json")

    local_json.ingest(NW)

    assert local_json.query("SELECT place FROM lake.sales WHERE place.y = 3") == [({"x": 2, "y": 3},)]


@pytest.mark.parametrize(
    "body",
    [
        '{"id": 1, "name": "a"}{"id": 2, "name": "b"}',
        '{"id": 1, "name": "a"} {"id": 2, "name": "b"}\n',
        '{\n"id": 1,\n"name": "a"}\n{"id": 2, "name": "b"}\n',
        '[\n{"id": 1, "name": "a"},\n{"id": 2, "name": "b"}\n]',
    ],
)
def test_json_objects_may_share_lines_or_not(local_json: World, body: str) -> None:
    local_json.land(NW, body.encode(), "a.json")
    local_json.ingest(NW)

    assert local_json.query("SELECT id, name FROM lake.sales ORDER BY id") == [(1, "a"), (2, "b")]


def test_a_field_that_is_nested_too_deeply_is_refused(local_json: World) -> None:
    local_json.land(NW, b'{"id": 1, "deep": 1}\n{"id": 2, "deep": ' + b"[" * 600 + b"]" * 600 + b"}\n", "a.json")

    with pytest.raises(SourceError, match="line 2"):
        local_json.ingest(NW)


def test_a_new_field_behind_the_sample_evolves_the_table(local_json: World) -> None:
    local_json.options |= {"schema_policy": "evolve"}
    many = "".join(f'{{"id": {number}, "text": "{"x" * 100}"}}\n' for number in range(60_000))
    local_json.land(NW, f'{many}{{"id": -1, "late": {{"n": 1}}}}\n'.encode(), "a.json")

    assert local_json.ingest(NW).row.row_count == 60_001

    assert local_json.query("SELECT id, late FROM lake.sales WHERE late IS NOT NULL") == [(-1, {"n": 1})]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"id": 1}\n{"id": "x"}\n', "line 2 .* does not fit"),
        (b'{"id": 1}\n{"id": 2, "id": 3}\n', "line 2 .* twice"),
        (b'{"id": 1}\n{"id": 2\n', "line 2 .* no JSON"),
        (b'{"id": 1}\n[1]\n', "line 2 .* a JSON list, and not an object"),
        (b'{"id": 1}\n{"id": 2, "new": 1}\n', "'new'"),
        (b'[{"id": 1},\n {"id": 2}', "no JSON at line 2: there is neither a comma nor a bracket"),
        (b'[{"id": 1},\n {"id": ]', "no JSON at line 2"),
        (b'[{"id": 1}] x', "more behind the end"),
    ],
)
def test_bad_json_is_one_error_that_names_object_and_line(local_json: World, body: bytes, message: str) -> None:
    local_json.land(NW, b'{"id": 0}\n', "a.json")
    local_json.ingest(NW)
    local_json.land(NW, body, "a.json")

    with pytest.raises(SourceError, match=message) as error:
        local_json.ingest(NW)

    assert "a.json" in str(error.value)
    assert local_json.query("SELECT id FROM lake.sales") == [(0,)]


def test_dead_letters_of_json_have_the_object_as_it_was_landed(local_json: World) -> None:
    local_json.options |= {"on_bad_row": "dead_letter"}
    local_json.land(NW, b'{"id": 1}\n\n{"id": "x"}\n{"id": 3}\n', "a.json")
    local_json.ingest(NW)

    (letter,) = letters(local_json)
    assert (letter["_line"], letter["_raw"]) == (3, '{"id": "x"}')
    assert local_json.query("SELECT id FROM lake.sales ORDER BY id") == [(1,), (3,)]


def test_auto_reads_each_object_by_its_name(local_world: World) -> None:
    local_world.options = {"format": "auto"}
    local_world.land(NW, pa.table({"id": pa.array([1], pa.int64()), "name": ["p"]}), "a.parquet")
    local_world.land(NW, b"id,name\n2,c\n", "b.csv")
    local_world.land(NW, gzip.compress(b'{"id": 3, "name": "j"}'), "c.jsonl.gz")

    local_world.ingest(NW)
    assert local_world.query("SELECT id, name FROM lake.sales ORDER BY id") == [(1, "p"), (2, "c"), (3, "j")]

    local_world.land(NW, b"x", "d.dat")
    with pytest.raises(SourceError, match=r"the name of .*d\.dat does not show its format"):
        local_world.ingest(NW)


def test_new_texts_are_appended(local_csv: World) -> None:
    local_csv.options |= {"mode": "append"}
    for number in range(2):
        local_csv.land(NW, b"id\n%d\n" % number, f"{number}.csv")
        local_csv.ingest(NW)

    assert local_csv.query("SELECT id FROM lake.sales ORDER BY id") == [(0,), (1,)]


def test_a_partition_column_in_the_rows_selects_them(local_csv: World) -> None:
    local_csv.options |= {
        "partitions": {
            "region": {"values": ["NW", "SW"], "in": "rows"},
            "date": {"type": "date", "start": "2026-01-01"},
        },
        "layout": "date={date}",
    }
    with local_csv.landing.create("date=2026-02-11/a.csv") as file:
        file.write(b"id,region\n1,NW\n2,SW\n3,NW\n")

    local_csv.ingest(NW)

    assert local_csv.query("SELECT id, region FROM lake.sales ORDER BY id") == [(1, "NW"), (3, "NW")]


def test_plan_says_what_a_run_would_do(local_csv: World) -> None:
    local_csv.land(NW, SALES, "a.csv")
    assert plan(local_csv.stream, local_csv.partition(NW)).rows_after == "the objects have to be read for it"
    local_csv.ingest(NW)
    local_csv.land(NW, b"id,total\n1,2\n", "a.csv")

    refused = plan(local_csv.stream, local_csv.partition(NW))

    assert "it lacks 'sold', 'note'" in refused.decision.why


def test_an_empty_text_has_no_rows(local_csv: World) -> None:
    local_csv.land(NW, SALES, "a.csv")
    local_csv.ingest(NW)
    local_csv.land(NW, b"", "b.csv")
    local_csv.land(NW, b"id,total,sold,note\n", "c.csv")
    local_csv.land(NW, b"id,total,sold,note", "d.csv")

    assert local_csv.ingest(NW).row.row_count == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "index"}, "a lake reads Parquet only, not csv"),
        ({"copy": "always"}, "copy is for landed Parquet files"),
        ({"landing": {}}, "landing writes Parquet files, and format is csv"),
        ({"format": {"type": "csv", "delimiter": ",,"}}, "delimiter"),
        ({"format": {"type": "csv", "delimiter": '"'}}, "quote and delimiter are both"),
        ({"format": {"type": "csv", "header": False}}, "add names"),
        ({"format": {"type": "csv", "encoding": "utf-9"}}, "there is no encoding 'utf-9'"),
        ({"format": {"type": "xml"}}, "format"),
    ],
)
def test_what_a_text_cannot_be_is_refused_before_anything_runs(
    local_csv: World, options: dict[str, Any], message: str
) -> None:
    local_csv.options |= options
    with pytest.raises(ValueError, match=message):
        LakeConfig.model_validate(local_csv.document)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_large_text_is_divided_among_tasks(world: World, form: str) -> None:
    world.options = {"format": form, "target_file_size": "4MiB"}
    rows = pa.table({"id": pa.array(range(300_000), pa.int64()), "note": ['a "quoted"\nnote, ' + "x" * 40] * 300_000})
    body = as_csv(rows) if form == "csv" else "".join(f"{json.dumps(row)}\n" for row in rows.to_pylist()).encode()
    assert len(body) > 2 * WHOLE
    world.land(NW, body, f"a.{form}")

    assert world.ingest(NW).row.row_count == 300_000

    assert world.query("SELECT count(DISTINCT id), count(DISTINCT note), min(length(note)) FROM lake.sales") == [
        (300_000, 1, 57)
    ]
    assert len(world.live_files()) > 1


def as_csv(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pc.write_csv(rows, sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("policy", ["strict", "evolve", "ignore_extra"])
def test_a_transform_has_the_inferred_columns_of_texts(local_csv: World, policy: str) -> None:
    local_csv.options |= {
        "transform": {"sql": "SELECT id * 2 AS twice, note FROM source WHERE total > 1"},
        "schema_policy": policy,
        "on_bad_row": "dead_letter",
    }
    local_csv.land(NW, SALES + b"x,9,2026-02-11T08:00:00,bad\n" + b"3,4,2026-02-11T08:00:00,ok\n" * 9, "a.csv")

    row = local_csv.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (10, 1)
    assert local_csv.query("SELECT DISTINCT twice, note FROM lake.sales ORDER BY 1") == [(2, "first"), (6, "ok")]


def test_a_changed_dialect_reads_the_partition_again(local_csv: World) -> None:
    local_csv.land(NW, b"a;b\n1;2,5\n", "a.csv")
    local_csv.options = {"format": {"type": "csv", "delimiter": ";", "decimal": ","}}
    local_csv.ingest(NW)
    local_csv.options = {"format": {"type": "csv", "delimiter": ";", "decimal": ",", "nulls": ["", "1"]}}

    local_csv.ingest(NW)

    assert local_csv.query("SELECT a, b FROM lake.sales") == [(None, 2.5)]
