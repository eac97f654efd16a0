"""Rows of the ledger, and the newest runs of partitions, are found whether they are inlined or in files."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from lake_assets.ingest.outcome import IngestOptions, blank_row
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.ledger import flush, ledger_relation, lookup
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import (
    LedgerFilter,
    last_runs,
    pace,
    partitions_in_ledger,
    read_ledger,
    recorded_commits,
    rows_of_run,
)
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, LedgerRow, create_ledger, record
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, SW, World

EMPTY = "region=XX,date=2026-02-11"
LOST = "region=YY,date=2026-02-11"
NEVER = "region=ZZ,date=2026-02-11"
TEXTS = (NW, SW, EMPTY, LOST, NEVER)


def refuse(*_: object) -> list[str]:
    raise NotDirectError("only DuckLake reads the ledger")


AT = dt.datetime(2026, 2, 11, tzinfo=dt.UTC)


def record_run(world: World, number: int, partitions: int, took: float, each: float) -> None:
    """A run whose partitions, of `each` seconds, end one after another, the last after the seconds that it took."""
    blank = blank_row(world.stream, world.partition(NW), IngestOptions(run_id=f"run-{number}"))
    start = AT + dt.timedelta(hours=number)
    rows = [
        replace(
            blank,
            status="committed",
            started_at=start,
            finished_at=start + dt.timedelta(seconds=took * (ended + 1) / partitions),
            seconds=each,
        )
        for ended in range(partitions)
    ]
    with world.stream.lake.open(create=True) as lake:
        create_ledger(lake)
        record(lake, rows)


@pytest.mark.parametrize(
    ("runs", "estimates"),
    [
        # Runs of several sizes: a start of 5 s, and 0.5 s a partition, of which a part is after its row is written.
        ([(1, 5.5, 0.2), (9, 9.5, 0.2)], {1: 5.5, 101: 55.5}),
        # The larger run was faster: the seconds of the partitions count.
        ([(2, 9.0, 1.0), (10, 7.0, 0.5)], {6: 8.0, 12: 11.5}),
        # A line through the runs would begin below zero.
        ([(1, 0.1, 0.1), (11, 22.1, 2.0)], {1: 1.85, 20: 37.0}),
        # One run, of which half the time was its partitions'.
        ([(10, 10.0, 0.5)], {1: 5.5, 10: 10.0, 20: 15.0}),
        # Listed side by side, its partitions took more seconds than the run.
        ([(10, 4.0, 1.0)], {1: 0.4, 20: 8.0}),
    ],
)
def test_an_estimate_is_by_the_last_runs(
    local_world: World, runs: list[tuple[int, float, float]], estimates: dict[int, float]
) -> None:
    for number, (partitions, took, each) in enumerate(runs):
        record_run(local_world, number, partitions, took, each)

    with local_world.stream.lake.open() as lake:
        found = pace(lake, local_world.stream.table, "replace")

    assert found is not None
    assert {number: found.seconds(number, 0) for number in estimates} == pytest.approx(estimates)


def history(world: World) -> None:
    """Runs of all kinds."""
    world.options = {"on_empty": "keep"}
    for text in (NW, LOST):
        world.commit(text, 1)
    world.ingest(NW)
    world.land(SW, b"")
    with pytest.raises(Exception, match="empty"):
        world.ingest(SW)
    world.commit(SW, 2, 3)
    world.land(NW, b"")
    with pytest.raises(Exception, match="empty"):
        world.ingest(NW)
    world.unland(LOST)
    world.ingest(LOST)
    world.ingest(EMPTY)


def prepare(world: World, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of all kinds, whose rows are inlined, in files or both; `whole`: DuckLake reads them."""
    monkeypatch.setattr(flush, "MANY", 1)
    history(world)
    if where != "inlined":
        world.tidy()
    if where in ("both", "whole"):
        world.commit(SW, 7)
        world.tidy()
        world.commit(NW, 8)
    if where == "whole":
        monkeypatch.setattr(ledger_relation, "MOST", 0)
        monkeypatch.setattr(lookup, "inlined_tables", refuse)


def expected(world: World) -> list[LedgerRow]:
    """All rows, newest first, as a plain client reads them."""
    rows = world.query("FROM lake.ingest_runs ORDER BY finished_at DESC, started_at DESC")
    return [LedgerRow(**dict(zip(LEDGER_COLUMNS, row, strict=True))) for row in rows]


def newest(rows: Sequence[LedgerRow]) -> dict[str, LastRuns]:
    """The newest runs of each partition by all rows of its stream, newest first."""
    by_path: dict[str, LastRuns] = {}
    for row in rows:
        source = row if row.status in {"committed", "skipped"} else None
        runs = LastRuns(row, source, row if row.status == "committed" else None)
        newer = by_path.get(row.load_partition)
        by_path[row.load_partition] = runs if newer is None else newer.or_older(runs)
    return by_path


def compared(found: Mapping[str, LastRuns]) -> Mapping[str, object]:
    """What decides; an unchanged partition's inlined row has the fingerprint of its commit."""
    return {path: (runs.status, runs.fingerprint, runs.snapshot, runs.rows) for path, runs in found.items()}


