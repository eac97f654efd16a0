"""Registration in place: each landed file becomes a lake file once, as it is, and is repaired if it changes."""

import datetime as dt
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from lake_assets.base.errors import (
    AbsentStorageError,
    CatalogError,
    CatalogUnreachableError,
    EmptySourceError,
    StorageError,
)
from lake_assets.base.events import listening
from lake_assets.ingest.index.index_run import IndexRun, index_all, plan_index
from lake_assets.ingest.index.verify import check_indexed, repair_indexed
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.partition_run import PartitionRun
from lake_assets.lake.ledger.read import partitions_in_ledger
from lake_assets.storage.store import Store
from lake_assets.streams.pending import scan_landing
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.encrypted import nobody
from lake_assets_tests.ingest.index.indexing import index, with_partition
from lake_assets_tests.ingest.test_ingest_all import at_call
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales

NULL = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-12"


def test_landed_files_become_lake_files_once_on_every_catalog_and_storage(world: World) -> None:
    world.options = {"mode": "index"}
    first = [world.land(NW, sales(1, 2)), world.land(SW, sales(3)), world.land(NULL, sales(4, 5), "a b-ü'x.parquet")]

    outcomes = index(world)

    assert {path: o.error for path, o in outcomes.items()} == dict.fromkeys(outcomes)
    assert world.totals() == [1, 2, 3, 4, 5]
    assert world.totals(NW) == [1, 2]
    assert world.query("SELECT total FROM lake.sales WHERE region IS NULL ORDER BY ALL") == [(4,), (5,)]
    assert world.data_files() == set()
    assert set(world.live_files()) == set(first)
    assert len({row.snapshot_id for row in world.ledger()}) == 1
    assert index(world) == {}

    world.land(NW, sales(6), "batch_2.parquet")
    (again,) = index(world).values()

    assert again.is_done
    row = again.row
    assert (row.row_count, row.rows_before, row.files_written, row.source_files) == (1, 2, 1, 2)
    assert (row.mode, row.status) == ("index", "committed")
    assert world.totals() == [1, 2, 3, 4, 5, 6]
    assert row.source_fingerprint == world.stream.fingerprint(world.stream.manifest(world.partition(NW)))
    manifest = world.query("SELECT uri, etag, size FROM lake.ingest_files ORDER BY uri")
    listed = world.stream.source.list()
    assert manifest == [(obj.uri, obj.etag, obj.size) for obj in sorted(listed, key=lambda o: o.uri)]


@pytest.mark.usefixtures("strategy")
def test_a_file_of_nulls_beside_others_hides_no_value_of_theirs(indexed_world: World) -> None:
    for text, values in ((NW, [None]), (SW, [3, 70])):
        indexed_world.land(text, pa.table({"id": pa.array(values, pa.uint64())}))
    index(indexed_world)

    assert indexed_world.query("SELECT min(id), max(id) FROM lake.sales") == [(3, 70)]
    with plain_client(indexed_world.config.lakes["test"], read_only=False) as client:
        client.execute("INSERT INTO lake.sales BY NAME SELECT 26 AS id, 'NE' AS region, DATE '2026-02-11' AS date")
    assert indexed_world.query("SELECT min(id), max(id) FROM lake.sales") == [(3, 70)]
    assert indexed_world.query("SELECT id FROM lake.sales WHERE id > 50") == [(70,)]


@pytest.mark.parametrize("strategy", ["direct", "extension"], indirect=True)
@pytest.mark.usefixtures("strategy")
def test_either_strategy_registers_many_partitions_in_one_snapshot_without_spark(indexed_world: World) -> None:
    texts = [f"region=R{number},date=2026-02-1{day}" for number in range(3) for day in range(2)]
    for number, text in enumerate(texts):
        indexed_world.land(text, sales(number))
        indexed_world.land(text, sales(number + 0.5), "batch_2.parquet")
    partitions = [indexed_world.partition(text) for text in texts]

    outcomes = list(ingest_all(indexed_world.stream, partitions, nobody))

    assert {(outcome.status, outcome.row.row_count) for outcome in outcomes} == {("committed", 2)}
    for outcome in outcomes:  # a row has the seconds before the commit
        assert outcome.seconds["list"] < (outcome.row.seconds or 0) < sum(outcome.seconds.values())
    assert [indexed_world.totals(text) for text in texts[:2]] == [[0, 0.5], [1, 1.5]]
    messages = indexed_world.query("SELECT commit_message FROM lake.snapshots() WHERE author = 'lake_assets'")
    assert messages == [(f"sales 6 partitions: index by run {outcomes[0].row.run_id}",)]
    assert {outcome.status for outcome in ingest_all(indexed_world.stream, partitions, nobody)} == {"skipped"}
    assert index(indexed_world) == {}


