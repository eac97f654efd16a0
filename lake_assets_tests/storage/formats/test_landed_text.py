"""A text has the same rows in any number of shares, and each line its number."""

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.base.errors import SourceError
from lake_assets.config.formats import CsvFormat, JsonFormat, format_by_name
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import LocalStorage
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.storage.formats import landed_text
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Part

LANDED = LandingZone(LocalStorage(path="/landing"))
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
PARTITION = Partition.of([PartitionColumn("key", "string")], {"key": "a"})

texts = st.text(st.sampled_from('ab",\n é'), max_size=12)
rows = st.lists(st.tuples(st.integers(0, 9) | st.just("bad"), texts), max_size=40)


Read = tuple[list[object], list[tuple[int, str]], list[int]]


def read(body: bytes, form: CsvFormat | JsonFormat, parts: int) -> Read:
    """The rows that shares have, the bad ones with their lines, and the numbers of the good ones."""
    good: list[object] = []
    numbers: list[int] = []
    bad: list[tuple[int, str]] = []
    for part in range(parts):
        text = replace(LANDED, form=form).open(pa.BufferReader(body), "o", SCHEMA)
        fitter = Fitter(text.schema, Target(SCHEMA, Rules(splits=True)), PARTITION, "the object")
        for found in text.read(Part(part, parts), SCHEMA.names, fitter, numbered=True):
            if isinstance(found, BadRows):
                bad += [(row["_line"], row["_raw"]) for row in found.rows.to_pylist()]
            else:
                good += [(row["n"], row["text"]) for row in found.batch.to_pylist()]
                numbers += range(found.first, found.first + found.batch.num_rows)
    return good, bad, numbers


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_text, "_WINDOW", 16)


@given(rows, st.integers(1, 9), st.booleans())
def test_csv_in_shares_has_the_rows_of_the_whole(landed: list[tuple[object, str]], parts: int, quoted: bool) -> None:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerow(["n", "text"])
    lines: list[int] = []
    for row in landed:
        lines.append(1 + file.getvalue().count("\n"))
        writer.writerow(row)

    good, bad, numbers = read(file.getvalue().encode(), CsvFormat(nulls=()), parts)

    assert good == [(n, text) for n, text in landed if n != "bad"]
    assert numbers == [number for number, (n, _) in enumerate(landed) if n != "bad"]
    assert [line for line, _ in bad] == [line for line, (n, _) in zip(lines, landed, strict=True) if n == "bad"]


@given(rows, st.integers(1, 9))
def test_json_in_shares_has_the_rows_of_the_whole(landed: list[tuple[object, str]], parts: int) -> None:
    body = "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in landed)

    good, bad, numbers = read(body.encode(), JsonFormat(), parts)

    assert good == [(n, text) for n, text in landed if n != "bad"]
    assert numbers == [number for number, (n, _) in enumerate(landed) if n != "bad"]
    expected = [(line, json.dumps({"n": n, "text": text})) for line, (n, text) in enumerate(landed, 1) if n == "bad"]
    assert bad == expected


BETWEEN = ["\n", "", " ", "\r\n", "\n\n", "\n \t\n  ", " \r\n\r\n"]
DAMAGED = ['{"n": 1,', "x", '{"n": ]}', "}", '{"n": 1},']


@given(
    st.lists(st.tuples(st.integers(0, 9) | st.sampled_from(DAMAGED), texts, st.sampled_from(BETWEEN))),
    st.sampled_from([None, 0, 2]),
    st.integers(1, 9),
)
def test_objects_of_json_are_on_any_number_of_lines(
    landed: list[tuple[int | str, str, str]], indent: int | None, parts: int
) -> None:
    """What is damaged has lines of its own; behind an object on several lines it takes this one along."""
    landed = [(0, "", "\n"), *(row for row in landed if indent is None or isinstance(row[0], int))]
    body, bad = "", list[str]()
    for n, text, between in landed:
        if isinstance(n, str):
            body += "" if body.endswith("\n") else "\n"
            bad.append(n)
            body += n + "\n"
        else:
            body += json.dumps({"n": n, "text": text}, indent=indent) + between

    good, found, numbers = read(body.encode(), JsonFormat(), parts)

    assert good == [(n, text) for n, text, _ in landed if not isinstance(n, str)]
    assert "".join(text for _, text in found).replace("\n", "") == "".join(bad)
    assert len(numbers) == len(good)


