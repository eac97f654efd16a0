"""The columns of what comes in: inferred and then fixed, and errors where they can never fit."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import LandingError, LayoutError, SchemaError
from lake_assets.formats.schema import inferred
from lake_assets.landing.writer import LandingWriter
from lake_assets_tests.landing.streams import GOOD, files, land_text, landed_ids, rejects, rows, stream_of


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


def test_inference_takes_no_notice_of_bad_lines_and_a_file_without_any_object_says_so(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(f"bad\n{'[' * 200_000}\n{GOOD}\n" + GOOD.replace("1.5", '"much"') + "\n")

    land_text(stream_of(tmp_path / "out", columns=None), source)

    assert landed_ids(tmp_path / "out") == [1]
    assert len(rejects(tmp_path / "out")) == 3
    source.write_text("region,id\nNW,1\n")
    with pytest.raises(LandingError, match=r"none of the first records of .*in\.jsonl can be read"):
        land_text(stream_of(tmp_path / "out", columns=None), source)


# Values of a column of CSV, the type that it gets, and what lands of it; the others are rejected.
ZONED = ["2026-02-11T10:00Z", "2026-02-11 12:00:00+02:00", "2026-02-11T10:00Z", "?"]
DAYS = ["2026-02-11", "2026-02-12", "2026-02-13"]
AT_TEN = dt.datetime(2026, 2, 11, 10)  # noqa: DTZ001 - without a zone
CSV_COLUMNS: list[tuple[list[str], pa.DataType, list[Any]]] = [
    # A single bad value does not make a column a text.
    (["1", "2", "3", "x"], pa.int64(), [1, 2, 3]),
    (["1.5", "2", "-3e2", "n/a"], pa.float64(), [1.5, 2, -300]),
    ([*DAYS, "soon"], pa.date32(), [dt.date.fromisoformat(day) for day in DAYS]),
    (ZONED, pa.timestamp("us", "UTC"), [AT_TEN.replace(tzinfo=dt.UTC)] * 3),
    (["2026-02-11T10:00:00"], pa.timestamp("us"), [AT_TEN]),
    # Numbers that are kept as they are stay numbers.
    (["0", "-1", "10"], pa.int64(), [0, -1, 10]),
    (["0.5", "-0.25", "1e05"], pa.float64(), [0.5, -0.25, 1e5]),
    (["1234567890123456789", "2"], pa.int64(), [1234567890123456789, 2]),
    (["123456789012345678", "2", "3", "4", "x"], pa.int64(), [123456789012345678, 2, 3, 4]),
    (["0.30000000000000004", "2.5"], pa.float64(), [0.30000000000000004, 2.5]),  # as programs write doubles
    (["0.123456789012345", "2.5", "3", "4", "x"], pa.float64(), [0.123456789012345, 2.5, 3, 4]),
    ([*["0.30000000000000004"] * 50, "n/a"], pa.float64(), [0.30000000000000004] * 50),
    (["0.1234567890123456", "2.5000000000000000000", "3", "4", "x"], pa.float64(), [0.1234567890123456, 2.5, 3, 4]),
    (["0.10000000000000001", "1e1", "3", "4", "x"], pa.float64(), [0.1, 10, 3, 4]),  # as C writes 17 digits
    ([" 1", " 0", "3", "\t4", "x"], pa.int64(), [1, 0, 3, 4]),
]
CODES = [
    ["1", "2", "x"],  # too few to tell
    ["1", "2", "3", "4", "5", "x", "y"],
    ["02139", "02140", "02141", "K1A"],  # postal codes
    ["12139", "02140", "12141", "12142"],
    ["-07.5", "8", "9"],
    ["+4930123", "4930124"],  # Arrow reads a double
    ["1234567890123456789", "2", "3", "4", "x"],
    ["0.12345678901234567", "2.5", "3", "4", "x"],  # the double is 0.12345678901234568
    ["1234567890123456e-99999999999999999999", "2.5", "3", "4", "x"],
    ["12345678901234567e1", "2.5", "3", "4", "x"],
    ["1", "2", "3", " 00501", "x"],
]


def test_a_column_of_csv_has_the_type_of_all_values_but_mistakes_and_codes_stay_texts(tmp_path: Path) -> None:
    for number, (texts, kind, values) in enumerate([*CSV_COLUMNS, *((codes, pa.string(), codes) for codes in CODES)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "in.csv").write_text("\n".join(["region,date,value", *(f"NW,2026-02-11,{text}" for text in texts)]))

        writer = land_text(stream_of(folder / "out", columns=None), folder / "in.csv")

        (file,) = (folder / "out").rglob("*.parquet")
        column = pq.read_table(file, partitioning=None).column("value")
        assert (column.type, column.to_pylist()) == (kind, values)
        assert writer.landed().rejected == len(texts) - len(values)


def test_an_integer_partition_column_of_csv_may_have_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("month,code\n02,007\n")
    stream = stream_of(tmp_path / "out", columns=None, partitions={"month": {"type": "integer"}})

    land_text(stream, tmp_path / "in.csv")

    (file,) = (tmp_path / "out").glob("month=2/*.parquet")
    assert pq.read_table(file, partitioning=None).to_pylist() == [{"code": "007"}]


def test_dictionaries_and_nulls_are_inferred_as_their_values() -> None:
    sample = pa.table({"a": pa.array(["x"]).dictionary_encode(), "b": pa.nulls(1), "c": pa.array([[None]])})

    assert inferred(sample, texts=False).types == [pa.string(), pa.string(), pa.list_(pa.string())]


def test_columns_that_never_fit_are_an_error(tmp_path: Path) -> None:
    path = {"region": "string", "date": "date"}
    for options, table, message in (
        ({}, rows(0, 1).append_column("extra", pa.array([1])), "has the column 'extra'"),
        ({}, rows(0, 1).append_column("id", pa.array([1])), "has the column 'id'"),
        ({}, rows(0, 1).set_column(2, "id", pa.array([[1]])), "'id' is of type list<"),
        ({"columns": None}, pa.table({"region": ["NW"], "id": [1]}), "no column 'date'"),
        ({"columns": path}, rows(0, 1).select(["region", "date"]), "no column besides date, region"),
    ):
        stream = stream_of(tmp_path, **options)
        with pytest.raises((SchemaError, LayoutError), match=message), LandingWriter("sales", stream) as writer:
            writer.write(table)
