"""What differs between a partition's rows in two snapshots."""

import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogError, PartitionError
from lake_assets.upkeep.history.diff import ChangedColumn, Difference, DiffOptions, diff
from lake_assets_tests.upkeep.history.test_restore import ingested
from lake_assets_tests.world import NW, SW, World, sales


def of(world: World, first: int, second: int | None = None, *keys: str, text: str = NW) -> Difference:
    return diff(world.stream, world.partition(text), DiffOptions(first, second, keys))


def test_rows_without_keys_are_inserted_and_deleted(world: World) -> None:
    first = ingested(world, 1, 2, 2, 3)
    ingested(world, 9, text=SW)
    second = ingested(world, 1, 2, 5)

    found = of(world, first, second)

    assert (found.rows_before, found.rows, found.inserted, found.deleted, found.updated) == (4, 3, 1, 2, None)
    assert found.columns == [ChangedColumn("id", None), ChangedColumn("total", None)]
    assert [(row.kind, row.values["total"]) for row in found.sample] == [
        ("delete", "2.0"),
        ("delete", "3.0"),
        ("insert", "5.0"),
    ]


def test_with_keys_rows_are_updated(local_world: World) -> None:
    first = ingested(local_world, 1, 2, 3)
    local_world.land(NW, pa.table({"id": [1, 2, 7], "total": [2.0, 30.0, None]}))
    local_world.ingest(NW)

    found = of(local_world, first, None, "ID")

    assert (found.inserted, found.deleted, found.updated) == (1, 1, 1)
    assert found.columns == [ChangedColumn("total", 1)]
    assert [(row.kind, dict(row.values), row.before) for row in found.sample] == [
        ("delete", {"id": "0", "total": "1.0"}, None),
        ("insert", {"id": "7", "total": None}, None),
        ("update", {"id": "2", "total": "30.0"}, {"total": "3.0"}),
    ]


@pytest.mark.more
def test_the_same_rows_are_equal_also_with_null_and_nan(either_lake: World) -> None:
    rows = pa.table({"id": [1, None], "total": [float("nan"), None]})
    either_lake.land(NW, rows)
    first = either_lake.ingest(NW).row.snapshot_id
    either_lake.land(NW, rows.take([1, 0]))
    either_lake.ingest(NW)

    assert first is not None
    assert of(either_lake, first).is_equal
    assert of(either_lake, first, None, "id").is_equal


def test_columns_of_the_table_that_differ_are_named(local_world: World) -> None:
    local_world.options = {"schema_policy": "evolve"}
    first = ingested(local_world, 1)
    local_world.land(NW, sales(1).append_column("note", pa.array(["new"])))
    local_world.ingest(NW)

    found = of(local_world, first)
    assert (list(found.table), found.inserted, found.deleted, found.is_equal) == (
        ["column note was added"],
        0,
        0,
        False,
    )


def test_errors_name_key_snapshot_and_partition(local_world: World) -> None:
    first = ingested(local_world, 1, 1)
    with pytest.raises(CatalogError, match=r"several rows of region=NW.* in snapshot \d+ have total = 1\.0: name more"):
        of(local_world, first, None, "total")
    with pytest.raises(
        CatalogError, match=r"key nope is not a column of main\.sales in snapshots .* name one or more of id, tot"
    ):
        of(local_world, first, None, "nope")
    with pytest.raises(CatalogError, match="there is no snapshot 99"):
        of(local_world, first, 99)
    with pytest.raises(PartitionError, match="has no rows in snapshots"):
        of(local_world, first, text=SW)
