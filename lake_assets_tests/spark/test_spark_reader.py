"""Spark reads a table as DuckLake does, opens no file that it need not, and says what it cannot read."""

import datetime as dt
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import lake_assets
from dev.plain_client import plain_client
from dev.servers.proxy import S3Proxy
from lake_assets.base.errors import CatalogError, ConfigError
from lake_assets.config.lake import Lake
from lake_assets.lake.catalog.table_scan import Scan, scanned_columns
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import TableName
from lake_assets.spark.task.scanned_files import ScanFile
from lake_assets.spark_reader import FORMAT, LakeReader, LakeSource, _Found, _shares, frame, types_of_spark
from lake_assets_tests.spark.task.test_scanned_rows import (
    CREATE,
    FILL,
    FLAT,
    FLUSHED,
    NESTED,
    TABLE,
    apply,
    differences,
    lake_in,
)
from lake_assets_tests.template_lakes import create_by_copy
from lake_assets_tests.world import NW, SW, World
from lake_assets_tests.world_fixtures import bucket_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What Spark has instead of a type, as DuckDB writes it.
AS_SPARK = "SELECT * REPLACE (ti::VARCHAR || '00000' AS ti, ns::TIMESTAMP AS ns) FROM"

HISTORIES = {
    "inlined": ((*FLAT, *NESTED), {}),
    "flushed": ((*FLAT, *NESTED, *FLUSHED), {}),
    "encrypted": ((*FLAT, *FLUSHED), {"attach_options": {"encrypted": True}}),
}


@pytest.fixture
def loaded(local_world: World) -> World:
    """Two partitions of a stream, each with one file."""
    local_world.commit(NW, 1, 1.5)
    local_world.commit(SW, 2, 2.5)
    return local_world


@pytest.fixture
def config(loaded: World, tmp_path: Path) -> str:
    return str(loaded.config_file(tmp_path))


def totals(rows: "DataFrame") -> list[float]:
    return sorted(row.total for row in rows.select("total").collect())


def by_format(
    spark: "SparkSession", config: str, table: str | None = None, schema: str | None = None, **options: Any
) -> "DataFrame":
    """The rows as a user of Spark's reader gets them."""
    lake_assets.register(spark)
    reader = spark.read.format(FORMAT).option("config", config).options(**options)
    return reader.load(table, schema=schema)


def refused(spark: "SparkSession", config: str, *arguments: str, **options: Any) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's, with our text
        by_format(spark, config, *arguments, **options).collect()
    return str(raised.value)


@pytest.mark.parametrize("history", HISTORIES)
def test_spark_has_the_rows_and_columns_that_ducklake_reads(
    spark: "SparkSession", tmp_path: Path, history: str
) -> None:
    statements, options = HISTORIES[history]
    lake = lake_in(tmp_path, **options)
    apply(lake, statements)

    found = frame(spark, lake, TABLE).toArrow()

    with plain_client(lake) as client:
        expected = client.execute(f"{AS_SPARK} lake.t").to_arrow_table()
    assert found.column_names == expected.column_names
    assert not differences(found, expected)


def changes(lake: Lake, scan: Scan, first: int) -> pa.Table:
    """What tasks read of the changes since a snapshot."""
    reader = LakeReader(lake, scan, first)
    batches = [batch for work in reader.partitions() for batch in reader.read(work)]
    return pa.Table.from_batches(batches, types_of_spark(scan, first))


@pytest.mark.parametrize("history", HISTORIES)
def test_changes_are_those_of_ducklakes_table_changes(tmp_path: Path, history: str) -> None:
    statements, options = HISTORIES[history]
    lake = lake_in(tmp_path, **options)
    # After a rewrite DuckLake tells of rows again whose deletes were in the catalog.
    apply(lake, [statement for statement in statements if "rewrite" not in statement])
    with DuckLake(lake).open(read_only=True) as session:
        newest = session.current_snapshot()
        scans = [scanned_columns(session, TABLE, snapshot) for snapshot in range(1, newest + 1)]

    kinds = set()
    with plain_client(lake) as client:
        for first, scan in [*((scan.snapshot, scan) for scan in scans), (1, scans[-1]), (3, scans[8])]:
            last, found = scan.snapshot, changes(lake, scan, first)
            sql = f"{AS_SPARK} ducklake_table_changes('lake', 'main', 't', {first}, {last})"
            expected = client.execute(sql).to_arrow_table()
            assert found.column_names == expected.column_names
            assert not differences(found, expected), (first, last)
            kinds |= set(found.column("change_type").to_pylist())
    assert kinds == {"insert", "delete", "update_preimage", "update_postimage"}


