"""Lakes whose files MotherDuck manages. A test cannot reach the service, so another DuckLake replaces it.

It is attached under the database's own name and never detached, as MotherDuck's are, with DuckLake's own retries on, as
they are on a server. What MotherDuck's own extension does is not tested here, nor anywhere.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dev.servers.postgres import PostgresServer
from lake_assets.base.errors import CatalogError
from lake_assets.cli.app import main
from lake_assets.config.lake import Lake
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.lake import attach, ducklake
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.commit.change import Staged
from lake_assets.lake.commit.insert import insert_statements
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.history.diff import DiffOptions, diff
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets.upkeep.maintenance.maintenance_run import maintain
from lake_assets_tests.faults.writer import ROWS, make_table, write
from lake_assets_tests.ingest.encrypted import nobody
from lake_assets_tests.lake.commit.test_deltas import exporting
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world import plan as plan_of
from lake_assets_tests.world_fixtures import database_on

MANAGED: dict[str, Any] = {"catalog": {"type": "motherduck", "database": "retail"}}
NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"


@pytest.fixture
def managed(local_world: World, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A managed lake, with a DuckLake on PostgreSQL as its server."""
    stand_in = Lake.model_validate({"catalog": database_on(postgres), "storage": str(tmp_path / "server")})
    statement = attach.attach_statement(stand_in)
    attached = statement.replace("ATTACH", "ATTACH IF NOT EXISTS", 1).replace(" AS lake ", " AS retail ")
    monkeypatch.setattr(ducklake, "extensions", lambda _: (*attach.extensions(stand_in), "httpfs"))
    monkeypatch.setattr(ducklake, "secret_statements", lambda _: attach.secret_statements(stand_in))
    monkeypatch.setattr(ducklake, "attach_statement", lambda _, **__: attached)
    local_world.catalog = MANAGED["catalog"]
    local_world.lake_options = {"storage": None, "staging": str(tmp_path / "staging")}
    return local_world


def rows(world: World, sql: str) -> list[tuple[Any, ...]]:
    with world.stream.lake.open() as lake:
        return lake.rows(sql)


@pytest.mark.parametrize(("staging", "told"), [("/scratch", ""), ("s3://scratch", ", MD_RUN = LOCAL")])
def test_staged_files_are_read_by_this_machine(local_world: World, staging: str, told: str) -> None:
    lake = Lake.model_validate(MANAGED | {"staging": staging})
    stream = local_world.stream

    staged = Staged(b"key", [["a.parquet"]], ["id"])
    ((sql, parameters),) = insert_statements(lake, stream.table, local_world.partition(NW), staged)

    assert sql == (
        'INSERT INTO "lake"."main"."sales" ("id", "region", "date") SELECT "id", ?, ? FROM read_parquet(?, '
        f"hive_partitioning = false, encryption_config = {{footer_key_value: ?}}{told})"
    )
    assert parameters[2:] == [["a.parquet"], b"key"]


def test_it_is_created_and_attached_as_in_motherducks_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHERDUCK_TOKEN", "a token")
    staging = {"type": "s3", "bucket": "scratch", "prefix": "x", "key_id": "AKIA1", "secret": "it's"}
    lake = Lake.model_validate(MANAGED | {"staging": staging})

    assert catalog_backend(lake).create_statements() == (
        "ATTACH 'md:'",
        'CREATE DATABASE IF NOT EXISTS "retail" (TYPE DUCKLAKE)',
    )
    assert attach.attach_statement(lake) == "ATTACH IF NOT EXISTS 'md:retail'"
    assert attach.extensions(lake) == ("ducklake", "motherduck", "httpfs")
    assert attach.secret_statements(lake) == (
        "SET motherduck_token = 'a token'",
        (
            "CREATE OR REPLACE SECRET lake_staging (TYPE s3, SCOPE 's3://scratch/x/', KEY_ID 'AKIA1', "
            "SECRET 'it''s', REGION 'us-east-1')"
        ),
    )


def test_partitions_are_replaced_and_skipped(managed: World, tmp_path: Path) -> None:
    for text in (NW, SW, NULL):
        managed.land(text, sales(1, 2))
    stream = managed.stream
    partitions = [managed.partition(text) for text in (NW, SW, NULL)]
    first = list(ingest_all(stream, partitions, managed.sessions))
    managed.land(NW, sales(3), "batch_2.parquet")

    again = {outcome.partition: outcome.row for outcome in ingest_all(stream, partitions, managed.sessions)}

    assert [outcome.status for outcome in first] == ["committed"] * 3
    row = again[partitions[0]]
    assert (row.rows_before, row.row_count, row.files_written, row.bytes_written) == (2, 3, None, None)
    assert [again[partition].status for partition in partitions] == ["committed", "skipped", "skipped"]
    assert rows(managed, "SELECT region, sum(total) FROM retail.sales GROUP BY 1 ORDER BY 1 NULLS LAST") == [
        ("NW", 6.0),
        ("SW", 3.0),
        (None, 3.0),
    ]
    assert not list(tmp_path.glob("staging/**/*.parquet"))


