"""Days that Spark wrote by its old calendar are those that Spark reads, or an error."""

import datetime as dt
import io
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from lake_assets.base.errors import SchemaError
from lake_assets_tests.faults.without_spark import sessions  # noqa: F401 - a fixture
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.ingest.test_in_rows import put
from lake_assets_tests.tiers import more
from lake_assets_tests.values.annotated import with_keys
from lake_assets_tests.world import NW, World

EPOCH = dt.date(1970, 1, 1)
DAY = 86_400_000_000  # microseconds
# Days of the Julian calendar since 1970, and the days of the same name; one that the other lacks is the next one.
DAYS = {
    -719_164: dt.date(1, 1, 1),
    (dt.date(1000, 3, 6) - EPOCH).days: dt.date(1000, 3, 1),  # 1000-02-29
    (dt.date(1200, 3, 8) - EPOCH).days: dt.date(1200, 3, 1),
    (dt.date(1500, 3, 9) - EPOCH).days: dt.date(1500, 2, 28),
    (dt.date(1582, 10, 14) - EPOCH).days: dt.date(1582, 10, 4),
    (dt.date(1582, 10, 15) - EPOCH).days: dt.date(1582, 10, 15),
    (dt.date(2026, 2, 11) - EPOCH).days: dt.date(2026, 2, 11),
}
NEW = {"org.apache.spark.version": "4.0.0"}
LEGACY = {**NEW, "org.apache.spark.legacyDateTime": "", "org.apache.spark.legacyINT96": ""}
UTC = {"org.apache.spark.timeZone": "UTC"}
OLD_SPARK = {"org.apache.spark.sql.parquet.row.metadata": "{}"}


def written(
    keys: Mapping[str, str], days: list[int | None], columns: Mapping[str, pa.Array] = {}, **writer: Any
) -> bytes:
    stored = pa.array(days, pa.int32()).cast(pa.date32())
    return with_keys(pa.table({"a": stored, **columns}), keys, **writer)


@pytest.mark.parametrize(
    ("keys", "is_old"),
    [
        (LEGACY, True),
        (NEW, False),
        *more(
            [
                (OLD_SPARK, True),
                ({**OLD_SPARK, **NEW}, False),
                ({"org.apache.spark.version": "2.4.8"}, True),
                ({}, False),
            ]
        ),
    ],
)
def test_days_are_those_that_spark_reads(local_world: World, keys: Mapping[str, str], *, is_old: bool) -> None:
    stored = [*DAYS][1:]  # Python has not all days of the other calendar
    local_world.land(NW, written(keys, [*stored, None]))

    local_world.ingest(NW)

    days = [row[0] for row in local_world.query("SELECT a FROM lake.sales ORDER BY a NULLS LAST")]
    assert days == [*([*DAYS.values()][1:] if is_old else [EPOCH + dt.timedelta(day) for day in stored]), None]


@pytest.mark.parametrize("is_int96", [False, *more([True])])
def test_times_in_utc_are_those_that_spark_reads(local_world: World, *, is_int96: bool) -> None:
    times = pa.array([day * DAY + 1 for day in DAYS], pa.int64()).cast(pa.timestamp("us", None if is_int96 else "UTC"))
    local_world.land(NW, written(LEGACY | UTC, list(DAYS), {"t": times}, use_deprecated_int96_timestamps=is_int96))

    local_world.ingest(NW)

    stored = local_world.query("SELECT a, t::DATE, microsecond(t) FROM lake.sales ORDER BY a")
    assert stored == [(day, day, 1) for day in DAYS.values()]


def test_days_of_the_old_calendar_select_rows(local_world: World) -> None:
    date = {"type": "date", "in": "rows", "start": "0001-01-01"}
    local_world.options = {"partitions": {"region": {}, "date": date}}
    stored = pa.array([*DAYS][-3:], pa.int32()).cast(pa.date32())
    put(local_world, "region=NW/a.parquet", with_keys(pa.table({"id": [1, 2, 3], "date": stored}), LEGACY))

    local_world.ingest("region=NW,date=1582-10-04")

    assert local_world.query("SELECT id, date FROM lake.sales") == [(1, dt.date(1582, 10, 4))]


