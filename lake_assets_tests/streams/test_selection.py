"""What a selection text means, and the partitions that it finds in config, landing zone and ledger."""

import datetime as dt

import pytest

from lake_assets.base.errors import OutsidePartitionError, PartitionError, SourceError
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.select import Selection, Wanted, select
from lake_assets.streams.selection_grammar import parse_selector, values_text
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["sessions"]

NOW = dt.datetime(2026, 2, 14, 12, tzinfo=dt.UTC)
EARLY = "region=NW,date=2026-01-31"
FAILED = "region=SW,date=2026-02-12"


@pytest.fixture
def landed(local_world: World) -> World:
    """NW of two days and SW of two; one of NW is in the lake, and one of SW has failed."""
    for text in (NW, EARLY, SW):
        local_world.land(text, sales(1))
    local_world.land(FAILED, b"no Parquet")
    local_world.ingest(NW)
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        local_world.ingest(FAILED)
    return local_world


def found(world: World, *texts: str, outside: bool = False, **wanted: object) -> list[str]:
    return [str(p) for p in chosen(world, *texts, outside=outside, **wanted).partitions]


def chosen(world: World, *texts: str, outside: bool = False, **wanted: object) -> Selection:
    return select(world.stream, Wanted(texts, **wanted), outside=outside, now=NOW)  # type: ignore[arg-type]


def paths(*texts: str) -> list[str]:
    return [text.replace(",", "/") for text in texts]


def test_a_selection_is_of_partitions_by_texts_and_states(landed: World) -> None:
    everything = paths(EARLY, NW, SW, FAILED)
    assert found(landed, "region=*") == found(landed, every=True) == everything
    assert found(landed, "date=2026-02") == paths(NW, SW, FAILED)
    assert found(landed, "region=NW,date=last:30") == paths(EARLY, NW)
    assert found(landed, waiting=True) == paths(EARLY, SW, FAILED)
    assert found(landed, failed=True) == paths(FAILED)
    assert found(landed, "date=2026-02", waiting=True) == paths(SW, FAILED)
    assert found(landed, "region=NW", failed=True) == []
    assert found(landed, NW, EARLY, waiting=True) == paths(EARLY)

    first = chosen(landed, every=True, most=2)
    assert [str(p) for p in first.partitions] == paths(EARLY, NW)
    assert str(first) == "the first 2 of 4 partitions: region NW; date 2026-01-31, 2026-02-11"

    landed.unland(NW)  # it is in the lake
    assert found(landed, "region=*") == found(landed, every=True) == everything
    landed.land(NW, sales(2))
    assert found(landed, waiting=True, failed=True) == everything


