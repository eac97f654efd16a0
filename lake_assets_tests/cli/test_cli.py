"""The commands as a user sees them: exit codes, one clear paragraph for an error, and no traceback."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dev.plain_client import plain_client
from lake_assets.cli import main
from lake_assets.streams.load import load_config
from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, SW, World, sales


@pytest.fixture
def ingested(local_world: World) -> World:
    """A world with two partitions in the lake."""
    local_world.commit(NW, 1, 2)
    local_world.commit(SW, 3)
    return local_world


def test_ingest_skips_what_it_has_ingested(local_world: World, run: Run) -> None:
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
    assert "sales: 1 of 2 partitions committed, 1 row, 1 failed, in " in result.stderr
    assert ingested.totals() == [1, 2, 30]
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


WRONG = [
    (["plan", "sales", "--partition", "region=NW,date=notadate"], "date='notadate' is not of type date"),
    (["plan", "sales", "--partition", "area=NW"], "write region=…,date=…"),
    (["plan", "nope", "--partition", NW], "there is no stream 'nope': use sales"),
    (["query", "SELECT 1", "--lake", "nope"], "there is no lake 'nope'"),
    (["query", "DELETE FROM sales"], "`query` only reads, so DELETE is refused"),
    (["query", "SELECT * FROM DuckLake_Merge_Adjacent_Files('lake')"], "`query` only reads"),
    (["query", "CREATE TEMP TABLE t (i INT)"], "`query` only reads"),
    (["query", ""], "one statement at a time"),
    (["query", "SELECT 1; SELECT 2"], "one statement at a time"),
    (["ledger", "tpyo"], "there is no stream 'tpyo': use sales."),
    (["ledger", "--limit", "0"], "--limit"),
    (["ledger", "--since", "yesterday"], "'yesterday' is neither a day nor a time: write 2026-02-11"),
    (["nope"], "No such command"),
    (["schema", "plan", "sales"], "sales is a stream, of which only infer prints something"),
    (["maintain", "--lake", "tset"], "there is no lake 'tset': did you mean test?"),
    (["check", "--only", "rows"], "stream sales has no check 'rows': use last_run, row_counts, "),
    (["index", "sales"], "`lake-assets ingest` is its command"),
    (["index", "sales", "--check", "--repair"], "--repair"),
    (["restore", "sales", "--partition", NW], "--snapshot"),
    (["restore", "sales", "--partition", NW, "--release", "--hold"], "--release"),
]


def test_wrong_use_exits_with_2_and_says_what_is_right(ingested: World, run: Run) -> None:
    for arguments, message in WRONG:
        result = run(*arguments)

        assert (result.exit_code, message in " ".join(result.stderr.split())) == (2, True), (arguments, result.output)
    assert ingested.totals() == [1, 2, 3]


def test_of_several_lakes_one_is_named_and_the_layout_is_shown_as_it_is_written(local_world: World, run: Run) -> None:
    other = {"catalog": {"type": "sqlite", "path": "other.sqlite"}, "storage": local_world.storage}
    local_world.options = {"lake": "test", "layout": "/{region}/date={date}"}  # as OLake's, with a slash
    local_world.sections = {"lakes": local_world.document["lakes"] | {"other": other}}

    query, validate = run("query", "SELECT 1"), run("validate")

    text = "the config has several lakes: choose one with --lake (test, other)."
    assert (query.exit_code, text in query.stderr) == (2, True)
    assert "/{region}/date={date}" in validate.output
    assert "//{region}" not in validate.output


def test_an_invalid_config_stops_every_command_with_line_and_field(local_world: World, run: Run) -> None:
    for options, message in (
        ({"descripton": "x"}, "streams.sales.descripton: unknown key: did you mean description?"),
        ({"destination": {"table": "sales; DROP TABLE x"}}, "is not an identifier"),
    ):
        local_world.options = options
        for command in (["validate"], ["plan", "sales", "--partition", NW], ["ledger"]):
            result = run(*command)

            assert (result.exit_code, message in " ".join(result.stderr.split())) == (1, True), result.stderr
            assert "Traceback" not in result.output


def test_query_writes_csv_into_a_pipe_and_json_on_request(ingested: World, run: Run) -> None:
    sql = "SELECT region, total, NULL AS nothing FROM sales ORDER BY total"

    table = list(csv.DictReader(io.StringIO(run("query", sql).stdout)))
    objects = json.loads(run("query", "-", "--format", "json", stdin=sql).stdout)
    wrong = run("query", "SELECT nope FROM sales")

    assert table[0] == {"region": "NW", "total": "1.0", "nothing": ""}
    assert objects[2] == {"region": "SW", "total": 3.0, "nothing": None}
    assert "3 rows" in run("query", sql, "--format", "table").output
    assert run("query", "PIVOT sales ON region USING sum(total)").exit_code == 0
    assert (wrong.exit_code, "nope" in wrong.stderr, "Traceback" in wrong.output) == (1, True, False)
    assert ingested.totals() == [1, 2, 3]


def test_the_ledger_is_filtered_by_stream_partition_and_time(ingested: World, run: Run) -> None:
    newest, oldest = (row.finished_at for row in ingested.ledger())
    assert newest is not None
    assert oldest is not None

    def rows(*options: str) -> list[tuple[str, str, int]]:
        found = json.loads(run("ledger", "--format", "json", *options).stdout)
        return [(row["load_partition"].split("/")[0], row["status"], row["row_count"]) for row in found]

    nw, sw = ("region=NW", "committed", 2), ("region=SW", "committed", 1)
    assert rows() == [sw, nw]
    assert rows("sales", "--partition", NW) == [nw]
    assert rows("--since", newest.isoformat()) == [sw]
    assert rows("--until", newest.replace(tzinfo=None).isoformat()) == [nw]  # in UTC
    assert rows("--since", "2026-01-01", "--until", oldest.isoformat()) == []
    assert "region=SW/date=2026-02-11" in run("ledger", "--format", "table").output


def test_help_needs_neither_spark_nor_dagster_nor_duckdb() -> None:
    code = (
        "import sys; from lake_assets.cli import main; main(['--help'], standalone_mode=False); "
        "sys.exit(bool({'pyspark', 'dagster', 'duckdb', 'pyarrow'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.more
@pytest.mark.usefixtures("ingested")
def test_commands_that_start_no_spark_do_not_import_it(tmp_path: Path) -> None:
    commands = [["plan", "sales", "--waiting"], ["ingest", "sales", "--waiting"], ["ledger", "sales"]]
    code = (
        "import sys\n"
        "from lake_assets.cli import main\n"
        f"for command in {commands}:\n"
        f"    main(['--config', '{tmp_path / 'lake.yaml'}', *command], standalone_mode=False)\n"
        "print({'pyspark'} & set(sys.modules))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.journey
@pytest.mark.usefixtures("spark")
def test_the_demo_runs_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 0, done.output

    (demo,) = load_config(tmp_path / "demo" / "lake.yaml").lakes.values()
    with plain_client(demo) as client:
        counted = "SELECT origin, date, count(*) FROM {} GROUP BY ALL ORDER BY ALL"
        lake = client.sql(counted.format("lake.flights")).fetchall()
        landed = f"read_parquet('{tmp_path}/demo/landing/flights/*/*/*.parquet', hive_partitioning=true)"
        source = client.sql(counted.format(landed)).fetchall()
        statuses = dict(client.sql("SELECT status, count(*) FROM lake.ingest_runs GROUP BY ALL").fetchall())
    assert len(source) == 1095
    assert len(lake) == 21
    assert set(lake) < set(source)
    assert statuses == {"committed": 25, "skipped": 6}
