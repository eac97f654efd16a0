import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.config.sections import Batch
from lake_assets.wings.land.batches import CompleteBatch, OpenBatches


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def add(batches: OpenBatches, paths: list[str], first: int = 0, text: str = "") -> None:
    ids = pa.array(range(first, first + len(paths)), pa.int64())
    batches.add(pa.table({"id": ids, "text": [text] * len(paths)}), pa.array(paths).dictionary_encode())


def ids(parts: list[CompleteBatch]) -> list[tuple[str, list[int]]]:
    return [(part.path, part.rows["id"].to_pylist()) for part in parts]


def test_a_batch_is_closed_by_age_from_its_first_row_on() -> None:
    clock = Clock()
    batches = OpenBatches(Batch(records=100, age=10), 2**30, clock)
    add(batches, ["a"])
    clock.now = 6
    add(batches, ["a", "b"], first=1)
    clock.now = 9.9
    assert batches.complete() == []

    clock.now = 10
    assert ids(batches.complete()) == [("a", [0, 1])]
    clock.now = 16
    assert ids(batches.complete()) == [("b", [2])]


def test_a_batch_is_closed_by_bytes_and_many_rows_are_cut_at_once() -> None:
    clock = Clock()
    batches = OpenBatches(Batch(records=1000, bytes=50_000), 2**30, clock)
    add(batches, ["a"] * 200, text="x" * 1000)
    parts = batches.complete()

    assert sum(len(part.rows) for part in parts) + batches.rows == 200
    assert all(part.rows.nbytes <= 50_000 for part in parts)
    assert max(len(part.rows) for part in parts) > 20
    many = OpenBatches(Batch(records=1000), 2**30, clock)
    add(many, ["a", "b"] * 100_000)
    assert [len(part.rows) for part in many.complete()] == [1000] * 200
    assert many.rows == 0


@pytest.mark.more
def test_memory_is_bounded_however_many_paths_there_are() -> None:
    clock = Clock()
    memory = 3_000_000
    batches = OpenBatches(Batch(records=1000), memory, clock)
    given = 0

    for first in range(0, 30_000, 1000):
        add(batches, [f"p{number}" for number in range(first, first + 1000)], first, "x" * 100)
        given += sum(len(part.rows) for part in batches.complete())
        assert batches.rows * (8 + 100) <= memory / 2

    assert given + batches.rows == 30_000
    assert given > 10_000


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.4, 5.0]), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300)))),
        max_size=12,
    ),
    st.integers(1, 9),
    st.sampled_from([100, 600, 10_000]),
    st.sampled_from([1000, 2**20]),
)
def test_rows_of_any_size_at_any_time_come_once_and_in_order(
    steps: list[tuple[float, list[tuple[str, int]]]], records: int, size: int, memory: int
) -> None:
    clock = Clock()
    batches = OpenBatches(Batch(records=records, bytes=size, age=3), memory, clock)
    numbers = itertools.count()
    given: dict[str, list[int]] = {}
    got: dict[str, list[int]] = {}

    def take(parts: list[CompleteBatch]) -> None:
        for path, objects in ids(parts):
            assert 1 <= len(objects) <= records
            got.setdefault(path, []).extend(objects)

    for wait, rows in steps:
        clock.now += wait
        paths, widths = [path for path, _ in rows], [width for _, width in rows]
        objects = list(itertools.islice(numbers, len(rows)))
        for path, number in zip(paths, objects, strict=True):
            given.setdefault(path, []).append(number)
        table = pa.table(
            {"id": pa.array(objects, pa.int64()), "text": pa.array(["x" * n for n in widths], pa.string())}
        )
        batches.add(table, pa.array(paths, pa.string()).dictionary_encode())
        take(batches.complete())
    take(batches.close())

    assert (got, batches.rows) == (given, 0)