def test_what_is_named_comes_first_and_few_expected_partitions_are_listed_one_by_one(
    landed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "region=XX,date=2026-02-01"
    assert found(landed, absent, "region=NW", NW) == paths(absent, NW, EARLY)
    monkeypatch.setattr("lake_assets.streams.stream.list_landed", None)

    selection = chosen(landed, "region=NW|SW,date=2026-02-11..2026-02-13")
    assert [str(p) for p in selection.partitions] == paths(NW, SW, FAILED)
    assert str(selection) == "3 partitions: region NW, SW; date 2026-02-11, 2026-02-12; of 3 more nothing has landed"

    monkeypatch.setattr("lake_assets.streams.stream.list_landed_in", None)
    assert chosen(landed, absent, NW).is_named  # not looked up


def test_partitions_outside_the_config_are_selected_if_that_is_meant(landed: World) -> None:
    landed.options["partitions"] = {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2026-02-01"}}

    assert found(landed, "region=*") == found(landed, every=True) == paths(NW)
    assert found(landed, "region=*", outside=True) == paths(EARLY, NW, SW, FAILED)
    with pytest.raises(OutsidePartitionError, match="region=SW is not in `values`"):
        found(landed, SW, "date=2026-02")
    with pytest.raises(OutsidePartitionError, match="region=SW is not in `values`"):
        found(landed, "region=NW|SW", waiting=True)
    assert found(landed, "region=NW|SW", outside=True) == paths(EARLY, NW, SW, FAILED)


def test_a_lake_that_does_not_exist_yet_has_everything_waiting(local_world: World) -> None:
    local_world.land(NW, sales(1))

    assert found(local_world, waiting=True) == paths(NW)
    assert found(local_world, failed=True) == []
    with pytest.raises(PartitionError, match="--all is every partition"):
        Wanted(("region=NW",), every=True)


IN_MARCH = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)
REGIONS = ["NE", "NW", "a*b", "a|b", "a..b", "a,b", "50%", "last:7"]


def stream(**partitions: dict[str, object]) -> StreamConfig:
    source = {"type": "local", "path": "/landing"}
    return StreamConfig.model_validate({"source": source, "partitions": partitions, "destination": {"table": "t"}})


def selected(text: str, values: list[str], type_: str = "string", **more: object) -> list[str]:
    """Those of the values of a column `p` that a text selects."""
    config = stream(p={"type": type_, **more})
    selector = parse_selector(config, text, Calendar(config, IN_MARCH))
    return [value for value in values if selector.matches(config.partition(f"p={value}"))]


DAYS = ["2025-12-31", "2026-01-31", "2026-02-01", "2026-02-23", "2026-02-24", "2026-02-28", "2026-03-01", "2026-03-02"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("p=2026-02-01", DAYS[2:3]),
        ("p=2026-02-01..2026-02-28", DAYS[2:6]),
        ("p=2026-02", DAYS[2:6]),
        ("p=2026", DAYS[1:]),
        ("p=2026-01..2026-02", DAYS[1:6]),
        ("p=2026-02-28..", DAYS[5:]),
        ("p=..2026-01", DAYS[:2]),
        ("p=last:7", DAYS[4:]),
        ("p=last:1", DAYS[7:]),
        ("p=2026-01-31|last:2", [DAYS[1], *DAYS[6:]]),
        ("p=*-01", [DAYS[2], DAYS[6]]),
        ("p=*", DAYS),
    ],
)
def test_dates_are_selected_by_value_range_period_and_age(text: str, found: list[str]) -> None:
    assert selected(text, DAYS, "date", start="2025-01-01") == found


@pytest.mark.parametrize(
    ("type_", "text", "found", "others"),
    [
        ("hour", "p=2026-02-11", "2026-02-11-00 2026-02-11-23", "2026-02-10-23"),
        ("hour", "p=last:3", "2026-03-02-10 2026-03-02-12", "2026-03-02-09"),
        ("month", "p=2026", "2026-01 2026-12", "2025-12"),
        ("month", "p=2025-12..2026-01", "2025-12", "2025-11 2026-02"),
        ("month", "p=9999", "9999-12", "9998-01"),
        ("week", "p=2025", "2025-W01 2025-W52", "2024-W52 2026-W01"),
        ("week", "p=2027", "2027-W01 2027-W52", "2026-W53 2028-W01"),
        ("week", "p=2026-W52..2027-W01", "2026-W53 2027-W01", "2026-W51 2027-W02"),
        ("week", "p=last:2", "2026-W09 2026-W10", "2026-W08"),
        ("week", "p=9999", "9999-W52", "9998-W52"),
        ("date", "p=2026-W01", "2025-12-29 2026-01-04", "2025-12-28 2026-01-05"),
        ("year", "p=2025..", "2025 2026", "2024"),
        ("year", "p=9999", "9999", "9998"),
        ("integer", "p=-2..10", "-2 9 10", "-3 11"),
    ],
)
def test_values_of_all_types_have_ranges_and_times_periods(type_: str, text: str, found: str, others: str) -> None:
    options = {} if type_ == "integer" else {"start": "2024-01-01"}
    assert selected(text, [*found.split(), *others.split()], type_, **options) == found.split()


