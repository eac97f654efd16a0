"""The state of a partition: the rule alone, and what is read from landing zone and ledger."""

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lake_assets.base.errors import LakeAssetsError, SourceError, StorageUnreachableError
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import ledger_figures
from lake_assets.lake.ledger.tables import Hold, LedgerRow, Status
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.pending import LandingScan, due_again, lag_by, pause_after
from lake_assets.streams.select import Wanted, select
from lake_assets.upkeep.report.state import PartitionState, only_partitions, partition_state, read_stream_state
from lake_assets_tests.orchestration.in_process import failing_once
from lake_assets_tests.world import NW, SW, World, sales

THEN = dt.datetime(2026, 2, 11, tzinfo=dt.UTC)
NOW = dt.datetime(2026, 2, 12, 12, tzinfo=dt.UTC)

SAME = "of the landed objects"


def row(status: Status, fingerprint: str | None = SAME, hold: Hold | None = None) -> LedgerRow:
    columns = ("status", "finished_at", "source_fingerprint", "hold")
    return LedgerRow.of(columns, (status, THEN, fingerprint, hold))


COMMIT = row("committed")
COMMITTED = LastRuns(COMMIT, COMMIT, COMMIT)
SKIPPED = LastRuns(row("skipped"), COMMIT, COMMIT)
FAILED = LastRuns(row("failed"), COMMIT, COMMIT)
KEPT_EMPTY = LastRuns(row("skipped"), row("skipped"))
HELD = LastRuns(row("committed"), row("committed", "other"), row("committed", hold="held"))


def made_of(last: LastRuns, fingerprint: str) -> LastRuns:
    return replace(last, source=row("committed", fingerprint))


@pytest.mark.parametrize(
    ("last", "has_landed", "state", "is_pending"),
    [
        (None, False, "absent", False),
        (None, True, "missing", True),
        (COMMITTED, True, "committed", False),
        (SKIPPED, True, "committed", False),
        (made_of(COMMITTED, "other"), True, "stale", True),
        (made_of(COMMITTED, "other"), False, "stale", False),
        (COMMITTED, False, "committed", False),  # it was cleared
        (FAILED, True, "failed", False),
        (made_of(FAILED, "other"), True, "failed", True),
        (KEPT_EMPTY, False, "absent", False),
        (KEPT_EMPTY, True, "committed", False),  # objects without rows
        (made_of(KEPT_EMPTY, "other"), True, "missing", True),
        (HELD, True, "held", False),
    ],
)
def test_a_state_follows_from_the_newest_run_and_what_has_landed(
    local_world: World, last: LastRuns | None, has_landed: bool, state: str, is_pending: bool
) -> None:
    """Report, lag and `--waiting` alike: a partition is waiting if it is pending, or if its objects vanished."""
    stream, partition = local_world.stream, local_world.partition(NW)
    landed = Manifest((LandedObject("a.parquet", "/a.parquet", "1", 8, THEN),) if has_landed else ())
    if last is not None and last.fingerprint == SAME:
        last = made_of(last, stream.fingerprint(landed))

    scan = LandingScan(stream, {partition: landed}, {} if last is None else {partition.path: last})
    found = partition_state(scan, partition, Calendar(stream.config, NOW))

    assert (found.state, found.is_waiting) == (state, is_pending or state == "stale")
    lag = lag_by(scan, NOW)
    assert lag.pending == ((partition,) if is_pending else ())


def states(world: World) -> dict[str, PartitionState]:
    return {partition.partition.path: partition for partition in read_stream_state(world.stream, NOW).partitions}


