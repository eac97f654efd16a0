"""A plan agrees with what an ingest then does, and writes nothing."""

import os
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import LakeAssetsError
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.ingest.plan import PartitionPlan
from lake_assets.lake.catalog.catalog_database import CatalogDatabase, Row
from lake_assets.lake.ledger.read import Pace
from lake_assets.storage.formats.parquet_files import read_footer
from lake_assets.storage.store import Store
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLY = "region=NW,date=2026-02-01"


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ({}, "encode"),
        ({"copy": "always"}, "copy"),
        ({"mode": "index"}, "register"),
        pytest.param({"transform": {"sql": "select * from source"}}, "transform", marks=pytest.mark.more),
    ],
)
def test_a_plan_is_what_ingest_then_does_and_writes_nothing(
    local_world: World, options: dict[str, object], job: str
) -> None:
    local_world.options = options
    local_world.land(NW, sales(1, 2), compression="zstd")
    (before,) = planned(local_world, NW)
    assert not local_world.data_files()
    assert (before.table_exists, before.rows_before, before.job, before.strategy) == (False, 0, job, "direct")
    assert (before.action == "replace the partition") == (job != "register")

    result = local_world.ingest(NW)

    assert before.rows_after == ("the stream has a transform" if job == "transform" else result.row.row_count)
    assert result.manifest == before.landed
    if job != "register":
        assert result.row.source_fingerprint == before.fingerprint
        assert result.row.files_written == before.files_written
        assert result.destination == before.destination
    assert (result.row.files_copied == 1) == (job == "copy")
    (after,) = planned(local_world, NW)
    assert after.action.startswith("skip")
    assert (after.rows_before, after.rows_after) == (2, None)


def test_a_plan_estimates_the_files_for_all_cores(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.options = {"transform": {"sql": "select * from source"}}  # no footer is read
    for number in range(4):
        os.truncate(local_world.land(NW, b"no parquet", f"{number}.parquet"), 25 * 2**20)
    for cores, files in ((1, 1), (4, 4), (64, 12)):
        monkeypatch.setattr("lake_assets.ingest.dry_run.usable_cores", lambda cores=cores: cores)
        assert plan(local_world.stream, local_world.partition(NW)).files_written == files


def planned(world: World, *texts: str) -> list[PartitionPlan]:
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


def test_columns_that_would_be_added_are_those_that_the_ingest_adds(local_world: World) -> None:
    local_world.options = {"schema_policy": "evolve"}
    local_world.commit(NW, 1)
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
    "other kind": pa.table({"id": [True], "total": [1.0]}),
    "no Parquet": b"PAR1 damaged",
    "fits": sales(1),
}


POLICIES = [
    {"mode": "replace", "schema_policy": "strict", "on_bad_object": "fail"},
    {"mode": "replace", "schema_policy": "ignore_extra", "on_bad_object": "fail"},
    {"mode": "replace", "schema_policy": "evolve", "on_bad_object": "quarantine"},
    {"mode": "append", "schema_policy": "evolve", "on_bad_object": "fail"},
    {"mode": "append", "schema_policy": "ignore_extra", "on_bad_object": "quarantine"},
    {"mode": "index"},
]


@pytest.mark.parametrize("options", [POLICIES[0], *more(POLICIES[1:])], ids=lambda options: "-".join(options.values()))
def test_a_plan_fails_where_the_run_does_and_with_its_words(options: dict[str, str], local_world: World) -> None:
    local_world.options = options
    local_world.commit(NW, 1)
    for number, (kind, rows) in enumerate(UNFIT.items()):
        text = f"region=NE,date=2026-02-{number + 1:02d}"
        local_world.land(text, sales(7), "1.parquet")
        local_world.land(text, rows, "2.parquet")

        (made,) = planned(local_world, text)
        error = outcome_of(local_world, text)

        assert bool(made.decision.fails) == (error is not None), (kind, error)
        said = made.columns[0] if options["mode"] == "index" and made.columns else made.decision.fails
        assert error is None or said == str(error).rstrip("."), kind