def test_a_partition_where_nothing_landed_follows_the_policy(indexed_world: World) -> None:
    indexed_world.land(SW, sales(2))

    (failed,) = index(indexed_world, NW).values()
    indexed_world.options |= {"on_empty": "keep"}
    (kept,) = index(indexed_world, NW).values()

    assert isinstance(failed.error, EmptySourceError)
    assert kept.is_done
    assert (kept.row.status, kept.row.on_empty) == ("skipped", "keep")
    assert "nothing of region=NW has landed or is in the lake: did you mean SW?" in str(failed.error)
    assert "did you mean SW?" in kept.note
    with indexed_world.stream.lake.open(create=True) as lake:
        assert partitions_in_ledger(lake, indexed_world.stream.table) == set()


def test_an_encrypted_lake_is_refused(indexed_world: World) -> None:
    indexed_world.land(NW, sales(1))
    with indexed_world.stream.lake.open(create=True) as lake:
        lake.rows("UPDATE __ducklake_metadata_lake.ducklake_metadata SET value = 'true' WHERE key = 'encrypted'")

    (outcome,) = index(indexed_world).values()

    assert isinstance(outcome.error, CatalogError)
    assert "the lake is encrypted" in str(outcome.error)


@pytest.mark.parametrize("lost", ["landing zone", "catalog"])
def test_what_is_lost_before_the_decision_is_the_error_of_every_named_partition(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    def away(*_: object) -> None:
        raise CatalogUnreachableError("the catalog is unreachable:", "start it.")

    if lost == "catalog":
        monkeypatch.setattr("lake_assets.ingest.plan.partitions_in_ledger", away)
        indexed_world.land(NW, sales(1))
        index(indexed_world, NW)

    outcomes = index(indexed_world, NW, SW)

    expected = CatalogUnreachableError if lost == "catalog" else AbsentStorageError
    assert [type(outcome.error) for outcome in outcomes.values()] == [expected] * 2
    assert [row.status for row in indexed_world.ledger(SW)] == ["failed"]


def test_an_interrupt_in_the_callers_loop_hides_no_partition_of_the_transaction(indexed_world: World) -> None:
    for text in (NW, SW):
        indexed_world.land(text, sales(1))
    ended: list[str | None] = []

    with listening(lambda event: ended.append(event.partition) if event.event == "partition" else None):
        outcomes = index_all(indexed_world.stream, [indexed_world.partition(text) for text in (NW, SW)])
        next(iter(outcomes))

    assert len(ended) == 2


@pytest.mark.parametrize("place", ["before", "within"])
def test_a_run_that_is_cancelled_at_its_second_transaction_keeps_the_first_and_leaves_the_third_unnamed(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    texts = (NW, SW, NULL)
    for number, text in enumerate(texts):
        indexed_world.land(text, sales(number))
    interrupt, register = at_call(2), IndexRun.register

    def interrupted(run: IndexRun, chunk: Sequence[PartitionRun]) -> None:
        interrupt()
        register(run, chunk)

    with monkeypatch.context() as patch:
        patch.setattr("lake_assets.ingest.index.index_run.FILES_AT_ONCE", 1)
        if place == "within":
            patch.setattr(IndexRun, "register", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index(indexed_world, *texts, checkpoint=interrupt if place == "before" else lambda: None)

    rows = {row.load_partition: row.status for row in indexed_world.ledger()}
    assert rows == {indexed_world.partition(NW).path: "committed", indexed_world.partition(SW).path: "cancelled"}
    assert indexed_world.totals() == [0]
    index(indexed_world)
    assert indexed_world.totals() == [0, 1, 2]


@pytest.mark.more
@pytest.mark.parametrize("world", [("sqlite", "s3")], indirect=True)
def test_on_s3_too_a_damaged_file_fails_alone_and_names_may_be_odd(world: World) -> None:
    world.options = {"mode": "index"}
    for number, name in enumerate(["[x]*.parquet", "a#b=c&d.parquet", "50% +1.parquet", "ü'x.parquet"]):
        world.land(NW, sales(number), name)
    bad = world.land(NW, b"no Parquet", "bad.parquet")
    query = world.land(NW, sales(9), "a?b.parquet")  # which DuckDB takes for parameters of the URL

    (outcome,) = index(world).values()

    assert world.totals() == [0, 1, 2, 3]
    assert f"the object {bad} cannot be read as Parquet" in str(outcome.error)
    assert query in str(outcome.error)


@pytest.mark.parametrize("failure", [CatalogError("the catalog is away."), *more([KeyboardInterrupt()])])
def test_committed_partitions_do_not_fail_when_others_cannot_be_recorded(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    indexed_world.land(SW, sales(2))
    stale = plan_index(indexed_world.stream)
    index(indexed_world)  # another process, as it were
    indexed_world.land(NW, sales(1))
    (new,) = [part for part in plan_index(indexed_world.stream).partitions if part.new]

    def fails_once(*_: object) -> None:
        monkeypatch.undo()
        raise failure

    monkeypatch.setattr("lake_assets.ingest.index.index_run.skip", fails_once)
    outcomes = index_all(indexed_world.stream, plan=replace(stale, partitions=(*stale.partitions, new)))

    is_error = isinstance(failure, CatalogError)
    with nullcontext() if is_error else pytest.raises(KeyboardInterrupt):
        errors = {str(outcome.partition): outcome.error for outcome in outcomes}
        assert errors == {indexed_world.partition(NW).path: None, indexed_world.partition(SW).path: failure}

    assert [row.status for row in indexed_world.ledger(NW)] == ["committed"]
    status = "failed" if is_error else "cancelled"
    assert [row.status for row in indexed_world.ledger(SW)] == [status, "committed"]
    assert indexed_world.totals() == [1, 2]


def test_an_unreachable_store_is_no_fault_of_its_files(indexed_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed_world.land(NW, sales(1))
    index(indexed_world)
    for name in "abc":
        indexed_world.land(NW, b"no Parquet", f"{name}.parquet")

    def probe(_: Store) -> bool:
        raise StorageError("the store is away.")

    monkeypatch.setattr(Store, "probe", probe)

    (outcome,) = index(indexed_world).values()

    assert str(outcome.error) == "the store is away."
    assert [row.status for row in indexed_world.ledger()] == ["failed", "committed"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("date", "2026-02-11", dt.date(2026, 2, 11)),
        ("date", "__HIVE_DEFAULT_PARTITION__", None),
        *more(
            [
                ("integer", "-7", -7),
                ("hour", "2026-02-11-13", "2026-02-11-13"),
            ]
        ),
    ],
)
def test_partitions_of_all_types_are_read_from_the_path(
    indexed_world: World, kind: str, text: str, value: object
) -> None:
    field = {"type": kind} | ({} if kind == "integer" else {"start": "2026-01-01"})
    indexed_world.options |= {"partitions": {"part": field}}
    indexed_world.land(f"part={text}", sales(1))

    (outcome,) = index(indexed_world, outside=value is None).values()

    assert outcome.error is None
    assert indexed_world.query("SELECT part, total FROM lake.sales") == [(value, 1)]
    assert indexed_world.query("SELECT count(*) FROM lake.sales WHERE part IS NOT DISTINCT FROM ?", value) == [(1,)]
    assert list(index(indexed_world)) == []


# Check and repair of registered files that change or vanish.


@pytest.fixture
def registered(local_world: World) -> World:
    return indexed(local_world)


def indexed(world: World) -> World:
    world.options = {"mode": "index"}
    for name in ("a", "b", "c"):
        world.land(NW, sales(1, 2), f"{name}.parquet")
    world.land(SW, sales(3))
    assert all(outcome.error is None for outcome in index_all(world.stream))
    return world


def test_changed_and_vanished_objects_are_found_and_repaired(world: World) -> None:
    indexed(world)
    before = world.query("SELECT max(snapshot_id) FROM lake.snapshots()")[0][0]
    changed = world.land(NW, sales(*range(10, 40)), "a.parquet")
    world.unland(NW, "b.parquet")

    state = check_indexed(world.stream)

    assert [obj.now.uri for obj in state.changed] == [changed]
    assert [(item.uri.rsplit("/", 1)[1], item.load_partition) for item in state.vanished] == [
        ("b.parquet", world.partition(NW).path)
    ]
    assert check_indexed(world.stream, [world.partition(SW)]).is_consistent

    repaired = repair_indexed(world.stream)

    assert not repaired.errors
    (row,) = repaired.rows
    assert (row.mode, row.row_count, row.rows_before, row.files_written) == ("repair", 32, 6, 1)
    assert row.snapshot_id == before + 1
    partitions = read_stream_state(world.stream).partitions
    assert {str(p.partition): (p.state, p.rows, p.is_waiting) for p in partitions if p.objects} == {
        str(world.partition(NW)): ("committed", 32, False),
        str(world.partition(SW)): ("committed", 1, False),
    }
    assert not scan_landing(world.stream).pending
    assert world.totals(NW) == [1, 2, *range(10, 40)]
    for total in (10, 39):
        assert world.query("SELECT count(*) FROM lake.sales WHERE total = ?", total) == [(1,)]
    state = check_indexed(world.stream)
    assert (state.is_consistent, state.registered) == (True, 3)
    assert repair_indexed(world.stream).rows == ()
    assert list(index_all(world.stream)) == []
    # A reader of an old snapshot finds the file that is there.
    assert world.query(f"SELECT count(*) FROM lake.sales AT (VERSION => {before}) WHERE total = 39") == [(1,)]
    row_ids = world.query("SELECT count(DISTINCT rowid), count(*) FROM lake.sales")
    assert row_ids == [(33, 33)]


def test_a_change_within_the_second_of_the_registration_is_seen(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2))

    repair_indexed(local_world.stream)

    assert local_world.query("SELECT count(*) FROM lake.sales WHERE total = 2") == [(1,)]


def test_the_lake_can_be_written_after_a_repair(registered: World) -> None:
    """DuckLake itself deletes, expires and cleans up, and no live landed object is lost."""
    changed = registered.land(NW, sales(10, 20, 30), "a.parquet")
    registered.unland(NW, "b.parquet")
    repair_indexed(registered.stream)
    registered.land(NW, sales(50), "d.parquet")
    list(index_all(registered.stream))

    with registered.stream.lake.open() as lake:
        lake.rows("CALL ducklake_expire_snapshots('lake', older_than => now())")
        lake.rows("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        totals = lake.rows("SELECT total FROM lake.sales WHERE region = 'NW' ORDER BY ALL")
        assert totals == [(1,), (2,), (10,), (20,), (30,), (50,)]
        lake.rows("DELETE FROM lake.sales WHERE total = 20")
        assert lake.rows("SELECT count(*) FROM lake.sales") == [(6,)]

    assert Path(changed).exists()
    assert check_indexed(registered.stream).is_consistent


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        pytest.param(with_partition("NW"), "has a row with region='NW'", id="no-longer-fits"),
        pytest.param(
            sales(4, 5).rename_columns(["id", "TOTAL"]),
            "changed, and only DuckLake's extension can read the statistics",
            id="extension",
        ),
    ],
)
def test_a_changed_file_that_cannot_be_repaired_stays_reported_and_does_not_hold_up_the_rest(
    registered: World, rows: pa.Table, reason: str
) -> None:
    changed = registered.land(SW, rows)
    registered.unland(NW, "b.parquet")

    repaired = repair_indexed(registered.stream)

    (error,) = repaired.errors
    assert f"the object {changed} {reason}" in str(error)
    assert (repaired.ended, repaired.renewed) == (1, 0)
    state = check_indexed(registered.stream)
    assert not state.vanished
    assert [obj.now.uri for obj in state.changed] == [changed]
    totals = registered.query("SELECT total FROM lake.sales WHERE region = 'NW' ORDER BY ALL")
    assert totals == [(1,), (1,), (2,), (2,)]


def test_a_file_whose_rows_were_deleted_is_not_repaired(registered: World) -> None:
    registered.execute("DELETE FROM lake.sales WHERE total = 1")
    registered.land(NW, sales(10, 20, 30), "a.parquet")
    with pytest.raises(Exception, match=r"cannot be repaired in place: rows were deleted"):
        repair_indexed(registered.stream)


@pytest.mark.more
@pytest.mark.parametrize("is_another", [False, True])
def test_a_vanished_object_that_lands_again_is_refused_with_a_hint(registered: World, is_another: bool) -> None:
    path = file_of(registered, NW, "b.parquet")
    away = path.rename(registered.landing.uri("away"))
    repair_indexed(registered.stream)
    assert check_indexed(registered.stream).is_consistent
    if is_another:
        registered.land(NW, sales(5), path.name)
    else:
        away.rename(path)  # with the ETag that the manifest has

    (outcome,) = index_all(registered.stream)
    assert f"the object {path} has landed again" in str(outcome.error)
    assert [obj.uri for part in plan_index(registered.stream).partitions for obj in part.changed] == [str(path)]
    assert "fail: nothing new; 1 changed" in plan(registered.stream, registered.partition(NW)).action
    assert [(item.now.uri, item.is_live) for item in check_indexed(registered.stream).changed] == [(str(path), False)]
    (error,) = repair_indexed(registered.stream).errors
    assert f"the object {path} has landed again after it vanished" in str(error)
    assert registered.totals(NW) == [1, 1, 2, 2]

    path.rename(path.with_name("d.parquet"))
    list(index_all(registered.stream))
    assert registered.totals(NW) == ([1, 1, 2, 2, 5] if is_another else [1, 1, 1, 2, 2, 2])
    assert check_indexed(registered.stream).is_consistent


def file_of(world: World, text: str, name: str) -> Path:
    return Path(world.landing.uri(f"{world.partition(text).path}/{name}"))


def test_an_object_that_a_replacement_missed_is_new_when_it_returns(local_world: World) -> None:
    """In mode replace no path is registered, so it may be registered now; the others must not be read twice."""
    local_world.land(NW, sales(1), "a.parquet")
    local_world.land(NW, sales(2), "b.parquet")
    local_world.ingest(NW)
    path = file_of(local_world, NW, "b.parquet")
    away = path.rename(local_world.landing.uri("away"))
    local_world.ingest(NW)
    assert local_world.totals() == [1]
    away.rename(path)
    local_world.options = {"mode": "index"}

    assert [obj.uri for obj in plan_index(local_world.stream).new] == [str(path)]
    list(index_all(local_world.stream))

    assert local_world.totals() == [1, 2]
    assert check_indexed(local_world.stream).is_consistent
    assert list(index_all(local_world.stream)) == []


def test_changed_objects_fail_their_partition_beside_new_ones_and_no_other(registered: World) -> None:
    """Their rows have landed, and are not in the lake."""
    changed = registered.land(NW, sales(10, 20, 30), "a.parquet")
    registered.land(NW, sales(50), "d.parquet")
    emptied = registered.land(NW, sales(), "b.parquet")

    outcomes = index(registered, NW, SW)

    text = str(outcomes["region=NW/date=2026-02-11"].error)
    assert "the rows of 2 of 4 objects of region=NW/date=2026-02-11 are not in the lake:" in text
    for uri in (changed, emptied):
        assert f"the object {uri} has changed since it was registered" in text
    assert registered.query("SELECT count(*) FROM lake.sales WHERE total = 50") == [(1,)]
    assert outcomes["region=SW/date=2026-02-11"].status == "skipped"
    row = next(row for row in registered.ledger(NW) if row.status == "failed")
    assert changed in str(row.error)
    repair_indexed(registered.stream)
    assert list(index_all(registered.stream)) == []
