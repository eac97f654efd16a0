"""A plan agrees with what an ingest then does, and writes nothing."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from lake_assets.cli import main
from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.dry_run import Plan, plan_stream
from lake_assets.ingest.options import IngestOptions
from lake_assets.lake.catalog.database import CatalogDatabase, Row
from lake_assets.lake.ledger.read import Pace
from lake_assets.parquet.read import read_footer
from lake_assets.storage.arrow import ArrowStore
from lake_assets_tests.world import NW, SW, World, plan, sales

EARLY = "region=NW,date=2026-02-01"


def test_a_plan_is_what_ingest_then_does_and_writes_nothing(local_world: World) -> None:
    local_world.land(NW, sales(1, 2))
    before = plan(local_world.stream, local_world.partition(NW))
    assert not local_world.data_files()
    assert (before.action, before.table_exists, before.rows_before) == ("replace the partition", False, 0)

    result = local_world.ingest(NW)

    assert before.rows_after == result.row.row_count
    assert result.manifest == before.manifest
    assert result.row.source_fingerprint == before.fingerprint
    assert result.row.files_written == before.files_written
    assert result.destination == before.destination
    after = plan(local_world.stream, local_world.partition(NW))
    assert after.action.startswith("skip")
    assert (after.rows_before, after.rows_after) == (2, None)


def test_a_plan_of_a_transform_does_not_say_how_many_rows_there_will_be(local_world: World) -> None:
    local_world.options = {"transform": {"sql": "select * from source"}}
    local_world.land(NW, sales(1, 2))

    assert plan(local_world.stream, local_world.partition(NW)).rows_after == "the stream has a transform"


def test_a_plan_clears_no_table_that_is_not_there(local_world: World) -> None:
    local_world.options["on_empty"] = "clear"
    local_world.landing  # noqa: B018 - makes the folder

    assert plan(local_world.stream, local_world.partition(NW)).action.startswith("skip")
    assert local_world.ingest(NW).row.status == "skipped"


def test_a_plan_estimates_the_files_for_all_cores(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.options = {"transform": {"sql": "select * from source"}}  # no footer is read
    for number in range(4):
        os.truncate(local_world.land(NW, b"no parquet", f"{number}.parquet"), 25 * 2**20)
    for cores, files in ((1, 1), (4, 4), (64, 12)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert plan(local_world.stream, local_world.partition(NW)).files_written == files


def planned(world: World, *texts: str) -> list[Plan]:
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
    assert (changed.rows_before, changed.rows_after) == (3, 4)
    assert (len(new.new), new.changed, new.vanished, new.rows_after) == (1, (), (), 1)
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
    assert "it has 'more'" in planned(local_world, SW)[0].decision.fails


UNFIT = {
    "new column": sales(1).append_column("extra", pa.array([1])),
    "missing column": sales(1).drop_columns(["total"]),
    "other type": pa.table({"id": ["a"], "total": [1.0]}),
    "wider": pa.table({"id": [2.5], "total": [1.0]}),
    "no Parquet": b"PAR1 damaged",
    "fits": sales(1),
}


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "index"},
        *(
            {"mode": mode, "schema_policy": policy, "on_bad_object": bad}
            for mode in ("replace", "append")
            for policy in ("strict", "evolve", "ignore_extra")
            for bad in ("fail", "quarantine")
        ),
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_a_plan_fails_where_the_run_does_and_with_its_words(
    options: dict[str, str], local_world: World, tmp_path: Path
) -> None:
    local_world.options = options
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    for number, (kind, rows) in enumerate(UNFIT.items()):
        text = f"region=NE,date=2026-02-{number + 1:02d}"
        local_world.land(text, sales(7), "1.parquet")
        local_world.land(text, rows, "2.parquet")
        command = ["--config", str(local_world.config_file(tmp_path)), "plan", "--partition", text]

        result = CliRunner().invoke(main, command)

        (made,) = planned(local_world, text)
        error = outcome_of(local_world, text)
        assert (result.exit_code, kind) == (0 if error is None else 1, kind), result.output + str(error)
        said = made.columns[0] if options["mode"] == "index" and made.columns else made.decision.fails
        assert error is None or said == str(error).rstrip(".")


@pytest.mark.parametrize(
    ("mode", "on_empty"),
    [("replace", "fail"), ("replace", "keep"), ("replace", "clear"), ("append", "fail"), ("append", "keep")],
)
@pytest.mark.parametrize("kind", [kind for kind in UNFIT if kind != "fits"])
def test_a_plan_of_objects_that_quarantine_leaves_out_is_what_the_run_does(
    local_world: World, kind: str, mode: str, on_empty: str
) -> None:
    local_world.options = {"mode": mode, "on_empty": on_empty, "on_bad_object": "quarantine", "schema_policy": "strict"}
    local_world.commit(NW, 1)
    local_world.land(SW, UNFIT[kind])  # alone
    local_world.land(EARLY, UNFIT[kind], "1.parquet")
    local_world.land(EARLY, sales(2, 3), "2.parquet")

    alone, beside = planned(local_world, SW, EARLY)

    assert beside.rows_after == local_world.ingest(EARLY).row.row_count == 2
    assert beside.files_written == 1
    if on_empty == "fail":
        assert alone.decision.fails == str(outcome_of(local_world, SW)).rstrip(".")
        return
    row = local_world.ingest(SW).row
    assert (alone.decision.action, row.status) == (on_empty, {"keep": "skipped", "clear": "committed"}[on_empty])


def test_a_plan_refuses_columns_of_an_object_without_rows_as_its_run_does(local_world: World) -> None:
    local_world.options = {"on_empty": "keep"}
    local_world.commit(NW, 1)
    local_world.land(SW, UNFIT["other type"].slice(0, 0))

    (made,) = planned(local_world, SW)

    assert made.decision.fails == str(outcome_of(local_world, SW)).rstrip(".")


def outcome_of(world: World, text: str) -> LakeAssetsError | None:
    try:
        world.ingest(text)
    except LakeAssetsError as error:
        return error
    return None


def test_each_footer_is_read_once_and_the_catalog_for_all_partitions_together(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The footers of unchanged partitions are not read."""
    local_world.options = {"schema_policy": "evolve"}
    days = [f"region=NW,date=2026-02-{number:02}" for number in (1, 2)]
    years = [f"region=NW,date={year}-02-01" for year in range(1990, 2026)]
    for text in (*days, *years):
        local_world.land(text, sales(1))
    local_world.ingest(days[0])
    footers: list[str] = []
    statements: list[str] = []
    rows = CatalogDatabase.rows

    def read(store: ArrowStore, key: str, *, as_it_is: bool = False) -> tuple[int, pa.Schema]:
        footers.append(key)
        return read_footer(store, key, as_it_is=as_it_is)

    def asked(self: CatalogDatabase, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        statements.append(sql)
        return rows(self, sql, parameters)

    monkeypatch.setattr("lake_assets.parquet.landed.read_footer", read)
    monkeypatch.setattr(CatalogDatabase, "rows", asked)
    counts = []
    for chosen in (days, years[:22], years):
        footers.clear()
        statements.clear()
        found = planned(local_world, *chosen)
        reads = [p.rows_after for p in found if not p.is_idle]
        assert reads == [1] * (len(chosen) - (chosen is days))
        assert len(footers) == len(set(footers)) == len(reads)
        counts.append(len(statements))

    assert counts[2] == counts[1]


def test_the_time_is_estimated_from_the_runs_of_the_stream(local_world: World) -> None:
    for text in (NW, SW, EARLY):
        local_world.land(text, sales(1))
    partitions = [local_world.partition(text) for text in (NW, SW, EARLY)]
    assert plan_stream(local_world.stream, partitions).seconds is None
    local_world.ingest(NW)
    list(ingest_all(local_world.stream, partitions[:2], local_world.sessions, IngestOptions(force=True)))

    plan = plan_stream(local_world.stream, partitions)

    assert plan.pace is not None
    assert plan.pace.runs == 2
    assert plan.seconds == pytest.approx(plan.pace.seconds(1, plan.work[0].reads.size))
    assert [str(p.partition) for p in plan.work] == ["region=NW/date=2026-02-01"]


def test_the_start_of_spark_counts_once_in_an_estimate(local_world: World) -> None:
    for text in (NW, SW, EARLY):
        local_world.land(text, sales(1))

    def starts_slowly() -> SparkSession:
        time.sleep(2)
        return local_world.sessions()

    first, *others = (local_world.partition(text) for text in (NW, SW, EARLY))
    (outcome,) = ingest_all(local_world.stream, [first], starts_slowly, IngestOptions())

    plan = plan_stream(local_world.stream, others)

    assert plan.pace is not None
    assert outcome.row.seconds is not None
    assert outcome.row.duration < sum(outcome.seconds.values())  # which has the commit too, and not the start
    assert plan.pace.each == outcome.row.seconds
    assert plan.pace.fixed + plan.pace.each >= 2
    assert plan.seconds == pytest.approx(plan.pace.fixed + 2 * plan.pace.each)


def test_partitions_that_are_larger_than_the_usual_ones_take_longer() -> None:
    pace = Pace(runs=3, fixed=4.0, each=0.5, size=1_000.0)

    assert pace.seconds(10, 10_000) == pace.seconds(10, 1_000) == 9.0
    assert pace.seconds(10, 20_000) == 14.0
