"""`format: csv` and `format: json`: landed texts become a table as landed Parquet does."""

import bz2
import datetime as dt
import gzip
import json
import lzma
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets_tests.ingest.landed_as import columns_of, landed, load, small_sample, types  # noqa: F401 - a fixture
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.storage.formats.packed import packed
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World


def moment(text: str) -> dt.datetime:
    """A time without a zone, as TIMESTAMP has it."""
    return dt.datetime.fromisoformat(text)


SALES = b'id,total,sold,note\n1,2.5,2026-02-11T08:00:00,first\n2,,2026-02-11T09:30:00,"a, b"\n'
ROWS = [(1, 2.5, moment("2026-02-11T08:00"), "first"), (2, None, moment("2026-02-11T09:30"), "a, b")]
COLUMNS = "id, total, sold, note"


@pytest.fixture
def csv(local_world: World) -> World:
    local_world.options = {"format": "csv"}
    return local_world


@pytest.mark.journey
def test_csv_becomes_a_table_whose_types_are_those_of_the_first_day(world: World) -> None:
    world.options = {"format": "csv"}
    first = load(world, SALES)
    second = load(world, b"note,id,total,sold\n7,3,4,2026-02-11 10:00:00.000001\n", SW)

    assert (first.status, first.row_count, second.row_count) == ("committed", 2, 1)
    assert types(world) == {"id": "BIGINT", "total": "DOUBLE", "sold": "TIMESTAMP", "note": "VARCHAR"}
    third = (3, 4.0, moment("2026-02-11T10:00:00.000001"), "7")
    assert columns_of(world, COLUMNS) == [*ROWS, third]
    assert world.ingest(NW).row.status == "skipped"
    load(world, b"id,total,sold,note\n9,1,,\n")
    assert columns_of(world, COLUMNS) == [third, (9, 1, None, None)]


