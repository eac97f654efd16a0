"""Row groups that cannot have a partition's rows are not read; the values of all, in few boxes that hold the same."""

import datetime as dt
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import SourceError
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionType
from lake_assets.config.storages import LocalStorage
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.partition_values import Box, ValueSpan, merged_boxes
from lake_assets.spark.task.job import Job
from lake_assets.spark.task.share_reader import ShareReader
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.manifest import LandedObject
from lake_assets_tests.ingest.landed_as import in_signed_order

ONE = (ValueSpan("a", "a", False), ValueSpan(1, 1, False))
OTHER = (ValueSpan("b", "b", False), ValueSpan(2, 2, False))


@pytest.mark.parametrize(
    ("boxes", "fewer"),
    [
        (
            [(ValueSpan(1, 3, False),), (ValueSpan(3, 5, False),), (ValueSpan(8, 9, False),)],
            {(ValueSpan(1, 5, False),), (ValueSpan(8, 9, False),)},
        ),
        ([(ValueSpan(1, 9, False),), (ValueSpan(2, 3, True),)], {(ValueSpan(1, 9, True),)}),
        ([(ValueSpan(1, 2, False),), (ValueSpan(None, None, False),)], {(ValueSpan(None, None, False),)}),
        (
            [
                (ValueSpan("a", "a", False), ValueSpan(1, 2, False)),
                (ValueSpan("a", "a", False), ValueSpan(2, 3, False)),
            ],
            {(ValueSpan("a", "a", False), ValueSpan(1, 3, False))},
        ),
        ([ONE, OTHER], {ONE, OTHER}),
        ([(ValueSpan(day, day, False),) for day in range(9)], {(ValueSpan(0, 8, False),)}),
        ([], set()),
    ],
    ids=["overlap", "within", "unknown", "same others", "other others", "many", "none"],
)
def test_boxes_are_merged(boxes: list[Box], fewer: set[Box]) -> None:
    assert set(merged_boxes(boxes, 4)) == fewer


@pytest.mark.parametrize("most", [1, 3, 100])
def test_no_value_is_lost(most: int) -> None:
    random = Random(5)
    values = [None, *range(12)]

    def span() -> ValueSpan:
        least, greatest = sorted(random.choices(range(12), k=2))
        has_null = random.random() < 0.2
        return ValueSpan(least, greatest, has_null) if random.random() < 0.8 else ValueSpan(has_null=has_null)

    for _ in range(200):
        boxes = [(span(), span()) for _ in range(random.randrange(6))]
        fewer = merged_boxes(boxes, most)
        assert len(fewer) <= most
        for value in product(values, values):
            is_held, is_kept = (
                any(all(map(ValueSpan.may_hold, box, value)) for box in some) for some in (boxes, fewer)
            )
            assert is_kept or not is_held
            if most == 100 and None not in value:
                assert is_kept == is_held


LANDED_AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAYS = [18000, 18001, 18002]  # 2019-04-14 and on


def rows_of(folder: Path, kind: PartitionType, text: str, column: str = "key") -> list[int]:
    """The numbers of a partition's rows in the object."""
    storage = LocalStorage(path=str(folder))
    partition = Partition.of([PartitionColumn(column, kind, in_rows=True)], {column: text})
    share = Share(LandedObject("", "a.parquet", "", 2**30, LANDED_AT))  # so large that it is not fetched whole
    schema = pa.schema([("n", pa.int64())])
    job = Job("run", LandingZone(storage, rules=Rules(selects=True)), storage, schema, "none", 1, ())
    return [n for batch in ShareReader(job, schema).read([share], partition) for n in batch.column("n").to_pylist()]


@pytest.mark.parametrize(
    ("kind", "values", "inside", "damaged"),
    [
        ("integer", pa.array([1, 2, 3], pa.int32()), "1", "2"),
        ("string", pa.array(["a", "b", "c"]), "a", "b"),
        ("date", pa.array(DAYS, pa.int32()).cast(pa.date32()), "2019-04-14", "2019-04-15"),
        ("string", pa.array([None, "b", "c"]), "__HIVE_DEFAULT_PARTITION__", "b"),
    ],
    ids=str,
)
def test_a_row_group_without_the_value_is_not_read(
    tmp_path: Path, kind: PartitionType, values: Any, inside: str, damaged: str
) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": values, "n": [0, 1, 2]}), file, row_group_size=1)
    assert rows_of(tmp_path, kind, damaged) == [1]
    group = pq.read_metadata(file).row_group(1)
    body = bytearray(file.read_bytes())
    start = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
    length = sum(group.column(index).total_compressed_size for index in range(2))
    body[start : start + length] = b"\xff" * length
    file.write_bytes(body)

    assert rows_of(tmp_path, kind, inside) == [0]
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        rows_of(tmp_path, kind, damaged)


def test_statistics_that_do_not_compare_say_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["10", "9"], "n": [0, 1]}), tmp_path / "a.parquet")
    assert (rows_of(tmp_path, "integer", "9"), rows_of(tmp_path, "integer", "11")) == ([1], [])
    (tmp_path / "a.parquet").write_bytes(in_signed_order(1, 2**31 + 1, 7))
    assert rows_of(tmp_path, "integer", "7", column="u") == [2]
    days = pa.array([-1_000_000, DAYS[0]], pa.int32()).cast(pa.date32())  # before Python's first
    pq.write_table(pa.table({"key": days, "n": [0, 1]}), tmp_path / "a.parquet")
    assert rows_of(tmp_path, "date", "2019-04-14") == [1]
