"""Groups of changed partitions that share a run."""

from collections.abc import Iterable
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from lake_assets.detection.digests import FolderDigest
from lake_assets.detection.run_plan import MOST_BYTES, ChangedFolder, RunPlan, RunTarget, Sharing, grouped
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


def test_large_partitions_stay_alone() -> None:
    targets = [target("A", 3), target("A", 4, MOST_BYTES), target("A", 5)]
    assert names(grouped(targets, COLUMNS, position, 100)) == [("A03", "A03"), ("A04", "A04"), ("A05", "A05")]


def taken(plan: RunPlan, folders: Iterable[tuple[str, int, int]]) -> list[Partition]:
    """The partitions that a scan takes in, each by one folder of a size; the others follow at the next scan."""
    found = []
    for region, day, size in folders:
        one = partition(region, day)
        if plan.take([ChangedFolder(one.path, FolderDigest(1, 1), (one,), size)]):
            found.append(one)
    return found


def sharing(most: int) -> Sharing:
    return Sharing(0, most, lambda of: position(of, COLUMNS[0]))


def test_a_scan_has_more_partitions_than_runs_if_they_share_runs() -> None:
    folders = [(region, day, 1) for region in REGIONS for day in (3, 4)]

    plan = RunPlan(COLUMNS, 2, sharing(100))

    assert len(taken(plan, folders)) == 10
    assert names(grouped(plan.targets(0, lambda _: False), COLUMNS, position, 100)) == [("C03", "D04")]
    assert len(taken(RunPlan(COLUMNS, 2), folders)) == 4


def test_partitions_that_are_no_neighbours_or_large_count_each_as_a_run() -> None:
    assert len(taken(RunPlan(COLUMNS, 2, sharing(100)), [(region, 3, 1) for region in "CBD"])) == 2
    assert len(taken(RunPlan(COLUMNS, 2, sharing(100)), [(region, 3, MOST_BYTES) for region in "CAB"])) == 2


@given(
    st.lists(
        st.tuples(st.sampled_from(REGIONS), st.integers(1, 28), st.sampled_from([1, MOST_BYTES // 2, MOST_BYTES]))
    ),
    st.integers(1, 6),
    st.sampled_from([2, 3, 100]),
)
def test_a_scan_asks_for_no_more_runs_than_allowed(folders: list[tuple[str, int, int]], runs: int, most: int) -> None:
    plan = RunPlan(COLUMNS, runs, sharing(most))

    found = taken(plan, folders)
    targets = grouped(plan.targets(0, lambda _: False), COLUMNS, position, most)

    assert len(targets) <= runs
    assert set(found) <= set(covered(targets))
    assert found or not folders


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