@pytest.mark.parametrize(
    ("compress", "encoding"),
    [
        pytest.param(gzip.compress, "utf-8", id="gzip"),
        pytest.param(partial(packed, "zstd"), "utf-8-sig", id="zstd-marked"),
        (bytes, "utf-16"),
        (bytes, "cp1252"),
        *more([(bz2.compress, "latin-1"), (lzma.compress, "utf-16")]),
        pytest.param(partial(packed, "lz4"), "cp1252", id="lz4", marks=pytest.mark.more),
    ],
)
def test_a_text_is_read_in_each_compression_and_encoding(
    csv: World, compress: Callable[[bytes], bytes], encoding: str
) -> None:
    declared = {} if encoding in {"utf-8-sig", "utf-16"} else {"encoding": encoding}  # a byte order mark tells them
    csv.options = {"format": {"type": "csv", **declared}, "files": "*"}

    load(csv, compress("id,name\r\n1,Zürich\r\n2,Çok\r\n".encode(encoding)))

    assert columns_of(csv, "id, name") == [(1, "Zürich"), (2, "Çok")]


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        ({"delimiter": "\t", "quote": None}, b'a\tb\n1\t"x\n', [(1, '"x')]),
        ({"quote": "'"}, b"a,b\n1,'x, ''y'''\n", [(1, "x, 'y'")]),
        ({"escape": "\\"}, b'a,b\n1,"say \\"hi\\", ok"\n', [(1, 'say "hi", ok')]),
        ({"header": False, "names": ["a", "b"]}, b"1,x\n2,y\n", [(1, "x"), (2, "y")]),
        ({"names": ["a", "b"]}, b"Count,Name\n1,x\n", [(1, "x")]),
        ({"skip_lines": 2}, b'report "of\nMay\na,b\n1,x\n', [(1, "x")]),
        ({"comment": "#"}, b"a,b\n# note, with, commas\n1,x\n#\n2,y\n", [(1, "x"), (2, "y")]),
        ({"nulls": ["", "n/a"]}, b'a,b\nn/a,x\n2,"n/a"\n', [(2, "n/a"), (None, "x")]),
        ({"ragged": "pad"}, b"a,b\n1\n2,x\n3\n", [(1, None), (2, "x"), (3, None)]),
        ({"delimiter": ";", "decimal": ",", "thousands": "."}, b"a;b\n1.234;1.234,5\n", [(1234, 1234.5)]),
        ({"date_format": "%d.%m.%Y"}, b"a,b\n1,11.02.2026\n", [(1, dt.date(2026, 2, 11))]),
        ({"timestamp_format": "%d/%m/%Y %H:%M"}, b"a,b\n1,11/02/2026 08:30\n", [(1, moment("2026-02-11T08:30"))]),
        (
            {"timestamp_format": "%F %T.%f%z"},
            b"a,b\n1,2026-02-11 08:30:00.5+0100\n",
            [(1, moment("2026-02-11T07:30:00.5Z"))],
        ),
        (
            {"delimiter": "\t", "quote": None, "escape": "\\", "nulls": ["\\N"]},
            b"a\tb\n1\t\\N\n2\t\\\\N\n3\tx\\\t\\N\n",
            [(1, None), (2, "\\N"), (3, "x\tN")],
        ),
        ({}, b"\n\xef\xbb\xbf\xef\xbb\xbfa,b\n1,x\n", [(1, "x")]),
        ({"quoted_nulls": True}, b'a,b\n1,""\n2,x\n', [(1, None), (2, "x")]),
        *more(
            [
                ({"thousands": ","}, b'a,b\n"1,234","1,234.5"\n2,3\n', [(2, 3.0), (1234, 1234.5)]),
                ({}, b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n', [(1, "x\r\ny"), (2, "z")]),
                ({}, b"a,b\n\n1,x\n\n", [(1, "x")]),
                ({"escape": "\\"}, b"a,b\n1,C:\\temp\n", [(1, "C:\\temp")]),
                ({"escape": "\\"}, b'a,b\n2,"D:\\x, \\\\ \\"q\\""\n', [(2, 'D:\\x, \\ "q"')]),
                ({"comment": "#"}, b'# by "them\n\n#\na,b\n1,x\n', [(1, "x")]),
                ({"comment": "#"}, b"# long " + b"-" * 100_000 + b"\na,b\n1,x\n", [(1, "x")]),
            ]
        ),
    ],
)
def test_a_dialect_is_read_as_it_says(
    csv: World, dialect: dict[str, Any], body: bytes, expected: list[tuple[object, ...]]
) -> None:
    csv.options = {"format": {"type": "csv", **dialect}}
    load(csv, body)
    load(csv, body, SW)  # by the table's types now

    for region in ("NW", "SW"):
        assert columns_of(csv, "a, b", f"region = '{region}'") == expected


def test_a_value_that_does_not_fit_fails_its_partition_or_is_a_dead_letter_as_it_was_landed(csv: World) -> None:
    load(csv, SALES)
    body = b'id,total,sold,note\n1,2,,"x\ny"\n2,n/a,,"p\nq"\n3,4\n4,5,,last\n'
    with pytest.raises(SchemaError, match=r"line 4 of the object .*b\.csv does not fit: column 'total'.*'n/a'"):
        load(csv, body, name="b")
    assert columns_of(csv, COLUMNS) == ROWS
    csv.options |= {"on_bad_row": "dead_letter"}

    row = csv.ingest(NW).row

    assert (row.status, row.row_count, row.rows_dead_lettered) == ("committed", 4, 2)
    assert [(letter["_line"], letter["_raw"], letter["_reason"]) for letter in letters(csv)] == [
        (4, '2,n/a,,"p\nq"', "line 4: column 'total', of type double, has an invalid value 'n/a'"),
        (6, "3,4", "line 6: it has 2 values, and there are 4 columns"),
    ]
    assert {letter["_object"].rpartition("/")[2] for letter in letters(csv)} == {"b.csv"}


