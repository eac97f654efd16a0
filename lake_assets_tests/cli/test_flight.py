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

Run = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("spark")  # one session for all commands


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in an empty folder, with these variables and no others of ours."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAKE_CONFIG"))]:
        monkeypatch.delenv(name)

    def command(*arguments: str, **variables: str) -> Result:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(main, [*arguments])

    return command


def land(folder: Path, year: str, *totals: float) -> None:
    place = folder / "landing" / f"year={year}"
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"total": list(totals), "id": list(range(len(totals)))}), place / "a.parquet")


def test_a_partition_is_loaded_and_loaded_again(run: Run, tmp_path: Path) -> None:
    land(tmp_path, "2025", 1, 2)
    land(tmp_path, "2024", 5)
    variables = {"SOURCE_GLOB": f"{tmp_path}/landing/year=*/*.parquet", "DESTINATION_TABLE": "stats"}

    assert run("validate", **variables).exit_code == 0
    first = run("ingest", LOAD_PARTITION="2025")
    land(tmp_path, "2025", 3, 4, 9)
    planned = run("plan")
    again = run("ingest")
    other = run("ingest", LOAD_PARTITION="2024")

    assert [r.exit_code for r in (first, planned, again, other)] == [0, 0, 0, 0], first.output + again.output
    assert "replace the partition" in planned.stdout
    result = run("query", "SELECT year, typeof(year), sum(total) FROM stats GROUP BY ALL ORDER BY 1")
    assert result.stdout.splitlines()[1:] == ["2024,BIGINT,5", "2025,BIGINT,16"]


def test_a_date_a_projection_and_a_schedule(run: Run, tmp_path: Path) -> None:
    for day in (11, 12):
        place = tmp_path / "landing" / f"day=2026-02-{day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"total": [1.0, 2.0], "till": [7, 7]}), place / "a.parquet")
    variables = {
        "SOURCE_GLOB": f" {tmp_path}/landing/**/*.parquet ",
        "PARTITION_COLUMN": " day",
        "LOAD_PARTITION": "2026-02-12 ",
        "HIVE_PARTITIONING": "yes",
        "DESTINATION_TABLE": "sales",
        "TRANSFORM_SQL": "SELECT day, till, sum(total) AS total FROM source GROUP BY day, till",
        "SCHEDULE": "30 6 * * *",
    }

    done = run("ingest", **variables)
    result = run("query", "SELECT day, typeof(day), till, total FROM sales")
    definitions = defs()

    assert done.exit_code == 0, done.output
    assert result.stdout.splitlines()[1:] == ["2026-02-12,DATE,7,3.0"]
    (schedule,) = definitions.get_repository_def().schedule_defs
    at = dt.datetime(2026, 6, 1, 6, 30, tzinfo=dt.UTC)
    with dg.DagsterInstance.local_temp() as instance:
        context = dg.build_schedule_context(
            instance, scheduled_execution_time=at, repository_def=definitions.get_repository_def()
        )
        ticked = schedule.evaluate_tick(context)
    assert schedule.cron_schedule == "30 6 * * *"
    assert [request.partition_key for request in ticked.run_requests or ()] == ["2026-02-12"]


