"""Compaction: fewer files, the same rows, and never against another writer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from lake_assets.base.errors import SourceError
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.upkeep.maintenance.compaction import CompactedPartition, compact
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"
ODD = "region=O'Hare %2F x,date=2026-02-11"


def scatter(world: World, text: str, files: int) -> None:
    """Add data files to a partition, by another client's inserts of a row each: total -1, -2, …"""
    partition = world.partition(text)
    with world.stream.lake.open() as lake:
        for number in range(1, files + 1):
            lake.rows(
                "INSERT INTO lake.sales (id, total, region, date) VALUES (?, ?, ?, ?)",
                [number, -float(number), *partition.values],
            )


def compacted(world: World, at_least: int = 3, **options: Any) -> list[CompactedPartition]:
    return compact(world.stream, at_least, options.pop("sessions", world.sessions), **options)


def test_many_files_become_one_of_the_same_rows(world: World) -> None:
    texts = (NW, NULL, ODD, SW)
    for text in texts:
        world.land(text, sales(1, 2))
    outcomes = ingest_all(world.stream, [world.partition(text) for text in texts], world.sessions)
    assert [outcome.error for outcome in outcomes] == [None] * len(texts)
    for text in (NW, NULL, ODD):
        scatter(world, text, 3)
    before = world.query("SELECT * FROM lake.sales ORDER BY ALL")
    snapshot = world.query("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")[0][0]
    assert len(world.live_files()) == 13

    done = compacted(world)

    assert {result.partition for result in done} == {world.partition(text) for text in (NW, NULL, ODD)}
    assert [(result.files_before, result.files_after, result.why) for result in done] == [(4, 1, None)] * 3
    assert len(world.live_files()) == 4
    assert world.query("SELECT * FROM lake.sales ORDER BY ALL") == before
    assert world.query(f"SELECT * FROM lake.sales AT (VERSION => {snapshot}) ORDER BY ALL") == before
    assert compacted(world) == []


def test_ledger_and_state_are_as_before_a_compaction(local_world: World) -> None:
    first = local_world.commit(NW, 1, 2)
    scatter(local_world, NW, 3)
    scatter(local_world, SW, 3)
    local_world.land(SW, b"no parquet")
    with pytest.raises(SourceError):
        local_world.ingest(SW)
    files = local_world.live_files()
    local_world.lake_options = {"maintenance": {"compact": 3}}
    dry = local_world.tidy(dry_run=True).compacted
    assert local_world.live_files() == files

    done = {item.partition: item for item in compacted(local_world)}

    item, row = done[local_world.partition(NW)], local_world.ledger(NW)[0]
    assert {d.partition: (d.files_before, d.files_after, d.why) for d in dry} == {
        partition: (item.files_before, None, None) for partition, item in done.items()
    }
    assert (row.mode, row.status, row.row_count, row.rows_before) == ("compact", "committed", 5, 5)
    assert (row.source_files, row.files_written) == (item.files_before, item.files_after)
    assert row.source_fingerprint == first.source_fingerprint
    assert local_world.ingest(NW).row.status == "skipped"
    states = {
        state.partition: state.state for state in read_stream_state(local_world.stream).partitions if state.objects
    }
    assert states == {local_world.partition(NW): "committed", local_world.partition(SW): "failed"}


@pytest.mark.parametrize("world", [("sqlite", "local"), *more([(("postgres", "local"),)])], indirect=True)
def test_an_ingest_that_commits_meanwhile_wins(world: World) -> None:
    for text in (NW, SW):
        world.commit(text, 1)
        scatter(world, text, 3)
    world.land(NW, sales(7, 8))
    meanwhile: list[str] = []

    def sessions() -> "SparkSession":
        # Called after the files were listed, and before they are read.
        spark = world.sessions()
        if not meanwhile:
            meanwhile.append(world.ingest(NW).row.status)
        return spark

    left, done = sorted(compacted(world, sessions=sessions), key=lambda result: result.why is None)

    assert meanwhile == ["committed"]
    assert left.partition == world.partition(NW)
    assert "was committed again meanwhile" in str(left.why)
    assert (done.partition, done.why) == (world.partition(SW), None)
    assert world.totals(NW) == [7, 8]
    assert world.totals(SW) == [-3, -2, -1, 1]
    assert [row.mode for row in world.ledger(NW)] == ["replace", "replace"]
    assert world.tidy(4).orphans == ()  # its files were removed at once