def test_changes_from_when_the_table_had_a_column_filename_are_refused_and_not_lost(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    fill = ("CREATE TABLE lake.t (id BIGINT, filename VARCHAR)", "INSERT INTO lake.t VALUES (1, 'a')")
    apply(lake, (*fill, "DELETE FROM lake.t", "ALTER TABLE lake.t DROP COLUMN filename"))
    with DuckLake(lake).open(read_only=True) as session:
        scan = scanned_columns(session, TABLE)

    with pytest.raises(CatalogError, match="has a column filename"):
        changes(lake, scan, 1)


def test_a_rewrite_is_an_update_to_the_same_values(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(lake, ("CREATE TABLE lake.t AS SELECT range AS id FROM range(100)", "DELETE FROM lake.t WHERE id < 50"))
    apply(lake, ("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.01)",))
    with DuckLake(lake).open(read_only=True) as session:
        scan = scanned_columns(session, TABLE)

    found = changes(lake, scan, scan.snapshot).group_by("change_type").aggregate([("id", "sum")])
    assert sorted(found.to_pylist(), key=str) == [
        {"change_type": kind, "id_sum": sum(range(50, 100))} for kind in ("update_postimage", "update_preimage")
    ]


def test_each_catalog_and_storage_is_read(spark: "SparkSession", world: World) -> None:
    first = world.commit(NW, 1, 1.5).snapshot
    second = world.commit(SW, 2).snapshot
    world.execute("DELETE FROM lake.sales WHERE total = 1")
    rows = lake_assets.read(spark, world.config)

    assert totals(rows) == [1.5, 2]
    assert totals(rows.where("region = 'SW'")) == [2]
    assert totals(lake_assets.read(spark, world.config, version=first)) == [1, 1.5]
    changes = lake_assets.read(spark, world.config, changes_between=(second, second + 1))
    assert {(row.change_type, row.total) for row in changes.collect()} == {("insert", 2), ("delete", 1)}


def test_an_earlier_snapshot_is_read_by_number_and_by_time(spark: "SparkSession", loaded: World, config: str) -> None:
    first, second = (snapshot for snapshot in (row.snapshot_id for row in loaded.ledger()) if snapshot)
    with DuckLake(loaded.stream.lake_config).open(read_only=True) as lake:
        ((time,),) = lake.rows("SELECT snapshot_time FROM ducklake_snapshots('lake') WHERE snapshot_id = ?", [first])
    early, late = min(first, second), max(first, second)

    assert totals(by_format(spark, config, version=late)) == totals(lake_assets.read(spark, config)) == [1, 1.5, 2, 2.5]
    assert totals(by_format(spark, config, "main.sales", version=early)) == [1, 1.5]
    assert totals(by_format(spark, config, "sales", timestamp=time.isoformat())) in ([1, 1.5], [1, 1.5, 2, 2.5])
    assert totals(lake_assets.read(spark, config, "sales", timestamp=time)) in ([1, 1.5], [1, 1.5, 2, 2.5])
    assert totals(loaded.stream.read(spark=spark, version=early)) == [1, 1.5]


def test_changes_are_read_by_spark(spark: "SparkSession", loaded: World, config: str) -> None:
    before = max(row.snapshot_id or 0 for row in loaded.ledger())
    row = loaded.commit(NW, 7, name="batch_1.parquet")
    assert row.snapshot_id is not None

    rows = by_format(spark, config, changes_between=f"{before + 1}..{row.snapshot_id}")
    found = {(row.change_type, row.total) for row in rows.collect()}
    assert found == {("delete", 1), ("delete", 1.5), ("insert", 7)}
    same = lake_assets.read(spark, config, changes_between=(before + 1, row.snapshot_id))
    assert sorted(same.collect()) == sorted(rows.collect())


def test_files_of_other_partitions_are_not_opened(spark: "SparkSession", loaded: World, config: str) -> None:
    for file in loaded.live_files():
        if "region=SW" in file:
            Path(file).unlink()

    rows = by_format(spark, config, columns="region, total")
    assert totals(rows.where("region = 'NW'")) == [1, 1.5]
    assert totals(rows.where("region IN ('NW', 'N') AND total > 1.2")) == [1.5]
    assert rows.columns == ["region", "total"]
    message = refused(spark, config)
    snapshot = max(row.snapshot_id or 0 for row in loaded.ledger())
    assert "region=SW" in message
    assert f"was removed while Spark read main.sales in snapshot {snapshot}: read the table again" in message


@pytest.mark.more
def test_of_a_thousand_files_that_of_the_partition_is_asked_for(
    spark: "SparkSession", s3_proxy: S3Proxy, local_world: World
) -> None:
    local_world.storage = bucket_on(s3_proxy.s3)
    lake = local_world.config.lakes["test"]
    create_by_copy(lake)
    fill = "INSERT INTO lake.t SELECT range AS id, (range % 1000)::INT AS part FROM range(20000)"
    apply(lake, ("CREATE TABLE lake.t (id BIGINT, part INT)", "ALTER TABLE lake.t SET PARTITIONED BY (part)"))
    apply(lake, (fill,))
    s3_proxy.forget()
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    try:
        rows = frame(spark, lake, TABLE).where("part = 777").select("id")
        rows.explain()
        logs = [row.msg for row in spark.tvf.python_worker_logs().select("msg").collect()]
    finally:
        spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")
    explained = {request.key for request in s3_proxy.requests()}
    found = rows.collect()

    assert sorted(row.id for row in found) == list(range(777, 20000, 1000))
    (asked,) = {request.key for request in s3_proxy.requests()}
    assert "/part=777/" in asked
    assert not explained
    assert [text for text in logs if text.endswith(": 1 of 1,000 files")]


def test_tasks_get_no_password_of_the_catalog(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(lake, (CREATE, FILL))
    with DuckLake(lake).open(read_only=True) as session:
        scan = scanned_columns(session, TABLE)
    catalog = {"type": "postgres", "host": "h", "database": "d", "user": "u", "password": "planted"}
    planted = Lake.model_validate({"catalog": catalog, "storage": str(tmp_path / "data")})

    assert b"planted" in pickle.dumps(planted)
    assert b"planted" not in pickle.dumps(LakeReader(planted, scan))
    source = LakeSource({})
    source._found = _Found(planted, scan, from_arrow_schema(types_of_spark(scan, None)), None)
    source.reader(source.schema())
    assert b"planted" not in pickle.dumps(source)
    reader = LakeReader(lake, scan)
    assert b"c.sqlite" not in pickle.dumps([reader, reader.partitions()])


def test_bad_input_is_an_error_that_says_what_to_change(spark: "SparkSession", loaded: World, config: str) -> None:
    apply(loaded.stream.lake_config, ("CREATE TABLE lake.wide (id BIGINT, big HUGEINT)",))

    assert "there is no stream 'sale': did you mean sales?" in refused(spark, config, "sale")
    assert "has no table main.sale: did you mean main.sales" in refused(spark, config, "main.sale")
    assert "has no column totl: did you mean total" in refused(spark, config, "sales", columns="totl")
    assert "unknown option versoin: did you mean version" in refused(spark, config, versoin="3")
    assert "the version newest cannot be read" in refused(spark, config, version="newest")
    assert "the timestamp yesterday cannot be read" in refused(spark, config, timestamp="yesterday")
    assert "the changes_between 9 cannot be read: pass the numbers of two" in refused(
        spark, config, changes_between="9"
    )
    assert "snapshot 3 is later than 2" in refused(spark, config, changes_between="3..2")
    assert "the snapshot is named twice" in refused(spark, config, version="1", timestamp="2026-02-11")
    assert "there is no snapshot 99, or it has expired" in refused(spark, config, version="99")
    assert "no snapshot of 1999-01-01 00:00:00+00:00 or earlier" in refused(spark, config, timestamp="1999-01-01")
    assert "column 'big' has the type int128" in refused(spark, config, "main.wide")
    assert by_format(spark, config, "main.wide", columns="id").collect() == []
    given = by_format(spark, config, schema="total DOUBLE")
    with pytest.raises(Exception, match=r"(?s)has the columns struct<.*and not struct<total:double>: give no schema"):
        given.collect()
    with pytest.raises(CatalogError, match=r"has no table main\.sale: did you mean main\.sales"):
        lake_assets.read(spark, config, "main.sale")
    with pytest.raises(ConfigError, match="there is no stream 'sale'"):
        lake_assets.read(spark, config, "sale")


@pytest.mark.parametrize(
    ("sizes", "cores", "shares"),
    [
        ([], 2, []),
        ([0, 0], 2, [2]),
        ([1] * 4, 8, [4]),  # MiB: another task would take longer to start
        ([1] * 100, 2, [50, 50]),
        ([1] * 100, 8, [13, 12, 13, 12, 13, 12, 13, 12]),
        ([100, 1, 1, 100], 2, [1, 1, 2]),
        ([40] * 10, 2, [2, 1, 2, 1, 2, 1, 1]),
    ],
)
def test_tasks_have_about_as_much_each(sizes: list[int], cores: int, shares: list[int]) -> None:
    files = [ScanFile(str(number), size * 2**20, 1, None, None, None) for number, size in enumerate(sizes)]

    found = _shares(files, cores)

    assert [file for share in found for file in share] == files
    assert [len(share) for share in found] == shares


def test_two_tables_of_one_session_do_not_mix(spark: "SparkSession", tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    apply(lake, ("CREATE TABLE lake.a AS SELECT 1 AS x", "CREATE TABLE lake.b AS SELECT 2 AS y"))
    a, b = (frame(spark, lake, TableName("main", name)) for name in "ab")

    assert a.crossJoin(b).collect() == [(1, 2)]
    apply(lake, ("INSERT INTO lake.a VALUES (3)",))
    assert a.count() == 1  # its snapshot is that of its making
    assert frame(spark, lake, TableName("main", "a")).count() == 2


def test_each_session_of_a_jvm_reads_what_another_has_read(spark: "SparkSession", config: str) -> None:
    for session in (spark, spark.newSession(), spark.newSession(), spark):
        assert totals(lake_assets.read(session, config)) == totals(by_format(session, config)) == [1, 1.5, 2, 2.5]


def test_a_time_without_a_zone_is_one_of_utc(spark: "SparkSession", config: str) -> None:
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)

    assert totals(lake_assets.read(spark, config, timestamp=now)) == [1, 1.5, 2, 2.5]