def test_the_column_in_the_files_instead_of_folders(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    (folder / "old").mkdir(parents=True)
    pq.write_table(
        pa.table({"year": pa.array([2024, 2025, None], pa.int32()), "total": [1.0, 2, 4]}), folder / "a.parquet"
    )
    pq.write_table(pa.table({"total": [8.0, 16], "year": ["2025", "2026"]}), folder / "b.parquet")
    pq.write_table(pa.table({"year": [2025], "total": [32.0]}), folder / "old" / "c.parquet")
    variables = {
        "SOURCE_GLOB": f"{folder}/*.parquet",
        "DESTINATION_TABLE": "stats",
        "HIVE_PARTITIONING": "false",
        "LOAD_PARTITION": "2025",
    }

    validated = run("validate", **variables)
    first = run("ingest")
    again = run("ingest")
    planned = run("plan", LOAD_PARTITION="2024")
    other = run("ingest")
    below = run("ingest", SOURCE_GLOB=f"{folder}/**/*.parquet", LOAD_PARTITION="2025")
    none = run("ingest", LOAD_PARTITION="2023")

    assert [r.exit_code for r in (validated, first, again, planned, other, below)] == [0] * 6, first.output
    assert "committed  year=2025  2 rows (before: 0)" in first.stdout
    assert "skipped    year=2025  unchanged" in again.stdout
    assert "2 objects" in planned.stdout
    assert f"{folder}/*.parquet" in planned.stdout
    assert "committed  year=2025  3 rows (before: 2)" in below.stdout
    result = run("query", "SELECT year, typeof(year), sum(total) FROM stats GROUP BY ALL ORDER BY 1")
    assert result.stdout.splitlines()[1:] == ["2024,BIGINT,1.0", "2025,BIGINT,42.0"]
    assert none.exit_code == 1
    assert "the source partition has no rows of year=2023" in none.stderr
    assert "year=2023" not in run("ledger").stdout
    assert run("check").exit_code == 0


def test_hints_name_variables_and_no_keys_of_a_config(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"year": [dt.date(2025, 1, 1)], "total": [1.0]}), tmp_path / "a.parquet")
    variables = {"SOURCE_GLOB": f"{tmp_path}/*.parquet", "DESTINATION_TABLE": "stats", "HIVE_PARTITIONING": "false"}

    other_type = run("ingest", LOAD_PARTITION="2025", **variables)
    absent = run("ingest", SOURCE_GLOB=f"{tmp_path}/none/*.parquet")
    doctor = run("doctor")

    assert "correct LOAD_PARTITION, whose form decides the column's type" in other_type.stderr
    assert "create it, or correct SOURCE_GLOB" in absent.stderr
    assert "in the config" not in other_type.stderr + absent.stderr
    assert doctor.exit_code == 1
    assert "the config of the variables is valid" in doctor.stdout
    assert "create it, or correct SOURCE_GLOB" in doctor.stdout


def test_errors_of_a_run_in_dagster_name_variables_too(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"year": [dt.date(2025, 1, 1)], "total": [1.0]}), tmp_path / "a.parquet")
    variables = {"SOURCE_GLOB": f"{tmp_path}/*.parquet", "DESTINATION_TABLE": "stats", "HIVE_PARTITIONING": "false"}
    assert run("validate", LOAD_PARTITION="2025", **variables).exit_code == 0

    with dg.DagsterInstance.ephemeral() as instance:
        asset = defs().get_repository_def().assets_defs_by_key[dg.AssetKey("stats")]
        result = dg.materialize([asset], partition_key="2025", instance=instance, raise_on_error=False)
        (failed,) = [event for event in result.all_events if event.is_step_failure]
        (seen,) = instance.fetch_observations(asset.key, limit=1).records

    hint = "correct LOAD_PARTITION, whose form decides the column's type"
    assert failed.step_failure_data.error is not None
    assert hint in failed.step_failure_data.error.message
    assert hint in str(seen.asset_observation.metadata["fix"].value)  # type: ignore[union-attr]


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
    assert run("query", "SELECT year, sum(total) FROM stats GROUP BY 1 ORDER BY 1").stdout.splitlines()[1:] == [
        "2024,1.0",
        "2025,6.0",
    ]
    assert absent.exit_code == 1
    assert "the source partition has no rows" in absent.stderr
    assert (checked.exit_code, report.exit_code) == (0, 0), checked.output + report.output
    refused = run("land", "stats", "-")
    assert "is a web server, to which nothing can be written" in refused.stderr


def test_other_folders_and_the_ledgers_schema(run: Run, tmp_path: Path) -> None:
    for region, month in (("NW", "01"), ("SW", "02")):
        place = tmp_path / "in" / f"region={region}" / "year=2025" / f"month={month}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"total": [1.0]}), place / "a.parquet")

    done = run(
        "ingest",
        SOURCE_GLOB=f"{tmp_path}/in/region=*/year=*/month=*/*.parquet",
        DESTINATION_TABLE="stats",
        DESTINATION_SCHEMA="raw",
        LOAD_PARTITION="2025",
    )

    assert done.exit_code == 0, done.output
    result = run("query", "SELECT region, month, year, total FROM raw.stats ORDER BY 1")
    assert result.stdout.splitlines()[1:] == ["NW,01,2025,1.0", "SW,02,2025,1.0"]
    assert run("query", "SELECT row_count FROM raw.ingest_runs").stdout.splitlines()[1:] == ["2"]
    assert "committed" in run("ledger").stdout
    assert run("check").exit_code == 0