def test_types_are_those_that_hold_the_values_of_the_sampled_objects(csv: World) -> None:
    csv.land(NW, b"n,when,empty,code,text\n1,2026-02-11,,1,2\n", "a.csv")
    load(csv, b"n,when,empty,code,text\n1.5,2026-02-11 08:00:00,7,01,2026-01-01\n", name="b")

    expected = {"n": "DOUBLE", "when": "TIMESTAMP", "empty": "BIGINT", "code": "VARCHAR", "text": "VARCHAR"}
    assert types(csv) == expected


@pytest.mark.parametrize("form", ["csv", *more(["json"])])
def test_texts_have_a_type_only_if_they_can_be_read_as_it(local_world: World, form: str) -> None:
    day, texts = "2026-02-11", ("0x0A", "0000-00-00", "2026-02-11T24:00:00", "2026-02-11T08:00:00.123456789Z")
    times = {"micros": f"{day}T08:00:00.1234560Z", "whole": f"{day} 08:00:00.0000000"}  # as of .NET and SQL Server
    local_world.options = {"format": form}

    load(local_world, landed(form, *[{f"c{number}": text for number, text in enumerate(texts)} | times] * 2))

    expected = dict.fromkeys(["c0", "c1", "c2", "c3"], "VARCHAR")
    assert types(local_world) == expected | {"micros": "TIMESTAMP WITH TIME ZONE", "whole": "TIMESTAMP"}
    (row,) = columns_of(local_world, "DISTINCT c0, c3, micros::VARCHAR, whole")
    assert row == (texts[0], texts[3], "2026-02-11 08:00:00.123456+00", moment("2026-02-11T08:00"))


@pytest.mark.parametrize("kept", [False, *more([True])])
def test_a_code_in_hexadecimal_digits_is_no_whole_number(csv: World, *, kept: bool) -> None:
    load(csv, b"id,n\n1,2\n")
    csv.options |= {"rescue": "_rescued"} if kept else {"on_bad_row": "dead_letter"}

    row = load(csv, b"id,n\n2,0x1F\n3, 4\n", SW)

    assert (row.row_count, row.rows_dead_lettered) == ((2, None) if kept else (1, 1))
    assert columns_of(csv, "n", "region = 'SW' AND id = 3") == [(4,)]
    if kept:
        assert columns_of(csv, "n, _rescued", "id = 2") == [(None, '{"n": "0x1F"}')]
    else:
        assert letters(csv)[0]["_reason"] == "line 2: n: invalid value '0x1F'"


BAD: dict[str, list[tuple[bytes, str]]] = {
    "csv": [
        (b"id,total,sold,note\n" + b'1,2,,"x\n' + b"y\n" * 10, "a quote that is not closed"),
        ("id,total,sold,note\n1,2,,é\n".encode("cp1252"), "line 2 .* column 'note', of type string, has an inv"),
        (b'id,"total\n', "the header .* does not end"),
        (b"id,id\n1,2\n", "has the name 'id' twice"),
        (b"id\x00,total\n1,2\n", "the header .* has a zero byte"),
        (b"id,total,sold,note\r1,2,,\r", "lines that end with a carriage return alone"),
        (b'"id","total"\r"1",2\r3,"x\ny"\r', "lines that end with a carriage return alone"),
        ("id,größe\n1,2\n".encode("latin-1"), "the header .* is no text in UTF-8 .* at byte 6"),
        (b"id,total,sold,note\n1,2,,x\r2,3,,y\n", "a line ends with a carriage return alone"),
    ],
    "json": [
        (b'{"id": 1}\n{"id": "x"}\n', "line 2 .* does not fit"),
        (b'{"id": 1}\n{"id": 2\n', "line 2 .* no JSON"),
        (b'{"id": 1}\n{"id": 2, "new": 1}\n', "'new'"),
        (b'[{"id": 1},\n {"id": 2}', "no JSON at line 2: there is neither a comma nor a bracket"),
        (b'{"id": 1}\n{"id": 2, "id": 3}\n', "line 2 .* the field 'id' is there twice"),
        (b'{"id": 1}\n[1]\n', "line 2 .* a JSON list, and not an object"),
        (b'{"id": 1}\nnull\n', "line 2 .* a JSON null, and not an object"),
        (b'[{"id": 1},\n {"id": ]', "no JSON at line 2"),
        (b'[{"id": 1}] x', "more behind the end"),
        (b'{"id": 1}\n{"id": ' + b"[" * 600 + b"]" * 600 + b"}\n", "line 2"),  # is nested too deeply
    ],
}


