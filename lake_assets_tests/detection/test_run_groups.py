"""Groups of changed partitions that share a run."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.detection.run_groups import MOST_BYTES, grouped
from lake_assets.detection.run_plan import RunTarget
from lake_assets.layout.partition import Partition, PartitionColumn

COLUMNS = (PartitionColumn("region", "string"), PartitionColumn("date", "date"))
REGIONS = "CABED"  # an order that is not that of the alphabet


def partition(region: str, day: int) -> Partition:
    return Partition.of(COLUMNS, {"region": region, "date": f"2026-02-{day:02}"})


def target(region: str, day: int, size: int = 1) -> RunTarget:
    found = partition(region, day)
    return RunTarget(found, found, found.path, size)


def position(of: Partition, column: PartitionColumn) -> int:
    return REGIONS.index(of.texts()[column.name])


def name(of: Partition) -> str:
    return f"{of.texts()['region']}{of.texts()['date'][-2:]}"


def names(targets: tuple[RunTarget, ...]) -> list[tuple[str, str]]:
    return [(name(target.first), name(target.last)) for target in targets]


def covered(targets: tuple[RunTarget, ...]) -> list[Partition]:
    """All partitions of the runs, as Dagster finds them: the product of a range in each dimension."""
    found = []
    for one in targets:
        first, last = one.first.texts(), one.last.texts()
        regions = REGIONS[REGIONS.index(first["region"]) : REGIONS.index(last["region"]) + 1]
        days = range(int(first["date"][-2:]), int(last["date"][-2:]) + 1)
        found += [partition(region, day) for region, day in product(regions, days)]
    return found


def test_regions_of_the_same_days_are_one_run() -> None:
    targets = [target(region, day) for region in "ABC" for day in (3, 4)]
    assert names(grouped(targets, COLUMNS, position, 100)) == [("C03", "B04")]


def test_regions_of_other_days_have_runs_of_their_own() -> None:
    targets = [target("A", 3), target("A", 4), target("B", 4), target("B", 5)]
    assert names(grouped(targets, COLUMNS, position, 100)) == [("A03", "A04"), ("B04", "B05")]


@pytest.mark.parametrize(("most", "runs"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_a_group_has_no_more_partitions_than_allowed(most: int, runs: int) -> None:
    targets = [target("A", day) for day in (3, 4, 5, 6)]
    assert len(grouped(targets, COLUMNS, position, most)) == runs


def test_large_partitions_stay_alone() -> None:
    targets = [target("A", 3), target("A", 4, MOST_BYTES), target("A", 5)]
    assert names(grouped(targets, COLUMNS, position, 100)) == [("A03", "A03"), ("A04", "A04"), ("A05", "A05")]


def test_the_state_of_a_group_is_that_of_its_members_in_any_order() -> None:
    targets = [target("A", 3), target("A", 4)]
    (group,) = grouped(targets, COLUMNS, position, 100)
    assert grouped(targets[::-1], COLUMNS, position, 100) == (group,)
    (other,) = grouped([targets[0], RunTarget(targets[1].first, targets[1].last, "other")], COLUMNS, position, 100)
    assert other.state != group.state


@given(st.sets(st.tuples(st.sampled_from(REGIONS), st.integers(1, 9))), st.integers(1, 12))
def test_groups_have_each_changed_partition_once_and_no_other(changed: set[tuple[str, int]], most: int) -> None:
    groups = grouped([target(*one) for one in changed], COLUMNS, position, most)
    assert sorted(p.path for p in covered(groups)) == sorted(partition(*one).path for one in changed)
    assert all(len(covered((group,))) <= most for group in groups)
