"""The commands as a user sees them: exit codes, one clear paragraph for an error, and no traceback."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dev.plain_client import plain_client
from lake_assets.cli import main
from lake_assets.config.load import load_config
from lake_assets_tests.world import NW, SW, World, sales

Run = Callable[..., Result]


@pytest.fixture
def run(local_world: World, tmp_path: Path) -> Run:
    """Runs a command on the world's config, which is written each time."""

    def command(*arguments: str, stdin: str | None = None) -> Result:
        file = local_world.config_file(tmp_path)
        return CliRunner().invoke(main, ["--config", str(file), *arguments], input=stdin)

    return command


@pytest.fixture
def ingested(local_world: World) -> World:
    """A world with two partitions in the lake."""
    for text, rows in ((NW, sales(1, 2)), (SW, sales(3))):
        local_world.land(text, rows)
        local_world.ingest(text)
    return local_world


def test_ingest_skips_what_it_has_ingested(local_world: World, run: Run, spark: object) -> None:
    assert spark
    local_world.land(NW, sales(1, 2))

    first = run("ingest", "sales", "--partition", NW)
    second = run("ingest", "sales", "--partition", NW)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    assert "committed  region=NW/date=2026-02-11  2 rows (before: 0), 1 file" in first.output
    assert "skipped    region=NW/date=2026-02-11  unchanged" in second.output
    assert local_world.totals() == [1, 2]


def test_a_partition_that_fails_does_not_stop_the_others(ingested: World, run: Run) -> None:
    uri = ingested.land(NW, b"no parquet")
    ingested.land(SW, sales(30))

    result = run("ingest", "sales", "--partition", NW, "--partition", SW)

    assert result.exit_code == 1
    assert f"Error: the object {uri} cannot be read as Parquet" in result.stderr
    assert "Traceback" not in result.output
    assert "1 of 2 partitions failed." in result.stderr
    assert ingested.totals() == [1, 2, 30]


def test_debug_shows_the_traceback(ingested: World, run: Run) -> None:
    ingested.land(NW, b"no parquet")

    assert "Traceback" in run("--debug", "ingest", "sales", "--partition", NW).stderr


def test_a_plan_shows_read_replaced_written_and_sql(ingested: World, run: Run) -> None:
    uri = ingested.land(NW, sales(5, 6, 7))

    result = run("plan", "sales", "--partition", NW)

    assert result.exit_code == 0
    for part in (
        "sales region=NW/date=2026-02-11: replace the partition",
        "1 object",
        Path(uri).name,
        "2 rows of main.sales",
        "about 1 file",
        'DELETE FROM "lake"."main"."sales" WHERE "region" = ? AND "date" = ?',
        "with 'NW', '2026-02-11'",
        "ducklake_add_data_files",
    ):
        assert part in result.output
    assert ingested.totals() == [1, 2, 3]


def test_a_plan_that_would_fail_exits_with_1(ingested: World, run: Run) -> None:
    ingested.unland(NW)

    result = run("plan", "sales", "--partition", NW)

    assert result.exit_code == 1
    assert "fail: the source partition has no objects" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "sales", "--partition", "region=NW,date=notadate"], "date='notadate' is not of type date"),
        (["plan", "sales", "--partition", "area=NW"], "write region=…,date=…"),
        (["plan", "nope", "--partition", NW], "there is no stream 'nope': the config has sales"),
        (["ingest", "sales"], "several partitions: name one or more by --partition region=…,date=…"),
        (["query", "SELECT 1", "--lake", "nope"], "there is no lake 'nope'"),
        (["query", "DELETE FROM sales"], "`query` only reads, so DELETE is refused"),
        (["query", "SELECT 1; SELECT 2"], "one statement at a time"),
        (["query", "CALL ducklake_expire_snapshots('lake')"], "`query` only reads"),
        (["ledger", "--limit", "0"], "--limit"),
        (["ledger", "--since", "yesterday"], "'yesterday' is no day or time: write 2026-02-11"),
        (["nope"], "No such command"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_is_right(
    ingested: World, run: Run, arguments: list[str], message: str
) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert ingested.totals() == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"descripton": "x"}, "lake.yaml:20:5: streams.sales.descripton: unknown key: did you mean description?"),
        ({"on_empty": "maybe"}, "streams.sales.on_empty"),
        ({"destination": {"table": "sales; DROP TABLE x"}}, "is not an identifier"),
    ],
)
def test_an_invalid_config_stops_every_command_with_line_and_field(
    local_world: World, run: Run, options: dict[str, object], message: str
) -> None:
    local_world.options = options

    for command in (["validate"], ["plan", "sales", "--partition", NW], ["ledger"]):
        result = run(*command)
        assert result.exit_code == 1
        assert message.split(": ", 1)[-1] in " ".join(result.stderr.split())
        assert "Traceback" not in result.output


def test_a_missing_lake_is_an_error_with_the_hint(run: Run) -> None:
    for command in (["ledger"], ["query", "SELECT 1"]):
        result = run(*command)
        assert result.exit_code == 1
        assert "ingest a partition first" in result.stderr