@pytest.mark.parametrize("form", BAD)
def test_a_bad_text_is_one_error_that_names_it_and_the_old_partition_stays(local_world: World, form: str) -> None:
    local_world.options = {"format": form}
    load(local_world, SALES if form == "csv" else b'{"id": 0}\n')
    before = columns_of(local_world, "*")

    for body, message in BAD[form]:
        with pytest.raises(SourceError, match=message) as error:
            load(local_world, body)
        assert f"a.{form}" in str(error.value)
    assert columns_of(local_world, "*") == before


@pytest.mark.parametrize(
    ("form", "bodies", "line", "raw", "kept"),
    [
        ("csv", [b"id,region\n1,NW\n2,SW\n3,NW\n"], 3, "2,SW", [(1,), (3,)]),
        ("json", [b'{"id": 0}\n', b'{"id": 1}\n\n{"id": "x"}\n{"id": 3}\n'], 3, '{"id": "x"}', [(1,), (3,)]),
    ],
)
def test_a_row_of_another_type_or_partition_is_a_dead_letter_with_its_line(
    local_world: World, form: str, bodies: list[bytes], line: int, raw: str, kept: list[tuple[int]]
) -> None:
    local_world.options = {"format": form, "on_bad_row": "dead_letter"}
    for body in bodies:
        load(local_world, body)

    (letter,) = letters(local_world)
    assert (letter["_line"], letter["_raw"], letter["_row"]) == (line, raw, None)
    assert columns_of(local_world, "id") == kept


@pytest.mark.parametrize(
    ("encoding", "note"),
    [("utf-8", b"\xe9"), ("cp1252", b"\x81"), *more([("shift_jis", b"\x80"), ("utf-16-le", b"\x00\xd8")])],
)
def test_bytes_that_are_not_of_the_encoding_are_bad_rows_of_the_first_object_too(
    csv: World, encoding: str, note: bytes
) -> None:
    csv.options |= {"on_bad_row": "dead_letter"} | (
        {"format": {"type": "csv", "encoding": encoding}} if encoding else {}
    )
    begin, end = ("".join(lines).encode(encoding or "utf-8") for lines in (["id,note\n1,"], ["\n2,a\n3,b\n"]))

    row = load(csv, begin + note + end)

    assert (row.row_count, row.rows_dead_lettered) == (2, 1)
    assert types(csv) == {"id": "BIGINT", "note": "VARCHAR"}


def test_a_text_that_is_too_large_when_decompressed_is_refused(csv: World) -> None:
    csv.options = {"format": {"type": "csv", "most_decompressed": "1KiB"}}

    with pytest.raises(SourceError, match="more than 1,024 bytes when it is decompressed"):
        load(csv, gzip.compress(b"id,note\n" + b"1,aaaaaaaaaaaaaa\n" * 200))


def test_an_empty_text_has_no_rows(csv: World) -> None:
    for name, body in {"a": SALES, "b": b"", "c": b"id,total,sold,note\n", "d": b"id,total,sold,note"}.items():
        row = load(csv, body, name=name)

    assert row.row_count == 2