def test_the_waiting_partitions_of_a_report_are_those_that_an_ingest_takes(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    for text in (NW, SW):
        local_world.land(text, sales(1))
        local_world.ingest(text)
    local_world.unland(SW)
    local_world.land(NW, sales(2), "new.parquet")
    waiting = Wanted(waiting=True)

    shown = only_partitions(read_stream_state(local_world.stream, NOW), waiting, lambda _: True)

    assert states(local_world)[region("SW")].state == "stale"  # its objects have vanished
    assert tuple(p.partition for p in shown.partitions) == select(local_world.stream, waiting, now=NOW).partitions
    assert [p.partition for p in shown.partitions] == [local_world.partition(NW)]


def region(name: str) -> str:
    return f"region={name}/date=2026-02-11"


def test_every_state_is_read_from_landing_zone_and_ledger(world: World) -> None:
    world.options = {
        "partitions": {
            "region": {"values": ["NW", "SW", "NE", "SE", "MW"]},
            "date": {"type": "date", "start": "2026-02-11", "end": "2026-02-11"},
        }
    }
    for name in ("NW", "SW", "NE"):
        world.land(f"region={name},date=2026-02-11", sales(1, 2))
        world.ingest(f"region={name},date=2026-02-11")
    world.ingest(NW)  # skipped
    world.land(SW, sales(3), "batch_2.parquet")
    world.land("region=NE,date=2026-02-11", b"no parquet", "batch_2.parquet")
    with pytest.raises(Exception, match="cannot be read as Parquet"):
        world.ingest("region=NE,date=2026-02-11")
    world.land("region=SE,date=2026-02-11", sales(1))

    result = states(world)

    assert {path: one.state for path, one in result.items()} == {
        region("NW"): "committed",
        region("SW"): "stale",
        region("NE"): "failed",
        region("SE"): "missing",
        region("MW"): "absent",
    }
    assert [result[region(name)].rows for name in ("NW", "SW", "NE", "SE")] == [2, 2, 2, None]
    assert [result[region(name)].objects for name in ("NW", "SW", "SE", "MW")] == [1, 2, 1, 0]
    newest = {row.load_partition: row.snapshot_id for row in reversed(world.ledger()) if row.snapshot_id}
    assert {path: one.snapshot for path, one in result.items() if one.snapshot} == newest
    assert "cannot be read as Parquet" in (result[region("NE")].error or "")
    assert result[region("NW")].error is None
    skipped_at, committed_at = result[region("NW")].finished_at, result[region("NW")].committed_at
    assert skipped_at is not None
    assert committed_at is not None
    assert skipped_at > committed_at
    with world.stream.lake.open() as lake:
        figures = ledger_figures(lake)
    assert figures is not None
    assert (figures.rows, figures.committed, figures.skipped, figures.failed) == (5, 3, 1, 1)
    assert figures.snapshot == max(newest.values())


@pytest.mark.parametrize(
    "config",
    [{"sensor": {"type": "objects"}}, {"schedule": {"cron": "0 * * * *"}}, {}],
    ids=["sensor", "schedule", "neither"],
)
def test_a_failed_partition_says_when_a_sensor_or_schedule_tries_it_again(
    local_world: World, config: dict[str, Any]
) -> None:
    local_world.options = config
    for text, rows in ((NW, b"no Parquet"), (SW, sales(1))):
        local_world.land(text, rows)
    with pytest.MonkeyPatch.context() as patch:
        failing_once(StorageUnreachableError("the storage is away:", "wait for it."), patch, times=9)
        for text in (NW, SW, SW):
            with pytest.raises(LakeAssetsError):
                local_world.ingest(text)

    nw, sw = states(local_world)[region("NW")], states(local_world)[region("SW")]

    assert (nw.state, sw.state) == ("failed", "failed")
    if not config:
        assert (nw.retry_text, sw.retry_text) == ("", "")
        return
    assert (nw.retry, nw.next_try, nw.retry_text) == ("changed", None, "not tried again until its objects change")
    assert sw.finished_at is not None
    at = sw.finished_at + dt.timedelta(seconds=pause_after(2))
    assert (sw.retry, sw.next_try, sw.retry_text) == ("later", at, f"tried again from {at:%Y-%m-%d %H:%M:%S} UTC")
    assert due_again(local_world.stream, at - dt.timedelta(seconds=1), 10) == []
    assert due_again(local_world.stream, at, 10) == [local_world.partition(SW)]
    local_world.land(NW, b"another one")
    assert states(local_world)[region("NW")].retry == "later"


def test_a_partition_that_only_failed_or_is_outside_the_config_does_not_make_its_region_one(local_world: World) -> None:
    local_world.options["partitions"] = {"region": {}, "date": {"type": "date", "start": "2026-02-11"}}
    local_world.commit(NW, 1)
    typo = "region=XX,date=2026-02-11"
    local_world.land(typo, b"no Parquet")
    with pytest.raises(SourceError):
        local_world.ingest(typo)
    local_world.unland(typo)
    local_world.land("region=YY,date=2020-01-01", sales(1))

    found = {
        str(partition.partition): partition.state for partition in read_stream_state(local_world.stream, NOW).partitions
    }

    assert found == {
        "region=NW/date=2026-02-11": "committed",
        "region=NW/date=2026-02-12": "absent",
        "region=XX/date=2026-02-11": "failed",
        "region=YY/date=2020-01-01": "outside",
    }


def test_a_changed_transform_makes_stale_and_the_clock_of_a_writer_does_not(local_world: World) -> None:
    local_world.commit(NW, 1)
    local_world.execute("UPDATE lake.ingest_runs SET finished_at = finished_at + INTERVAL 1 HOUR")  # it is ahead
    local_world.commit(NW, 2)

    found = states(local_world)[region("NW")]
    assert (found.state, found.is_waiting) == ("committed", False)
    local_world.options = {"transform": {"sql": "SELECT id, total + 1 AS total FROM source"}}
    assert states(local_world)[region("NW")].state == "stale"


def test_without_a_lake_all_that_has_landed_is_missing(local_world: World) -> None:
    local_world.land(NW, sales(1))

    assert states(local_world)[region("NW")].state == "missing"
    assert not Path(local_world.catalog["path"]).exists()


def test_objects_outside_the_layout_are_named_and_count_for_nothing(local_world: World) -> None:
    local_world.land(NW, sales(1))
    root = Path(local_world.source["path"])
    placed = root / "region=NW" / "date=2026-02-11" / "batch_1.parquet"
    unmatched = [
        root / "loose.parquet",
        root / "region=NW" / "date=2026-02-1" / "x.parquet",  # no date, and no folder that an ingest looks into
        root / "region=NW" / "day=1" / "x.parquet",
        root / "region=%FF" / "date=2026-02-11" / "x.parquet",
        root / "region=N%57" / "date=2026-02-11" / "x.parquet",  # NW, encoded in another way
    ]
    for path in unmatched:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(placed, path)

    state = read_stream_state(local_world.stream, NOW)

    assert {item.uri for item in state.left_out.unmatched} == {str(path) for path in unmatched}
    assert state.counts["missing"] == 1
    assert len(local_world.stream.manifest(local_world.partition(NW)).objects) == 1