def test_deleted_rows_do_not_return(local_world: World) -> None:
    local_world.commit(NW, 1, 2, 3)
    scatter(local_world, NW, 3)
    local_world.execute("DELETE FROM lake.sales WHERE total = 2")

    (done,) = compacted(local_world)

    assert (done.why, done.files_after) == (None, 1)
    assert local_world.totals() == [-3, -2, -1, 1, 3]


def test_files_of_earlier_columns_are_not_compacted(local_world: World) -> None:
    local_world.commit(NW, 1)
    scatter(local_world, NW, 3)
    local_world.execute("ALTER TABLE lake.sales RENAME COLUMN id TO other")
    local_world.execute("ALTER TABLE lake.sales ADD COLUMN id BIGINT")
    before = local_world.query("SELECT * FROM lake.sales ORDER BY ALL")

    assert compacted(local_world) == []
    assert local_world.query("SELECT * FROM lake.sales ORDER BY ALL") == before


@pytest.mark.more
@pytest.mark.parametrize(
    ("files", "size", "target", "at_least", "is_compacted"),
    [
        (1, 1000, "1MiB", 2, False),
        (4, 1000, "1MiB", 5, False),
        (4, 2**20, "1MiB", 3, False),  # they would be as many
        (4, 2**20, "4MiB", 3, True),
        # Seven would hold them, and a rewrite may make ten again: they are not rewritten every night.
        (10, 700_000, "1MiB", 10, False),
    ],
)
def test_files_that_would_not_become_fewer_are_not_compacted(
    local_world: World, files: int, size: int, target: str, at_least: int, is_compacted: bool
) -> None:
    local_world.commit(NW, 1)
    scatter(local_world, NW, files - 1)
    local_world.execute(f"UPDATE __ducklake_metadata_lake.ducklake_data_file SET file_size_bytes = {size}")
    local_world.options["target_file_size"] = target
    sessions = Mock(side_effect=local_world.sessions)

    assert len(compacted(local_world, at_least=at_least, sessions=sessions)) == is_compacted
    assert sessions.called == is_compacted


def test_a_partition_is_compacted_once_with_any_number_of_cores(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.spark.spark_jobs.spark_cores", lambda _: 16)
    monkeypatch.setattr("lake_assets.spark.task.job.MIN_SHARE", 500)  # bytes
    for number in range(12):
        local_world.land(NW, sales(number), f"{number}.parquet")
    local_world.ingest(NW)
    assert len(local_world.live_files()) == 12  # one a core, for the sake of speed

    assert [result.files_after for result in compacted(local_world)] == [1]
    assert compacted(local_world) == []


def test_a_missing_data_file_is_named_and_other_partitions_are_compacted(local_world: World) -> None:
    for text in (NW, SW):
        local_world.commit(text, 1)
        scatter(local_world, text, 3)
    gone = next(uri for uri in local_world.live_files() if "region=NW" in uri)
    Path(gone).unlink()

    left, done = sorted(compacted(local_world), key=lambda result: result.why is None)

    assert f"the data file {gone} is part of main.sales, and is not there" in str(left.why)
    assert (done.partition, done.files_after) == (local_world.partition(SW), 1)


def test_a_killed_compaction_leaves_only_an_orphan(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local_world.commit(NW, 1)
    scatter(local_world, NW, 3)
    live, stored = local_world.live_files(), local_world.data_files()

    def die(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("lake_assets.upkeep.maintenance.compaction.commit", die)
        with pytest.raises(SystemExit):
            compacted(local_world)

    assert local_world.live_files() == live
    assert local_world.totals() == [-3, -2, -1, 1]
    (orphan,) = local_world.data_files() - stored
    assert [found.key for found in local_world.tidy(4).orphans] == [orphan]
    assert local_world.data_files() == stored
