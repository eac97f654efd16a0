"""A stream as a Dagster asset, materialized in process from landed files to the lake."""

import re
from typing import Any

import dagster as dg
import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.base.texts import size
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import Partition
from lake_assets.config.spark import Spark
from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.commit_events import known_to_dagster
from lake_assets.orchestration.partition_keys import BACKFILL
from lake_assets.orchestration.resources import pyspark_resource
from lake_assets.orchestration.translator import specs_of
from lake_assets.streams.select import Wanted, select
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.orchestration.in_process import (
    FEBRUARY_11,
    Materialize,
    failing_once,
    failure_of,
    logged,
    shown_error,
)
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

FORCE = {"ops": {"sales": {"config": {"force": True}}}}


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str | None, dict[str, Any]]:
    """The values of each materialization's metadata, by its partition."""
    events = result.get_asset_materialization_events()
    values = [event.materialization for event in events]
    assert len({m.partition for m in values}) == len(values)
    return {m.partition: {name: value.value for name, value in m.metadata.items()} for m in values}


def test_a_materialization_shows_what_was_done(materialize: Materialize, local_world: World) -> None:
    local_world.land(NW, sales(1), "a.parquet")
    local_world.land(NW, sales(2, 3), "b.parquet")

    result = materialize("2026-02-11|NW")

    assert local_world.totals() == [1, 2, 3]
    (row,) = local_world.ledger()
    assert row.run_id == result.run_id
    ((key, shown),) = metadata_of(result).items()
    assert key == "2026-02-11|NW"
    assert shown["status"] == "committed"
    assert (shown["rows"], shown["rows_before"]) == (3, 0)
    assert (shown["files"], shown["bytes"]) == (row.files_written, row.bytes_written)
    assert (shown["source_objects"], shown["source_bytes"]) == (2, row.source_bytes)
    assert shown["snapshot"] == row.snapshot_id
    assert shown["size"] == size(row.bytes_written or 0)
    assert shown["source_size"] == size(row.source_bytes or 0)
    assert re.fullmatch(r"\d+\.\d+ s: (\w+ \d+\.\d+ s, )*commit \d+\.\d+ s", shown["duration"])
    assert shown["source"] == f"{local_world.source['path']}/region=NW/date=2026-02-11/*.parquet"
    assert shown["destination"] == f"{local_world.storage['path']}/main/sales/region=NW/date=2026-02-11/"
    columns = [(column.name, column.type) for column in shown["dagster/column_schema"].columns]
    assert columns == [("id", "BIGINT"), ("total", "DOUBLE"), ("region", "VARCHAR"), ("date", "DATE")]
    lineage = shown["dagster/column_lineage"].deps_by_column
    assert {
        name: [(dep.asset_key.to_user_string(), dep.column_name) for dep in deps] for name, deps in lineage.items()
    } == {name: [("sales_landing", name)] for name in ("id", "total", "region", "date")}
    assert "| 1 | 3.0 | NW | 2026-02-11 |" in shown["preview"]
    assert not [value for value in shown.values() if str(row.source_fingerprint) in str(value)]
    first = ["status", "rows", "rows_before", "source_objects", "source_size", "files", "size", "duration"]
    assert list(shown)[: len(first)] == first


