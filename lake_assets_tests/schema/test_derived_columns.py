"""Comparison of rows with a partition value that is derived from another of their columns."""

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.streams import StreamConfig
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.schema.partition_values import ValueSpan, derived_values, span_of

FEBRUARY = dt.datetime(2025, 2, 18, 23, 30)  # noqa: DTZ001 - a clock's face
INSTANT = FEBRUARY.replace(tzinfo=dt.UTC)


def stream(zone: str = "UTC", **field: Any) -> StreamConfig:
    return stream_of({"date": {"type": "date", "from": "ts", "start": "2025-01-01"} | field}, time_zone=zone)


def stream_of(partitions: dict[str, Any], **more: Any) -> StreamConfig:
    return StreamConfig.model_validate({"source": "in", "partitions": partitions, "destination": {"table": "t"}} | more)


def fitter_of(stream: StreamConfig, text: str, source: pa.Schema, target: pa.Schema) -> Fitter:
    partition = stream.partition(text)
    return Fitter(source, Target(target, Rules.of(stream)), partition, "the object o")


def fitted(stream: StreamConfig, text: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    target = pa.schema([field for field in rows.schema if field.name.lower() != "date"])
    fitter = fitter_of(stream, text, rows.schema, target)
    return fitter.fit(rows.select([*fitter.columns, *fitter.partition_columns]))


def batch(values: Any, kind: pa.DataType | None = None, **more: Any) -> pa.RecordBatch:
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return pa.RecordBatch.from_pydict({"id": pa.array(range(len(array)), pa.int64()), "ts": array, **more})


SAME_DAY = [
    batch([FEBRUARY], pa.timestamp("us")),
    batch([FEBRUARY], pa.timestamp("ns")),
    batch([INSTANT], pa.timestamp("ms", "UTC")),
    batch([INSTANT], pa.timestamp("us", "Asia/Tokyo")),
    batch([FEBRUARY.date()], pa.date32()),
    batch(["2025-02-18T10:00:00", "2025-02-18", "2025-02-18 23:59:59.999999", "2025-02-18T10:00:00Z"]),
    batch(["2025-02-18T10:00:00"], pa.large_string()),
    batch(pa.array(["2025-02-18T10:00:00"] * 2).dictionary_encode()),
]


@pytest.mark.parametrize("rows", SAME_DAY, ids=lambda rows: str(rows.schema.field("ts").type))
def test_rows_are_checked_or_chosen_by_the_derived_value_and_keep_the_column(rows: pa.RecordBatch) -> None:
    chooses = stream(**{"in": "rows"})
    assert fitted(chooses, "date=2025-02-18", rows).num_rows == rows.num_rows
    assert fitted(chooses, "date=2025-02-19", rows).num_rows == 0
    assert fitted(stream(), "date=2025-02-18", rows).equals(rows)
    told = r"a row with ts='2025-02-1.*', which is date=2025-02-18 in the time zone UTC"
    with pytest.raises(SchemaError, match=told):
        fitted(stream(), "date=2025-02-19", rows)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("year", "2025"), ("month", "2025-02"), ("week", "2025-W08"), ("date", "2025-02-18"), ("hour", "2025-02-18-23")],
)
def test_each_type_of_a_time_is_made(kind: str, value: str) -> None:
    rows = batch([INSTANT], pa.timestamp("us", "UTC"))

    for where in ("path", "rows"):
        assert fitted(stream(type=kind, **{"in": where}), f"date={value}", rows).num_rows == 1
    with pytest.raises(SchemaError, match="belongs to date=2024"):
        fitted(stream(type=kind), "date=" + value.replace("2025", "2024"), rows)


