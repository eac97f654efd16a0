"""Mode append with partitions in the rows, copies, lakes that take rows by INSERT, and runs that are overtaken."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets_tests.ingest.append.test_append import APPEND, appended
from lake_assets_tests.ingest.encrypted import assert_secret, telling
from lake_assets_tests.ingest.landed_as import load
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.ingest.test_in_rows import both_in_rows, put, rows
from lake_assets_tests.ingest.test_managed import managed  # noqa: F401 - a fixture
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import NW, SW, World, sales


def test_each_partition_of_an_object_gets_its_rows_once(local_world: World) -> None:
    local_world.options = APPEND | both_in_rows()
    partitions = [local_world.partition(text) for text in (NW, SW)]
    put(local_world, "a.parquet", rows(("NW", "2026-02-11", 1), ("SW", "2026-02-11", 2)))
    local_world.ingest(NW)
    put(local_world, "b.parquet", rows(("NW", "2026-02-11", 3)))

    for _ in range(2):
        outcomes = list(ingest_all(local_world.stream, partitions, local_world.sessions))
        assert [outcome.error for outcome in outcomes] == [None, None]

    assert (local_world.totals(NW), local_world.totals(SW)) == ([1, 3], [2])
    assert [(row.mode, row.status) for row in local_world.ledger()][:2] == [("append", "skipped")] * 2


def test_a_large_object_is_copied_and_added(local_world: World) -> None:
    local_world.options = APPEND | {"copy": "always"}
    for number in range(2):
        local_world.land(NW, sales(number), f"{number}.parquet", compression="zstd")
        assert local_world.ingest(NW).row.files_copied == 1

    assert local_world.totals() == [0, 1]


@pytest.mark.parametrize("deleted", [pytest.param(True, id="deleted rows"), *more([False])])
def test_the_extension_adds_as_the_direct_strategy_does(
    world: World, deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended(world, (1, 2))
    if deleted:
        world.execute("DELETE FROM lake.sales WHERE total = 2")
    known = [1] if deleted else [1, 2]
    with monkeypatch.context() as patched:
        patched.setattr("lake_assets.lake.commit.strategy.STRATEGIES", (replace_by_extension,))
        row = load(world, sales(3), name="b")

    assert (row.rows_before, row.row_count, row.files_written) == (len(known), 1, 1)
    assert world.totals() == [*known, 3]
    assert load(world, sales(4), name="c").rows_before == len(known) + 1
    assert world.totals() == [*known, 3, 4]


@pytest.mark.more
def test_an_encrypted_lake_gets_the_rows_of_new_objects(encrypted: World) -> None:
    encrypted.options = APPEND
    table = telling(50)
    load(encrypted, table)

    row = load(encrypted, table, name="b")

    assert (row.mode, row.rows_before, row.row_count, row.files_written) == ("append", 50, 50, 1)
    assert row.bytes_written
    assert encrypted.ingest(NW).row.status == "skipped"
    assert_secret(encrypted, table)


def test_a_managed_lake_gets_the_rows_of_new_objects(managed: World) -> None:  # noqa: F811 - the fixture
    managed.options = APPEND
    load(managed, sales(1))
    row = load(managed, sales(2), name="b")

    assert (row.rows_before, row.row_count) == (1, 1)
    with managed.stream.lake.open() as lake:
        assert lake.rows("SELECT total FROM retail.sales ORDER BY total") == [(1,), (2,)]
    assert managed.ingest(NW).row.status == "skipped"


def same_objects(world: World) -> None:
    world.ingest(NW)


def more_objects(world: World) -> None:
    load(world, sales(4), name="c")


def refresh(world: World) -> None:
    world.ingest(NW, force=True)


@pytest.mark.parametrize(
    ("meanwhile", "totals", "force"),
    [
        (same_objects, [1, 2], False),
        (more_objects, [1, 2, 4], True),
        *more([(more_objects, [1, 2, 4], False), (refresh, [1, 2], False)]),
        *soak([(same_objects, [1, 2], True), (refresh, [1, 2], True)]),
    ],
)
def test_a_run_that_was_overtaken_during_its_job_adds_nothing_twice(
    world: World, meanwhile: Callable[[World], None], totals: list[float], force: bool
) -> None:
    appended(world, (1,))
    world.land(NW, sales(2), "b.parquet")
    with before("verify", lambda _: meanwhile(world)):
        world.ingest(NW, force=force)

    assert world.totals() == totals
    assert world.ledger()[0].status in ("skipped", "committed")
    ((registered,),) = world.query(
        "SELECT count(*) FROM __ducklake_metadata_lake.ducklake_data_file "
        "JOIN __ducklake_metadata_lake.ducklake_table USING (table_id) WHERE table_name = 'sales'"
    )
    assert len([key for key in world.data_files() if "/sales/" in f"/{key}"]) == registered  # the others are removed


@pytest.mark.more
@pytest.mark.parametrize("why", ["on_changed", "force"])
def test_a_refresh_that_was_overtaken_right_before_its_commit_takes_no_rows_away(local_world: World, why: str) -> None:
    """The refresh has verified its objects; then another process adds one that has just landed."""
    local_world.options = APPEND | {"on_changed": "refresh"}
    local_world.land(NW, sales(1), "a.parquet")
    load(local_world, sales(2), name="b")

    def add_one(changes: Sequence[Change]) -> None:
        assert changes[0].row.mode == "replace"
        load(replace(local_world, _opened=None), sales(3), name="c")

    if why == "on_changed":
        local_world.land(NW, sales(5), "a.parquet")
    with before("transaction", add_one):
        row = local_world.ingest(NW, force=why == "force").row

    assert local_world.totals() == ([2, 3, 5] if why == "on_changed" else [1, 2, 3])
    assert row.status == ("skipped" if why == "on_changed" else "committed")
