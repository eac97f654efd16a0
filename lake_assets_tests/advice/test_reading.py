"""Advice of errors of Spark's reading, and of transforms that read other tables."""

import datetime as dt
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

import lake_assets
from lake_assets.lake.session import TableName
from lake_assets.spark_reader import LakeReader, LakeSource, TablePart, _Found
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.spark.task.test_scanned_rows import apply, lake_in
from lake_assets_tests.template_lakes import create_by_copy
from lake_assets_tests.world import NW, World, plan, sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

case = Cases()
T = TableName("main", "t")


def count(found: _Found) -> int:
    """The rows that tasks of Spark read."""
    reader = LakeReader(found.lake, found.scan, found.first)
    return sum(batch.num_rows for work in reader.partitions() for batch in reader.read(work))


# What is read.


@case
def a_table_column_and_option_are_spelled_rightly(local_world: World, spark: "SparkSession") -> Steps:
    local_world.commit(NW, 1)
    read = partial(lake_assets.read, spark, local_world.config)
    yield partial(read, "main.sale"), "table_scan.py: did you mean "
    yield partial(read, "sales", columns=["totl"]), "table_scan.py: did you mean "
    assert read("main.sales", columns=["total"]).collect() == [(1,)]
    options = {"config": "lake.yaml", "versoin": "1"}
    yield partial(_Found.of_options, options, None), "spark_reader.py: did you mean "
    return None


@case
def a_snapshot_is_one_that_the_lake_has(local_world: World, spark: "SparkSession") -> Steps:
    snapshot = local_world.commit(NW, 1).snapshot_id
    assert snapshot is not None
    read = partial(lake_assets.read, spark, local_world.config)
    yield partial(read, version=99), "name another version"
    yield partial(read, timestamp=dt.datetime(1999, 1, 1, tzinfo=dt.UTC)), "name another timestamp"
    for named in ({"version": snapshot}, {"timestamp": dt.datetime.now(dt.UTC)}):
        assert read(**named).count() == 1
    yield (
        partial(read, version=snapshot, timestamp=dt.datetime.now(dt.UTC)),
        "give one of version, timestamp and changes_between",
    )
    yield partial(read, changes_between=(snapshot, snapshot - 1)), "write the earlier one first"
    assert read(changes_between=(snapshot - 1, snapshot)).count() == 1
    return None


@case
def a_lake_without_tables_is_read_at_a_version_that_has_some(tmp_path: Path) -> Steps:
    lake = lake_in(tmp_path)
    apply(lake, ("CREATE TABLE lake.t AS SELECT 1 AS x", "DROP TABLE lake.t"))
    yield partial(_Found.of, lake, T, TablePart()), "name a version that it has"
    assert count(_Found.of(lake, T, TablePart(at=1))) == 1
    return None