@pytest.mark.parametrize("between", ["", " ", "\n", "\n\n"])
def test_many_objects_of_json_are_read_however_they_are_divided(between: str) -> None:
    rows = [{"n": number, "text": "}{"} for number in range(5_000)]
    body = between.join(map(json.dumps, rows)) + between + "\n".join(json.dumps(row, indent=1) for row in rows)

    for parts in (1, 3):
        good, bad, numbers = read(body.encode(), JsonFormat(), parts)
        assert (len(good), bad, numbers) == (10_000, [], [*range(10_000)])


def test_lines_to_skip_count_as_lines() -> None:
    body = b"\xef\xbb\xbfreport\nn;text\n" + b"1;a\n" * 20 + b"x;b\n"

    for parts in (1, 2, 5):
        good, bad, numbers = read(body, CsvFormat(delimiter=";", skip_lines=1), parts)
        assert (len(good), bad, numbers) == (20, [(23, "x;b")], [*range(20)])


def test_a_share_that_no_window_tells_is_found_from_the_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_text, "LONGEST", 64)
    row = '1,"\n"\n'  # within its quotes, or outside of them
    good, bad, numbers = read(("n,text\n" + row * 500).encode(), CsvFormat(), 7)

    assert (good, bad, numbers) == ([(1, "\n")] * 500, [], [*range(500)])


def test_an_inch_sign_moves_no_record_and_the_last_one_needs_no_line_break() -> None:
    for parts in (2, 5, 9):
        good, bad, _ = read(b"n,text\n" + b'1,5" pipe\n2,"a\nb"\n' * 30, CsvFormat(), parts)
        assert (good, bad) == ([(1, '5" pipe'), (2, "a\nb")] * 30, [])
        assert read(b"n,text\n1,a\n2,bbbbbbbbbbbbbbbbbbbbbbbb", CsvFormat(), parts)[0] == [(1, "a"), (2, "b" * 24)]


def test_an_escaped_quote_ends_no_value() -> None:
    body = b"n,text\n" + b'1,"a\\"\nb"\n2,"\\\\"\n' * 30
    for parts in (1, 2, 5, 9):
        assert read(body, CsvFormat(escape="\\"), parts)[0] == [(1, 'a"\nb'), (2, "\\")] * 30


def test_shares_that_would_not_meet_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"n,text\n" + b'1,"a\nb"\n' * 30
    monkeypatch.setattr(landed_text.LandedText, "_start_near", lambda text, parser, at: at + 1)  # noqa: ARG005

    with pytest.raises(
        SourceError, match=r"the quotes of the object /landing/o do not tell where the records near byte \d+ begin"
    ):
        read(body, CsvFormat(), 3)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        pytest.param({}, b"sep=;\r\nn;text\r\n1;x\r\n2;y\r\n", id="excel"),
        pytest.param({"delimiter": ";"}, b'\xef\xbb\xbf"sep=;"\nn;text\n1;x\n2;y\n', id="excel-marked"),
        pytest.param({"skip_lines": 1}, b"SEP=\t\nn\ttext\n1\tx\n2\ty\n", id="excel-skipped"),
        pytest.param({"header": False, "names": ["n", "text"]}, b"sep=|\n1|x\n2|y\n", id="excel-names"),
        pytest.param(
            {"comment": "#", "delimiter": "\t"}, b"#Version: 1.0\n#Fields: n text\n1\tx\n2\ty\n", id="cloudfront"
        ),
        pytest.param(
            {"comment": "#", "delimiter": " ", "names": ["n", "text"]},
            b"#Software: IIS\r\n#Version: 1.0\r\n#Fields: a b\r\n1 x\r\n#Date: today\r\n2 y\r\n",
            id="iis",
        ),
        pytest.param(
            {"comment": "#", "delimiter": "\t"},
            b"#separator \\x09\n#fields\tn\ttext\n#types\tcount\tstring\n1\tx\n2\ty\n#close",
            id="zeek",
        ),
        pytest.param({"comment": "#"}, b"# fields: none\n\nn,text\n1,x\n2,y\n", id="comments"),
        pytest.param({}, b"n, text\t\n1,x\n2,y\n", id="blanks"),
        pytest.param({}, b"n,text,,\n1,x,,\n2,y\n", id="nameless"),
        pytest.param({"delimiter": ";"}, b"n;text; \r\n1;x;\r\n2;y;;;\r\n", id="semicolon"),
        pytest.param({}, b"n,text\n\n1,x,\n\n2,y,,\n", id="trailing"),
    ],
)
def test_what_is_beside_the_rows_and_columns_is_neither(dialect: dict[str, Any], body: bytes) -> None:
    form = CsvFormat.model_validate(dialect)
    for parts in (1, 3):
        assert read(body, form, parts) == ([(1, "x"), (2, "y")], [], [0, 1])
    assert replace(LANDED, form=form).open(pa.BufferReader(body), "o", pa.schema([])).schema == SCHEMA
    without_rows = body[: re.search(rb"^1", body, re.MULTILINE).start()]  # type: ignore[union-attr]
    assert replace(LANDED, form=form).open(pa.BufferReader(without_rows), "o", SCHEMA).schema.names == SCHEMA.names


