"""The ingest of one partition, on every catalog and storage; each test reads the lake by a plain DuckDB client."""

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lake_assets.base.errors import EmptySourceError, SchemaError, SourceChangedError, SourceError
from lake_assets.ingest.ingest_all import ingest, ingest_all
from lake_assets.ingest.partition_run import TRIES
from lake_assets.streams.pending import scan_landing
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.encrypted import ENCRYPTED
from lake_assets_tests.ingest.landed_as import load
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.ingest.test_quarantine import spoiled
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales
from lake_assets_tests.world_fixtures import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["sessions"]


def test_a_partition_reaches_the_lake_and_is_replaced_alone(world: World) -> None:
    world.land(NW, sales(1, 2))
    world.land(SW, sales(3))
    world.ingest(NW)
    world.ingest(SW)
    world.land(NW, sales(10, 20, 30))

    result = world.ingest(NW)

    assert world.totals(NW) == [10, 20, 30]
    assert world.totals(SW) == [3]
    assert (result.row.status, result.row.rows_before, result.row.row_count) == ("committed", 2, 3)


def test_the_commit_has_ledger_manifest_and_message_in_one_snapshot(world: World) -> None:
    uris = {world.land(NW, sales(1), "a.parquet"), world.land(NW, sales(2), "b.parquet")}

    row = world.ingest(NW, run_id="run-7").row

    assert world.ledger() == [row]
    ((author, message, extra),) = world.query(
        "SELECT author, commit_message, commit_extra_info FROM lake.snapshots() WHERE snapshot_id = ?", row.snapshot_id
    )
    assert author == "lake_assets"
    assert "run-7" in message
    assert json.loads(extra)["load_partition"] == "region=NW/date=2026-02-11"
    for table in ("sales", "ingest_runs", "ingest_files"):
        assert world.query(f"SELECT DISTINCT snapshot_id FROM lake.{table}") == [(row.snapshot_id,)]
    files = world.query("SELECT run_id, load_partition, uri, etag, size FROM lake.ingest_files")
    assert {(run_id, path) for run_id, path, *_ in files} == {("run-7", "region=NW/date=2026-02-11")}
    assert {uri for *_, uri, _, _ in files} == uris
    assert all(etag and size > 0 for *_, etag, size in files)


def test_an_unchanged_partition_is_skipped_without_spark_unless_forced(local_world: World) -> None:
    local_world.commit(NW, 1)
    files = local_world.data_files()
    with_spark, local_world.sessions = local_world.sessions, lambda: pytest.fail("Spark was asked for")

    assert local_world.ingest(NW).row.status == "skipped"
    assert local_world.data_files() == files
    local_world.sessions = with_spark
    assert local_world.ingest(NW, force=True).row.status == "committed"
    assert local_world.totals() == [1]


# Where the catalog cannot matter: local files, and S3 with the catalog that differs most.
ON_BOTH_STORAGES = pytest.mark.parametrize(
    "world", [("sqlite", "local"), *more([(("postgres", "s3"),)])], indirect=True
)

AWKWARD = ["N/A x", "a=b", "O'Hare", "ünïcode", "50%25", "x+y", "*[a]?", "null", "NULL", "__HIVE_DEFAULT_PARTITION__"]


@ON_BOTH_STORAGES
def test_awkward_partition_values_round_trip(world: World) -> None:
    texts = [f"region={region},date=2026-02-11" for region in AWKWARD]
    partitions = [world.partition(text) for text in texts]
    world.commit(SW, 7)
    for totals in ((1, 2), (3,)):
        for number, text in enumerate(texts):
            world.land(text, sales(*(total + 10 * number for total in totals)))
        outcomes = ingest_all(world.stream, partitions, world.sessions)
        assert {outcome.partition: outcome.error for outcome in outcomes} == dict.fromkeys(partitions)

    for number, partition in enumerate(partitions):
        rows = world.query("SELECT total FROM lake.sales WHERE region IS NOT DISTINCT FROM ?", partition.values[0])
        assert rows == [(3.0 + 10 * number,)], partition
    assert world.totals(SW) == [7]
    pruning = world.query("SELECT DISTINCT partition_value FROM __ducklake_metadata_lake.ducklake_file_partition_value")
    assert {(partition.values[0],) for partition in partitions} <= set(pruning)


@pytest.mark.more
@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
def test_a_dropped_table_is_recreated_completely_by_several_runs(world: World) -> None:
    for text, total in ((NW, 1), (SW, 2)):
        world.commit(text, total)
        world.ingest(text)  # skipped, which says nothing of the table that comes
    world.execute("DROP TABLE lake.sales")

    assert world.ingest(NW).row.status == "committed"
    states = {state.partition: state.state for state in read_stream_state(world.stream).partitions if state.objects}
    assert states == {world.partition(NW): "committed", world.partition(SW): "missing"}
    assert set(scan_landing(world.stream).pending) == {world.partition(SW)}
    assert plan(world.stream, world.partition(SW)).action == "replace the partition"
    assert world.ingest(SW).row.status == "committed"
    assert world.totals() == [1, 2]
    assert world.ingest(SW).row.status == "skipped"


