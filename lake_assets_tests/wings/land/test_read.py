"""What comes in: every form of file, and pipes."""

import gzip
import io
import lzma
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.base.errors import LandingError, SourceError
from lake_assets.storage.formats.inferred_types import inferred
from lake_assets.storage.formats.records import Rejected, validate
from lake_assets.wings.land.read_records import RecordSource, form_of, read_records
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.until import until
from lake_assets_tests.wings.land.streams import GOOD, land_text, landed_ids, parsed, rejects, rows, stream_of


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
    assert [(reject["line"], reject["record"]) for reject in rejects(tmp_path / "out")] == [
        (5, "3,NW"),
        (6, "x,NW,2026-02-11,1"),
    ]
    assert (tmp_path / "out" / "region=N,W" / "date=2026-02-12").is_dir()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"sep=;\r\nn;text\r\n1;x\r\n2\r\n", id="excel"),
        pytest.param(b"\xef\xbb\xbfsep=|\nn| text|\n1|x|\n2\n", id="marked"),
        pytest.param(b"\n n,text\n1,x,\n2\n", id="blank"),
    ],
)
def test_the_separator_and_blanks_of_csv_are_no_columns(text: bytes) -> None:
    good, bad = parsed("csv", {"n": "bigint", "text": "string"}, text)

    assert isinstance(good, pa.Table)
    assert good.to_pylist() == [{"n": 1, "text": "x"}]
    assert isinstance(bad, Rejected)
    assert (bad.record, bad.line) == ("2", text.count(b"\n"))


def test_other_files(tmp_path: Path) -> None:
    table = pa.concat_tables([rows(0, 1500), rows(1500, 10, "SW")])
    pq.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(f"{GOOD}\n".encode()))
    (tmp_path / "in.jsonl.xz").write_bytes(lzma.compress(f"{GOOD}\n".encode()))
    for name, new in {"file.arrow": pa.ipc.new_file, "stream.arrow": pa.ipc.new_stream}.items():
        with new(str(tmp_path / name), table.schema) as file:
            file.write_table(table, max_chunksize=400)

    for path in sorted(tmp_path.glob("*.*")):
        out = tmp_path / "out" / path.name
        with LandingWriter("sales", stream_of(out)) as writer:
            for records in read_records(RecordSource(str(path), form_of(str(path))), writer.schema):
                writer.accept(records)

        assert landed_ids(out) == ([1] if ".jsonl" in path.name else list(range(1510)))


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("in.parquet", b"nope", "cannot be read as parquet"),
        ("in.arrow", b"nope", "cannot be read as arrow"),
        ("in.jsonl.gz", gzip.compress(b"{}")[:-1], "cannot be read as jsonl: it ends within a compressed member"),
        ("absent.jsonl", None, "absent"),
        ("in.txt", b"", "does not show its format"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, body: bytes | None, message: str) -> None:
    path = tmp_path / name
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(LandingError, match=message):
        list(read_records(RecordSource(str(path), form_of(str(path))), lambda infer: infer()))


@pytest.mark.parametrize("value", ["INTERVAL 1 DAY", "[{'a': '12:00:00+02'::TIMETZ}]", "'POINT(1 2)'::GEOMETRY"])
def test_a_type_that_no_lake_holds_is_refused_by_column(tmp_path: Path, value: str) -> None:
    file = tmp_path / "in.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id, {value} AS x) TO '{file}' (FORMAT parquet)")

    with pytest.raises(LandingError, match=r"column 'x' of .*in.parquet has the type .*(INTERVAL|TIMETZ|GEOMETRY)"):
        list(read_records(RecordSource(str(file), "parquet"), lambda infer: infer()))


def test_a_pipe_of_parquet_and_a_line_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LandingError, match="readers begin at its end"):
        list(read_records(RecordSource("-", "parquet", io.BytesIO(), 1), lambda infer: infer()))

    monkeypatch.setattr("lake_assets.storage.formats.blocks.BLOCK", 1000)
    monkeypatch.setattr("lake_assets.storage.formats.blocks.LONGEST", 5000)
    (tmp_path / "in.jsonl").write_text("[" + "1," * 10_000)
    with pytest.raises(SourceError, match="has a record of more than"):
        land_text(stream_of(tmp_path / "out"), tmp_path / "in.jsonl")


_LINES = st.sampled_from(
    [
        b"",
        b" \t",
        b'{"a":1}',
        b'{"a":"1"}',
        b'{"a":2}{"a":3}',
        b'{"a":',
        b"4}",
        b'{"a":5}\r',
        b"{}",
        b'{"b":"\xff"}',
        b"[6]",
    ]
)


@pytest.mark.more
@given(st.lists(_LINES), st.booleans(), st.integers(1, 40), st.booleans())
def test_a_text_reads_the_same_however_it_is_cut_into_blocks(
    lines: list[bytes], ended: bool, block: int, bom: bool
) -> None:
    text = b"\xef\xbb\xbf" * bom + b"\n".join(lines) + b"\n" * ended
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])

    def found(size: int) -> list[object]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lake_assets.storage.formats.blocks.BLOCK", size)
            blocks = list(read_records(RecordSource("-", "jsonl", io.BytesIO(text)), lambda _: schema))
        sifted = (item for records in blocks for item in validate(records, lambda _, rows: rows.to_pylist()))
        return [row for value in sifted for row in ([value] if isinstance(value, Rejected) else value)]

    each = [line.strip(b" \t\r") for line in lines]
    good: dict[bytes, list[int | None]] = {b'{"a":1}': [1], b'{"a":2}{"a":3}': [2, 3], b'{"a":5}': [5], b"{}": [None]}
    everything = found(10_000)
    assert [row["a"] for row in everything if isinstance(row, dict)] == [a for line in each for a in good.get(line, [])]
    assert [
        (reject.line, reject.record.encode("latin-1", "replace").replace(b"\\xff", b"\xff"))
        for reject in everything
        if isinstance(reject, Rejected)
    ] == [(number, line) for number, line in enumerate(each, 1) if line and line not in good]
    assert found(block) == everything


def test_a_slow_pipe_gives_what_it_has_before_its_end() -> None:
    reader, writer = os.pipe()
    seen: list[int] = []

    def read() -> None:
        schema = inferred(rows(0, 1), texts=False)
        with os.fdopen(reader, "rb") as pipe:
            blocks = read_records(RecordSource("-", "jsonl", pipe, 0.1), lambda _: schema)
            for records in blocks:
                seen.append(len(records))  # noqa: PERF401 - each when it comes

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    os.write(writer, f"{GOOD}\n{GOOD}\n{GOOD[:20]}".encode())
    until(lambda: seen == [2], "the lines that are whole are read")
    os.write(writer, f"{GOOD[20:]}\n".encode())
    os.close(writer)
    thread.join()

    assert seen == [2, 1]


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
        result = read_records(RecordSource("-", "jsonl", pipe), lambda _: schema)
        assert len(next(result)) == 1
        with pytest.raises(KeyboardInterrupt):
            next(result)
