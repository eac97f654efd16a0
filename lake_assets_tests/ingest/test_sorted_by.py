"""Another client has given the table an order of its rows, by `SET SORTED BY`: the rows of each new file have it."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.spark.task import write
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World

IDS = [3, 1, 5, 2, 4]
TOTALS = [1.0, None, 2.0, 1.0, None]


def sorted_by(world: World, order: str) -> None:
    """A table with a partition, and another client's order."""
    land(world, [0], text=SW)
    world.ingest(SW)
    world.execute(f"ALTER TABLE lake.sales SET SORTED BY ({order})")


def land(world: World, ids: list[int], name: str = "a", text: str = NW) -> None:
    totals = [dict(zip(IDS, TOTALS, strict=True)).get(number) for number in ids]
    rows = pa.table({"id": ids, "total": pa.array(totals, pa.float64()), "Kind": [f"k{number}" for number in ids]})
    world.land(text, rows, f"{name}.parquet")


def ids(world: World) -> list[list[int]]:
    """The ids in the files of NW, each in the order of its rows."""
    return [pq.read_table(file, columns=["id"])["id"].to_pylist() for file in world.live_files() if "NW" in file]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("total DESC NULLS LAST, region, ID DESC", [5, 3, 2, 4, 1]),
        *more(
            [
                ("kind", [1, 2, 3, 4, 5]),
                ("total NULLS FIRST, id", [1, 4, 2, 3, 5]),
                ("id DESC, lower(region)", [5, 4, 3, 2, 1]),
                ("abs(id)", IDS),  # an expression is no column
            ]
        ),
    ],
    ids=["several", "texts", "nulls-first", "then-an-expression", "expression"],
)
@pytest.mark.parametrize(
    "options",
    [{}, *more([{"mode": "append"}, {"copy": "always", "schema_policy": "evolve"}])],
    ids=lambda o: str(len(o)),
)
def test_a_run_sorts_the_rows_of_each_file(
    local_world: World, order: str, expected: list[int], options: dict[str, Any]
) -> None:
    local_world.options = options
    sorted_by(local_world, order)
    land(local_world, IDS)

    local_world.ingest(NW)

    copied = options.get("copy") == "always"
    assert ids(local_world) == [IDS if copied else expected]
    assert local_world.query("SELECT id, total FROM lake.sales WHERE id > 0 ORDER BY id") == sorted(
        zip(IDS, TOTALS, strict=True)
    )


def test_an_object_that_would_be_copied_is_encoded_for_the_order(local_world: World) -> None:
    local_world.options = {"target_file_size": "1MiB"}
    sorted_by(local_world, "id")
    land(local_world, list(range(200_000, 0, -1)))

    row = local_world.ingest(NW).row

    assert not row.files_copied
    (found,) = ids(local_world)
    assert found == sorted(found)


def test_more_rows_than_are_sorted_at_once_are_sorted_in_runs(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "RUN_BYTES", 1)
    sorted_by(local_world, "id")
    land(local_world, [2, 1], "a")
    land(local_world, [5, 3, 4], "b")
    land(local_world, [0], "c")

    local_world.ingest(NW)

    assert ids(local_world) == [[1, 2, 3, 4, 5, 0]]


def test_compaction_sorts_the_rows_of_a_partition(local_world: World) -> None:
    land(local_world, [0], text=SW)
    local_world.ingest(SW)
    local_world.options = {"mode": "append"}
    for number in (3, 1, 2):
        land(local_world, [number], str(number))
        local_world.ingest(NW)
    local_world.execute("ALTER TABLE lake.sales SET SORTED BY (id DESC)")

    (done,) = compact(local_world.stream, 3, local_world.sessions)

    assert done.why is None
    assert ids(local_world) == [[3, 2, 1]]


def test_the_order_ends_when_the_client_takes_it_back(local_world: World) -> None:
    sorted_by(local_world, "id")
    local_world.execute("ALTER TABLE lake.sales RESET SORTED BY")
    land(local_world, IDS)

    local_world.ingest(NW)

    assert ids(local_world) == [IDS]
