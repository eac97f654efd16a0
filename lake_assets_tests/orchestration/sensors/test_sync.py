"""Commits of the command line, or of another deployment, as materializations in Dagster."""

import asyncio
import dataclasses
import datetime as dt
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
import sqlalchemy
from click.testing import CliRunner
from dagster._core.loader import LoadingContextForTest

from lake_assets.cli import main
from lake_assets.ingest.index.index_run import index_all
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.ledger.read import newest_commits
from lake_assets.lake.ledger.tables import COMPACT, LEDGER, RELEASE, LedgerRow
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.jobs import audit_request
from lake_assets.orchestration.sensors import sync
from lake_assets.orchestration.sensors.sync import Synced, sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets_tests.orchestration.check_runs import latest
from lake_assets_tests.orchestration.in_process import REGIONS, Materialize
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.upkeep.history.test_restore import ingested
from lake_assets_tests.world import NW, SW, World, sales

KEY = dg.AssetKey("sales")
NW_KEY, SW_KEY = "2026-02-11|NW", "2026-02-11|SW"
NW_PATH, SW_PATH = "region=NW/date=2026-02-11", "region=SW/date=2026-02-11"


@pytest.fixture
def committed(local_world: World) -> World:
    """A world with two partitions that the command line has committed, without Spark."""
    local_world.options |= {"mode": "index"}
    for text, rows in ((NW, sales(1, 2)), (SW, sales(3))):
        local_world.land(text, rows)
        local_world.ingest(text)
    return local_world


def shown(instance: dg.DagsterInstance) -> dict[str | None, dict[str, Any]]:
    """The newest materialization of each partition: its metadata."""
    records = instance.fetch_materializations(KEY, limit=100).records
    found: dict[str | None, dict[str, Any]] = {}
    for record in records:  # newest first
        assert record.asset_materialization is not None
        metadata = {name: value.value for name, value in record.asset_materialization.metadata.items()}
        found.setdefault(record.partition_key, metadata)
    return found


def events(instance: dg.DagsterInstance) -> int:
    return len(instance.fetch_materializations(KEY, limit=100).records)


def synced(reported: list[str], *, dry_run: bool = False, **counts: int) -> Synced:
    return Synced("sales", dry_run, reported, **counts)


def test_a_commit_of_the_command_line_is_reported_once_with_the_figures_of_its_ledger_row(
    committed: World, storage: dg.DagsterInstance
) -> None:
    instance = storage
    first = sync_stream(specs_of(committed.stream), instance)
    again = sync_stream(specs_of(committed.stream), instance)

    assert first == synced([NW_KEY, SW_KEY])
    assert again == synced([], known=2)
    assert events(instance) == 2
    (row,) = committed.ledger(NW)
    of_nw = shown(instance)[NW_KEY]
    assert (of_nw["status"], of_nw["rows"], of_nw["snapshot"]) == ("committed", 2, row.snapshot_id)
    assert row.run_id in of_nw["run"]
    assert row.finished_at is not None
    assert of_nw["committed_at"] == row.finished_at.timestamp()
    columns = [(column.name, column.type) for column in of_nw["dagster/column_schema"].columns]
    assert columns == [("id", "BIGINT"), ("total", "DOUBLE"), ("region", "VARCHAR"), ("date", "DATE")]
    assert "| 1 | 2.0 | NW | 2026-02-11 |" in of_nw["preview"]
    definition = build_definitions(committed.config).resolve_assets_def(KEY).partitions_def
    assert instance.get_dynamic_partitions("sales_region") == ["NW", "SW"]
    statuses = instance.get_status_by_partition(KEY, [NW_KEY], definition) or {}  # type: ignore[arg-type]
    assert [status and status.value for status in statuses.values()] == ["MATERIALIZED"]