def test_the_newest_values_of_a_config_that_has_ended_are_its_last_ones() -> None:
    assert selected("p=last:2", DAYS, "date", start="2025-01-01", end="2026-02-28") == ["2026-02-28"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("p=NW|NE", ["NE", "NW"]),
        ("p=N*", ["NE", "NW"]),
        ("p=A..NF", ["NE"]),
        ("p=a*b", ["a*b", "a|b", "a..b", "a,b"]),
        ("p=a%2Ab", ["a*b"]),
        ("p=a%7Cb|NE", ["NE", "a|b"]),
        ("p=a%2E%2Eb", ["a..b"]),
        ("p=a%2Cb", ["a,b"]),
        ("p=50%25", ["50%"]),
        ("p=last%3A7", ["last:7"]),
        ("p=a%2A*", ["a*b"]),
        ("p=__HIVE_DEFAULT_PARTITION__", []),
    ],
)
def test_signs_of_the_grammar_in_a_value_are_percent_encoded(text: str, found: list[str]) -> None:
    config = stream(p={})
    selector = parse_selector(config, text, Calendar(config, IN_MARCH))
    partitions = [config.partition("p=" + region.replace("%", "%25").replace(",", "%2C")) for region in REGIONS]
    assert [p.values[0] for p in partitions if selector.matches(p)] == found


def test_null_is_selected_by_its_name_and_by_a_star_but_is_in_no_range() -> None:
    null = ["__HIVE_DEFAULT_PARTITION__"]
    assert selected("p=*", null) == selected(f"p={null[0]}", null) == null
    assert selected("p=..z", null) == selected("p=N*", null) == []


def test_a_column_without_a_condition_has_any_value_and_alternatives_that_are_values_name_their_partitions() -> None:
    config = stream(region={}, date={"type": "date", "start": "2026-01-01"})
    selector = parse_selector(config, "date=2026-02-11", Calendar(config, IN_MARCH))
    assert selector.named is None
    assert selector.matches(config.partition("region=XX,date=2026-02-11"))
    assert not selector.matches(config.partition("region=XX,date=2026-02-12"))
    named = parse_selector(config, "date=2026-02-11,region=NW|NE", Calendar(config, IN_MARCH)).named
    assert list(map(str, named or ())) == ["region=NW/date=2026-02-11", "region=NE/date=2026-02-11"]


def test_partitions_are_described_column_by_column() -> None:
    config = stream(region={}, date={"type": "date", "start": "2026-01-01"})
    dates = [f"2026-02-{day:02}" for day in range(1, 29)]
    partitions = [config.partition(f"region={region},date={date}") for date in dates for region in ("NW", "NE")]
    assert values_text(partitions) == "region NE, NW; date 2026-02-01 to 2026-02-28 (28)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "'nonsense' is not a selection of partitions: write conditions such as region=NW"),
        ("p=1,p=2", "each column once"),
        ("p=1/p=2", "'p=1/p=2' is a path: write p=1,p=2"),
        ("q=1", "the stream has no partition column 'q': its columns are p; write p=…"),
        ("p=2026-13", "partition value p='2026-13' is not of type date: write it as YYYY-MM-DD"),
        ("p=2026-02-30", "is not of type date"),
        ("p=", "partition value p is empty"),
        ("p=2026-02-01|", "partition value p is empty"),
        ("p=..", "the range of partition column p has no values: write p=2026-01-01..2026-02-01"),
        ("p=2026-02..2026-01", "the range p=2026-02..2026-01 ends before it begins: write the smaller value first: p="),
        ("p=2026-02..x", "partition value p='x' is not of type date"),
        ("p=..__HIVE_DEFAULT_PARTITION__", "partition column p has a range with NULL, which has no order"),
        ("p=last:0", "partition column p has 'last:0', which is not a number of days: write one from 1 on"),
        ("p=last:x", "such as p=last:7"),
    ],
)
def test_an_error_names_the_column_and_the_fix(text: str, says: str) -> None:
    config = stream(p={"type": "date", "start": "2026-01-01"})
    with pytest.raises(PartitionError) as raised:
        parse_selector(config, text, Calendar(config, IN_MARCH))
    assert says in str(raised.value)


def test_the_newest_values_are_those_of_a_time() -> None:
    config = stream(p={"type": "integer"})
    with pytest.raises(PartitionError, match="p is of type integer, and last:7 is for times: name its values"):
        parse_selector(config, "p=last:7", Calendar(config, IN_MARCH))