@pytest.mark.parametrize("form", ["csv", *more(["json"])])
def test_a_large_text_is_divided_among_tasks(local_world: World, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.options = {"format": form, "target_file_size": "1MiB"}
    for module in ("share_reader", "work"):
        monkeypatch.setattr(f"lake_assets.spark.task.{module}.SMALL_OBJECT", 2**18)
    note = "x" * 50 if form == "json" else '"a ""quoted""\nnote, ' + "x" * 40 + '"'

    load(local_world, landed(form, *({"id": number, "note": note} for number in range(40_000))))

    assert columns_of(local_world, "count(DISTINCT id), count(DISTINCT note), count(*)") == [(40_000, 1, 40_000)]
    assert len(local_world.live_files()) > 1


@pytest.mark.more
@pytest.mark.parametrize("policy", ["strict", "evolve"])
def test_a_transform_has_the_inferred_columns_of_texts(csv: World, policy: str) -> None:
    sql = "SELECT id * 2 AS twice, note FROM source WHERE total > 1"
    csv.options |= {"transform": {"sql": sql}, "schema_policy": policy, "on_bad_row": "dead_letter"}

    row = load(csv, SALES + b"x,9,2026-02-11T08:00:00,bad\n" + b"3,4,2026-02-11T08:00:00,ok\n" * 9)

    assert (row.row_count, row.rows_dead_lettered) == (10, 1)
    assert columns_of(csv, "DISTINCT twice, note") == [(2, "first"), (6, "ok")]


def test_a_changed_dialect_reads_the_partition_again(csv: World) -> None:
    dialect = {"type": "csv", "delimiter": ";", "decimal": ","}
    csv.options = {"format": dialect}
    load(csv, b"a;b\n1;2,5\n")
    csv.options = {"format": {**dialect, "nulls": ["", "1"]}}

    csv.ingest(NW)

    assert columns_of(csv, "a, b") == [(None, 2.5)]


# JSON: documents in each form, nested fields, maps.

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "tags": ["a", "b"], "place": {"x": 1.5, "on": "2026-02-11"}, "big": 123456789012345678901234567890},
    {"id": 2, "place": None, "note": 'say "hi"\nbye', "big": 2},
]


@pytest.fixture
def of_json(local_world: World) -> World:
    local_world.options = {"format": "json"}
    return local_world


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("\n".join(map(json.dumps, RECORDS)), id="lines"),
        pytest.param(json.dumps(RECORDS, indent=2), id="indented array"),
        pytest.param("\n".join(json.dumps(record, indent=1) for record in RECORDS), id="documents"),
        pytest.param("".join(map(json.dumps, RECORDS)), id="one line"),
        pytest.param(json.dumps(RECORDS), id="array", marks=pytest.mark.more),
        pytest.param("\ufeff" + json.dumps(RECORDS), id="marked", marks=pytest.mark.more),
        pytest.param(" ".join(map(json.dumps, RECORDS)) + "\n", id="spaced", marks=pytest.mark.more),
    ],
)
def test_json_becomes_a_table_in_each_form(of_json: World, body: str) -> None:
    load(of_json, body.encode())
    load(of_json, body.encode(), SW)

    assert columns_of(of_json, "id, tags, place, note, big", "region = 'SW'") == [
        (1, ["a", "b"], {"x": 1.5, "on": "2026-02-11"}, None, Decimal(123456789012345678901234567890)),
        (2, None, None, 'say "hi"\nbye', Decimal(2)),
    ]


