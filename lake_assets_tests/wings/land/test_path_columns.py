"""Columns of the records that the layout uses, makes another of, or clashes with."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from lake_assets.base.errors import LayoutError, SchemaError
from lake_assets.config.column_types import arrow_schema
from lake_assets.config.streams import StreamConfig
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.wings.land.streams import files, rejects, stream_of

ARRIVAL = "region={store_region}/date={now(),,YY}-{now(),,MM}-{now(),,DD}"
DAY = "date={ts,,YY}-{ts,,MM}-{ts,,DD}"
START = {"type": "date", "start": "2025-01-01"}
CLOCK = dt.datetime(2025, 2, 20, 12, tzinfo=dt.UTC).timestamp()


def stream(source: Path, layout: str | dict[str, str], partitions: dict[str, Any], **landing: Any) -> StreamConfig:
    return stream_of(source, layout=layout, partitions=partitions, **{"columns": None} | landing)


def land(stream: StreamConfig, **columns: Any) -> pa.Schema:
    """Land rows of these columns; returns the schema of the first file."""
    with LandingWriter("t", stream, clock=lambda: CLOCK) as writer:
        writer.write(pa.table(columns))
    return pq.read_schema(files(Path(stream.source.root))[0]).remove_metadata()


RENAMED = {"region": {"from": "store_region"}, "arrival_date": START | {"from": "date"}}
TWO = {"id": [1, 2], "store_region": ["NW", "SW"], "date": [dt.date(2025, 2, 18)] * 2}


@pytest.mark.parametrize("is_kept", [False, True])
def test_path_columns_are_left_out_or_kept_typed_under_the_tables_names(tmp_path: Path, *, is_kept: bool) -> None:
    schema = land(stream(tmp_path, ARRIVAL, RENAMED, keep_path_columns=is_kept), **TWO)

    path = [("region", pa.string()), ("arrival_date", pa.date32())] if is_kept else []
    assert schema == pa.schema([("id", pa.int64()), ("date", pa.date32()), *path])
    assert {file.parent.relative_to(tmp_path).as_posix() for file in files(tmp_path)} == {
        "region=NW/date=2025-02-20",
        "region=SW/date=2025-02-20",
    }
    found = [pq.read_table(file, partitioning=None).to_pylist()[0] for file in files(tmp_path)]
    assert {str(row["date"]) for row in found} == {"2025-02-18"}
    if is_kept:
        assert sorted(row["region"] for row in found) == ["NW", "SW"]
        assert {str(row["arrival_date"]) for row in found} == {"2025-02-20"}


def test_so_are_those_that_are_made_of_a_time_and_those_that_are_no_partition(tmp_path: Path) -> None:
    layout = f"{{n}}/{DAY.removeprefix('date=')}/{{now(),,HH}}"
    made = stream(tmp_path, layout, {"n": {"type": "integer"}, "date": START | {"from": "ts"}}, keep_path_columns=True)
    made = StreamConfig.model_validate(made.model_dump(by_alias=True) | {"path_columns": {"hour": {"from": "now()"}}})
    assert land(made, id=[1], n=["7"], ts=["2025-02-18T10:00:00"]).names == ["id", "ts", "n", "date", "hour"]

    (file,) = files(tmp_path)
    assert pq.read_table(file, partitioning=None).to_pylist() == [
        {"id": 1, "ts": "2025-02-18T10:00:00", "n": 7, "date": dt.date(2025, 2, 18), "hour": "12"}
    ]


def test_a_date_keeps_its_name_and_its_time(tmp_path: Path) -> None:
    """As parts that are folders, of a time, and beside the time that the partition is made of."""
    parts, time = "{date,,YY}/{date,,MM}/{date,,DD}", dt.datetime(2025, 2, 18, 10, tzinfo=dt.UTC)
    dates = stream(tmp_path / "a", parts, {"date": START}, columns={"id": "bigint", "date": "date"})
    times = stream(tmp_path / "b", parts, {"day": START | {"from": "date"}}, columns=None)
    both = stream(tmp_path / "c", DAY, {"date": START | {"from": "ts"}}, keep_path_columns=True)

    assert land(dates, id=[1], date=[time.date()]).names == ["id", "date"]
    assert land(times, id=[1], date=[time]).field("date").type == pa.timestamp("us", "UTC")
    kept = land(both, date=["2025-02-18"], ts=[time.replace(tzinfo=None)])
    assert (kept.names, kept.field("date").type) == (["date", "ts"], pa.date32())


# A layout, partition columns, the records' columns, and why they never fit.
MISFITS: dict[str, tuple[str, dict[str, Any], dict[str, str], str]] = {
    "a column beside the time of the run": (
        "region={r}/date={now(),,YY}-{now(),,MM}-{now(),,DD}",
        {"region": {"from": "r"}, "date": START},
        {"r": "string", "date": "date"},
        (
            "the records have a column 'date', and the layout's date is the time of the run: give the partition column "
            "another name, as in partitions: {arrival_date: {type: date, from: date, start: 2025-01-01}}"
        ),
    ),
    "a time that paths hold by its date": (
        DAY,
        {"ts": START},
        {"ts": "timestamptz"},
        (
            r"the records' column 'ts' is timestamp\[us.*\], and the paths of the layout 'date={ts.*' hold only its "
            r"date: give the partition .* as in partitions: {date: {type: date, from: ts, start: 2025-01-01}}"
        ),
    ),
    "a time as a date": (
        "date={ts}",
        {"date": START | {"from": "ts"}},
        {"ts": "timestamp"},
        r"of the records' column 'ts', which is .* not of type date: write \{ts,,YY}-\{ts,,MM}-\{ts,,DD} there",
    ),
    "the year of a number": (
        "{n,,YYYY}",
        {"n": START | {"type": "year"}},
        {"n": "bigint"},
        "column n has .*its granularity needs a time",
    ),
    "a boolean": (
        "{n}",
        {"n": {"type": "integer"}},
        {"n": "boolean"},
        "n='true' is not of type integer: correct the type",
    ),
    "a double": ("{n}", {"n": {}}, {"n": "double"}, "type float, which paths cannot hold"),
    "no column": ("{nosuch}", {"nosuch": {}}, {"n": "bigint"}, "the rows have no column 'nosuch'"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_columns_that_never_fit_the_layout_are_an_error_of_the_config_or_before_anything_lands(
    tmp_path: Path, case: str
) -> None:
    layout, partitions, columns, message = MISFITS[case]
    types = {"id": "bigint"} | columns
    with pytest.raises(ValidationError, match=f"landing.columns: .*{message}"):
        stream(tmp_path, layout, partitions, columns=types)
    schema = arrow_schema(types)
    with pytest.raises((SchemaError, LayoutError), match=message):
        land(stream(tmp_path, layout, partitions), **dict(zip(schema.names, schema.empty_table().columns, strict=True)))
    assert list(tmp_path.rglob("*")) == []


def test_a_layout_that_they_may_fit_is_valid(tmp_path: Path) -> None:
    for layout, field, type_ in (
        ("{d}", START, "date"),
        ("{d}", START, "string"),
        ("{d,,YY}-{d,,MM}-{d,,DD}", START | {"from": "d"}, "timestamptz"),
        ("{d}", {"type": "integer"}, "decimal(10,0)"),
        ("{d}", START | {"type": "year"}, "bigint"),
        ("{d}", {}, "timestamp"),
    ):
        stream(tmp_path, layout, {"date" if "from" in field else "d": field}, columns={"id": "bigint", "d": type_})


def test_a_column_that_is_named_like_a_derived_one_says_the_same_or_the_record_is_rejected(tmp_path: Path) -> None:
    made = stream(tmp_path, DAY, {"date": START | {"from": "ts"}})
    good, bad = (pa.table({"date": ["2025-02-18"], "ts": [f"2025-02-{day}T10:00:00"]}) for day in (18, 19))

    with pytest.raises(SchemaError, match=r"another name: partitions: {date_of_path: {type: date, from: ts, "):
        land(made, **{name: bad[name] for name in bad.column_names})
    with LandingWriter("t", made) as writer:
        writer.write(good)
        writer.write(bad)

    assert len(files(tmp_path)) == 1
    assert "'date' has the value '2025-02-18', and the layout" in rejects(tmp_path)[0]["reason"]


def test_files_of_olakes_layout_have_all_columns_for_its_paths_do_not_tell_a_value_from_null(tmp_path: Path) -> None:
    layout = {"template": "{city,unknown,}", "compat": "olake"}
    made = stream(tmp_path, layout, {"city_of_path": {"from": "city", "empty": "value"}})

    assert land(made, id=[1, 2, 3], city=["unknown", None, ""]).names == ["id", "city"]
    found = [(file.parent.name, pq.read_table(file, partitioning=None)["city"].to_pylist()) for file in files(tmp_path)]
    assert sorted(found) == [(tmp_path.name, [""]), ("unknown", ["unknown", None])]
