"""Commits of the command line, or of another deployment, as materializations in Dagster."""

import asyncio
import dataclasses
import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy
from click.testing import CliRunner
from dagster._core.loader import LoadingContextForTest

from lake_assets.checks.check_run import checks_of
from lake_assets.cli import main
from lake_assets.errors import SyncUnderWayError
from lake_assets.ingest.index.index_run import index_all
from lake_assets.lake.catalog.database import CatalogDatabase
from lake_assets.lake.ledger.read import newest_commits
from lake_assets.lake.ledger.tables import COMPACT, LEDGER, RELEASE, LedgerRow
from lake_assets.layout.texts import count
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.dagster_private import store_materializations
from lake_assets.orchestration.partition_keys import dimension_tags
from lake_assets.orchestration.sensors import sync
from lake_assets.orchestration.sensors.sync import Synced, sync_lock, sync_stream
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.in_process import Materialize
from lake_assets_tests.orchestration.ticks import Ticks
from lake_assets_tests.world import NW, SW, World, sales

KEY = dg.AssetKey("sales")
NW_KEY, SW_KEY = "2026-02-11|NW", "2026-02-11|SW"


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
    infos = instance.event_log_storage.get_asset_check_partition_info([dg.AssetCheckKey(KEY, "row_counts")])
    assert {info.partition_key for info in infos if info.is_current} >= {NW_KEY, SW_KEY}
    for name in checks_of(committed.stream):
        key = dg.AssetCheckKey(KEY, name)
        of_table = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        assert asyncio.run(of_table.targets_latest_materialization(LoadingContextForTest(instance))), name
    assert {info.latest_execution_status.value for info in infos} == {"SUCCEEDED"}
    definition = build_definitions(committed.config).resolve_assets_def(KEY).partitions_def
    assert instance.get_dynamic_partitions("sales_region") == ["NW", "SW"]
    statuses = instance.get_status_by_partition(KEY, [NW_KEY], definition) or {}  # type: ignore[arg-type]
    assert [status and status.value for status in statuses.values()] == ["MATERIALIZED"]


@pytest.mark.more
def test_a_failure_among_many_commits_is_what_the_overview_shows(
    committed: World, storage: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "CHECKED_TOGETHER", 1)
    committed.unland(SW)  # its commit is the newest, so it is checked first
    sync_stream(specs_of(committed.stream), storage)

    key = dg.AssetCheckKey(KEY, "indexed_objects")
    of_table = storage.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]

    assert of_table.status.value == "FAILED"
    assert of_table.evaluation is not None
    assert of_table.evaluation.partition is None
    results = storage.event_log_storage.get_asset_check_execution_history(key, limit=10)
    assert sorted(str(record.partition) for record in results) == [NW_KEY, SW_KEY, "None"]


@pytest.mark.more
@pytest.mark.parametrize(("until", "checked"), [(0, []), (None, [SW_KEY])], ids=["time", "number"])
def test_one_warning_counts_the_commits_whose_checks_are_left_to_an_audit(
    committed: World,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    until: float | None,
    checked: list[str],
) -> None:
    for name in ("CHECKED", "CHECKED_TOGETHER"):
        monkeypatch.setattr(sync, name, 1)
    sync_stream(specs_of(committed.stream), instance, check_until=until)

    infos = instance.event_log_storage.get_asset_check_partition_info([dg.AssetCheckKey(KEY, "row_counts")])
    assert [info.partition_key for info in infos if info.partition_key] == checked
    left = count(2 - len(checked), "partition")
    assert [record.message for record in caplog.records] == [f"sales: the checks of {left} are left to an audit"]


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
def test_a_sync_that_breaks_off_is_continued_by_the_next(
    committed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "TOGETHER", 1)

    def store(instance: dg.DagsterInstance, together: list[dg.AssetMaterialization]) -> None:
        if together[0].partition == SW_KEY:
            raise KeyboardInterrupt
        store_materializations(instance, together)

    with monkeypatch.context() as patch:
        patch.setattr(sync, "store_materializations", store)
        with pytest.raises(KeyboardInterrupt):
            sync_stream(specs_of(committed.stream), instance)

    assert sync_stream(specs_of(committed.stream), instance) == synced([SW_KEY], known=1)
    assert events(instance) == 2