def test_an_instant_is_converted_to_the_layouts_time_zone_and_a_local_time_is_in_it() -> None:
    berlin = stream("Europe/Berlin")

    assert fitted(berlin, "date=2025-02-19", batch([INSTANT], pa.timestamp("us", "UTC"))).num_rows == 1
    assert fitted(berlin, "date=2025-02-18", batch([FEBRUARY], pa.timestamp("us"))).num_rows == 1
    assert fitted(berlin, "date=2025-02-19", batch(["2025-02-18T23:30:00Z"])).num_rows == 1
    with pytest.raises(SchemaError, match="=2025-02-19 in the time zone Europe/Berlin, and belongs to date=2025-02-18"):
        fitted(berlin, "date=2025-02-18", batch([INSTANT], pa.timestamp("us", "UTC")))


def test_null_is_of_the_null_partition_as_a_text_that_is_no_time_is_in_a_path() -> None:
    null = "date=__HIVE_DEFAULT_PARTITION__"

    assert fitted(stream(), null, batch([None], pa.timestamp("us"))).num_rows == 1
    assert fitted(stream(), null, batch(["", None, "soon"])).num_rows == 3
    assert fitted(stream(**{"in": "rows"}), null, batch(["", None, "2025-02-18"])).num_rows == 2
    told = "selects the rows of a partition, and has the value 'soon', which is not a time"
    with pytest.raises(SchemaError, match=told):
        fitted(stream(**{"in": "rows"}), null, batch(["soon"]))


def test_a_column_of_the_partitions_own_name_is_checked_too_and_is_no_other_column() -> None:
    day, other = (pa.array([dt.date(2025, 2, n)]) for n in (18, 19))
    rows = batch([FEBRUARY], pa.timestamp("us"))

    assert fitted(stream(), "date=2025-02-18", rows.append_column("date", day)).equals(rows)
    with pytest.raises(SchemaError, match="has a row with date='2025-02-19', and belongs to date=2025-02-18"):
        fitted(stream(), "date=2025-02-18", rows.append_column("date", other))


def test_files_without_the_column_have_the_values_of_their_path() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1]})

    assert fitted(stream(), "date=2025-02-18", rows).equals(rows)
    with pytest.raises(SchemaError, match="has no column 'ts', which selects the rows of a partition"):
        fitted(stream(**{"in": "rows"}), "date=2025-02-18", rows)


def test_another_name_is_checked_and_chosen_by_value() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1], "store": ["NW"]})
    checks, chooses = (stream_of({"region": {"from": "Store", "in": where}}) for where in ("path", "rows"))

    assert fitted(checks, "region=NW", rows).equals(rows)
    assert [fitted(chooses, f"region={region}", rows).num_rows for region in ("NW", "SW")] == [1, 0]
    with pytest.raises(SchemaError, match="a row with store='NW', which is region=NW, and belongs to region=SW"):
        fitted(checks, "region=SW", rows)


def test_what_no_date_can_be_derived_from_is_refused() -> None:
    for where in ("path", "rows"):
        with pytest.raises(SchemaError, match="no date can be derived from column 'ts' of the object o: column ts has"):
            fitted(stream(**{"in": where}), "date=2025-02-18", batch([1]))
    layout = "date={date,,YY}-{date,,MM}-{date,,DD}"
    plain = stream_of({"date": {"type": "date", "start": "2025-01-01"}}, layout=layout)
    rows = pa.RecordBatch.from_pydict({"id": [1], "date": [FEBRUARY]})
    with pytest.raises(SchemaError, match="give the partition column another name and from: date"):
        fitted(plain, "date=2025-02-18", rows)


def statistics(*values: Any, kind: pa.DataType | None = None) -> pq.Statistics:
    file = io.BytesIO()
    pq.write_table(pa.table({"ts": pa.array(values, kind)}), file)
    return pq.ParquetFile(file).metadata.row_group(0).column(0).statistics