def assert_newest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether some partitions are looked up, or all, or more than a statement takes."""
    runs, table = newest(expected(world)), world.stream.table
    partitions = [world.partition(text) for text in TEXTS]
    few = {partition.path: runs[partition.path] for partition in partitions if partition.path in runs}
    with world.stream.lake.open(read_only=True) as lake, monkeypatch.context() as patch:
        assert compared(last_runs(lake, table)) == compared(runs)
        # With every column of the ledger, for Dagster shows one that was not read as unknown.
        commits = {path: runs.commit for path, runs in few.items() if runs.commit is not None}
        assert recorded_commits(lake, table, partitions) == commits
        for statement in (lookup._A_STATEMENT, 2):
            patch.setattr(lookup, "_A_STATEMENT", statement)
            assert compared(last_runs(lake, table, partitions)) == compared(few)


@pytest.mark.more
@pytest.mark.parametrize("where", ["inlined", "both", *soak(["flushed", "whole"])])
def test_rows_are_selected(world: World, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(world, where, monkeypatch)
    rows = expected(world)
    nw, sw, lost, empty, never = (world.partition(text).path for text in (NW, SW, LOST, EMPTY, NEVER))
    times = [row.finished_at for row in rows if row.finished_at is not None]
    known = {row.load_partition for row in rows}
    with world.stream.lake.open(read_only=True) as lake:
        assert read_ledger(lake) == rows
        assert read_ledger(lake, LedgerFilter(("other",))) == []
        for limit in range(1, len(rows)):
            assert read_ledger(lake, LedgerFilter(("sales",)), limit) == rows[:limit]
        of_nw = [row for row in rows if row.load_partition == nw]
        assert read_ledger(lake, LedgerFilter(load_partition=nw)) == of_nw
        assert read_ledger(lake, LedgerFilter(load_partition=nw), 1) == of_nw[:1]
        failed = [row for row in rows if row.status == "failed"]
        assert read_ledger(lake, LedgerFilter(statuses=["failed"])) == failed
        assert len(failed) == 2

        tokyo = dt.timezone(dt.timedelta(hours=9))
        for until, since in pairwise(times):  # of two runs, one after the other
            assert read_ledger(lake, LedgerFilter(since=since.astimezone(tokyo))) == rows[: times.index(since) + 1]
            assert read_ledger(lake, LedgerFilter(until=until)) == rows[times.index(until) + 1 :]
            assert read_ledger(lake, LedgerFilter(since=since, until=until)) == [rows[times.index(since)]]
        assert read_ledger(lake, LedgerFilter(since=times[0] + dt.timedelta(microseconds=1))) == []

        table = world.stream.table
        assert partitions_in_ledger(lake, table) == known
        assert partitions_in_ledger(lake, table, [nw, empty, never]) == known & {nw, empty}
        assert {sw, lost} <= known
        run = rows[0]
        assert run.finished_at is not None
        assert rows_of_run(lake, ("sales",), run.run_id, run.started_at) == [run]
        assert rows_of_run(lake, ("sales",), run.run_id, run.finished_at + dt.timedelta(hours=1)) == []
        assert rows_of_run(lake, ("other",), run.run_id) == []
    assert_newest(world, monkeypatch)


def test_a_time_of_any_precision_is_compared(world: World) -> None:
    """The extension writes times without zeros at the end, and the direct strategy with them."""
    world.commit(NW, 1)
    with world.stream.lake.open() as lake:
        for fraction in ("", ".5", ".500000", ".000001"):
            text = f"2026-02-11 06:00:00{fraction}+00"
            lake.rows("UPDATE lake.ingest_runs SET finished_at = ?::TIMESTAMPTZ", [text])
            moment, step = dt.datetime.fromisoformat(text), dt.timedelta(microseconds=1)
            assert (
                len(read_ledger(lake, LedgerFilter(since=moment)))
                == len(read_ledger(lake, LedgerFilter(until=moment + step)))
                == 1
            )
            assert (
                read_ledger(lake, LedgerFilter(since=moment + step))
                == read_ledger(lake, LedgerFilter(until=moment))
                == []
            )


@pytest.mark.more
def test_rows_that_were_deleted_and_those_of_a_dropped_table_do_not_count(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    history(local_world)
    local_world.tidy()
    local_world.execute("DELETE FROM lake.ingest_runs WHERE status = 'failed'")
    with local_world.stream.lake.open() as lake:
        (runs,) = last_runs(lake, local_world.stream.table, [local_world.partition(NW)]).values()
    assert runs.status == "skipped"

    local_world.execute("DROP TABLE lake.sales")
    local_world.commit("region=NEW,date=2026-02-11", 1)
    with local_world.stream.lake.open(read_only=True) as lake:
        whole = last_runs(lake, local_world.stream.table)
        few = last_runs(lake, local_world.stream.table, [local_world.partition(text) for text in TEXTS])
    assert few == {path: runs for path, runs in whole.items() if path in few}
    assert len(few) == 3
    assert all(runs.snapshot is None for runs in few.values())
    assert few[local_world.partition(SW).path].fingerprint is None


@pytest.mark.more
def test_a_commit_in_an_older_file_is_found(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(lookup, "FIRST_FILES", 1)
    local_world.options = {"on_empty": "keep"}
    for number, text in enumerate((NW, SW, LOST)):
        local_world.commit(text, number)
        local_world.tidy()
    for _ in range(2):
        local_world.ingest(NW)
        local_world.tidy()
    local_world.commit(SW, 5)
    local_world.tidy()

    assert_newest(local_world, monkeypatch)


@pytest.mark.more
def test_files_older_than_the_last_commit_are_not_read(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(lookup, "FIRST_FILES", 1)
    for number in range(3):
        local_world.commit(NW, number)
        local_world.tidy()
    read: list[int] = []
    of_files = ledger_relation.relation_of_files

    def noting(uris, *others):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002, ANN202
        read.append(len(uris))
        return of_files(uris, *others)

    monkeypatch.setattr("lake_assets.lake.ledger.lookup.relation_of_files", noting)
    with local_world.stream.lake.open(read_only=True) as lake:
        last_runs(lake, local_world.stream.table, [local_world.partition(NW)])
        assert read == [1]
        read.clear()
        last_runs(lake, local_world.stream.table, [local_world.partition(NEVER)])
        assert read == [1, 2]