def test_two_syncs_at_the_same_moment_report_a_commit_once(
    committed: World, storage: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[threading.Thread] = []
    ended: list[Synced] = []

    def store(instance: dg.DagsterInstance, together: list[dg.AssetMaterialization]) -> None:
        """Another sync begins before the first one has stored what it found."""
        with pytest.raises(SyncUnderWayError, match="another sync reports commits"):
            sync_stream(specs_of(committed.stream), instance, retry_seconds=0)
        assert sync_stream(specs_of(committed.stream), instance, dry_run=True) == synced([NW_KEY, SW_KEY], dry_run=True)
        others.append(threading.Thread(target=lambda: ended.append(sync_stream(specs_of(committed.stream), instance))))
        others[0].start()
        store_materializations(instance, together)

    monkeypatch.setattr(sync, "store_materializations", store)

    assert sync_stream(specs_of(committed.stream), storage) == synced([NW_KEY, SW_KEY])
    others[0].join()
    assert ended == [synced([], known=2)]
    assert events(storage) == 2


@pytest.mark.more
@pytest.mark.kill
def test_a_sync_that_is_killed_keeps_no_other_one_off(committed: World, storage: dg.DagsterInstance) -> None:
    code = (
        "import sys, time, dagster as dg\n"
        "from lake_assets.orchestration.sensors.sync import sync_lock\n"
        "with dg.DagsterInstance.from_config(sys.argv[1]) as instance, sync_lock(instance, 0):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, storage.root_directory], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            with pytest.raises(SyncUnderWayError):
                sync_stream(specs_of(committed.stream), storage, retry_seconds=0)
        finally:
            process.kill()

    assert sync_stream(specs_of(committed.stream), storage) == synced([NW_KEY, SW_KEY])


@pytest.mark.more
def test_a_tick_during_another_sync_leaves_the_work_to_the_next(
    committed: World, storage: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "RETRY_SECONDS", 0)
    ticks = Ticks(committed, storage, sensor="test_sync")
    with sync_lock(storage, 0):
        result = ticks.evaluate()

    assert (result.cursor, events(storage)) == (None, 0)
    assert "another sync reports commits" in (result.skip_message or "")
    assert ticks.evaluate().skip_message == "2 partitions reported that others had committed."


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


def test_a_lake_that_does_not_exist_yet_has_nothing_to_report(local_world: World, instance: dg.DagsterInstance) -> None:
    assert sync_stream(specs_of(local_world.stream), instance) == synced([])


@pytest.mark.more
@pytest.mark.parametrize("cursor", ["no state", "2026-02-11T00:00:00", "5", '{"after": 1000000, "runs": {}}'])
def test_a_damaged_cursor_of_the_sensor_reads_the_whole_ledger(
    committed: World, instance: dg.DagsterInstance, cursor: str
) -> None:
    ticks = Ticks(committed, instance, sensor="test_sync", cursor=cursor)

    assert (ticks.evaluate().skip_message or "").startswith("2 partitions reported")


def test_the_sensor_reports_in_ticks_and_is_on_from_the_start(
    committed: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "REPORTED", 1)
    ticks = Ticks(committed, instance, sensor="test_sync")
    assert ticks.definitions().resolve_sensor_def("test_sync").default_status == dg.DefaultSensorStatus.RUNNING
    told = [tick(ticks) for _ in range(3)]

    numbers = ("1 partition", "1 partition", "0 partitions")
    assert told == [f"{number} reported that others had committed." for number in numbers]
    assert ticks.cursor is not None  # from now on it reads the newest rows of the ledger only
    committed.land(NW, sales(5), "b.parquet")
    committed.ingest(NW)
    ticks.evaluate()
    assert shown(instance)[NW_KEY]["rows"] == 3
    assert events(instance) == 3


def test_the_sensor_reports_what_a_killed_run_has_not_and_reads_older_commits_for_that_only(
    committed: World, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(committed, instance, sensor="test_sync")
    job = ticks.definitions().resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, run_id=committed.ledger(NW)[0].run_id)

    dry = sync_stream(specs_of(committed.stream), instance, dry_run=True)
    assert dry == synced([SW_KEY], dry_run=True, under_way=1)
    assert tick(ticks) == "1 partition reported that others had committed."
    assert list(shown(instance)) == [SW_KEY]
    assert statements_of(ticks) == statements_of(ticks)
    committed.commit("region=NE,date=2026-02-11", 7)
    assert tick(ticks) == "1 partition reported that others had committed."
    instance.report_run_canceling(run)
    instance.report_run_canceled(run)  # it was killed before it could report
    assert tick(ticks) == "1 partition reported that others had committed."
    assert shown(instance)[NW_KEY]["rows"] == 2
    assert tick(ticks) == "0 partitions reported that others had committed."


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


def tick(ticks: Ticks) -> str | None:
    """One tick, whose cursor is kept; returns what it says."""
    result = ticks.evaluate()
    ticks.cursor = result.cursor
    return result.skip_message


def statements_of(ticks: Ticks) -> tuple[int, int, int]:
    """What a tick without news asks for: statements and rows of the catalog, and statements of Dagster's database."""
    rows, catalog, dagster = CatalogDatabase.rows, list[int](), list[str]()

    def counting(database: CatalogDatabase, sql: str, parameters: Any = ()) -> Any:
        found = rows(database, sql, parameters)
        catalog.append(len(found))
        return found

    with noted(dagster), pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogDatabase, "rows", counting)
        assert tick(ticks) == "0 partitions reported that others had committed."
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
        assert tick(ticks) == f"{len(days)} partitions reported that others had committed."
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


def materializations(asset: str, number: int) -> list[dg.AssetMaterialization]:
    keys = [f"2026-02-{day:02}|NW" for day in range(1, number + 1)]
    return [
        dg.AssetMaterialization(asset, partition=key, metadata={"rows": len(key)}, tags=dimension_tags(key))
        for key in keys
    ]


def stored(instance: dg.DagsterInstance, asset: str) -> list[Any]:
    """Everything that Dagster has of an asset, without the times and the asset's name."""
    key = dg.AssetKey(asset)
    records = instance.fetch_materializations(key, limit=100).records
    (of_asset,) = instance.get_asset_records([key])
    newest = of_asset.asset_entry.last_materialization
    assert newest is not None
    return [
        [
            (entry.run_id, entry.job_name, entry.level, entry.step_key, event.partition, event.metadata, event.tags)
            for entry in (record.event_log_entry for record in records)
            if (event := entry.asset_materialization) is not None
        ],
        newest.asset_materialization and newest.asset_materialization.partition,
        of_asset.asset_entry.last_run_id,
        sorted(instance.get_materialized_partitions(key)),
        [sorted(tags.items()) for tags in instance.get_event_tags_for_asset(key)],
    ]


@pytest.mark.more
def test_materializations_that_are_stored_together_are_those_that_dagster_stores_one_by_one(
    storage: dg.DagsterInstance,
) -> None:
    for event in materializations("single", 5):
        storage.report_runless_asset_event(event)
    store_materializations(storage, materializations("together", 5))

    assert stored(storage, "together") == stored(storage, "single")
    assert len(stored(storage, "together")[0]) == 5


@pytest.mark.more
def test_many_partitions_take_no_more_statements_than_one(storage: dg.DagsterInstance) -> None:
    numbers = []
    for number in (1, 1, 20):  # the first one looks for tables
        statements: list[str] = []
        with noted(statements):
            store_materializations(storage, materializations("together", number))
        numbers.append(len(statements))

    assert numbers[1] == numbers[2] > 0
