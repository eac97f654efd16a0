import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.spark.task.job import MIN_SHARE, split_objects
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.manifest import LandedObject

MIB = 2**20


def objects(*sizes: int) -> tuple[LandedObject, ...]:
    now = dt.datetime(2026, 2, 11, tzinfo=dt.UTC)
    return tuple(LandedObject(f"/l/{i}", str(i), "e", size, now) for i, size in enumerate(sizes))


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([1000] * 100, 1),
        ([25 * MIB] * 10, 2),
        ([1024 * MIB], 4),
        ([600 * MIB, 10 * MIB], 3),
        ([], 1),
    ],
    ids=["many small", "ten for two cores", "one large", "unequal", "none"],
)
def test_tasks_follow_bytes_and_cores(sizes: list[int], tasks: int) -> None:
    assert len(split_objects(objects(*sizes), 256 * MIB, 2)) == tasks


@given(st.lists(st.integers(1, 2000 * MIB), min_size=1, max_size=50), st.integers(1, 16))
def test_every_part_of_every_object_is_read_once_and_tasks_are_even(sizes: list[int], cores: int) -> None:
    target = 256 * MIB
    tasks = split_objects(objects(*sizes), target, cores)

    whole: dict[str, list[Share]] = {}
    for share in (share for task in tasks for share in task):
        whole.setdefault(share.landed.key, []).append(share)
    assert set(whole) == {str(i) for i in range(len(sizes))}
    for parts in whole.values():
        assert [share.part.number for share in parts] == list(range(parts[0].part.of))
    even = max(sum(sizes) / len(tasks), MIN_SHARE)
    assert all(sum(share.landed.size / share.part.of for share in task) <= 2.5 * max(even, 1) for task in tasks)