@pytest.mark.parametrize(
    "body",
    [
        b"n,text\n1,x\n2,y\n",
        b"n\ttext\n1\tx\n2\ty\n",
        b'\r\n"n";"text"\r\n1;x\r\n2;y\r\n',
        b"n|text\n1|x\n2|y\n",
        b"sep=|\nn|text\n1|x\n2|y\n",
    ],
)
def test_the_header_shows_the_delimiter_of_a_text_of_which_only_the_name_is_known(body: bytes) -> None:
    form = format_by_name("sales.TXT.gz")
    assert isinstance(form, CsvFormat)
    assert read(body, form, 3) == ([(1, "x"), (2, "y")], [], [0, 1])
    quoted = replace(LANDED, form=form).open(pa.BufferReader(b'"a,b,c"\td\n1\t2\n'), "o", pa.schema([]))
    assert quoted.schema.names == ["a,b,c", "d"]


def test_a_log_whose_fields_change_is_refused() -> None:
    fields = "#Version: 1.0\n#Fields: n text\n"
    form = CsvFormat(comment="#", delimiter=" ")
    assert read(f"{fields}1 x\n{fields}2 y\n".encode(), form, 1) == ([(1, "x"), (2, "y")], [], [0, 1])
    with pytest.raises(SourceError, match=r"the object /landing/o has a comment .* gives them other columns, text n"):
        read(f"{fields}1 x\n{fields.replace('n text', 'text n')}2 y\n".encode(), form, 1)


def test_a_value_behind_the_last_name_is_a_bad_row() -> None:
    assert read(b"n,text,\n1,x,y\n2,y,\n", CsvFormat(), 1) == ([(2, "y")], [(2, "1,x,y")], [1])


def test_blanks_of_a_header_are_kept_if_the_dialect_says_so() -> None:
    for blanks, names in (("keep", [" n", "text "]), ("trim", ["n", "text"])):
        form = CsvFormat.model_validate({"header_blanks": blanks})
        assert (
            replace(LANDED, form=form).open(pa.BufferReader(b" n,text \n1,x"), "o", pa.schema([])).schema.names == names
        )


@pytest.mark.parametrize("body", [b"1\n2\n", b"1\n2,\n", b"1,\n2\n"])
def test_short_rows_are_padded_also_if_all_are_short(body: bytes) -> None:
    form = CsvFormat(header=False, names=("n", "text"), ragged="pad")

    assert read(body, form, 1)[0] == [(1, None), (2, None)]
    columns = replace(LANDED, form=form).open(pa.BufferReader(body), "o", pa.schema([])).schema
    assert columns == pa.schema([("n", pa.int64()), ("text", pa.null())])


any_text = st.text(st.sampled_from('1,"\n\\b'), max_size=80)


@given(any_text, st.integers(2, 6), st.booleans())
def test_any_text_in_shares_has_the_rows_of_the_whole_or_is_refused(text: str, parts: int, escaped: bool) -> None:
    body, form = f"n,text\n{text}".encode(), CsvFormat(escape="\\" if escaped else None)
    try:
        whole = read(body, form, 1)
    except SourceError:
        return
    try:
        assert read(body, form, parts) == whole
    except SourceError as error:
        assert "quote" in str(error)  # noqa: PT017 - it may be refused or not


def test_a_share_that_begins_in_a_value_longer_than_a_window_has_no_row_of_it() -> None:
    body = b'n,text\n1,"' + b"line\n" * 40 + b'"\n2,b\n'

    for parts in (2, 3, 8):
        assert read(body, CsvFormat(), parts)[:2] == ([(1, "line\n" * 40), (2, "b")], [])
