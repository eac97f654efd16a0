"""A query reads the lake only: no other files, addresses or credentials, and no writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dev.servers.s3 import S3Server
from lake_assets.cli import main
from lake_assets.config.lake import Lake
from lake_assets.lake.connecting import RefusedQueryError, check_reads, open_confined
from lake_assets.lake.ducklake import DuckLake
from lake_assets_tests.world import World

LOCAL = Lake.model_validate({"catalog": {"type": "sqlite", "path": "c"}, "storage": "data"})
REMOTE = Lake.model_validate({"catalog": {"type": "sqlite", "path": "c"}, "storage": "s3://lake/tables"})
MOTHERDUCK = Lake.model_validate({"catalog": {"type": "motherduck", "database": "retail"}})

WRITES = (
    "INSERT INTO sales VALUES (1)",
    "ATTACH ':memory:' AS other",
    "DETACH lake",
    "FROM ducklake_delete_orphaned_files('lake', cleanup_all => true)",
    "FROM ducklake_cleanup_old_files('lake', cleanup_all => true)",
    "SELECT * FROM \"DuckLake_Expire_Snapshots\"('lake')",
    "FROM /* a */ ducklake_set_option /* b */ ('lake', 'x', 'y')",
    "FROM\u200bducklake_merge_adjacent_files\u00a0('lake')",
    "FROM query('FROM duckl' || 'ake_cleanup_old_files(''lake'')')",
    "SELECT 1 FROM system.main.\"query\" -- it is\n('SELECT 1')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "EXPLAIN ANALYZE FROM ducklake_flush_inlined_data('lake')",
    "FROM checkpoint('lake')",
    "COPY (SELECT 1) TO 'out.csv'",
    "INSTALL httpfs",
    "PRAGMA enable_profiling",
    "SET enable_external_access = true",
    "SELECT 1; SELECT 2",
    "",
)
REACHES = (
    "FROM sqlite_scan('other.sqlite', 's')",
    "FROM postgres_query('__ducklake_metadata_lake', 'SELECT 1')",
    "FROM postgres_scan('host=10.0.0.1', 'public', 't')",
    "FROM duckdb_secrets()",
    "FROM which_secret('s3://lake/tables/x', 's3')",
    "FROM load_aws_credentials()",
    "FROM arrow_scan(1, 2, 3)",
)


@pytest.mark.parametrize("sql", WRITES + REACHES)
def test_functions_that_write_or_open_others_are_refused_by_name(sql: str) -> None:
    for lake in (LOCAL, REMOTE):
        with pytest.raises(RefusedQueryError, match=r"is refused|one statement at a time"):
            check_reads(sql, lake)


@pytest.mark.parametrize(
    ("sql", "lake"),
    [
        ("FROM read_blob('s3://lake/tables/x?s3_endpoint=elsewhere')", REMOTE),
        ("FROM 's3://lake/tables/x.parquet?s3_endpoint=elsewhere'", REMOTE),
        ("FROM glob('s3://lake/tables/**')", REMOTE),
        ("SELECT current_setting('motherduck_token')", MOTHERDUCK),
        ("FROM duckdb_settings()", MOTHERDUCK),
    ],
)
def test_more_functions_are_refused_if_the_lake_has_credentials(sql: str, lake: Lake) -> None:
    check_reads(sql, LOCAL)
    with pytest.raises(RefusedQueryError, match="is refused"):
        check_reads(sql, lake)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT query FROM t WHERE note = 'query(1)' -- sqlite_scan(\n",
        "SELECT 'é', $$ducklake_expire_snapshots('lake')$$",
        "PIVOT t ON region USING sum(total)",
        "FROM t AT (VERSION => 3)",
        "FROM lake.snapshots()",
        "FROM ducklake_table_changes('lake', 'main', 't', 0, 3)",
        "DESCRIBE t",
        "SUMMARIZE t",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "SELECT url FROM t WHERE url LIKE 'https://%'",
    ],
)
def test_statements_that_read_are_accepted(sql: str) -> None:
    check_reads(sql, REMOTE)


@pytest.fixture
def lake(world: World) -> DuckLake:
    """A lake with a table of one file and one of inlined rows."""
    result = DuckLake(world.config.lakes["test"])
    with result.open(create=True) as session:
        session.rows("CREATE TABLE lake.numbers AS SELECT range AS n FROM range(5000)")
        session.rows("CREATE TABLE lake.few AS SELECT 1 AS n")
    return result


def answer(lake: DuckLake, sql: str) -> list[tuple[Any, ...]]:
    with open_confined(lake) as session:
        return session.connection.sql(sql).fetchall()


def test_the_lake_is_read_on_every_catalog_and_storage(lake: DuckLake) -> None:
    assert answer(lake, "SELECT (SELECT count(*) FROM numbers), (SELECT n FROM few)") == [(5000, 1)]
    assert answer(lake, "SELECT count(*) FROM numbers AT (VERSION => 1)") == [(5000,)]
    with lake.open() as session:  # the engine of the commits is as it was
        session.rows("SET threads = 1")


@pytest.mark.parametrize(
    "world",
    [
        ("sqlite", "local"),
        *(pytest.param(pair, marks=pytest.mark.more) for pair in [("duckdb", "local"), ("postgres", "s3")]),
    ],
    indirect=True,
)
def test_no_other_file_or_address_is_reachable(lake: DuckLake, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    outside = tmp_path / "outside.csv"
    outside.write_text("a\n1\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "outside.parquet")
    storage = lake.config.own_storage.root
    places = [str(outside), f"{tmp_path}/*", f"{tmp_path}/data/../outside.csv", "http://127.0.0.1:1/x", "/etc/passwd"]
    if storage.startswith("s3://"):
        server: S3Server = request.getfixturevalue("s3")
        bucket = server.new_bucket()
        server.put(bucket, "x.csv", b"a\n1\n")
        places += [f"s3://{bucket}/x.csv", f"{storage.rpartition('/')[0]}/*"]
    with open_confined(lake) as session:
        for place in places:
            for sql in (f"FROM read_text('{place}')", f"FROM glob('{place}')", f"FROM read_csv('{place}')"):
                with pytest.raises(duckdb.Error, match=r"disabled by configuration|not loaded|Missing Extension"):
                    session.connection.sql(sql).fetchall()
        for sql in (f"COPY few TO '{tmp_path}/out.csv'", f"ATTACH '{tmp_path}/other.duckdb'"):
            with pytest.raises(duckdb.Error, match="disabled"):
                session.connection.execute(sql)
        for sql in ("SET enable_external_access = true", "RESET allowed_directories", "SET threads = 1"):
            with pytest.raises(duckdb.Error, match="locked"):
                session.connection.execute(sql)
        with pytest.raises(duckdb.Error, match="disabled"):
            session.connection.execute("FROM duckdb_secrets(redact => false)")
    assert not (tmp_path / "out.csv").exists()


def test_registered_files_outside_the_lake_are_readable(local_world: World, tmp_path: Path) -> None:
    lake = DuckLake(local_world.config.lakes["test"])
    folder = tmp_path / "else where's"
    folder.mkdir()
    pq.write_table(pa.table({"n": pa.array([7], pa.int64())}), folder / "a.parquet")
    with lake.open(create=True) as session:
        session.rows("CREATE TABLE lake.numbers (n BIGINT)")
        session.rows("CALL ducklake_add_data_files('lake', 'numbers', ?)", [str(folder / "a.parquet")])

    assert answer(lake, "FROM numbers") == [(7,)]


@pytest.fixture
def query(local_world: World, tmp_path: Path) -> Callable[..., Result]:
    """`query` by the command line, on a lake beside the config's folder."""
    local_world.storage = {"type": "local", "path": "../it's [a] lake"}
    folder = tmp_path / "config"
    folder.mkdir()
    file = local_world.config_file(folder)
    local_world.storage = {"type": "local", "path": f"{folder}/../it's [a] lake"}
    with DuckLake(local_world.config.lakes["test"]).open(create=True) as session:
        session.rows("CREATE TABLE lake.numbers AS SELECT range AS n FROM range(5000)")
    return lambda sql: CliRunner().invoke(main, ["--config", str(file), "query", sql])


def test_the_command_reads_tables_and_refuses_other_statements(query: Callable[..., Result]) -> None:
    counted = query("SELECT sum(n) s FROM numbers")
    read = query("FROM read_text('/etc/hostname')")
    listed = query("FROM duckdb_secrets()")

    assert (counted.exit_code, counted.stdout) == (0, "s\n12497500\n"), counted.output
    assert (read.exit_code, "name tables. `query` opens only files of the lake" in read.stderr) == (1, True)
    assert (listed.exit_code, "`query` shows no credentials" in listed.stderr) == (2, True)