@pytest.mark.more
@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
def test_a_text_that_no_catalog_can_hold_as_a_bound_is_ingested(world: World) -> None:
    for text in ("first", "ab\0zz", "last"):
        load(world, pa.table({"text": ["aa", text]}))
    assert world.query("SELECT text FROM lake.sales ORDER BY ALL") == [("aa",), ("last",)]
    load(world, pa.table({"text": ["ab\0zz"]}), SW)
    assert world.query("SELECT text FROM lake.sales WHERE region = 'SW'") == [("ab\0zz",)]


@pytest.mark.more
def test_a_partition_in_which_objects_land_all_the_time_is_committed_as_it_was_listed(local_world: World) -> None:
    """What has landed since then is for the next run: the ledger has the fingerprint of what was read."""
    local_world.land(NW, sales(0))
    spark, late = local_world.sessions, itertools.count(1)

    def sessions() -> "SparkSession":
        number = next(late)
        local_world.land(NW, sales(number), f"{number}.parquet")
        return spark()

    local_world.sessions = sessions
    rows = [local_world.ingest(NW).row for _ in range(2)]

    assert [(row.status, row.source_files) for row in rows] == [("committed", 1), ("committed", 2)]
    assert local_world.totals() == [0, 1]
    assert list(scan_landing(local_world.stream).pending) == [local_world.partition(NW)]


@pytest.mark.parametrize(
    ("encrypted", "later"),  # the names of files say it; in an encrypted lake, the ledger
    [(False, ()), *more([(False, (2,)), (True, ()), (True, (2,))])],
)
def test_a_run_that_was_stopped_before_its_commit_replaces_nothing_that_another_has_committed_meanwhile(
    local_world: World, encrypted: bool, later: tuple[int, ...]
) -> None:
    local_world.lake_options = dict(ENCRYPTED) if encrypted else {}
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    other = replace(local_world, _opened=None)

    def commit(_: object) -> None:
        for total in later:
            other.land(NW, sales(total), "later.parquet")
        assert other.ingest(NW).row.status == "committed"

    with before("transaction", commit):
        row = local_world.ingest(NW).row

    assert row.status == "skipped"
    assert local_world.totals(NW) == [1, *later]
    assert [row.status for row in local_world.ledger(NW)] == ["skipped", "committed"]


def test_a_partition_that_changes_at_every_read_is_refused_and_the_old_one_stays(local_world: World) -> None:
    local_world.commit(NW, 1)
    spark, numbers = local_world.sessions, itertools.count()

    def sessions() -> "SparkSession":
        local_world.land(NW, sales(next(numbers)))
        return spark()

    local_world.sessions = sessions
    with pytest.raises(SourceChangedError, match=r"when their writer has finished|run it again"):
        local_world.ingest(NW, force=True)

    assert local_world.totals() == [1]
    assert next(numbers) == TRIES


@ON_BOTH_STORAGES
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"", id="zero-bytes", marks=pytest.mark.more),
        pytest.param(b"PAR1" + b"\0" * 100 + b"PAR1", id="no-footer"),
        pytest.param(spoiled(), id="a-damaged-page"),
    ],
)
def test_a_damaged_object_is_named_and_the_partition_stays(world: World, bad: bytes) -> None:
    world.commit(NW, 1, 2)
    uri = world.land(NW, bad, "batch_2.parquet")

    with pytest.raises(SourceError, match=r"is empty|cannot be read as Parquet") as raised:
        world.ingest(NW)

    assert uri in str(raised.value)
    row = world.ledger()[0]
    assert row.status == "failed"
    assert uri in str(row.error)
    assert world.totals() == [1, 2]


def test_a_table_that_was_there_before_us_is_used_as_it_is(local_world: World) -> None:
    local_world.storage["path"] += "[12]*"  # looks like a pattern of paths
    with local_world.stream.lake.open(create=True) as lake:
        lake.rows("CREATE TABLE lake.sales (region VARCHAR, total DOUBLE, date DATE, id BIGINT)")
        lake.rows("INSERT INTO lake.sales VALUES ('NW', 5, '2026-02-11', 1), ('XX', 6, '2026-02-11', 1)")

    local_world.commit(NW, 1)

    assert local_world.totals() == [1, 6]


def test_a_table_whose_partition_column_has_another_type_is_refused(local_world: World) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        lake.rows("CREATE TABLE lake.sales (region VARCHAR, total DOUBLE, date VARCHAR, id BIGINT)")
    local_world.land(NW, sales(1))

    with pytest.raises(SchemaError, match=r"'date' of table main\.sales is VARCHAR"):
        local_world.ingest(NW)


@pytest.mark.parametrize("mode", ["replace", "append", "index"])
def test_a_run_whose_plan_is_refused_whole_creates_no_lake(local_world: World, mode: str) -> None:
    local_world.options["mode"] = mode
    local_world.land(SW, sales(1))

    with pytest.raises(EmptySourceError, match="on_empty"):
        ingest(local_world.stream, local_world.partition(NW), local_world.sessions)

    with local_world.stream.lake.open_if_exists() as lake:
        assert lake is None
