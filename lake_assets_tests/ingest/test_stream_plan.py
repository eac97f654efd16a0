"""The plan of several partitions agrees with what an ingest then does."""

import pyarrow as pa
import pytest

from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.stream_plan import PlannedPartition, plan_stream
from lake_assets.lake.ledger.pace import Pace
from lake_assets_tests.world import NW, SW, World, sales

EARLY = "region=NW,date=2026-02-01"


def planned(world: World, *texts: str) -> list[PlannedPartition]:
    return list(plan_stream(world.stream, [world.partition(text) for text in texts]).partitions)


def test_new_changed_and_vanished_objects_are_told_apart(local_world: World) -> None:
    for name in ("a", "b", "c"):
        local_world.land(NW, sales(1), f"{name}.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(2, 3), "b.parquet")
    local_world.land(NW, sales(4), "d.parquet")
    local_world.unland(NW, "c.parquet")
    local_world.land(SW, sales(5))

    changed, new = planned(local_world, NW, SW)

    assert [obj.key.rpartition("/")[2] for obj in changed.new] == ["d.parquet"]
    assert [obj.key.rpartition("/")[2] for obj in changed.changed] == ["b.parquet"]
    assert [uri.rpartition("/")[2] for uri in changed.vanished] == ["c.parquet"]
    assert (changed.plan.rows_before, changed.plan.rows_after) == (3, 4)
    assert (len(new.new), new.changed, new.vanished, new.plan.rows_after) == (1, (), (), 1)
    local_world.ingest(NW)
    assert [(p.new, p.changed, p.vanished, p.is_idle) for p in planned(local_world, NW)] == [((), (), (), True)]


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ({}, "encode"),
        ({"copy": "always"}, "copy"),
        ({"transform": {"sql": "select * from source"}}, "transform"),
        ({"mode": "index"}, "register"),
    ],
)
def test_the_job_and_the_strategy_are_those_of_the_ingest(
    local_world: World, options: dict[str, object], job: str
) -> None:
    local_world.options = options
    local_world.land(NW, sales(1), compression="zstd")

    (before,) = planned(local_world, NW)
    result = local_world.ingest(NW)

    assert (before.job, before.strategy) == (job, "direct")
    assert (result.row.files_copied == 1) == (job == "copy")


def test_rows_that_others_deleted_make_the_extension_commit(local_world: World) -> None:
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    with local_world.stream.lake.open() as lake:
        lake.rows(f"DELETE FROM {local_world.stream.table.sql} WHERE total = 1")
    local_world.land(NW, sales(3))
    local_world.land(SW, sales(4))

    assert [p.strategy for p in planned(local_world, NW, SW)] == ["extension", "direct"]


def test_columns_that_would_be_added_are_those_that_the_ingest_adds(local_world: World) -> None:
    local_world.options = {"schema_policy": "evolve"}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    local_world.land(SW, sales(1).append_column("tip", pa.array([0.5])))

    (before,) = planned(local_world, SW)
    result = local_world.ingest(SW)

    assert before.columns == tuple(map(str, result.changes)) == ("added column tip DOUBLE",)
    local_world.options = {"schema_policy": "strict"}
    local_world.land(SW, sales(1).append_column("more", pa.array([0.5])))
    assert "added column more DOUBLE, which schema_policy: strict refuses" in planned(local_world, SW)[0].columns


def test_the_time_is_estimated_from_the_runs_of_the_stream(local_world: World) -> None:
    for text in (NW, SW, EARLY):
        local_world.land(text, sales(1))
    partitions = [local_world.partition(text) for text in (NW, SW, EARLY)]
    assert plan_stream(local_world.stream, partitions).seconds is None
    local_world.ingest(NW)
    list(ingest_all(local_world.stream, partitions[:2], local_world.sessions, force=True))

    plan = plan_stream(local_world.stream, partitions)

    assert plan.pace is not None
    assert plan.pace.runs == 2
    assert plan.seconds == pytest.approx(plan.pace.seconds(1, plan.work[0].plan.reads.size))
    assert [str(p.partition) for p in plan.work] == ["region=NW/date=2026-02-01"]


def test_partitions_that_are_larger_than_the_usual_ones_take_longer() -> None:
    pace = Pace(runs=3, fixed=4.0, each=0.5, size=1_000.0)

    assert pace.seconds(10, 10_000) == pace.seconds(10, 1_000) == 9.0
    assert pace.seconds(10, 20_000) == 14.0