@pytest.mark.more
def test_maintenance_takes_loaded_objects_that_a_killed_run_has_left(
    managed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed.options = {"mode": "append", "after_load": "delete"}
    managed.land(NW, sales(1), "a.parquet")
    with monkeypatch.context() as patched:
        patched.setattr("lake_assets.ingest.run.after_load", lambda *_: [])
        assert managed.ingest(NW).row.status == "committed"

    assert [one.becomes for one in managed.tidy().loaded] == ["deleted"]
    assert managed.tidy().loaded == ()


@pytest.mark.more
def test_overlapping_commits_of_a_new_partition_do_not_double_it(managed: World) -> None:
    """DuckLake's own retries are on here, and would allow both commits."""
    make_table(managed)

    other = replace(managed, _opened=None)
    row = write(managed, NW, overtaken_by=lambda: write(other, NW))

    assert rows(managed, "SELECT count(*) FROM retail.sales") == [(ROWS,)]
    assert row.rows_before == ROWS


@pytest.mark.more
def test_checks_plan_maintenance_and_commands_respect_a_managed_lake(managed: World, tmp_path: Path) -> None:
    managed.commit(NW, 1)
    stream = managed.stream

    assert {"ledger", "data_files"}.isdisjoint(checks_of(stream))
    assert [name for name in checks_of(stream) if not run_check(stream, name, Scope()).passed] == []
    plan = plan_of(stream, managed.partition(NW), force=True)
    assert (plan.destination, plan.rows_before) == ("md:retail.main.sales", 1)
    assert plan.statements[1][0].startswith('INSERT INTO "retail"."main"."sales"')
    assert compact(stream, 1, nobody) == []
    assert maintain(managed.config, "test", nobody).cleaned.deleted == ()
    config = tmp_path / "lake.yaml"
    config.write_text(managed.config.model_dump_json(by_alias=True, exclude_none=True))
    command = ["--config", str(config), "query", "--format", "csv", "SELECT sum(total) FROM sales"]
    queried = CliRunner().invoke(main, command)
    assert queried.output.splitlines()[-1] == "1.0", queried.output


@pytest.mark.more
def test_its_commits_export_their_changes(managed: World, tmp_path: Path) -> None:
    exporting(managed, tmp_path / "deltas")
    for totals in ([1, 2], [1, 3]):
        managed.commit(NW, *totals)
    first = min(row.snapshot_id or 0 for row in managed.ledger(NW))
    Restoration(managed.stream, managed.partition(NW), first).run()

    manifest = rows(
        managed, "SELECT uri, rows_inserted, rows_deleted FROM retail.ingest_deltas ORDER BY snapshot_id, uri"
    )
    assert [figures for _, *figures in manifest] == [[2, 0], [1, 1], [1, 1]]
    files = pa.concat_tables(pq.read_table(uri) for uri, *_ in manifest)
    assert sum(1 if row["_change"] == "insert" else -1 for row in files.to_pylist()) == 2


@pytest.mark.more
def test_a_partition_is_restored_held_and_released(managed: World) -> None:
    managed.land(NW, sales(1, 2))
    first = managed.ingest(NW).row.snapshot_id
    managed.commit(NW, 3)
    partition = managed.partition(NW)
    assert first is not None

    restored = Restoration(managed.stream, partition, first, hold=True).run()

    totals = "SELECT total FROM retail.sales ORDER BY 1"
    assert rows(managed, totals) == [(1.0,), (2.0,)]
    assert (restored.files, restored.rows, restored.rows_before) == (None, 2, 1)
    assert managed.ingest(NW).row.status == "skipped"
    entries = history(managed.stream, partition)
    assert [(e.mode, e.rows_before, e.rows, e.kept == e.snapshot) for e in entries] == [
        ("restore", 1, 2, True),
        ("replace", 2, 1, True),
        ("replace", 0, 2, True),
    ]
    assert diff(managed.stream, partition, DiffOptions(first, keys=["id"])).is_equal
    with pytest.raises(CatalogError, match="there is no snapshot 999"):
        Restoration(managed.stream, partition, 999).run()
    release(managed.stream, partition)
    managed.ingest(NW)
    assert rows(managed, totals) == [(3.0,)]
