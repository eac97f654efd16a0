"""Assets downstream of a stream get the rows of their run's partitions, through Dagster's partition mappings."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from lake_assets import LakeIOManager, LakeResource, build_definitions, open_stream, partitions_def
from lake_assets.base.errors import ConfigError
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets_tests.orchestration.in_process import REGIONS
from lake_assets_tests.template_lakes import create_by_copy
from lake_assets_tests.tiers import more
from lake_assets_tests.world import World, sales

DAYS = dg.DailyPartitionsDefinition("2026-02-11", end_date="2026-02-14")
Run = Callable[..., list[float]]


@pytest.fixture
def world(local_world: World) -> World:
    """Two regions on two days, each with a total of its own."""
    local_world.options = REGIONS
    texts = [f"region={region},date=2026-02-{day}" for day in (11, 12) for region in ("NW", "SW")]
    for total, text in enumerate(texts, 1):
        local_world.land(text, sales(total))
    create_by_copy(local_world.config.lakes["test"])
    partitions = [local_world.partition(text) for text in texts]
    assert not [o.error for o in ingest_all(local_world.stream, partitions, local_world.sessions) if o.error]
    return local_world


@pytest.fixture
def lake(world: World, tmp_path: Path) -> LakeResource:
    return LakeResource(config=str(world.config_file(tmp_path)))


@pytest.fixture
def run(world: World, instance: dg.DagsterInstance) -> Run:
    """Materializes an asset beside the definitions of the world's config, and returns the totals that it read."""

    def materialize(asset: dg.AssetsDefinition, key: str | None = None, **resources: Any) -> list[float]:
        own = dg.Definitions(assets=[asset], resources=resources)
        definitions = dg.Definitions.merge(build_definitions(world.config), own)
        done = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, partition_key=key, asset_selection=[asset.key]
        )
        (event,) = instance.fetch_materializations(asset.key, limit=1).records
        assert done.success
        assert event.asset_materialization is not None
        totals = event.asset_materialization.metadata["totals"].value
        assert isinstance(totals, list)
        return sorted(totals)

    return materialize


def totals(rows: Any) -> dg.MaterializeResult[None]:
    """The totals of rows of any class."""
    match rows:
        case pl.LazyFrame():
            found = rows.collect()["total"].to_list()
        case pl.DataFrame() | pd.DataFrame():
            found = list(rows["total"])
        case DataFrame():
            found = [total for (total,) in rows.select("total").collect()]
        case duckdb.DuckDBPyRelation():
            found = [total for (total,) in rows.project("total").fetchall()]
        case _:
            found = pa.table(rows if isinstance(rows, pa.Table) else rows.read_all())["total"].to_pylist()
    return dg.MaterializeResult(metadata={"totals": found})


def reading(kind: Any, **options: Any) -> dg.AssetsDefinition:
    """An asset whose parameter `sales` has this annotation."""

    def revenue(sales):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - set below
        if kind is not None:
            assert isinstance(sales, kind)
        return totals(sales)

    revenue.__annotations__ = {"return": dg.MaterializeResult} | ({} if kind is None else {"sales": kind})
    asset: dg.AssetsDefinition = dg.asset(**options)(revenue)
    return asset


@pytest.mark.parametrize(
    "kind",
    [
        pa.Table,
        DataFrame,
        *more([None, pl.DataFrame, pd.DataFrame, duckdb.DuckDBPyRelation, pa.RecordBatchReader, pl.LazyFrame]),
    ],
)
def test_a_parameter_gets_the_runs_partition_as_its_annotation_says(world: World, run: Run, kind: Any) -> None:
    asset = reading(kind, partitions_def=partitions_def(world.stream))

    assert run(asset, "2026-02-11|SW") == [2]


@pytest.mark.parametrize(
    ("definition", "key", "expected"),
    [(DAYS, "2026-02-12", [3, 4]), *more([(DAYS, "2026-02-13", []), (None, None, [1, 2, 3, 4])])],
    ids=["a day of all regions", "a day without rows", "the whole table"],
)
def test_a_parameter_follows_the_partition_mapping(
    run: Run, definition: Any, key: str | None, expected: list[float]
) -> None:
    assert run(reading(pa.Table, partitions_def=definition), key) == expected


