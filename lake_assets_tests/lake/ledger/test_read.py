"""Rows of the ledger by stream, partition, status and time, whether they are inlined or in files."""

import datetime as dt
from itertools import pairwise

import pytest

from lake_assets.lake.ledger import flush, relation
from lake_assets.lake.ledger.read import partitions_in_ledger, read_ledger, rows_of_run
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, LedgerRow
from lake_assets_tests.lake.ledger.test_last_runs import EMPTY, LOST, NEVER, history
from lake_assets_tests.maintenance.test_run import tidy
from lake_assets_tests.world import NW, SW, World, sales

FLUSHED = ["inlined", "flushed", "both", "whole"]


def prepare(world: World, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of all kinds, whose rows are inlined, in files or both; `whole`: DuckLake reads them."""
    monkeypatch.setattr(flush, "MANY", 1)
    history(world)
    if where != "inlined":
        tidy(world)
    if where in ("both", "whole"):
        world.land(SW, sales(7))
        world.ingest(SW)
        tidy(world)
        world.land(NW, sales(8))
        world.ingest(NW)
    if where == "whole":
        monkeypatch.setattr(relation, "MOST", 0)


def expected(world: World) -> list[LedgerRow]:
    """All rows, newest first, as a plain client reads them."""
    rows = world.query("FROM lake.ingest_runs ORDER BY finished_at DESC, started_at DESC")
    return [LedgerRow(**dict(zip(LEDGER_COLUMNS, row, strict=True))) for row in rows]


@pytest.mark.parametrize("where", FLUSHED)
def test_rows_are_selected(world: World, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(world, where, monkeypatch)
    rows = expected(world)
    nw, sw, lost, empty, never = (world.partition(text).path for text in (NW, SW, LOST, EMPTY, NEVER))
    times = [row.finished_at for row in rows if row.finished_at is not None]
    known = {row.load_partition for row in rows}
    with world.stream.lake.open(read_only=True) as lake:
        assert read_ledger(lake) == rows
        assert read_ledger(lake, "other") == []
        for limit in range(1, len(rows)):
            assert read_ledger(lake, "sales", limit=limit) == rows[:limit]
        of_nw = [row for row in rows if row.load_partition == nw]
        assert read_ledger(lake, load_partition=nw) == of_nw
        assert read_ledger(lake, load_partition=nw, limit=1) == of_nw[:1]
        failed = [row for row in rows if row.status == "failed"]
        assert read_ledger(lake, statuses=["failed"]) == failed
        assert len(failed) == 2

        tokyo = dt.timezone(dt.timedelta(hours=9))
        for until, since in pairwise(times):  # of two runs, one after the other
            assert read_ledger(lake, since=since.astimezone(tokyo)) == rows[: times.index(since) + 1]
            assert read_ledger(lake, until=until) == rows[times.index(until) + 1 :]
            assert read_ledger(lake, since=since, until=until) == [rows[times.index(since)]]
        assert read_ledger(lake, since=times[0] + dt.timedelta(microseconds=1)) == []

        table = world.stream.table
        assert partitions_in_ledger(lake, table) == known
        assert partitions_in_ledger(lake, table, [nw, empty, never]) == known & {nw, empty}
        assert {sw, lost} <= known
        run = rows[0]
        assert run.finished_at is not None
        assert rows_of_run(lake, "sales", run.run_id, run.started_at) == [run]
        assert rows_of_run(lake, "sales", run.run_id, run.finished_at + dt.timedelta(hours=1)) == []
        assert rows_of_run(lake, "other", run.run_id) == []


@pytest.mark.parametrize("fraction", ["", ".5", ".500000", ".000001"])
def test_a_time_of_any_precision_is_compared(world: World, fraction: str) -> None:
    """The extension writes times without zeros at the end, and the direct strategy with them."""
    world.land(NW, sales(1))
    world.ingest(NW)
    text = f"2026-02-11 06:00:00{fraction}+00"
    with world.stream.lake.open() as lake:
        lake.rows("UPDATE lake.ingest_runs SET finished_at = ?::TIMESTAMPTZ", [text])
        moment, step = dt.datetime.fromisoformat(text), dt.timedelta(microseconds=1)
        assert len(read_ledger(lake, since=moment)) == 1
        assert read_ledger(lake, since=moment + step) == []
        assert read_ledger(lake, until=moment) == []
        assert len(read_ledger(lake, until=moment + step)) == 1