def test_nanoseconds_begin_after_the_old_calendar(local_world: World) -> None:
    times = pa.array([-9_223_372_036_854_775_000, 0], pa.timestamp("ns", "UTC"))  # whole microseconds
    local_world.land(NW, written(LEGACY | UTC, [0, 0], {"t": times}))

    local_world.ingest(NW)

    assert local_world.query("SELECT year(t) FROM lake.sales ORDER BY t") == [(1677,), (1970,)]


def test_a_time_without_a_zone_is_of_no_old_calendar(local_world: World) -> None:
    time = pa.array([dt.datetime(1500, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001
    local_world.land(NW, written(LEGACY, [0], {"t": time}))

    local_world.ingest(NW)

    assert local_world.query("SELECT t::VARCHAR FROM lake.sales") == [("1500-01-01 00:00:00",)]


EARLY = pa.array([-3_000_000 * 10**9], pa.int64())  # microseconds, before 1900
NESTED = pa.array([[-200_000]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))


@pytest.mark.parametrize(
    ("keys", "column"),
    [
        (LEGACY, EARLY.cast(pa.timestamp("us", "UTC"))),
        *more(
            [
                (LEGACY | UTC, NESTED),
                (LEGACY | {"org.apache.spark.timeZone": "Europe/Berlin"}, EARLY.cast(pa.timestamp("us", "UTC"))),
            ]
        ),
    ],
    ids=["no zone", "nested", "zone"],
)
def test_what_cannot_be_converted_is_refused_and_may_be_left_out(
    local_world: World, keys: Mapping[str, str], column: pa.Array
) -> None:
    local_world.land(NW, written(keys, [0], {"x": column}))
    with pytest.raises(SchemaError, match=r"column 'x' of the object .* by the old calendar.*CORRECTED.*omit"):
        local_world.ingest(NW)

    local_world.options = {"columns": {"x": {"omit": True}}}
    local_world.ingest(NW)

    assert local_world.query("SELECT a FROM lake.sales") == [(EPOCH,)]


def test_a_file_becomes_one_of_the_lake_only_if_its_days_are_the_same(local_world: World) -> None:
    local_world.options = {"copy": "always"}
    local_world.land(NW, written(LEGACY, [0, 1], compression="zstd"))
    assert local_world.ingest(NW).row.files_copied == 1

    local_world.land(NW, written(LEGACY, list(DAYS), compression="zstd"))
    assert local_world.ingest(NW).row.files_copied == 0
    assert local_world.query("SELECT min(a) FROM lake.sales") == [(dt.date(1, 1, 1),)]


def test_an_index_refuses_other_days(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.land(NW, written(LEGACY, [0, 1]))
    local_world.land(NW, written(LEGACY, list(DAYS)), "z.parquet")

    (done,) = index(local_world).values()

    assert "column 'a' of the object" in str(done.error)
    assert "by the old calendar: DuckLake reads others" in str(done.error)


@pytest.mark.parametrize("is_old", [True, False])
def test_orc_of_java_is_of_the_old_calendar_unless_it_says_so(local_world: World, *, is_old: bool) -> None:
    sink = io.BytesIO()
    stored = [*DAYS][1:]  # Python has not all days of the other calendar
    orc.write_table(pa.table({"a": pa.array(stored, pa.int32()).cast(pa.date32())}), sink, compression="uncompressed")
    # The writer is Java instead of C++, and in place of its version's end is the new calendar.
    footer, told = b"H\x01b\x052.2.2", b"H\x00b\x052.2.2" if is_old else b"H\x00X\x02b\x032.2"
    body = sink.getvalue()
    assert body.count(footer) == 1
    local_world.options = {"format": "orc"}
    local_world.land(NW, body.replace(footer, told), "a.orc")

    local_world.ingest(NW)

    days = [row[0] for row in local_world.query("SELECT a FROM lake.sales ORDER BY a")]
    assert days == ([*DAYS.values()][1:] if is_old else [EPOCH + dt.timedelta(day) for day in stored])


def test_avro_of_spark_has_the_same_keys(local_world: World) -> None:
    sink = io.BytesIO()
    fields: list[dict[str, Any]] = [{"name": "a", "type": {"type": "int", "logicalType": "date"}}]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    fastavro.writer(sink, schema, [{"a": day} for day in DAYS], metadata=LEGACY)
    local_world.options = {"format": "avro"}
    local_world.land(NW, sink.getvalue(), "a.avro")

    local_world.ingest(NW)

    assert [row[0] for row in local_world.query("SELECT a FROM lake.sales ORDER BY a")] == list(DAYS.values())