@pytest.mark.parametrize("policy", ["strict", "evolve", *more(["ignore_extra"])])
def test_a_plan_without_a_table_fails_where_the_run_does_and_with_its_words(policy: str, local_world: World) -> None:
    local_world.options = {"schema_policy": policy}
    columns = {"other type": {"id": pa.list_(pa.int64())}, "no Parquet": {}, "declared": {"total": pa.string()}}
    if policy == "strict":
        columns |= {"new column": {"extra": pa.int8()}, "missing column": {"id": None}}
    for kind, others in columns.items():
        schema = {name: of for name, of in ({"id": pa.int64(), "total": pa.float64()} | others).items() if of}
        local_world.land(NW, sales(7), "1.parquet")
        rows = pa.Table.from_pylist([{}], pa.schema(schema))
        local_world.land(NW, rows if kind != "no Parquet" else b"PAR1 damaged", "2.parquet")
        local_world.options["columns"] = {"total": {"type": "double"}} if kind == "declared" else {}

        (made,) = planned(local_world, NW)
        error = outcome_of(local_world, NW)

        assert error is not None, kind
        assert made.decision.fails == str(error).rstrip("."), kind


@pytest.mark.more
@pytest.mark.parametrize(
    ("mode", "on_empty"), [("replace", "clear"), ("append", "fail"), ("replace", "keep"), ("append", "keep")]
)
def test_a_plan_of_objects_that_quarantine_leaves_out_is_what_the_run_does(
    local_world: World, mode: str, on_empty: str
) -> None:
    local_world.options = {"mode": mode, "on_empty": on_empty, "on_bad_object": "quarantine", "schema_policy": "strict"}
    local_world.commit(NW, 1)
    for number, kind in enumerate(kind for kind in UNFIT if kind != "fits"):
        texts = [f"region={region},date=2026-02-{number + 1:02d}" for region in ("alone", "beside")]
        for text in texts:
            local_world.land(text, UNFIT[kind], "1.parquet")
        local_world.land(texts[1], sales(2, 3), "2.parquet")

        alone, beside = planned(local_world, *texts)

        assert beside.rows_after == local_world.ingest(texts[1]).row.row_count == 2, kind
        assert beside.files_written == 1
        if on_empty == "fail":
            assert alone.decision.fails == str(outcome_of(local_world, texts[0])).rstrip(".")
            continue
        row = local_world.ingest(texts[0]).row
        assert (alone.decision.action, row.status) == (on_empty, {"keep": "skipped", "clear": "committed"}[on_empty])


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
    days = [NW, EARLY]
    years = [f"region=NW,date={year}-02-01" for year in range(1990, 2026)]
    for text in (*days, *years):
        local_world.land(text, sales(1))
    local_world.ingest(days[0])
    footers: list[str] = []
    statements: list[str] = []
    rows = CatalogDatabase.rows

    def read(store: Store, key: str, **options: Any) -> tuple[int, pa.Schema]:
        footers.append(key)
        return read_footer(store, key, **options)

    def asked(self: CatalogDatabase, sql: str, *parameters: Any) -> list[Row]:
        statements.append(sql)
        return rows(self, sql, *parameters)

    monkeypatch.setattr("lake_assets.storage.formats.any_format.read_footer", read)
    monkeypatch.setattr(CatalogDatabase, "rows", asked)
    counts = []
    for chosen in (days, years[:22], years):
        footers.clear()
        statements.clear()
        reads = [p.rows_after for p in planned(local_world, *chosen) if not p.is_idle]
        assert reads == [1] * (len(chosen) - (chosen is days))
        assert len(footers) == len(set(footers)) == len(reads)
        counts.append(len(statements))

    assert counts[2] == counts[1]


def test_the_time_is_estimated_from_the_runs_of_the_stream_with_one_start_of_spark(local_world: World) -> None:
    for text in (NW, SW, EARLY):
        local_world.land(text, sales(1))
    first, *others = partitions = [local_world.partition(text) for text in (NW, SW, EARLY)]
    assert plan_stream(local_world.stream, partitions).seconds is None

    def starts_slowly() -> "SparkSession":
        time.sleep(0.1)
        return local_world.sessions()

    (outcome,) = ingest_all(local_world.stream, [first], starts_slowly, IngestOptions())

    plan = plan_stream(local_world.stream, partitions)

    assert plan.pace is not None
    assert plan.pace.runs == 1
    assert [p.partition for p in plan.work] == others
    assert outcome.row.seconds is not None
    assert outcome.row.duration < sum(outcome.seconds.values())  # which has the commit too, and not the start
    assert 0 < plan.pace.per_partition <= outcome.row.seconds
    assert plan.pace.fixed + plan.pace.per_partition >= 0.1
    assert plan.seconds == pytest.approx(plan.pace.fixed + 2 * plan.pace.per_partition)


def test_partitions_that_are_larger_than_the_usual_ones_take_longer() -> None:
    pace = Pace(runs=3, fixed=4.0, per_partition=0.5, size=1_000.0)

    assert pace.seconds(10, 10_000) == pace.seconds(10, 1_000) == 9.0
    assert pace.seconds(10, 20_000) == 14.0
