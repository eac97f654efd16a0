"""A partition that a person named and the config does not have."""

import pytest

from lake_assets.base.errors import OutsidePartitionError
from lake_assets.streams.select import refuse_outside
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, SW, World

__all__ = ["sessions"]

REGIONS = {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2026-01-01"}}


def refused(world: World, *texts: str) -> str:
    """The error for partitions."""
    with pytest.raises(OutsidePartitionError) as caught:
        refuse_outside(world.stream, [world.partition(text) for text in texts])
    return str(caught.value)


def test_partitions_outside_are_refused_together_each_reason_once(local_world: World) -> None:
    local_world.options = {"partitions": REGIONS}
    texts = ["region=XX,date=2026-02-11", "region=XX,date=2026-02-10", "region=NW,date=2025-01-01"]

    lines = refused(local_world, *texts, "region=NW,date=2026-02-10").splitlines()

    assert lines[0] == "3 partitions are outside the config:"
    assert [line[:42] for line in lines[1:]] == [
        "- partition value region=XX is not in `val",
        "- partition value date=2025-01-01 is befor",
    ]


def test_a_value_that_has_rows_in_the_lake_is_no_typo(local_world: World) -> None:
    local_world.commit(NW, 1)
    local_world.commit(SW, 2)
    local_world.options = {"partitions": REGIONS}

    assert refused(local_world, "region=SW,date=2026-02-12") == (
        "partition value region=SW is not in `values` (NW) any more, and the lake has rows of it: add it to `values` "
        "again, or leave `values` out so that new ones are found."
    )
    assert "did you mean NW? Otherwise add it" in refused(local_world, "region=NV,date=2026-02-11")