@pytest.mark.more
@pytest.mark.parametrize("options", [{}, {"mode": "append"}, {"mode": "index"}])
def test_a_look_that_finds_nothing_starts_no_spark_and_is_an_observation_with_the_figures_of_the_last_commit(
    materialize: Materialize,
    local_world: World,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    local_world.options |= options
    local_world.land(NW, sales(1))
    key = dg.AssetKey("sales")
    (committed,) = metadata_of(materialize("2026-02-11|NW", instance=instance)).values()
    with monkeypatch.context() as patch:
        patch.setattr("lake_assets.orchestration.resources.start_session", lambda _: pytest.fail("Spark starts"))
        again = materialize("2026-02-11|NW", instance=instance)
    (newest,) = instance.fetch_materializations(key, limit=10).records
    (event,) = instance.fetch_observations(key, limit=10).records
    forced = metadata_of(materialize("2026-02-11|NW", instance=instance, run_config=FORCE)).values()

    assert again.success
    assert newest.run_id != again.run_id
    assert event.asset_observation is not None
    seen: dict[str, Any] = {name: value.value for name, value in event.asset_observation.metadata.items()}
    assert seen["status"].startswith("skipped: ")
    of_commit = ("rows", "rows_before", "source_objects", "files", "size", "snapshot", "destination", "preview")
    assert {name: seen[name] for name in of_commit} == {name: committed[name] for name in of_commit}
    assert seen["dagster/column_schema"] == committed["dagster/column_schema"]
    figures = [(shown["status"], shown["rows"], shown["rows_before"]) for shown in forced]
    assert figures == ([] if options.get("mode") == "index" else [("committed", 1, 1)])  # the files are registered


@pytest.mark.more
def test_a_range_adds_to_each_partition_and_shows_all_of_its_rows(materialize: Materialize, local_world: World) -> None:
    local_world.options |= {"mode": "append"}
    for text in (NW, SW):
        local_world.land(text, sales(1, 2), "a.parquet")
    materialize("2026-02-11|NW", "2026-02-11|SW")
    local_world.land(NW, sales(3), "b.parquet")

    shown = metadata_of(materialize("2026-02-11|NW", "2026-02-11|SW"))

    # The second one is of the first run, which this Dagster lacks.
    figures = [[values[name] for name in ("status", "rows", "rows_before")] for _, values in sorted(shown.items())]
    assert figures == [["committed", 3, 2], ["committed", 2, 0]]
    assert local_world.totals() == [1, 1, 2, 2, 3]


@pytest.mark.more
def test_a_commit_that_dagster_lacks_is_materialized_by_the_run_that_finds_it_unchanged(
    materialize: Materialize, local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.land(NW, sales(1, 2))
    row = local_world.ingest(NW).row
    (shown,) = metadata_of(materialize("2026-02-11|NW", instance=instance)).values()
    assert metadata_of(materialize("2026-02-11|NW", instance=instance)) == {}

    assert (shown["status"], shown["rows"]) == ("committed", 2)
    assert shown["snapshot"] == row.snapshot_id
    assert row.run_id in shown["run"]


@pytest.mark.more
def test_an_unchanged_partition_of_a_backfill_is_materialized_once(
    materialize: Materialize, local_world: World, instance: dg.DagsterInstance
) -> None:
    """Also if the run is retried. The assets downstream follow a materialization of the backfill."""
    local_world.land(NW, sales(1, 2))
    materialize("2026-02-11|NW", instance=instance)
    first = materialize("2026-02-11|NW", instance=instance, tags={BACKFILL: "b"})
    retried = {BACKFILL: "b", "dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
    materialize("2026-02-11|NW", instance=instance, tags=retried)
    events = instance.fetch_materializations(dg.AssetKey("sales"), limit=10).records

    (shown,) = metadata_of(first).values()
    assert (shown["rows"], shown["snapshot"]) == (2, local_world.ledger(NW)[-1].snapshot_id)
    assert len(events) == 2


def test_a_commit_of_a_run_under_way_is_left_to_that_run(
    materialize: Materialize, local_world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that run ends meanwhile."""

    def known(*arguments: Any) -> dict[Partition, str]:
        found = known_to_dagster(*arguments)
        instance.report_run_canceled(other)
        return found

    monkeypatch.setattr("lake_assets.orchestration.stream_run.known_to_dagster", known)
    local_world.land(NW, sales(1))
    other = dg.DagsterRun(job_name="other", status=dg.DagsterRunStatus.STARTED)
    instance.add_run(other)
    local_world.ingest(NW, run_id=other.run_id)
    result = materialize("2026-02-11|NW", instance=instance)

    assert result.success
    assert metadata_of(result) == {}


@pytest.mark.parametrize("options", [{}, *more([{"mode": "append"}, {"mode": "index"}, {"on_empty": "clear"}])])
def test_partitions_that_never_landed_are_left_out_of_a_run_of_many(
    materialize: Materialize, local_world: World, options: dict[str, Any]
) -> None:
    local_world.options |= options
    local_world.land(NW, sales(1))

    result = materialize("2026-02-11|NW", "2026-02-13|SW")

    assert result.success
    assert list(metadata_of(result)) == ["2026-02-11|NW"]
    assert [row.load_partition for row in local_world.ledger()] == ["region=NW/date=2026-02-11"]


def test_a_partition_that_never_landed_is_left_out_also_if_it_is_asked_for_alone(
    materialize: Materialize, local_world: World, storage: dg.DagsterInstance
) -> None:
    local_world.land(SW, sales(1))

    result = materialize("2026-02-11|NW", instance=storage)

    assert result.success
    where = f"{local_world.source['path']}/region=NW/date=2026-02-11/*.parquet"
    text = f"2026-02-11|NW (1 of 1) left out, and stays missing: nothing has landed yet at {where}"
    assert text in logged(storage)
    keys = stream_asset(specs_of(local_world.stream)).partitions_def
    assert keys is not None
    assert storage.get_status_by_partition(dg.AssetKey("sales"), ["2026-02-11|NW"], keys) == {"2026-02-11|NW": None}
    states = {partition.partition: partition.state for partition in read_stream_state(local_world.stream).partitions}
    assert states[local_world.partition(NW)] == "absent"
    with local_world.stream.lake.open_if_exists() as lake:
        assert lake is None
    assert select(local_world.stream, Wanted(failed=True)).partitions == ()

    asked = {"ops": {"sales": {"config": {"landed_only": False}}}}
    assert "on_empty" in failure_of(materialize("2026-02-11|NW", raise_on_error=False, run_config=asked))


@pytest.mark.more
def test_the_launchpad_selects_of_the_partitions_of_a_run(materialize: Materialize, local_world: World) -> None:
    for region in ("NW", "SW"):
        for day in (11, 12, 13):
            local_world.land(f"region={region},date=2026-02-{day}", sales(day))

    def selected(**config: object) -> list[str | None]:
        run_config = {"ops": {"sales": {"config": config}}}
        return sorted(metadata_of(materialize("2026-02-11|NW", "2026-02-13|SW", run_config=run_config)), key=str)

    assert selected(partitions=["region=NW,date=..2026-02-12"]) == ["2026-02-11|NW", "2026-02-12|NW"]
    assert selected(waiting=True, max=1) == ["2026-02-11|SW"]
    assert selected(partitions=["date=2026"], waiting=True) == ["2026-02-12|SW", "2026-02-13|NW", "2026-02-13|SW"]
    assert selected(waiting=True) == selected(failed=True) == []
    assert len(local_world.ledger()) == 6


@pytest.mark.more
def test_the_columns_of_a_transform_have_no_lineage(materialize: Materialize, local_world: World) -> None:
    local_world.land(NW, sales(1))
    local_world.options["transform"] = {"sql": "SELECT id, total * 2 AS total, region, date FROM source"}

    (shown,) = metadata_of(materialize("2026-02-11|NW")).values()

    assert shown["rows"] == 1
    assert "dagster/column_lineage" not in shown


@pytest.mark.more
def test_a_bad_partition_fails_alone_and_is_named_and_the_others_stand_as_they_did(
    materialize: Materialize, local_world: World, storage: dg.DagsterInstance
) -> None:
    local_world.land("region=NW,date=2026-02-12", sales(1))
    materialize("2026-02-12|NW", instance=storage)
    asset = stream_asset(specs_of(local_world.stream))
    keys = asset.partitions_def
    assert keys is not None

    @dg.asset(partitions_def=keys, deps=[asset], automation_condition=dg.AutomationCondition.any_deps_updated())
    def downstream() -> None: ...

    definitions = dg.Definitions([asset, downstream], resources={"pyspark": pyspark_resource(Spark())})
    before = dg.evaluate_automation_conditions(definitions, storage)
    local_world.land(NW, b"no Parquet")
    local_world.land(SW, sales(2, 3))

    result = materialize("2026-02-11|NW", "2026-02-12|SW", raise_on_error=False, instance=storage)

    assert local_world.totals() == [1, 2, 3]
    assert list(metadata_of(result)) == ["2026-02-11|SW"]
    summary, named = failure_of(result).splitlines()
    assert summary == "1 of 4 partitions failed; 1 committed, 1 unchanged, 1 never landed."
    assert named.startswith("2026-02-11|NW: ")
    assert shown_error(result) == failure_of(result)  # without a traceback
    told = logged(storage)
    assert "This run is 4 partitions: region=NW to SW (2 values), date=2026-02-11 to 2026-02-12 (2 values)\n" in told
    assert re.search(r"2026-02-11\|SW \(\d of 4\) committed: 2 rows \(before: 0\) of 1 object, snapshot", told)
    assert re.search(r"2026-02-11\|NW \(\d of 4\) failed: the object", told)
    # The error is seen with its partition, and counts as nothing.
    seen = storage.fetch_observations(asset.key, limit=10).records
    (event,) = (record for record in seen if record.partition_key == "2026-02-11|NW")
    assert event.asset_observation is not None
    facts = {name: str(value.value) for name, value in event.asset_observation.metadata.items()}
    assert facts["status"] == "failed"
    assert "cannot be read as Parquet" in facts["error"]
    assert facts["object"] == f"{local_world.source['path']}/region=NW/date=2026-02-11/batch_1.parquet"
    assert facts["fix"] == "remove it, or let its writer land it again."
    statuses = storage.get_status_by_partition(asset.key, keys.get_partition_keys(), keys) or {}
    assert {key: status.value for key, status in statuses.items() if status is not None} == {
        "2026-02-11|NW": "FAILED",
        "2026-02-11|SW": "MATERIALIZED",
        "2026-02-12|NW": "MATERIALIZED",
    }
    after = dg.evaluate_automation_conditions(definitions, storage, cursor=before.cursor)
    assert "2026-02-11|NW" not in after.get_requested_partitions(dg.AssetKey("downstream"))
    assert "2026-02-11|SW" in after.get_requested_partitions(dg.AssetKey("downstream"))
    alone = failure_of(materialize("2026-02-11|NW", raise_on_error=False))
    assert f"SourceError: {alone}" == local_world.ledger(NW)[0].error


def test_an_error_that_nobody_foresaw_stops_only_its_partition(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.options["commit_batch"] = 1
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    failing_once(ZeroDivisionError("a bug"), monkeypatch)

    with pytest.raises(dg.Failure, match=r"2026-02-11\|NW: ZeroDivisionError: a bug") as raised:
        materialize("2026-02-11|NW", "2026-02-11|SW")

    assert local_world.totals() == [2]
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_an_error_that_partitions_share_is_reported_once(
    materialize: Materialize, local_world: World, instance: dg.DagsterInstance
) -> None:
    with local_world.stream.lake.open(create=True):
        pass
    local_world.storage = {"type": "local", "path": f"{local_world.storage['path']}-moved"}
    for text in (NW, SW):
        local_world.land(text, sales(1))

    result = materialize("2026-02-11|NW", "2026-02-11|SW", raise_on_error=False, instance=instance)

    summary, told = failure_of(result).splitlines()
    assert summary == "2 of 2 partitions failed."
    assert told.startswith("2026-02-11|NW, 2026-02-11|SW: ")
    log = logged(instance)
    assert log.count("2026-02-11|NW (1 of 2) failed: the catalog") == 1
    assert "2026-02-11|SW (2 of 2) failed with the same error as 2026-02-11|NW" in log


@pytest.mark.parametrize("by_duckdb", [False, *more([True])])
def test_a_cancelled_run_stops_and_shows_what_it_did(
    materialize: Materialize,
    local_world: World,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    by_duckdb: bool,
) -> None:
    local_world.options["commit_batch"] = 1
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    error: BaseException = KeyboardInterrupt()
    if by_duckdb:
        error = RuntimeError("Query interrupted")
        error.__cause__ = KeyboardInterrupt()
    failing_once(error, monkeypatch, after=1)
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        materialize("2026-02-11|NW", "2026-02-11|SW", instance=instance)

    events = instance.fetch_materializations(dg.AssetKey("sales"), limit=10).records
    message = instance.fetch_observations(dg.AssetKey("sales"), limit=10).records

    assert [event.partition_key for event in events] == ["2026-02-11|NW"]
    assert message == []  # that a partition failed
    assert local_world.totals() == [1]
    assert [row.status for row in local_world.ledger()] == ["cancelled", "committed"]


@pytest.mark.parametrize("region", ["N/A x", *more(["a|b", "a...b", None])])
def test_awkward_partition_values_go_all_the_way(
    materialize: Materialize, local_world: World, region: str | None
) -> None:
    written = HIVE_NULL if region is None else region
    local_world.options["partitions"] = {"region": {"values": [written, "SW"]}} | FEBRUARY_11
    local_world.land(f"region={written.replace(',', '%2C')},date=2026-02-11", sales(1, 2))
    keys = stream_asset(specs_of(local_world.stream)).partitions_def
    assert keys is not None

    ((_, shown),) = metadata_of(materialize(keys.get_partition_keys()[0])).items()

    assert shown["rows"] == 2
    assert local_world.query("SELECT DISTINCT region, date::VARCHAR FROM lake.sales") == [(region, "2026-02-11")]


def test_a_preview_that_fails_does_not_undo_the_commit(
    materialize: Materialize, local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))

    def refuse(*_: object) -> None:
        raise ConfigError("the catalog is gone.")

    monkeypatch.setattr("lake_assets.ingest.view.view_partition", refuse)

    ((_, shown),) = metadata_of(materialize("2026-02-11|NW")).items()

    assert shown["rows"] == 1
    assert "preview" not in shown


def test_the_asset_is_described_by_the_config(local_world: World) -> None:
    local_world.options |= {
        "description": "Sales of all shops.",
        "owners": ["team:data", "ann@example.com"],
        "kinds": ["ducklake", "s3"],
        "group": "shops",
    }

    asset = stream_asset(specs_of(local_world.stream))

    (spec,) = asset.specs
    assert (spec.key, spec.group_name) == (dg.AssetKey("sales"), "shops")
    assert spec.description == "Sales of all shops."
    assert list(spec.owners) == ["team:data", "ann@example.com"]
    assert spec.kinds == {"ducklake", "s3"}
    assert spec.metadata["dagster/table_name"].value == "main.sales"
    assert asset.backfill_policy == dg.BackfillPolicy.single_run()

    local_world.options["max_partitions_per_run"] = 200
    asset = stream_asset(specs_of(local_world.stream))

    assert asset.backfill_policy == dg.BackfillPolicy.multi_run(200)


@pytest.mark.parametrize("options", [{"owners": ["x@"]}, {"kinds": ["no spaces please"]}])
def test_what_dagster_does_not_take_is_a_config_error_that_names_the_stream(
    local_world: World, options: dict[str, Any]
) -> None:
    local_world.options |= options

    with pytest.raises(ConfigError, match=r"streams\.sales: Dagster"):
        stream_asset(specs_of(local_world.stream))