@pytest.mark.parametrize(
    ("kind", "found", "ruled_out"),
    [
        ("date", statistics(FEBRUARY, FEBRUARY), ["2025-02-17", "2025-02-19"]),
        ("date", statistics(INSTANT), ["2025-02-16", "2025-02-20"]),
        ("date", statistics(FEBRUARY.date()), ["2025-02-17", "2025-02-19"]),
        ("date", statistics("2025-02-18T10:00:00", "2025-02-18"), ["2025-02-15", "2025-02-21"]),
        ("week", statistics(FEBRUARY), ["2025-W07", "2025-W09"]),
        ("hour", statistics(FEBRUARY), ["2025-02-17-23", "2025-02-19-00"]),
        ("date", None, []),
        ("date", statistics(1), []),
        ("date", statistics(None, kind=pa.timestamp("us")), []),
    ],
)
def test_statistics_exclude_row_groups_of_other_days_and_never_of_the_own(
    kind: str, found: pq.Statistics | None, ruled_out: list[str]
) -> None:
    def rules_out(value: str) -> bool:
        chooses = stream(type=kind, **{"in": "rows"})
        schema = batch([FEBRUARY]).schema
        fitter = fitter_of(chooses, f"date={value}", schema, schema)
        return not fitter.selecting_derived[0].may_be_in(span_of(found))

    own = TIME_TYPES[kind].text(FEBRUARY) if kind != "hour" else "2025-02-18-23"
    assert [rules_out(value) for value in ruled_out] == [True] * len(ruled_out)
    assert not rules_out(own)
    if ruled_out:
        assert found is not None
        assert rules_out("__HIVE_DEFAULT_PARTITION__") is not isinstance(found.min, str)


@pytest.mark.parametrize(
    ("value", "least", "greatest", "nulls", "kind", "proved"),
    [
        ("2025-02-18", "2025-02-18 00:00:00", "2025-02-18 23:59:59.999999", 0, pa.timestamp("us"), True),
        ("2025-02-18", "2025-02-18 00:00:00", "2025-02-19 00:00:00", 0, pa.timestamp("us"), False),
        ("2025-02-18", "2025-02-17 23:59:59", "2025-02-18 10:00:00", 0, pa.timestamp("us"), False),
        ("2025-02-18", "2025-02-18 00:00:00", "2025-02-18 23:59:59", 1, pa.timestamp("us"), False),
        ("2025-02-18", "2025-02-18 00:00:00", "2025-02-18 23:59:59", None, pa.timestamp("us"), False),
        ("2025-02-18", "2025-02-18", "2025-02-18", 0, pa.date32(), True),
        # Between them there may be 2025-02-18T01:00:00+05:00, which is of another day.
        ("2025-02-18", "2025-02-18T00:00:00", "2025-02-18T23:00:00", 0, pa.string(), False),
        ("__HIVE_DEFAULT_PARTITION__", None, None, 2, pa.timestamp("us"), True),
        ("__HIVE_DEFAULT_PARTITION__", None, None, 1, pa.timestamp("us"), False),
    ],
)
def test_bounds_prove_that_all_rows_are_of_the_partition_or_nothing(
    value: str, least: str | None, greatest: str | None, nulls: int | None, kind: pa.DataType, *, proved: bool
) -> None:
    dated = stream()
    (made,) = derived_values(dated.derived, dated.partition(f"date={value}"), {"ts": "ts"}, "the object o")

    assert made.is_proved(ValueSpan(least, greatest, nulls != 0, nulls != 2), kind) == proved


def test_bounds_of_instants_prove_nothing_if_a_clock_may_go_back_over_midnight() -> None:
    bounds = ValueSpan("2025-02-18 12:00:00+00", "2025-02-18 13:00:00+00", has_null=False)
    for zone in ("UTC", "America/Havana"):
        dated = stream(zone)
        (made,) = derived_values(dated.derived, dated.partition("date=2025-02-18"), {"ts": "ts"}, "the object o")
        assert made.is_proved(bounds, pa.timestamp("us", "UTC")) == (zone == "UTC")
        assert made.is_proved(bounds, pa.timestamp("us"))
