"""What comes in: every form, and every way in which a record may not fit."""

import gzip
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import LandingError, LayoutError, SchemaError
from lake_assets.landing.read import form_of, read_records
from lake_assets.landing.schema import inferred
from lake_assets.landing.writer import LandingWriter
from lake_assets_tests.landing.streams import COLUMNS, files, land_text, landed_ids, letters, rows, stream_of

GOOD = '{"region":"NW","date":"2026-02-11","id":1,"total":1.5}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "no JSON"),
        ('{"region":"NW"', "no JSON"),
        ("[1, 2]", "a JSON list"),
        ("5", "a JSON int"),
        (GOOD + GOOD, "no JSON"),
        ('{"region":"NW","date":"2026-02-11","id":"one"}', "changed from number to string"),
        ('{"region":"NW","date":"2026-02-11","id":1.5}', "couldn't parse:1.5"),
        ('{"region":"NW","date":"2026-02-11","id":99999999999999999999}', "couldn't parse"),
        ('{"region":"NW","date":"2026-02-11","id":1,"id":2}', "twice"),
        ('{"region":"NW","date":"2026-02-11","nickname":"x"}', "unknown field 'nickname'"),
        ('{"region":"NW","date":"2026-02-30","id":1}', "date: Failed to parse string: '2026-02-30'"),
        ('{"region":"NW","date":20000,"id":1}', "changed from string to number"),
        ('{"region":"NW","date":"2025-12-31","id":1}', "date=2025-12-31 lies outside 2026-01-01 to today"),
        ('{"region":"NW","id":1}', "date is NULL, which is no day"),
        ('{"region":' + "[" * 100_000 + "]" * 100_000 + "}", "no JSON: maximum recursion"),
    ],
)
def test_a_record_that_does_not_fit_is_a_dead_letter_and_the_others_land(
    tmp_path: Path, line: str, reason: str
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join([GOOD, "", line, GOOD.replace('"id":1', '"id":2')]))

    writer = land_text(stream_of(tmp_path / "out"), source)

    assert landed_ids(tmp_path / "out") == [1, 2]
    (letter,) = letters(tmp_path / "out")
    assert reason in letter["reason"]
    assert (letter["source"], letter["line"] or 3) == (str(source), 3)
    assert json.loads(letter["record"])["id"] == 1 if letter["line"] is None else letter["record"] == line
    landed = writer.landed()
    assert (landed.records, landed.rejected, landed.lost) == (2, 1, 0)


