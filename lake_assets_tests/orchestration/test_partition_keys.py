import datetime as dt
from typing import Any

import dagster as dg
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lake_assets.api import open_stream
from lake_assets.base.errors import PartitionError
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.models import LakeConfig
from lake_assets.orchestration.partition_keys import cell_of_key, dynamic_name, partition_key, partitions_def
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.stream import OpenStream

AWKWARD = ["N/A x", "a=b", "O'Hare", "ünïcode", "a|b", "a,b", "[x]", "1...9", "....", "50%", "%2C", " ", "..", "x\ny"]
REGION = PartitionColumn("region", "string")
DATE = PartitionColumn("date", "date")
DAYS = {"type": "date", "start": "2026-02-01", "end": "2026-02-03"}


def stream(partitions: dict[str, dict[str, Any]], **options: str) -> OpenStream:
    sales = {"source": "landing", "partitions": partitions, "destination": {"table": "sales"}}
    config = {
        "lakes": {"test": {"catalog": {"type": "sqlite", "path": "catalog.sqlite"}, "storage": "data"}},
        "streams": {"sales": sales | options},
    }
    return open_stream(LakeConfig.model_validate(config), "sales")


def static(key: str) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([key])


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
        lambda text: text != HIVE_NULL
    )
)
def test_any_value_has_a_key_that_dagster_takes_and_gives_back(value: str) -> None:
    columns = (PartitionColumn("z", "string"), REGION)
    partition = Partition(columns, (value, value))
    key = partition_key(partition)
    (item,) = {partition_key(Partition((column,), (value,))) for column in columns}

    definition = dg.MultiPartitionsDefinition({"z": static(item), "region": static(item)})

    assert definition.get_partition_keys() == [key]
    assert cell_of_key(columns, definition.get_partition_key_from_str(str(key))) == partition


@pytest.mark.parametrize("order", [("region", "date"), ("date", "region")])
def test_dimensions_are_distinguished_by_name_in_any_order(order: tuple[str, str]) -> None:
    fields: dict[str, dict[str, Any]] = {"region": {"values": ["NW", "SW"]}, "date": DAYS}
    opened = stream({name: fields[name] for name in order})
    definition = partitions_def(opened)

    keys = definition.get_partition_keys()
    partition = cell_of_key(opened.config.partition_columns, keys[0])

    assert isinstance(definition, dg.MultiPartitionsDefinition)
    assert len(keys) == 6
    assert keys[0] == "2026-02-01|NW"
    assert partition.path == "/".join({"region": "region=NW", "date": "date=2026-02-01"}[name] for name in order)
    assert partition_key(partition) == keys[0]


def test_static_values_are_keys_in_the_paths_encoding_each_once() -> None:
    numbers = partitions_def(stream({"year": {"type": "integer", "values": [2025, "02026", "2026", HIVE_NULL]}}))
    words = partitions_def(stream({"region": {"values": [*AWKWARD, HIVE_NULL]}}))

    assert list(numbers.get_partition_keys()) == ["2025", "2026", HIVE_NULL]
    assert [cell_of_key([REGION], key).values[0] for key in words.get_partition_keys()] == [*AWKWARD, None]


def test_values_that_the_config_does_not_list_are_dynamic(
    instance: dg.DagsterInstance,
) -> None:
    opened = stream({"region": {}, "date": DAYS})
    definition = partitions_def(opened)
    instance.add_dynamic_partitions(dynamic_name("sales", "region"), ["N%2FA x"])

    keys = definition.get_partition_keys(dynamic_partitions_store=instance)

    assert [cell_of_key(opened.config.partition_columns, key).values[0] for key in keys] == ["N/A x"] * 3


def test_an_end_that_means_never_is_today() -> None:
    definition = partitions_def(stream({"date": {"type": "date", "start": "2026-02-01", "end": "9999-12-31"}}))

    for minute in ("00:00", "23:59"):
        now = dt.datetime.fromisoformat(f"2026-02-10T{minute}+00:00")
        keys = definition.get_partition_keys(current_time=now)
        assert (keys[0], keys[-1]) == ("2026-02-01", "2026-02-10")


@pytest.mark.parametrize(
    ("columns", "key", "names"),
    [
        ((REGION,), "N/A x", "'N%2FA x'"),
        ((REGION,), "a,b", "'a%2Cb'"),
        ((REGION,), "a|b", "%7C"),
        ((REGION, DATE), "NW", "date, region"),
        ((REGION, DATE), "NW|2026-02-11", "date='NW'"),
        ((PartitionColumn("year", "integer"),), "007", "'7'"),
        ((PartitionColumn("week", "week"),), "2026-W07", "'2026-W07-1'"),
        ((PartitionColumn("week", "week"),), "2026-W07-2", "is not of type week"),
    ],
)
def test_a_key_that_is_not_the_partitions_own_is_refused(
    columns: tuple[PartitionColumn, ...], key: str, names: str
) -> None:
    with pytest.raises(PartitionError) as refused:
        cell_of_key(columns, key)

    assert names in str(refused.value)


def test_the_key_of_a_week_is_its_monday() -> None:
    opened = stream({"week": {"type": "week", "start": "2026-12-23", "end": "2027-01-04"}, "region": {}})
    week, region = opened.config.partition_columns
    keys = partitions_def(stream({"week": {"type": "week", "start": "2026-12-23", "end": "2027-01-04"}}))

    later = dt.datetime(2027, 2, 1, tzinfo=dt.UTC)
    assert list(keys.get_partition_keys(current_time=later)) == ["2026-W52-1", "2026-W53-1", "2027-W01-1"]
    for value in ("2026-W53", None):
        partition = Partition((week, region), (value, "a-1"))
        assert cell_of_key(opened.config.partition_columns, partition_key(partition)) == partition


@given(
    kind=st.sampled_from(["year", "month", "week", "date", "hour"]),
    start=st.dates(dt.date(2026, 2, 10), dt.date(2026, 4, 20)),
    length=st.none() | st.integers(0, 60),
    zone=st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"]),
    now=st.datetimes(dt.datetime(2026, 4, 1), dt.datetime(2026, 5, 1), timezones=st.just(dt.UTC)),  # noqa: DTZ001
)
def test_dagster_offers_just_what_the_calendar_has(
    kind: str, start: dt.date, length: int | None, zone: str, now: dt.datetime
) -> None:
    assume(start <= now.date() - dt.timedelta(days=1))  # before its start Dagster offers the first partition
    field: dict[str, Any] = {"type": kind, "start": start}
    if length is not None:
        field["end"] = start + dt.timedelta(days=length)
    opened = stream({"at": field}, time_zone=zone)

    expected = [partition_key(partition) for partition in Calendar(opened.config, now).expected(())]

    assert partitions_def(opened).get_partition_keys(current_time=now) == expected
