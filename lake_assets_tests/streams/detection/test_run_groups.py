"""Groups of changed partitions that share a run."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.streams.detection.run_plan import MOST_BYTES, RunPlan, RunTarget, grouped, runs_of

COLUMNS = (PartitionColumn("region", "string"), PartitionColumn("date", "date"))
REGIONS = "CABED"  # an order that is not that of the alphabet


def partition(region: str, day: int) -> Partition:
    return Partition.of(COLUMNS, {"region": region, "date": f"2026-02-{day:02}"})


def target(region: str, day: int, size: int = 1) -> RunTarget:
    return RunTarget.of(partition(region, day), size)


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
    assert names(grouped(targets, position, 100)) == [("C03", "B04")]


def test_large_partitions_stay_alone() -> None:
    targets = [target("A", 3), target("A", 4, MOST_BYTES), target("A", 5)]
    assert names(grouped(targets, position, 100)) == [("A03", "A03"), ("A04", "A04"), ("A05", "A05")]


def test_what_needs_too_many_runs_is_requested_as_ranges_of_times_whose_gaps_are_short() -> None:
    targets = [target(region, day) for region in "AE" for day in (1, 2, 3, 9, 10)]
    assert names(runs_of(targets, position, most=1, max_runs=2)) == [("A01", "A10"), ("E01", "E10")]
    assert names(runs_of(targets, position, most=1, max_runs=4)) == [
        *(("A01", "A03"), ("A09", "A10")),
        *(("E01", "E03"), ("E09", "E10")),
    ]
    assert names(runs_of(targets, position, most=1, max_runs=1)) == [("A01", "A10")]
    regions = [Partition.of(COLUMNS[:1], {"region": region}) for region in "ABC"]
    without_time = [RunTarget.of(region, 1) for region in regions]
    assert len(runs_of(without_time, position, most=1, max_runs=2)) == 2


@given(
    st.sets(st.tuples(st.sampled_from(REGIONS), st.integers(1, 28)), min_size=1),
    st.integers(1, 6),
    st.sampled_from([1, 2, 3, 100]),
)
def test_runs_are_no_more_than_allowed_and_have_no_changed_partition_twice(
    changed: set[tuple[str, int]], runs: int, most: int
) -> None:
    found = runs_of([target(*one) for one in sorted(changed)], position, most=most, max_runs=runs)

    cells = [cell for run in found for cell in run.cells]
    assert 0 < len(found) <= runs
    assert len(set(cells)) == len(cells)
    assert set(cells) <= set(covered(tuple(found)))
    assert set(cells) <= {partition(*one) for one in changed}


def test_a_scan_takes_as_many_partitions_as_may_wait_but_one_at_least() -> None:
    def taken(most: int, *changes: str) -> list[bool]:
        plan = RunPlan(most)
        return [plan.take([folder(of) for of in each]) for each in changes]

    def folder(region: str) -> tuple[set[Partition], int]:
        return {partition(region, 3)}, 1

    assert taken(2, "A", "B", "C", "A") == [True, True, False, True]
    assert taken(1, "ABC", "D") == [True, False]
    assert taken(0, "A", "") == [False, True]


@given(st.sets(st.tuples(st.sampled_from(REGIONS), st.integers(1, 9))), st.integers(1, 12))
def test_groups_have_each_changed_partition_once_and_no_other(changed: set[tuple[str, int]], most: int) -> None:
    groups = grouped([target(*one) for one in changed], position, most)
    assert sorted(p.path for p in covered(groups)) == sorted(partition(*one).path for one in changed)
    assert all(len(covered((group,))) <= most for group in groups)