def test_objects_of_json_are_maps_if_declared_so(of_json: World) -> None:
    kinds = {
        "m": "MAP(VARCHAR, DECIMAL(12,2))",
        "nested": "MAP(INTEGER, MAP(VARCHAR, DATE))",
        "of": "MAP(VARCHAR, STRUCT(x BIGINT))",
        "within": "STRUCT(m MAP(VARCHAR, BIGINT), l MAP(VARCHAR, BOOLEAN)[])",
    }
    of_json.options |= {"columns": {name: {"type": kind} for name, kind in kinds.items()}}
    body = (
        b'{"id": 1, "m": {"a": 1.25, "b": null}, "nested": {"7": {"d": "2026-02-11"}, "8": null},'
        b' "of": {"p": {"x": 1}}, "within": {"m": {"a": 1}, "l": [{"b": true}, null, {}]}}\n'
        b'{"id": 2, "m": null, "nested": {}}\n'
    )
    load(of_json, body)

    nested = {7: {"d": dt.date(2026, 2, 11)}, 8: None}
    within = {"m": {"a": 1}, "l": [{"b": True}, None, {}]}
    assert columns_of(of_json, "id, m, nested, of, within") == [
        (1, {"a": Decimal("1.25"), "b": None}, nested, {"p": {"x": 1}}, within),
        (2, None, {}, None, None),
    ]
    with pytest.raises(SchemaError, match=r"line 1 .* does not fit"):
        load(of_json, b'{"id": 3, "m": {"a": "x"}}\n{"id": 4, "m": {"a": 1}}\n{"nested": {"7": null, "07": null}}', SW)
    of_json.options |= {"on_bad_row": "dead_letter"}
    row = of_json.ingest(SW).row
    assert (row.row_count, row.rows_dead_lettered) == (1, 2)


@pytest.mark.parametrize("between", ["", "\n", " "])
@pytest.mark.parametrize("bad", ['{\n "n": 0,\n}', '{"n": 0}}', '{"n": {"m": 1}'])
def test_one_damaged_object_of_json_costs_no_other(of_json: World, bad: str, between: str) -> None:
    of_json.options |= {"on_bad_row": "dead_letter"}
    objects = ['{\n "n": 1}', '{"n": 2}', bad, '{\n"n": 3\n}', '{"n": 4}']

    load(of_json, between.join(objects).encode())

    assert columns_of(of_json, "n") == [(1,), (2,), (3,), (4,)]
    assert [letter["_raw"] for letter in letters(of_json)] == [bad]


def test_a_text_of_json_has_numbers_as_they_are_at_any_depth(of_json: World) -> None:
    of_json.options |= {"columns": {"t": {"type": "varchar"}}}

    load(of_json, b'{"t": 0.1234567890123456789}\n{"t": {"a": [0.1234567890123456789, 1.5, "\xc3\xbc"]}}\n')

    assert columns_of(of_json, "t") == [("0.1234567890123456789",), ('{"a": [0.1234567890123456789, 1.5, "ü"]}',)]


@pytest.mark.more
@pytest.mark.parametrize("late", ['"m": {"a": {"x": 1, "z": 2}}', '"plain": {"x": 1, "z": 2}', '"z": 1'])
def test_unknown_fields_beside_maps_are_refused_as_elsewhere(
    of_json: World,
    late: str,
    small_sample: int,  # noqa: F811
) -> None:
    kinds = {"m": "MAP(VARCHAR, STRUCT(x BIGINT))", "plain": "STRUCT(x BIGINT)"}
    of_json.options |= {"columns": {name: {"type": kind} for name, kind in kinds.items()}, "on_bad_row": "dead_letter"}
    good = b'{"m": {"a": {"x": 1}}, "plain": {"x": 1}}\n'
    count = small_sample // len(good)

    row = load(of_json, good * count + b"{%s}\n" % late.encode())

    assert (row.row_count, row.rows_dead_lettered) == (count, 1)
    assert "unknown field" in letters(of_json)[0]["_reason"]
    of_json.options |= {"rescue": "_rescued"}
    of_json.ingest(NW)
    assert columns_of(of_json, "count(*), count(_rescued)") == [(count + 1, 1)]


def test_new_fields_behind_the_sample_evolve_the_table_at_any_depth(of_json: World, small_sample: int) -> None:  # noqa: F811
    of_json.options |= {"schema_policy": "evolve"}
    many = b'{"place": {"x": 1}, "text": "%s"}\n' % (b"x" * 100) * (small_sample // 100)

    load(of_json, many + b'{"place": {"x": 2, "y": 3}, "late": {"n": 1}}\n')

    assert columns_of(of_json, "place, late", "late IS NOT NULL") == [({"x": 2, "y": 3}, {"n": 1})]
