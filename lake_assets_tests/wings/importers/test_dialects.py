"""`init --from` finds the dialect, the encoding and the format of what has landed, and its starter runs as it is."""

import bz2
import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from lake_assets.config.formats import CsvFormat
from lake_assets.wings.importers.csv_dialect import encoding_of, sniffed
from lake_assets_tests.ingest.landed_as import landed
from lake_assets_tests.tiers import more
from lake_assets_tests.wings.importers.test_layouts import Starter

pytestmark = pytest.mark.usefixtures("sessions")

DIALECTS: dict[str, tuple[bytes, dict[str, Any], list[tuple[Any, ...]]]] = {
    "german": (
        b"id;total;day\n1;1.234,50;28.02.2026\n2;-2,5;01.02.2026\n",
        {"delimiter": ";", "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"},
        [("1", "1234.5", "2026-02-28"), ("2", "-2.5", "2026-02-01")],
    ),
    "american": (
        b'id,total,day\n1,"1,234.5",02/28/2026\n2,7,01/31/2026\n',
        {"thousands": ",", "date_format": "%m/%d/%Y"},
        [("1", "1234.5", "2026-02-28"), ("2", "7.0", "2026-01-31")],
    ),
    "no header": (
        b"1,a,2026-01-01\n2,b,2026-01-02\n",
        {"header": False, "names": ("column_1", "column_2", "column_3")},
        [("1", "a", "2026-01-01"), ("2", "b", "2026-01-02")],
    ),
    "a report": (
        b"Report of May\n\nid|name|n\n1|'x|y'|2\n2|z|3\n",
        {"delimiter": "|", "quote": "'", "skip_lines": 2},
        [("1", "x|y", "2"), ("2", "z", "3")],
    ),
    "escapes": (
        b'id,name\n1,"say \\"hi\\", ok"\n2,b\n',
        {"escape": "\\"},
        [("1", 'say "hi", ok'), ("2", "b")],
    ),
    "nulls": (
        b"id,total,name\n1,N/A,x\n2,2.5,\\N\n3,1,NA\n",
        {"nulls": ("", "N/A", "\\N")},
        [("1", "", "x"), ("2", "2.5", ""), ("3", "1.0", "NA")],
    ),
    "windows": (
        "id;name\n1;Zürich\n2;Graz\n".encode("cp1252"),
        {"encoding": "cp1252"},
        [("1", "Zürich"), ("2", "Graz")],
    ),
    "utf-16": ("id,name\n1,日\n2,b\n".encode("utf-16"), {}, [("1", "日"), ("2", "b")]),
    "a mark": ("id,name\n1,日\n2,b\n".encode("utf-8-sig"), {"encoding": "utf-8"}, [("1", "日"), ("2", "b")]),
    "utf-16 without a mark": (
        "id,name\n1,b\n2,c\n".encode("utf-16-le"),
        {"encoding": "utf-16-le"},
        [("1", "b"), ("2", "c")],
    ),
    "a log": (
        b"#Version: 1.0\n#Fields: id name\n1\tx\n2\ty\n",
        {"comment": "#", "delimiter": "\t", "header": True, "names": None, "skip_lines": 0},
        [("1", "x"), ("2", "y")],
    ),
    "of Excel": (b"sep=;\r\nid;name\r\n1;x\r\n2;y\r\n", {"header": True}, [("1", "x"), ("2", "y")]),
    "clocks": (
        b"id,at\n1,28/02/2026 08:30\n2,01/02/2026 09:00\n",
        {"timestamp_format": "%d/%m/%Y %H:%M"},
        [("1", "2026-02-28 08:30:00"), ("2", "2026-02-01 09:00:00")],
    ),
}


def rows_of(starter: Starter) -> list[tuple[str, ...]]:
    """The rows of the table as texts, without the partition columns."""
    output = starter.run("query", "SELECT * EXCLUDE (date) FROM sales ORDER BY 1").output
    return [tuple(row) for row in list(csv.reader(io.StringIO(output)))[1:]]


@pytest.mark.parametrize("case", DIALECTS)
def test_a_dialect_is_found(case: str) -> None:
    body, dialect, _ = DIALECTS[case]

    assert sniffed(body, CsvFormat())[0].model_dump(include=set(dialect)) == dialect


@pytest.mark.parametrize("case", ["german", *more([case for case in DIALECTS if case != "german"])])
def test_the_starter_of_a_dialect_loads_the_rows(tmp_path: Path, case: str) -> None:
    """Of one day as they are, of another compressed."""
    body, dialect, rows = DIALECTS[case]
    for key, text in {"date=2026-02-11/a.csv": body, "date=2026-02-12/a.csv.gz": gzip.compress(body)}.items():
        (tmp_path / "sales" / key).parent.mkdir(parents=True)
        (tmp_path / "sales" / key).write_bytes(text)

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    assert starter.stream.format.model_dump(include=set(dialect)) == dialect
    starter.run("ingest", "sales", "--waiting", "--yes")
    assert rows_of(starter) == sorted(rows * 2)


@pytest.mark.parametrize("encoding", ["utf-8", *more(["cp1252", "utf-16-le"])])
def test_a_character_that_the_look_cuts_is_no_error(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "sales" / "date=2026-02-11"
    folder.mkdir(parents=True)
    for shift in range(2):
        text = "id,name\n" + "x" * shift + ",y\n" + "1,é\n" * 100_000
        (folder / f"{shift}.csv").write_bytes(text.encode(encoding))

    found = Starter(tmp_path / "shop", tmp_path / "sales").stream.format

    assert isinstance(found, CsvFormat)
    assert (found.encoding, found.delimiter) == (encoding, ",")


@pytest.mark.more
@pytest.mark.parametrize("form", ["avro", "orc"])
def test_avro_and_orc_have_a_starter(tmp_path: Path, form: str) -> None:
    for day in ("2026-02-11", "2026-02-12"):
        folder = tmp_path / "sales" / f"date={day}"
        folder.mkdir(parents=True)
        (folder / f"a.{form}").write_bytes(landed(form, {"id": 1, "name": "x"}))

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    assert (starter.stream.format.type, starter.stream.files) == (form, f"*.{form}")
    starter.run("ingest", "sales", "--waiting", "--yes")
    assert rows_of(starter) == [("1", "x"), ("1", "x")]


def test_a_date_that_may_be_two_is_left_a_text_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "sales" / "date=2026-02-11"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"id,day\n1,02/03/2026\n")

    starter = Starter(tmp_path / "shop", tmp_path / "sales")

    assert "day may be %d/%m/%Y or %m/%d/%Y: write `date_format` in `format`, else it is a text" in starter.output
    starter.run("ingest", "sales", "--waiting", "--yes")
    assert rows_of(starter) == [("1", "02/03/2026")]


@pytest.mark.parametrize("text", [b"", b"\n", b"id", b'"open', b"\x00\x01\x02", b"a,b\n1,2,3\n4\n"])
def test_a_text_that_tells_nothing_keeps_the_format_of_its_name(text: bytes) -> None:
    form, doubts = sniffed(text, CsvFormat())

    assert (form.decimal, form.thousands, doubts) == (".", None, [])
    assert encoding_of(text) in {"utf-8", "utf-16-be"}


def test_a_character_that_is_cut_is_utf_8_all_the_same() -> None:
    assert encoding_of("aé".encode()[:-1]) == "utf-8"
    assert encoding_of(bz2.compress(b"x")) == "cp1252"
