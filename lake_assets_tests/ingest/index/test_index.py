"""Registration in place: each landed file becomes a lake file once, as it is."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from lake_assets.errors import CatalogError, CatalogUnreachableError, EmptySourceError, StorageError
from lake_assets.events import listening
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.ingest.index.index_plan import IndexPlan, plan_index
from lake_assets.ingest.index.index_run import IndexRun, index_all
from lake_assets.lake.commit.direct import register_directly
from lake_assets.lake.ledger.read import partitions_in_ledger
from lake_assets.storage.store import Store
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

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

    assert again.result is not None
    row = again.result.row
    assert (row.row_count, row.rows_before, row.files_written, row.source_files) == (1, 2, 1, 2)
    assert (row.mode, row.status) == ("index", "committed")
    assert world.totals() == [1, 2, 3, 4, 5, 6]
    assert row.source_fingerprint == world.stream.fingerprint(world.stream.manifest(world.partition(NW)))
    manifest = world.query("SELECT uri, etag, size FROM lake.ingest_files ORDER BY uri")
    listed = world.stream.source.list()
    assert manifest == [(obj.uri, obj.etag, obj.size) for obj in sorted(listed, key=lambda o: o.uri)]


def test_a_row_has_the_seconds_of_its_partition_before_the_commit(indexed_world: World) -> None:
    for text in (NW, SW):
        indexed_world.land(text, sales(1))
    indexed_world.land(NW, b"no Parquet", "bad.parquet")

    outcomes = index(indexed_world)

    rows = [row for row in indexed_world.ledger() if row.status == "committed"]
    assert len(rows) == 2
    for row in rows:
        steps = outcomes[row.load_partition].seconds
        assert row.seconds is not None
        assert steps["list"] < row.seconds < sum(steps.values())
    made = plan_stream(indexed_world.stream, [indexed_world.partition(NW)])
    assert made.pace is not None
    assert made.pace.each > 0


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
def test_either_strategy_registers_many_partitions_in_one_snapshot(indexed_world: World) -> None:
    texts = [f"region=R{number},date=2026-02-1{day}" for number in range(3) for day in range(2)]
    for number, text in enumerate(texts):
        indexed_world.land(text, sales(number))
        indexed_world.land(text, sales(number + 0.5), "batch_2.parquet")

    outcomes = index(indexed_world)

    assert all(outcome.error is None for outcome in outcomes.values())
    rows = indexed_world.ledger()
    assert len({row.snapshot_id for row in rows}) == 1
    assert len(rows) == len(texts)
    assert {row.row_count for row in rows} == {2}
    assert [indexed_world.totals(text) for text in texts[:2]] == [[0, 0.5], [1, 1.5]]
    assert index(indexed_world) == {}
    messages = indexed_world.query("SELECT commit_message FROM lake.snapshots() WHERE author = 'lake_assets'")
    assert messages == [(f"sales 6 partitions: index by run {rows[0].run_id}",)]


def test_ingest_of_a_stream_in_mode_index_registers(indexed_world: World) -> None:
    indexed_world.land(NW, sales(1))
    indexed_world.land(SW, sales(2))

    outcomes = list(ingest_all(indexed_world.stream, [indexed_world.partition(t) for t in (NW, SW)], no_spark))

    assert [outcome.result.row.status for outcome in outcomes if outcome.result] == ["committed"] * 2
    assert len({obj.result.row.snapshot_id for obj in outcomes if obj.result}) == 1
    (again,) = ingest_all(indexed_world.stream, [indexed_world.partition(NW)], no_spark)
    assert again.result is not None
    assert again.result.row.status == "skipped"
    assert [row.status for row in indexed_world.ledger(NW)] == ["skipped", "committed"]
    assert indexed_world.totals() == [1, 2]


def no_spark() -> Any:
    pytest.fail("Spark was asked for")


def test_a_partition_where_nothing_landed_follows_the_policy(indexed_world: World) -> None:
    indexed_world.land(SW, sales(2))

    (failed,) = index(indexed_world, NW).values()
    indexed_world.options |= {"on_empty": "keep"}
    (kept,) = index(indexed_world, NW).values()

    assert isinstance(failed.error, EmptySourceError)
    assert kept.result is not None
    assert (kept.result.row.status, kept.result.row.on_empty) == ("skipped", "keep")
    assert "nothing of region=NW has landed or is in the lake: did you mean SW?" in str(failed.error)
    assert "did you mean SW?" in kept.result.note
    with indexed_world.stream.lake.open(create=True) as lake:
        assert partitions_in_ledger(lake, indexed_world.stream.table) == set()


def test_an_encrypted_lake_is_refused(indexed_world: World) -> None:
    indexed_world.land(NW, sales(1))
    with indexed_world.stream.lake.open(create=True) as lake:
        lake.rows("UPDATE __ducklake_metadata_lake.ducklake_metadata SET value = 'true' WHERE key = 'encrypted'")

    (outcome,) = index(indexed_world).values()

    assert isinstance(outcome.error, CatalogError)
    assert "the lake is encrypted" in str(outcome.error)


def test_an_unreachable_landing_zone_fails_every_named_partition(indexed_world: World) -> None:
    outcomes = index(indexed_world, NW, SW)

    assert [type(outcome.error).__name__ for outcome in outcomes.values()] == ["AbsentStorageError"] * 2
    assert [row.status for row in indexed_world.ledger()] == ["failed"] * 2


def test_an_interrupt_in_the_callers_loop_hides_no_partition_of_the_transaction(indexed_world: World) -> None:
    for text in (NW, SW):
        indexed_world.land(text, sales(1))
    ended: list[str | None] = []

    with listening(lambda event: ended.append(event.partition) if event.event == "partition" else None):
        outcomes = index_all(indexed_world.stream, [indexed_world.partition(text) for text in (NW, SW)])
        next(iter(outcomes))

    assert len(ended) == 2


def test_a_run_that_is_cancelled_between_its_transactions_keeps_registered_objects(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.ingest.index.index_run.FILES", 1)
    for number, text in enumerate((NW, SW)):
        indexed_world.land(text, sales(number))

    with pytest.raises(KeyboardInterrupt):
        index(indexed_world, checkpoint=interrupting(lambda: None))

    assert indexed_world.totals() == [0]
    assert [row.status for row in indexed_world.ledger()] == ["cancelled", "committed"]
    index(indexed_world)
    assert indexed_world.totals() == [0, 1]


def interrupting(step: Callable[..., None]) -> Callable[..., None]:
    """The step, whose second call is an interrupt."""
    calls = []

    def call(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        step(*arguments)

    return call


def test_a_run_that_is_cancelled_in_its_second_transaction_leaves_the_third_unnamed(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = (NW, SW, NULL)
    for number, text in enumerate(texts):
        indexed_world.land(text, sales(number))
    with monkeypatch.context() as patch:
        patch.setattr("lake_assets.ingest.index.index_run.FILES", 1)
        patch.setattr(IndexRun, "register", interrupting(IndexRun.register))
        with pytest.raises(KeyboardInterrupt):
            index(indexed_world, *texts)

    rows = {row.load_partition: row.status for row in indexed_world.ledger()}
    assert rows == {indexed_world.partition(NW).path: "committed", indexed_world.partition(SW).path: "cancelled"}
    assert indexed_world.totals() == [0]
    index(indexed_world)
    assert indexed_world.totals() == [0, 1, 2]


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


def test_a_registration_whose_answer_was_lost_is_not_done_twice(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def lost(*arguments: Any) -> Any:
        calls.append(register_directly(*arguments))
        raise CatalogError("the answer was lost:") from duckdb.TransactionException("database is locked")

    monkeypatch.setattr("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", (lost,))
    indexed_world.land(NW, sales(1))
    indexed_world.land(SW, sales(2))

    outcomes = index(indexed_world)

    assert len(calls) == 1
    assert [outcome.result.row for outcome in outcomes.values() if outcome.result] == calls[0]
    assert indexed_world.totals() == [1, 2]
    assert len(indexed_world.ledger()) == 2


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
    outcomes = index_all(indexed_world.stream, plan=IndexPlan((*stale.partitions, new)))

    if isinstance(failure, CatalogError):
        assert {str(outcome.partition): outcome.error for outcome in outcomes} == {
            indexed_world.partition(NW).path: None,
            indexed_world.partition(SW).path: failure,
        }
    else:
        with pytest.raises(KeyboardInterrupt):
            list(outcomes)

    assert [row.status for row in indexed_world.ledger(NW)] == ["committed"]
    status = "failed" if isinstance(failure, CatalogError) else "cancelled"
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
                ("year", "2026", 2026),
                ("month", "2026-02", "2026-02"),
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


def test_a_catalog_that_is_lost_before_the_decision_is_the_partitions_error(
    indexed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise CatalogUnreachableError("the catalog is unreachable:", "start it.")

    monkeypatch.setattr("lake_assets.ingest.plan.partitions_in_ledger", lost)
    indexed_world.land(NW, sales(1))
    index(indexed_world, NW)

    outcomes = index(indexed_world, NW, SW)

    assert {type(outcome.error) for outcome in outcomes.values()} == {CatalogUnreachableError}
    assert [row.status for row in indexed_world.ledger(SW)] == ["failed"]
