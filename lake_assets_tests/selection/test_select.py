"""The partitions that a selection finds in config, landing zone and ledger."""

import datetime as dt

import pytest

from lake_assets.errors import OutsidePartitionError, PartitionError, SourceError
from lake_assets.selection.select import Selection, Wanted, select
from lake_assets.streams import landing_zone
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
    monkeypatch.setattr(landing_zone, "list_landed", None)

    selection = chosen(landed, "region=NW|SW,date=2026-02-11..2026-02-13")
    assert [str(p) for p in selection.partitions] == paths(NW, SW, FAILED)
    assert str(selection) == "3 partitions: region NW, SW; date 2026-02-11, 2026-02-12; of 3 more nothing has landed"

    monkeypatch.setattr(landing_zone, "list_landed_in", None)
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