def test_a_mapping_of_ones_own_and_columns_are_followed(run: Run) -> None:
    mapping = dg.MultiToSingleDimensionPartitionMapping("region")
    days = dg.AssetIn(partition_mapping=mapping, metadata={"columns": ["total"]})

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["NW", "SW"]), ins={"sales": days})
    def of_region(sales: pa.Table) -> dg.MaterializeResult[None]:
        assert sales.column_names == ["total"]
        return totals(sales)

    assert run(of_region, "SW") == [2, 4]


@pytest.mark.parametrize("kind", [pa.Table, *more([DataFrame, pl.DataFrame, duckdb.DuckDBPyRelation])])
def test_the_resource_reads_the_runs_partitions(world: World, run: Run, lake: LakeResource, kind: Any) -> None:
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
    mapping = dg.MultiPartitionMapping({"date": dg.DimensionPartitionMapping("date", before)})

    deps = [dg.AssetDep("sales", partition_mapping=mapping)]

    @dg.asset(partitions_def=partitions_def(world.stream), deps=deps)
    def the_day_before(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
        return totals(lake.read(context, into=kind, columns=["total"]))

    assert run(the_day_before, "2026-02-12|SW", lake=lake) == [1, 2]


def test_the_steps_of_a_run_read_one_snapshot_and_what_the_run_itself_has_committed(
    world: World, instance: dg.DagsterInstance
) -> None:
    text = "region=NW,date=2026-02-11"

    @dg.asset(partitions_def=partitions_def(world.stream))
    def early(sales: DataFrame) -> dg.MaterializeResult[None]:
        world.commit(text, 10, name="batch_2.parquet")  # another run's
        return totals(sales)

    @dg.asset(partitions_def=partitions_def(world.stream), deps=[early])
    def late(sales: DataFrame) -> dg.MaterializeResult[None]:
        return totals(sales)

    own = dg.Definitions(assets=[early, late])
    job = dg.Definitions.merge(build_definitions(world.config), own).resolve_implicit_global_asset_job_def()

    def read_by(*assets: str) -> dict[str, Any]:
        done = job.execute_in_process(
            instance=instance, partition_key="2026-02-11|NW", asset_selection=[dg.AssetKey(name) for name in assets]
        )
        found = {name: done.asset_materializations_for_node(name)[-1] for name in ("early", "late")}
        return {name: event.metadata["totals"].value for name, event in found.items()}

    assert read_by("early", "late") == {"early": [1], "late": [1]}
    world.land(text, sales(20), "batch_2.parquet")
    assert {tuple(sorted(of)) for of in read_by("sales", "early", "late").values()} == {(1, 20)}


def test_the_resource_gives_a_connection(run: Run, lake: LakeResource) -> None:
    @dg.asset
    def sums(lake: LakeResource) -> dg.MaterializeResult[None]:
        with lake.connection() as connection:
            (row,) = connection.execute("SELECT sum(total) FROM sales").fetchall()
            with pytest.raises(duckdb.Error, match="read-only"):
                connection.execute("DELETE FROM sales")
        with pytest.raises(duckdb.Error, match="closed"):
            connection.execute("SELECT 1")
        return dg.MaterializeResult(metadata={"totals": list(row)})

    assert run(sums, lake=lake) == [10]


def test_another_code_location_reads_by_key_and_partitions(lake: LakeResource) -> None:
    """It has the stream's asset as a spec alone, here under the key that a translator gives it."""
    assert lake.config is not None
    key = dg.AssetKey(["team", "sales"])
    stream = open_stream(lake.config)

    @dg.asset(partitions_def=DAYS, ins={"rows": dg.AssetIn(key, input_manager_key="lake_io")})
    def of_day(context: dg.AssetExecutionContext, rows: pl.DataFrame, lake: LakeResource) -> dg.MaterializeResult[None]:
        assert lake.read(context, into=pl.DataFrame).equals(rows)
        return totals(rows)

    keys = {"sales": "team/sales"}
    done = dg.materialize(
        [of_day, dg.AssetSpec(key, partitions_def=partitions_def(stream))],
        selection=[of_day],
        partition_key="2026-02-11",
        resources={
            "lake_io": LakeIOManager(config=lake.config, asset_keys=keys),
            "lake": LakeResource(config=lake.config, asset_keys=keys),
        },
    )

    (event,) = done.get_asset_materialization_events()
    assert event.step_materialization_data.materialization.metadata["totals"].value == [1, 2]


@pytest.mark.more
def test_what_cannot_be_read_is_an_error_that_says_what_to_change(run: Run, lake: LakeResource) -> None:
    io = LakeIOManager(config=lake.config)

    @dg.asset(deps=["other"])
    def elsewhere(context: dg.AssetExecutionContext, lake: LakeResource) -> None:
        lake.read(context)

    @dg.asset(deps=["sales"])
    def unknown(context: dg.AssetExecutionContext, lake: LakeResource) -> None:
        lake.read(context, "sale")

    @dg.asset(ins={"sales": dg.AssetIn(metadata={"columns": ["price"]})})
    def column(sales: pa.Table) -> None: ...

    @dg.asset(ins={"rows": dg.AssetIn("sales_landing", input_manager_key="lake_io")})
    def key(rows: pa.Table) -> None: ...

    @dg.asset(io_manager_key="lake_io")
    def value() -> int:
        return 1

    for asset, message in {
        elsewhere: r'elsewhere depends on no asset of a stream: add it, as in deps=\["sales"\]',
        unknown: "there is no stream 'sale': did you mean sales?",
        reading(dict): "rows of sales cannot be read as dict: use one of pyarrow.Table, pandas.DataFrame",
        column: "price",
        key: "the config has no stream with the asset sales_landing: its assets are sales",
        value: "the asset value returned a value, and this IO manager only reads streams",
    }.items():
        with pytest.raises(Exception, match=message):
            run(asset, lake=lake, lake_io=io)


def test_an_asset_without_partitions_in_dagster_is_an_error_with_the_spec_to_add(lake: LakeResource) -> None:
    io = LakeIOManager(config=lake.config)

    @dg.asset(ins={"sales": dg.AssetIn(input_manager_key="lake_io")}, partitions_def=DAYS)
    def by_parameter(sales: pa.Table) -> None: ...

    @dg.asset(deps=["sales"], partitions_def=DAYS)
    def by_resource(context: dg.AssetExecutionContext, lake: LakeResource) -> None:
        lake.read(context)

    message = r'add dg\.AssetSpec\("sales", partitions_def=partitions_def\(open_stream'
    for asset in (by_parameter, by_resource):
        definitions = dg.Definitions([asset, dg.AssetSpec("sales")], resources={"lake": lake, "lake_io": io})
        job = definitions.resolve_implicit_global_asset_job_def()
        with pytest.raises(ConfigError, match=message):
            job.execute_in_process(partition_key="2026-02-11", asset_selection=[asset.key])


@pytest.mark.more
@pytest.mark.parametrize(
    ("condition", "requested"),
    [
        (dg.AutomationCondition.eager(), {"2026-02-13|NW"}),
        (
            dg.AutomationCondition.eager().without(dg.AutomationCondition.in_latest_time_window()),
            {"2026-02-11|NW", "2026-02-13|NW"},
        ),
    ],
    ids=["eager", "older dates too"],
)
def test_dagsters_eager_condition_takes_older_dates_only_without_its_window(
    local_world: World, instance: dg.DagsterInstance, condition: Any, requested: set[str]
) -> None:
    local_world.options = REGIONS
    partitions = partitions_def(local_world.stream)

    @dg.asset(partitions_def=partitions, automation_condition=condition, deps=["sales"])
    def revenue() -> None: ...

    definitions = dg.Definitions.merge(build_definitions(local_world.config), dg.Definitions(assets=[revenue]))
    now = dt.datetime(2026, 2, 13, 12, tzinfo=dt.UTC)
    first = dg.evaluate_automation_conditions(definitions, instance, evaluation_time=now)
    for key in ("2026-02-11|NW", "2026-02-13|NW"):
        instance.report_runless_asset_event(dg.AssetMaterialization("sales", partition=key))
    second = dg.evaluate_automation_conditions(definitions, instance, cursor=first.cursor, evaluation_time=now)

    assert first.total_requested == 0
    assert second.get_requested_partitions(revenue.key) == requested


def test_the_resource_shows_no_secret(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "planted secret")
    world.catalog = {"type": "postgres", "host": "h", "database": "d", "user": "u", "password": "${PLANTED}"}
    file = world.config_file(tmp_path)

    for resource in (LakeResource(config=str(file)), LakeIOManager(config=str(file))):
        assert "planted" not in repr(resource) + str(resource) + resource.model_dump_json()