def test_validate_says_what_the_config_holds(run: Run) -> None:
    result = run("validate")

    assert result.exit_code == 0
    assert "region (string), date (date)" in result.output
    assert "The config is valid." in result.output


def test_query_writes_csv_into_a_pipe_and_json_on_request(ingested: World, run: Run) -> None:
    sql = "SELECT region, total, NULL AS nothing FROM sales ORDER BY total"

    table = list(csv.DictReader(io.StringIO(run("query", sql).stdout)))
    objects = json.loads(run("query", "-", "--format", "json", stdin=sql).stdout)

    assert table[0] == {"region": "NW", "total": "1.0", "nothing": ""}
    assert objects[2] == {"region": "SW", "total": 3.0, "nothing": None}
    assert "3 rows" in run("query", sql, "--format", "table").output
    assert ingested.totals() == [1, 2, 3]


def test_a_query_that_does_not_parse_shows_the_place(ingested: World, run: Run) -> None:
    result = run("query", "SELECT nope FROM sales")

    assert ingested
    assert result.exit_code == 1
    assert "nope" in result.stderr
    assert "Traceback" not in result.output


def test_the_ledger_is_filtered_by_stream_and_partition(ingested: World, run: Run) -> None:
    rows = json.loads(run("ledger", "--stream", "sales", "--partition", NW, "--json").stdout)

    assert [(row["load_partition"], row["status"], row["row_count"]) for row in rows] == [
        ("region=NW/date=2026-02-11", "committed", 2)
    ]
    assert len(json.loads(run("ledger", "--json").stdout)) == 2
    assert "region=SW/date=2026-02-11" in run("ledger", "--format", "table").output
    assert ingested.totals() == [1, 2, 3]


def test_the_ledger_is_filtered_by_time(ingested: World, run: Run) -> None:
    newest, oldest = (row.finished_at for row in ingested.ledger())
    assert newest is not None
    assert oldest is not None

    def partitions(*options: str) -> list[str]:
        return [row["load_partition"] for row in json.loads(run("ledger", "--json", *options).stdout)]

    (last,) = partitions("--since", newest.isoformat())
    assert partitions("--until", newest.replace(tzinfo=None).isoformat()) == [  # in UTC
        path for path in partitions() if path != last
    ]
    assert partitions("--since", "2026-01-01", "--until", oldest.isoformat()) == []


def test_the_schema_is_json_and_knows_the_keys() -> None:
    schema = json.loads(CliRunner().invoke(main, ["schema"]).stdout)

    assert "on_empty" in schema["$defs"]["Stream"]["properties"]


def test_doctor_checks_the_machine_and_everything_that_the_config_names(ingested: World, run: Run) -> None:
    result = run("doctor")

    assert result.exit_code == 0, result.output
    for subject in ("Python", "Java", "packages", "DuckDB ducklake", "catalog of test", "source of sales"):
        assert f"✓ {subject}" in result.output
    assert ingested


def test_doctor_names_what_is_missing_with_the_hint(local_world: World, run: Run) -> None:
    local_world.source["path"] += "/nowhere"

    result = run("doctor")

    assert result.exit_code == 1
    assert "✗ source of sales" in result.output
    assert "does not exist: create it" in result.output


def test_help_needs_neither_spark_nor_dagster_nor_duckdb() -> None:
    code = (
        "import sys; from lake_assets.cli import main; main(['--help'], standalone_mode=False); "
        "sys.exit(bool({'pyspark', 'dagster', 'duckdb', 'pyarrow'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.long
def test_the_demo_runs_in_an_empty_folder(tmp_path: Path) -> None:
    script = str(Path(sys.executable).with_name("lake-assets"))
    for _ in range(2):  # the second from what the first has left
        done = subprocess.run(
            [script, "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False, env=os.environ
        )
        assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr

    (demo,) = load_config(tmp_path / "demo" / "lake.yaml").lakes.values()
    with plain_client(demo) as client:
        counted = "SELECT origin, date, count(*) FROM {} GROUP BY ALL ORDER BY ALL"
        lake = client.sql(counted.format("lake.flights")).fetchall()
        landed = f"read_parquet('{tmp_path}/demo/landing/flights/*/*/*.parquet', hive_partitioning=true)"
        source = client.sql(counted.format(landed)).fetchall()
        runs = dict(client.sql("SELECT status, count(*) FROM lake.ingest_runs GROUP BY ALL").fetchall())
    assert len(source) == 1095
    assert len(lake) == 21
    assert set(lake) < set(source)
    assert runs == {"committed": 25, "skipped": 6}


@pytest.mark.long
def test_the_demo_leaves_a_foreign_folder_alone(tmp_path: Path) -> None:
    mine = tmp_path / "demo" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")

    result = CliRunner().invoke(main, ["demo", "--folder", str(mine.parent)])

    assert result.exit_code == 1
    assert "was not made by the demo" in result.stderr
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]