@case
def an_option_is_written_as_the_error_shows(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(NW, 1)
    options = {"config": str(local_world.config_file(tmp_path)), "path": "sales"}
    read = partial(_Found.of_options, folder=None)
    yield partial(read, options | {"version": "newest"}), "pass "
    yield partial(read, options | {"changes_between": "1"}), "pass "
    newest = max(row.snapshot for row in local_world.ledger())
    for more in ({"version": str(newest)}, {"changes_between": f"{newest}..{newest}"}):
        assert count(read(options | more)) == 1
    return None


@case
def columns_are_named_by_the_option_and_not_by_a_schema(local_world: World, tmp_path: Path) -> Steps:
    local_world.commit(NW, 1)
    options = {"config": str(local_world.config_file(tmp_path)), "path": "sales"}
    read = partial(LakeSource(options).reader, StructType().add("total", "double"))
    yield read, "give no schema. The option columns names those to read, and a query casts them"
    assert LakeSource(options | {"columns": "total"}).schema().names == ["total"]
    return None


# What no task can read.


@case
def a_type_that_spark_lacks_is_left_out(tmp_path: Path) -> Steps:
    lake = lake_in(tmp_path)
    apply(lake, ("CREATE TABLE lake.t AS SELECT 1 AS x, 2::HUGEINT AS y",))
    yield partial(_Found.of, lake, T, TablePart()), "name the columns to read, without it"
    assert count(_Found.of(lake, T, TablePart(["x"]))) == 1
    return None


@case
def inlined_rows_beside_a_column_filename_are_flushed(tmp_path: Path) -> Steps:
    lake = lake_in(tmp_path)
    apply(lake, ("CREATE TABLE lake.t (x INT, filename VARCHAR)", "INSERT INTO lake.t VALUES (1, 'a')"))
    read = partial(_Found.of, lake, T)
    for part in (TablePart(), TablePart(["x"])):
        yield partial(count, read(part)), "write them into files: `CALL ducklake_flush_inlined_data`"
    apply(lake, ("CALL ducklake_flush_inlined_data('lake')",))
    assert count(read(TablePart())) == count(read(TablePart(["x"]))) == 1
    return None


@case
def deletion_vectors_are_written_again(tmp_path: Path) -> Steps:
    lake = lake_in(tmp_path)
    fill = "CREATE TABLE lake.t AS SELECT range AS x FROM range(1000)"
    apply(lake, (fill, "CALL lake.set_option('write_deletion_vectors', true)", "DELETE FROM lake.t WHERE x < 500"))
    read = partial(_Found.of, lake, T, TablePart())
    yield (
        partial(count, read()),
        "let it write them again: `CALL ducklake_rewrite_data_files` | table_scan.py: read by lake_assets.connect",
    )
    apply(lake, ("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)",))
    assert count(read()) == 500
    return None


@case
def a_nested_column_that_was_another_is_left_out_of_an_encrypted_table(tmp_path: Path) -> Steps:
    lake = lake_in(tmp_path, attach_options={"encrypted": True})
    fill = "CREATE TABLE lake.t AS SELECT range AS x, {'a': range} AS s FROM range(1000)"
    apply(lake, (fill, "ALTER TABLE lake.t ADD COLUMN s.b INT"))
    yield (
        partial(count, _Found.of(lake, T, TablePart())),
        "decryption.py: read by lake_assets.connect | name the other columns",
    )
    assert count(_Found.of(lake, T, TablePart(["x"]))) == 1000
    return None


@case
def a_worker_that_decrypts_gets_duckdb(tmp_path: Path) -> Steps:
    lake = lake_in(tmp_path, attach_options={"encrypted": True})
    apply(lake, ("CREATE TABLE lake.t AS SELECT range AS x FROM range(1000)",))
    found = _Found.of(lake, T, TablePart())
    reader = LakeReader(found.lake, found.scan)
    (work,) = reader.partitions()

    def read_without_duckdb() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "duckdb", None)
            patch.delitem(sys.modules, "lake_assets.spark.task.decryption", raising=False)
            next(reader.read(work))

    yield read_without_duckdb, "install duckdb there, in the version of this machine"
    assert sum(batch.num_rows for batch in reader.read(work)) == 1000
    return None


@case
def a_file_that_is_gone_is_of_a_table_that_is_read_again(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    found = _Found.of(local_world.stream.lake_config, local_world.stream.table, TablePart())
    old = local_world.live_files()
    local_world.commit(NW, 2, 3)
    for file in old:
        Path(file).unlink()
    yield (
        partial(count, found),
        "read the table again; `maintenance.expire_older_than` and `delete_older_than` keep files for longer",
    )
    assert count(_Found.of(found.lake, found.scan.table, TablePart())) == 2
    return None


# Tables of a transform.


@case
def a_table_of_a_transform_is_loaded_or_corrected(local_world: World) -> Steps:
    sql = "SELECT s.* FROM source s SEMI JOIN stores USING (id)"
    local_world.options = {"transform": {"sql": sql, "tables": ["stores"]}}
    create_by_copy(local_world.config.lakes["test"])
    local_world.land(NW, sales(1, 2))
    yield "load that table first"
    local_world.execute("CREATE TABLE lake.stores AS SELECT 0 AS id, 1::HUGEINT AS large")
    for verb in (partial(local_world.ingest, NW), partial(plan, local_world.stream, local_world.partition(NW))):
        yield verb, "drop it from a table that a transform joins"
    local_world.execute("ALTER TABLE lake.stores DROP COLUMN large")
    local_world.ingest(NW)
    local_world.options = {"transform": {"sql": sql, "tables": ["store"]}}
    yield "correct transform.tables"
    local_world.options = {"transform": {"sql": sql, "tables": ["stores"]}}
    return [1]


@pytest.mark.parametrize("case", case)
def test_advice_that_is_followed_ends_in_the_right_rows(case: Case, request: pytest.FixtureRequest) -> None:
    follow(case, request)
