"""The columns of what comes in: known, or inferred and then fixed, and errors where they can never fit."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import LandingError, LayoutError, SchemaError
from lake_assets.storage.formats.inferred_types import inferred
from lake_assets.wings.land.destination import as_known
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.cli.conftest import Run, run, sessions
from lake_assets_tests.wings.land.streams import GOOD, files, land_text, landed_ids, rejects, rows, stream_of
from lake_assets_tests.world import NW, World, sales


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


__all__ = ["run", "sessions"]

CSV = "region,date,id,total\n" + "".join(f"NW,2026-02-11,{value},{value}\n" for value in ("n/a", 7))


def records(*values: object) -> str:
    return "".join(json.dumps({"region": "NW", "date": "2026-02-11", "id": n, "total": n}) + "\n" for n in values)


@pytest.mark.parametrize(
    ("form", "text", "is_ingested"), [("csv", CSV, True), ("jsonl", records("n/a", 7), False)], ids=["table", "file"]
)
def test_a_value_that_does_not_fit_a_known_column_is_rejected_and_the_others_are_ingested(
    local_world: World, run: Run, tmp_path: Path, form: str, text: str, *, is_ingested: bool
) -> None:
    local_world.land(NW, sales(1.5))
    if is_ingested:
        local_world.ingest(NW)

    landed = run("land", "sales", "--format", form, stdin=text)

    assert landed.exit_code == 0, landed.output
    assert "landed  1 record in 1 file" in landed.stdout
    (reject,) = rejects(tmp_path / "landing")
    assert "n/a" in reject["record"]
    done = run("ingest", "sales", "--all")
    assert done.exit_code == 0, done.output
    assert local_world.totals() == [1.5, 7]
    none = run("land", "sales", stdin=records("n/a", "none"))
    assert (none.exit_code, "no record fits the stream sales" in none.stderr) == (1, True)


@pytest.mark.parametrize(
    ("bad", "good", "place", "count"),
    [("bad", 1, 0, 3), ({"a": 1}, 1, 0, 3), (1, True, 3, 3), pytest.param("n/a", 7, 0, 1, id="tie")],
)
def test_without_a_known_type_most_values_of_json_decide_and_numbers_among_as_many_texts(
    run: Run, tmp_path: Path, bad: object, good: object, place: int, count: int
) -> None:
    values = [good] * count
    values.insert(place, bad)

    done = run("land", "sales", stdin=records(*values))

    assert done.exit_code == 0, done.output
    (file,) = files(tmp_path / "landing")
    assert pq.read_table(file, partitioning=None)["total"].to_pylist() == [good] * count
    (reject,) = rejects(tmp_path / "landing")
    assert json.loads(reject["record"])["total"] == bad


def test_a_number_among_texts_of_json_is_a_text(run: Run, tmp_path: Path) -> None:
    done = run("land", "sales", stdin=records("good", 1, "good"))

    assert done.exit_code == 0, done.output
    (file,) = files(tmp_path / "landing")
    assert pq.read_table(file, partitioning=None)["total"].to_pylist() == ["good", "1", "good"]


@pytest.mark.parametrize(
    ("options", "inferred", "settled"),
    [
        ({}, {"id": pa.int64(), "total": pa.int64()}, {"id": pa.int64(), "total": pa.float64()}),
        ({}, {"ID": pa.int32(), "new": pa.string()}, {"ID": pa.int32(), "new": pa.string()}),  # both fit
        ({}, {"region": pa.int64(), "date": pa.string()}, {"region": pa.int64(), "date": pa.string()}),  # of the path
        ({"transform": {"sql": "SELECT * FROM rows"}}, {"total": pa.string()}, {"total": pa.string()}),
    ],
)
def test_the_known_type_replaces_one_that_the_table_does_not_hold(
    local_world: World, options: dict[str, Any], inferred: dict[str, pa.DataType], settled: dict[str, pa.DataType]
) -> None:
    local_world.commit(NW, 1.5)
    local_world.unland(NW)
    local_world.options = options

    assert as_known(pa.schema(inferred), local_world.stream) == pa.schema(settled)


@pytest.mark.parametrize(("policy", "kind"), [("strict", pa.int32()), ("evolve", pa.int64())])
def test_a_wider_type_stays_where_the_stream_widens_its_table(
    local_world: World, policy: str, kind: pa.DataType
) -> None:
    local_world.options = {"schema_policy": policy}
    local_world.land(NW, pa.table({"n": pa.array([1], pa.int32())}))

    assert as_known(pa.schema({"n": pa.int64()}), local_world.stream) == pa.schema({"n": kind})


def test_a_lake_and_an_output_that_cannot_be_read_leave_columns_as_they_are_inferred(local_world: World) -> None:
    local_world.land(NW, b"no Parquet")
    Path(local_world.catalog["path"]).write_bytes(b"no catalog")

    assert as_known(pa.schema({"total": pa.string()}), local_world.stream) == pa.schema({"total": pa.string()})