def test_bytes_that_are_no_text_are_a_dead_letter(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    noted = GOOD.replace("}", ',"note":"café"}')
    source.write_bytes(noted.encode() + b"\n" + noted.encode("latin-1") + b"\n")

    land_text(stream_of(tmp_path / "out", columns=COLUMNS | {"note": "string"}), source)

    assert landed_ids(tmp_path / "out") == [1]
    (letter,) = letters(tmp_path / "out")
    assert "UTF8" in letter["reason"] or "utf-8" in letter["reason"]
    assert letter["record"] == noted.replace("é", "\\xe9")


def test_a_region_that_the_stream_does_not_have_is_a_dead_letter(tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "out")
    fields = {"region": {"values": ["NW", "N/A"]}, "date": {"type": "date", "start": "2026-01-01"}}
    stream = type(stream).model_validate(stream.model_dump(by_alias=True) | {"partitions": fields})
    with LandingWriter("sales", stream) as writer:
        writer.write(pa.concat_tables([rows(0, 3), rows(3, 2, "XX"), rows(5, 1, "N/A")]))

    assert landed_ids(tmp_path / "out") == [0, 1, 2, 5]
    assert [json.loads(letter["record"])["id"] for letter in letters(tmp_path / "out")] == [3, 4]
    assert letters(tmp_path / "out")[0]["reason"] == "region=XX is none of the stream's: NW, N/A"


def test_many_bad_records_among_many_good_ones(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    lines = [GOOD.replace('"id":1', f'"id":{n}') if n % 97 else f"bad {n}" for n in range(20_000)]
    source.write_text("\n".join(lines) + "\n")

    land_text(stream_of(tmp_path / "out"), source)

    assert landed_ids(tmp_path / "out") == [n for n in range(20_000) if n % 97]
    found = letters(tmp_path / "out")
    assert [letter["line"] for letter in found] == [n + 1 for n in range(0, 20_000, 97)]
    assert [letter["record"] for letter in found] == [f"bad {n}" for n in range(0, 20_000, 97)]


def test_json_lines_are_inferred_and_then_fixed(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    first = {"region": "NW", "date": "2026-02-11", "id": 1, "total": 1, "at": "2026-02-11T10:00:00.5Z", "none": None}
    source.write_text(json.dumps(first) + "\n" + json.dumps(first | {"total": 2.5, "local": "2026-02-11 10:00:00"}))

    land_text(stream_of(tmp_path / "out", columns=None), source)

    (file,) = files(tmp_path / "out")
    assert pq.read_schema(file).remove_metadata() == pa.schema(
        [
            ("id", pa.int64()),
            ("total", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
            ("none", pa.string()),
            ("local", pa.timestamp("us")),
        ]
    )


def test_inference_takes_no_notice_of_bad_lines(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(f"bad\n{'[' * 200_000}\n{GOOD}\n" + GOOD.replace("1.5", '"much"') + "\n")

    land_text(stream_of(tmp_path / "out", columns=None), source)

    assert landed_ids(tmp_path / "out") == [1]
    assert len(letters(tmp_path / "out")) == 3


def test_a_file_without_any_object_says_so(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("region,id\nNW,1\n")

    with pytest.raises(LandingError, match=r"none of the first lines of .*in\.jsonl is a JSON object"):
        land_text(stream_of(tmp_path / "out", columns=None), source)


@pytest.mark.parametrize("text", ["", "\n\n \n"])
def test_a_file_without_records_lands_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.jsonl").write_text(text)

    assert land_text(stream_of(tmp_path / "out", columns=None), tmp_path / "in.jsonl").landed().files == 0


def test_csv_with_its_bad_lines(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text(
        "\ufeffid,region,date,total\r\n1,NW,2026-02-11,1.5\r\n\r\n2,SW,2026-02-11,\r\n3,NW\r\n"
        'x,NW,2026-02-11,1\r\n4,"N,W",2026-02-12,2\r\n',
        encoding="utf-8",
    )

    land_text(stream_of(tmp_path / "out"), source)

    assert landed_ids(tmp_path / "out") == [1, 2, 4]
    assert [(letter["line"], letter["record"]) for letter in letters(tmp_path / "out")] == [
        (5, "3,NW"),
        (6, "x,NW,2026-02-11,1"),
    ]
    assert (tmp_path / "out" / "region=N,W" / "date=2026-02-12").is_dir()


def test_csv_is_inferred(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,region,date,at\n1,NW,2026-02-11,2026-02-11T10:00:00\n")

    land_text(stream_of(tmp_path / "out", columns=None), tmp_path / "in.csv")

    (file,) = files(tmp_path / "out")
    assert pq.read_schema(file).remove_metadata() == pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream", "gzip"])
def test_other_files(tmp_path: Path, kind: str) -> None:
    table = pa.concat_tables([rows(0, 1500), rows(1500, 10, "SW")])
    name = {"parquet": "in.parquet", "gzip": "in.jsonl.gz"}.get(kind, "in.arrow")
    path = tmp_path / name
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "gzip":
        path.write_bytes(gzip.compress(f"{GOOD}\n".encode()))
    else:
        new = pa.ipc.new_file if kind == "arrow file" else pa.ipc.new_stream
        with new(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=400)

    with LandingWriter("sales", stream_of(tmp_path / "out")) as writer:
        for records in read_records(None, str(path), form_of(str(path)), writer.schema, 1):
            writer.accept(records)

    assert landed_ids(tmp_path / "out") == ([1] if kind == "gzip" else list(range(1510)))


def test_arrow_values_that_do_not_fit_are_dead_letters(tmp_path: Path) -> None:
    table = rows(0, 4).set_column(2, "id", pa.array(["0", "1", "two", "3"]))
    with LandingWriter("sales", stream_of(tmp_path / "out")) as writer:
        writer.write(table)

    assert landed_ids(tmp_path / "out") == [0, 1, 3]
    (letter,) = letters(tmp_path / "out")
    assert "id: Failed to parse string: 'two'" in letter["reason"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (rows(0, 1).append_column("extra", pa.array([1])), "has the column 'extra'"),
        (rows(0, 1).append_column("id", pa.array([1])), "has the column 'id'"),
        (rows(0, 1).set_column(2, "id", pa.array([[1]])), "'id' is of type list<"),
    ],
)
def test_arrow_columns_that_never_fit_are_an_error(tmp_path: Path, table: pa.Table, message: str) -> None:
    with pytest.raises(SchemaError, match=message), LandingWriter("sales", stream_of(tmp_path / "out")) as writer:
        writer.write(table)


def test_a_layout_without_its_column_is_an_error_and_not_a_dead_letter(tmp_path: Path) -> None:
    columns = {"region": "string", "id": "bigint"}
    with (
        pytest.raises(LayoutError, match="no column 'date'"),
        LandingWriter("sales", stream_of(tmp_path / "out", columns=columns)) as writer,
    ):
        writer.write(pa.table({"region": ["NW"], "id": [1]}))


def test_records_of_nothing_but_partition_columns_are_an_error(tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "out", columns={"region": "string", "date": "date"})
    with pytest.raises(SchemaError, match="no column besides date, region"), LandingWriter("sales", stream) as writer:
        writer.write(rows(0, 1).select(["region", "date"]))


def test_a_line_without_end_is_refused_before_memory_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.landing.read.BLOCK", 1000)
    monkeypatch.setattr("lake_assets.landing.read.LONGEST_LINE", 5000)
    (tmp_path / "in.jsonl").write_text("[" + "1," * 10_000)

    with pytest.raises(LandingError, match="no file of one record a line"):
        land_text(stream_of(tmp_path / "out"), tmp_path / "in.jsonl")


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("in.parquet", b"nope", "cannot be read as parquet"),
        ("in.arrow", b"nope", "cannot be read as arrow"),
        ("in.jsonl.gz", b"nope", "cannot be read as jsonl"),
        ("absent.jsonl", None, "absent"),
        ("in.txt", b"", "does not tell what it holds"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, body: bytes | None, message: str) -> None:
    path = tmp_path / name
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(LandingError, match=message):
        list(read_records(None, str(path), form_of(str(path)), lambda infer: infer(), 1))


def test_parquet_from_a_pipe_is_refused() -> None:
    with pytest.raises(LandingError, match="end comes first"):
        list(read_records(io.BytesIO(), "-", "parquet", lambda infer: infer(), 1))


def test_lines_cut_in_two_by_the_blocks_are_whole_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.landing.read.BLOCK", 100)
    source = tmp_path / "in.jsonl"
    source.write_text("".join(GOOD.replace('"id":1', f'"id":{n}') + "\n" for n in range(500)))

    land_text(stream_of(tmp_path / "out"), source)

    assert landed_ids(tmp_path / "out") == list(range(500))


def test_a_slow_pipe_gives_what_it_has_before_its_end() -> None:
    reader, writer = os.pipe()
    seen: list[tuple[float, int]] = []

    def read() -> None:
        schema = inferred(rows(0, 1), texts=False)
        with os.fdopen(reader, "rb") as pipe:
            blocks = read_records(pipe, "-", "jsonl", lambda _: schema, 0.1)
            seen.extend((time.monotonic(), len(records)) for records in blocks)

    thread = threading.Thread(target=read)
    thread.start()
    os.write(writer, f"{GOOD}\n{GOOD}\n{GOOD[:20]}".encode())
    time.sleep(0.6)
    before = time.monotonic()
    os.write(writer, f"{GOOD[20:]}\n".encode())
    os.close(writer)
    thread.join()

    assert [count for _, count in seen] == [2, 1]
    assert seen[0][0] < before


def test_what_was_gathered_when_ctrl_c_came_is_given_before_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.write(writer, f"{GOOD}\n".encode())
    answers: Iterator[tuple[list[int], list[int], list[int]]] = iter([([reader], [], [])])

    def select_once(*_: object) -> object:
        if (answer := next(answers, None)) is None:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr("select.select", select_once)
    schema = inferred(rows(0, 1), texts=False)
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb"):
        found = read_records(pipe, "-", "jsonl", lambda _: schema, 0)
        assert len(next(found)) == 1
        with pytest.raises(KeyboardInterrupt):
            next(found)


def test_dictionaries_and_nulls_are_inferred_as_their_values() -> None:
    sample = pa.table({"a": pa.array(["x"]).dictionary_encode(), "b": pa.nulls(1), "c": pa.array([[None]])})

    assert inferred(sample, texts=False).types == [pa.string(), pa.string(), pa.list_(pa.string())]