@pytest.mark.more
def test_a_newer_commit_is_reported_whatever_the_clocks_say(
    committed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_stream(specs_of(committed.stream), instance)
    committed.land(NW, sales(5), "b.parquet")
    committed.ingest(NW)
    real = newest_commits

    def slow(*arguments: Any, **options: Any) -> list[LedgerRow]:
        """The ledger of a host whose clock is an hour behind."""
        rows = real(*arguments, **options)
        hour = dt.timedelta(hours=1)
        return [dataclasses.replace(row, finished_at=row.finished_at and row.finished_at - hour) for row in rows]

    monkeypatch.setattr(sync, "newest_commits", slow)

    assert sync_stream(specs_of(committed.stream), instance) == synced([NW_KEY], known=1)
    assert sync_stream(specs_of(committed.stream), instance) == synced([], known=2)
    assert shown(instance)[NW_KEY]["rows"] == 3


@pytest.mark.more
def test_what_dagster_has_done_itself_is_not_reported(
    materialize: Materialize, local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options |= {"mode": "index"}
    local_world.land(NW, sales(1))
    for _ in range(2):  # committed, then skipped
        materialize(NW_KEY, instance=instance)

    assert sync_stream(specs_of(local_world.stream), instance) == synced([], known=1)
    assert events(instance) == 1


@pytest.mark.more
def test_partitions_outside_the_config_are_counted_and_not_reported(
    committed: World, instance: dg.DagsterInstance
) -> None:
    committed.options["partitions"] = {
        "region": {"values": ["NW"]},
        "date": {"type": "date", "start": "2026-02-11", "end": "2026-02-12"},
    }

    assert sync_stream(specs_of(committed.stream), instance) == synced([NW_KEY], outside=1)


@pytest.mark.more
def test_compaction_and_the_end_of_a_hold_are_no_new_rows(committed: World, instance: dg.DagsterInstance) -> None:
    (row,) = committed.ledger(NW)
    sync_stream(specs_of(committed.stream), instance)
    with committed.stream.lake.open() as session:
        table = LEDGER.name(session.config).sql
        for mode in (COMPACT, RELEASE):
            session.rows(
                f"INSERT INTO {table} BY NAME SELECT * REPLACE ('{mode}' AS mode, snapshot_id + 10 AS snapshot_id) "
                f"FROM {table} WHERE run_id = ?",
                [row.run_id],
            )

    assert sync_stream(specs_of(committed.stream), instance) == synced([], known=2)


def test_the_end_of_a_hold_by_the_command_line_is_reported_once_and_as_no_new_rows(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    stream, partition = local_world.stream, local_world.partition(NW)
    Restoration(stream, partition, ingested(local_world, 1, 2), hold=True).run()
    ticks = Ticks(local_world, instance, sensor="test_sync")
    ticks.evaluate()
    assert str(shown(instance)[NW_KEY]["held"]).startswith("Held by")
    released = release(stream, partition)

    ticks.evaluate()

    (record,) = instance.fetch_observations(KEY, limit=9).records
    assert record.asset_observation is not None
    said = {name: value.value for name, value in record.asset_observation.metadata.items()}
    assert (record.partition_key, said["status"]) == (NW_KEY, "released: refreshes read it again")
    assert said["held"] == "no longer"
    assert str(said["run"]).startswith(released.run_id)
    assert sync_stream(specs_of(stream), instance) == synced([], known=1)
    assert events(instance) == 1

    Restoration(stream, partition, released.snapshot, hold=True).run()
    release(stream, partition)
    assert sync_stream(specs_of(stream), instance) == synced([NW_KEY])
    assert "held" not in shown(instance)[NW_KEY]
    assert sync_stream(specs_of(stream), instance) == synced([], known=1)


def test_a_lake_that_does_not_exist_yet_has_nothing_to_report(local_world: World, instance: dg.DagsterInstance) -> None:
    assert sync_stream(specs_of(local_world.stream), instance) == synced([])


@pytest.mark.more
@pytest.mark.parametrize("cursor", ["no state", "2026-02-11T00:00:00", "5", '{"after": 1000000, "runs": {}}'])
def test_a_damaged_cursor_of_the_sensor_reads_the_whole_ledger(
    committed: World, instance: dg.DagsterInstance, cursor: str
) -> None:
    ticks = Ticks(committed, instance, sensor="test_sync", cursor=cursor)

    assert tick(ticks) == [NW_PATH, SW_PATH]


def test_the_sensor_reports_in_ticks_and_is_on_from_the_start(
    committed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "SECONDS", 0)  # so that a tick has time for one
    ticks = Ticks(committed, instance, sensor="test_sync")
    assert ticks.definitions().resolve_sensor_def("test_sync").default_status == dg.DefaultSensorStatus.RUNNING

    assert [tick(ticks) for _ in range(3)] == [[NW_PATH], [SW_PATH], []]
    assert ticks.cursor is not None  # from now on it reads the newest rows of the ledger only
    committed.land(NW, sales(5), "b.parquet")
    committed.ingest(NW)
    ticks.evaluate()
    assert shown(instance)[NW_KEY]["rows"] == 3
    assert events(instance) == 3


@pytest.mark.more
def test_a_backlog_of_ten_thousand_commits_is_reported_in_ticks_that_each_go_on_behind_the_last(
    committed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(sync, "time", SimpleNamespace(monotonic=lambda: next(seconds)))  # a report takes one
    with committed.stream.lake.open() as session:
        table = LEDGER.name(session.config).sql
        session.rows(
            f"INSERT INTO {table} BY NAME SELECT * EXCLUDE (n) REPLACE (concat('region=', n, '/date=2026-02-11') "
            f"AS load_partition) FROM {table}, range(10000) numbers (n) WHERE load_partition = ?",
            [NW_PATH],
        )
    committed.options["partitions"] = {"region": {}, "date": {"type": "date", "start": "2026-02-11"}}
    ticks = Ticks(committed, instance, sensor="test_sync")

    told = [tick(ticks) for _ in range(3)]

    assert [len(paths) for paths in told] == [20, 20, 20]
    assert len({path for paths in told for path in paths}) == 60
    assert events(instance) == 60


def test_checks_that_the_sensor_requests_are_those_of_the_reported_partitions(
    committed: World, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(committed, instance, sensor="test_sync")
    committed.unland(SW)

    (request,) = ticks.evaluate().run_requests or ()
    job = ticks.definitions().resolve_job_def(request.job_name or "")
    result = job.execute_in_process(instance=instance, run_config=request.run_config)

    assert result.success
    assert latest(instance, "row_counts") == {NW_KEY: "SUCCEEDED", SW_KEY: "SUCCEEDED", None: "SUCCEEDED"}
    assert latest(instance, "indexed_objects") == {NW_KEY: "SUCCEEDED", SW_KEY: "FAILED", None: "FAILED"}
    checks = [dg.AssetCheckKey(KEY, name) for name in checks_of(committed.stream)]
    for key, newest in instance.event_log_storage.get_latest_asset_check_execution_by_key(checks).items():
        assert asyncio.run(newest.targets_latest_materialization(LoadingContextForTest(instance))), key.name
    assert all(info.is_current for info in instance.event_log_storage.get_asset_check_partition_info(checks))


RANGE = {"dagster/asset_partition_range_start": NW_KEY, "dagster/asset_partition_range_end": SW_KEY}


def test_what_cancelled_and_lost_runs_have_not_checked_is_checked_by_a_request(
    committed: World, instance: dg.DagsterInstance
) -> None:
    """Of a backfill, whose runs have planned checks; of two partitions that Dagster has, and of one."""
    committed.options |= REGIONS
    sync_stream(specs_of(committed.stream), instance)
    ticks = Ticks(committed, instance, sensor="test_sync")
    job = ticks.definitions().resolve_implicit_global_asset_job_def()
    cancelled, lost = (
        instance.create_run_for_job(job, asset_selection=frozenset({KEY}), tags=tags)
        for tags in (RANGE, {"dagster/partition": SW_KEY})
    )
    before = tick(ticks)
    planned = latest(instance, "row_counts")
    instance.report_run_canceling(cancelled)
    instance.report_run_canceled(cancelled)
    after = tick(ticks)
    instance.report_run_failed(lost)

    assert set(planned.values()) == {"PLANNED"}
    assert (before, after) == ([], [NW_PATH, SW_PATH])
    (request,) = ticks.evaluate().run_requests or ()
    assert request.run_config["ops"]["audit_test_lake"]["config"]["partitions"] == {"sales": [SW_PATH]}
    ticks.definitions().resolve_job_def("audit_test").execute_in_process(
        instance=instance, run_config=audit_request("test", {"sales": [*map(committed.partition, (NW, SW))]}).run_config
    )
    assert latest(instance, "row_counts") == {NW_KEY: "SUCCEEDED", SW_KEY: "SUCCEEDED", None: "SUCCEEDED"}
    assert [tick(ticks), tick(ticks)] == [[SW_PATH], []]


@pytest.mark.parametrize(("job", "paths"), [("refresh_sales", [NW_PATH, SW_PATH]), ("ingest_sales", [NW_PATH])])
def test_what_a_cancelled_run_of_a_job_has_committed_is_checked_too(
    committed: World, instance: dg.DagsterInstance, job: str, paths: list[str]
) -> None:
    """Their runs name no assets; that of the selection has no partitions in Dagster either, but in the ledger."""
    committed.options |= REGIONS | {"schedule": {"cron": "0 6 * * *"}}
    sync_stream(specs_of(committed.stream), instance)
    ticks = Ticks(committed, instance, sensor="test_sync")
    tags = RANGE if job.startswith("refresh") else {}
    made = ticks.definitions().resolve_job_def(job)
    run = instance.create_run_for_job(made, run_id=committed.ledger(NW)[0].run_id, tags=tags)
    before = tick(ticks)
    instance.report_run_canceling(run)
    instance.report_run_canceled(run)

    assert (before, tick(ticks), tick(ticks)) == ([], paths, [])


def test_the_sensor_reports_what_a_killed_run_has_not_and_reads_older_commits_for_that_only(
    committed: World, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(committed, instance, sensor="test_sync")
    job = ticks.definitions().resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, run_id=committed.ledger(NW)[0].run_id)

    dry = sync_stream(specs_of(committed.stream), instance, dry_run=True)
    assert dry == synced([SW_KEY], dry_run=True, under_way=1)
    assert tick(ticks) == [SW_PATH]
    assert list(shown(instance)) == [SW_KEY]
    assert statements_of(ticks) == statements_of(ticks)
    committed.commit("region=NE,date=2026-02-11", 7)
    assert tick(ticks) == ["region=NE/date=2026-02-11"]
    instance.report_run_canceling(run)
    instance.report_run_canceled(run)  # it was killed before it could report
    assert tick(ticks) == [NW_PATH]
    assert shown(instance)[NW_KEY]["rows"] == 2
    assert tick(ticks) == []


@contextmanager
def noted(statements: list[str]) -> Iterator[None]:
    """Note the statements of Dagster's databases while the block runs."""

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", note)


def tick(ticks: Ticks) -> list[str]:
    """One tick, whose cursor is kept; returns the partitions that it has reported, whose checks it requests."""
    result = ticks.evaluate()
    ticks.cursor = result.cursor
    requests = [request.run_config["ops"]["audit_test_lake"]["config"] for request in result.run_requests or ()]
    assert requests or result.skip_message == "0 partitions reported that others had committed."
    return [path for request in requests for path in request["partitions"]["sales"]]


def statements_of(ticks: Ticks) -> tuple[int, int, int]:
    """What a tick without news asks for: statements and rows of the catalog, and statements of Dagster's database."""
    rows, catalog, dagster = CatalogDatabase.rows, list[int](), list[str]()

    def counting(database: CatalogDatabase, sql: str, parameters: Any = ()) -> Any:
        found = rows(database, sql, parameters)
        catalog.append(len(found))
        return found

    with noted(dagster), pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogDatabase, "rows", counting)
        assert tick(ticks) == []
    return len(catalog), sum(catalog), len(dagster)


@pytest.mark.more
def test_a_tick_without_news_asks_for_the_same_however_many_partitions_were_committed_just_before(
    local_world: World, instance: dg.DagsterInstance
) -> None:
    local_world.options |= {"mode": "index"}
    ticks = Ticks(local_world, instance, sensor="test_sync")
    asked = []
    for days in (range(1, 3), range(3, 29)):
        for day in days:
            local_world.land(f"region=NW,date=2026-02-{day:02}", sales(1))
        assert all(outcome.error is None for outcome in index_all(local_world.stream))
        assert len(tick(ticks)) == len(days)
        asked.append([statements_of(ticks)])
        local_world.execute(f"CREATE TABLE lake.others_{len(days)} (n INTEGER)")  # without a commit of a stream
        asked[-1].append(statements_of(ticks))

    assert asked[0] == asked[1]
    assert asked[0][0] < asked[0][1]  # without a new snapshot the ledger is not read


def test_the_command_names_what_it_reports(committed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    file = str(committed.config_file(tmp_path))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["--config", file, "sync-dagster", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    dry = run("sales", "--dry-run")
    first = run()
    again = run()

    assert dry == f"sales: 2 partitions would be reported\n  {NW_KEY}\n  {SW_KEY}\n"
    assert first == f"sales: 2 partitions reported\n  {NW_KEY}\n  {SW_KEY}\n"
    assert again == "sales: 0 partitions reported, 2 known already\n"


def test_the_command_without_dagsters_folder_says_what_to_set(
    committed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)

    result = CliRunner().invoke(main, ["--config", str(committed.config_file(tmp_path)), "sync-dagster"])

    assert result.exit_code == 1
    assert "Set DAGSTER_HOME to the absolute path of the folder with the dagster.yaml" in result.output
