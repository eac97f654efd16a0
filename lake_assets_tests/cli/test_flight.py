"""The environment alone: the command line and Dagster find its one stream."""

import datetime as dt
import io
import os
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dev.servers.web import WebServer
from lake_assets.cli import main
from lake_assets.definitions import defs
from lake_assets_tests.orchestration.instances import tick_of

Run = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("sessions")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in an empty folder, with these variables and no others of ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lake_assets.base.errors._in_terms", str)  # which a config of variables replaces
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAKE_CONFIG"))]:
        monkeypatch.delenv(name)

    def command(*arguments: str, **variables: str) -> Result:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(main, [*arguments])

    return command


def land(folder: Path, *totals: float) -> None:
    """Write rows with these totals into a file of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"total": list(totals), "id": list(range(len(totals)))}), folder / "a.parquet")


def rows(run: Run, sql: str) -> list[str]:
    return run("query", sql).stdout.splitlines()[1:]


def test_a_partition_is_loaded_and_loaded_again(run: Run, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    land(landing / "year=2025", 1, 2)
    land(landing / "year=2024", 5)
    variables = {"SOURCE_GLOB": f"{landing}/year=*/*.parquet", "DESTINATION_TABLE": "stats"}

    assert run("validate", **variables).exit_code == 0
    first = run("ingest", LOAD_PARTITION="2025")
    land(landing / "year=2025", 3, 4, 9)
    planned = run("plan")
    again = run("ingest")
    other = run("ingest", LOAD_PARTITION="2024")

    assert [r.exit_code for r in (first, planned, again, other)] == [0, 0, 0, 0], first.output + again.output
    assert "replace the partition" in planned.stdout
    sql = "SELECT year, typeof(year), sum(total) FROM stats GROUP BY ALL ORDER BY 1"
    assert rows(run, sql) == ["2024,BIGINT,5", "2025,BIGINT,16"]


def test_the_schedule_requests_the_partition_that_is_loaded(run: Run, tmp_path: Path) -> None:
    """The pages' tests load a date with a projection."""
    variables = {
        "SOURCE_GLOB": f" {tmp_path}/landing/**/*.parquet ",
        "PARTITION_COLUMN": " day",
        "LOAD_PARTITION": "2026-02-12 ",
        "DESTINATION_TABLE": "sales",
        "SCHEDULE": "30 6 * * *",
    }
    assert run("validate", **variables).exit_code == 0
    repository = defs().get_repository_def()

    (schedule,) = repository.schedule_defs
    at = dt.datetime(2026, 6, 1, 6, 30, tzinfo=dt.UTC)
    with dg.DagsterInstance.local_temp() as instance:
        ticked = tick_of(schedule, instance, scheduled_execution_time=at, repository_def=repository)
    assert schedule.cron_schedule == "30 6 * * *"
    assert [request.partition_key for request in ticked.run_requests or ()] == ["2026-02-12"]


def test_hints_name_variables_and_no_keys_of_a_config_here_and_in_dagster(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"year": [dt.date(2025, 1, 1)], "total": [1.0]}), tmp_path / "a.parquet")
    variables = {"SOURCE_GLOB": f"{tmp_path}/*.parquet", "DESTINATION_TABLE": "stats", "HIVE_PARTITIONING": "false"}

    other_type = run("ingest", LOAD_PARTITION="2025", **variables)
    with dg.DagsterInstance.ephemeral() as instance:
        asset = defs().get_repository_def().assets_defs_by_key[dg.AssetKey("stats")]
        result = dg.materialize([asset], partition_key="2025", instance=instance, raise_on_error=False)
        (failed,) = [event for event in result.all_events if event.is_step_failure]
        (seen,) = instance.fetch_observations(asset.key, limit=1).records
    absent = run("ingest", SOURCE_GLOB=f"{tmp_path}/none/*.parquet")
    doctor = run("doctor")

    hint = "correct LOAD_PARTITION, whose form decides the column's type"
    assert hint in other_type.stderr
    assert failed.step_failure_data.error is not None
    assert hint in failed.step_failure_data.error.message
    assert hint in str(seen.asset_observation.metadata["fix"].value)  # type: ignore[union-attr]
    assert "create it, or correct SOURCE_GLOB" in absent.stderr
    assert "in the config" not in other_type.stderr + absent.stderr
    assert doctor.exit_code == 1
    assert "the config of the variables is valid" in doctor.stdout
    assert "create it, or correct SOURCE_GLOB" in doctor.stdout


@pytest.mark.more
def test_files_of_a_web_server(run: Run, web: WebServer) -> None:
    for year, totals in {"2024": [1.0], "2025": [2.0, 4.0]}.items():
        body = io.BytesIO()
        pq.write_table(pa.table({"total": totals}), body)
        web.put(f"stats/year={year}/all.parquet", body.getvalue())

    done = [
        run("ingest", SOURCE_GLOB=glob, DESTINATION_TABLE="stats", LOAD_PARTITION=year)
        for year, glob in (
            ("2024", f"{web.url}/stats/year=*/all.parquet"),
            ("2025", f"{web.url}/stats/year=2025/all.parquet"),
            ("2024", f"{web.url}/stats/year=*/all.parquet"),
        )
    ]
    absent = run("ingest", LOAD_PARTITION="2019")
    checked = run("check", LOAD_PARTITION="2025")
    report = run("report")

    assert [r.exit_code for r in done] == [0, 0, 0], done[0].output
    assert "skipped    year=2024  unchanged" in done[2].stdout
    assert rows(run, "SELECT year, sum(total) FROM stats GROUP BY 1 ORDER BY 1") == ["2024,1.0", "2025,6.0"]
    assert absent.exit_code == 1
    assert "the source partition has no rows" in absent.stderr
    assert (checked.exit_code, report.exit_code) == (0, 0), checked.output + report.output
    refused = run("land", "stats", "-")
    assert "is a web server, to which nothing can be written" in refused.stderr
