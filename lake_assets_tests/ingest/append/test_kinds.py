"""Mode append with transforms, changed columns, partitions in the rows, copies, and lakes that take rows by INSERT."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from lake_assets.ingest.api import ingest_all
from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.maintenance.compaction import compact
from lake_assets_tests.ingest.append.test_append import APPEND, statuses
from lake_assets_tests.ingest.encrypted import assert_secret, telling
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.ingest.test_in_rows import both_in_rows, put, rows
from lake_assets_tests.ingest.test_managed import managed  # noqa: F401 - a fixture
from lake_assets_tests.world import NW, SW, World, sales


def test_a_transform_sees_the_rows_of_new_objects_only(local_world: World) -> None:
    local_world.options = APPEND | {"transform": {"sql": "SELECT sum(id) AS id, sum(total) AS total FROM source"}}
    local_world.land(NW, sales(1, 2), "a.parquet")
    local_world.ingest(NW)
    local_world.land(NW, sales(4, 8), "b.parquet")
    local_world.ingest(NW)

    assert local_world.totals() == [3, 12]


def test_each_partition_of_an_object_gets_its_rows_once(local_world: World) -> None:
    local_world.options = APPEND | both_in_rows()
    partitions = [local_world.partition(text) for text in (NW, SW)]
    put(local_world, "a.parquet", rows(("NW", "2026-02-11", 1), ("SW", "2026-02-11", 2)))
    local_world.ingest(NW)
    put(local_world, "b.parquet", rows(("NW", "2026-02-11", 3)))

    for _ in range(2):
        outcomes = list(ingest_all(local_world.stream, partitions, local_world.sessions))
        assert [outcome.error for outcome in outcomes] == [None, None]

    assert local_world.totals(NW) == [1, 3]
    assert local_world.totals(SW) == [2]
    assert statuses(local_world)[:2] == [("append", "skipped")] * 2


def test_a_large_object_is_copied_and_added(local_world: World) -> None:
    local_world.options = APPEND | {"copy": "always"}
    for number in range(2):
        local_world.land(NW, sales(number), f"{number}.parquet", compression="zstd")
        assert local_world.ingest(NW).row.files_copied == 1

    assert local_world.totals() == [0, 1]


@pytest.mark.parametrize("deleted", [False, True], ids=["whole files", "deleted rows"])
def test_the_extension_adds_as_the_direct_strategy_does(
    world: World, deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.options = APPEND
    world.land(NW, sales(1, 2), "a.parquet")
    world.ingest(NW)
    if deleted:
        with world.stream.lake.open() as lake:
            lake.rows("DELETE FROM lake.sales WHERE total = 2")
    monkeypatch.setattr("lake_assets.lake.commit.strategy.STRATEGIES", (replace_by_extension,))
    world.land(NW, sales(3), "b.parquet")

    row = world.ingest(NW).row

    assert (row.rows_before, row.row_count, row.files_written) == (1 if deleted else 2, 1, 1)
    assert world.totals() == ([1, 3] if deleted else [1, 2, 3])
    monkeypatch.undo()
    world.land(NW, sales(4), "c.parquet")
    assert world.ingest(NW).row.rows_before == (2 if deleted else 3)
    assert world.totals() == ([1, 3, 4] if deleted else [1, 2, 3, 4])


def test_an_encrypted_lake_gets_the_rows_of_new_objects(encrypted: World) -> None:
    encrypted.options = APPEND
    table = telling(50)
    encrypted.land(NW, table, "a.parquet")
    encrypted.ingest(NW)
    encrypted.land(NW, table, "b.parquet")

    row = encrypted.ingest(NW).row

    assert (row.mode, row.rows_before, row.row_count, row.files_written) == ("append", 50, 50, 1)
    assert row.bytes_written
    assert encrypted.ingest(NW).row.status == "skipped"
    assert_secret(encrypted, table)


def test_a_managed_lake_gets_the_rows_of_new_objects(managed: World) -> None:  # noqa: F811 - the fixture
    managed.options = APPEND
    managed.land(NW, sales(1), "a.parquet")
    managed.ingest(NW)
    managed.land(NW, sales(2), "b.parquet")
    row = managed.ingest(NW).row

    assert (row.rows_before, row.row_count) == (1, 1)
    with managed.stream.lake.open() as lake:
        assert lake.rows("SELECT total FROM retail.sales ORDER BY total") == [(1,), (2,)]
    assert managed.ingest(NW).row.status == "skipped"


def test_compaction_keeps_what_is_known(either_lake: World) -> None:
    either_lake.options = APPEND
    for number in range(3):
        either_lake.land(NW, sales(number), f"{number}.parquet")
        either_lake.ingest(NW)

    (done,) = compact(either_lake.stream, 3, either_lake.sessions)

    assert (done.files_before, done.files_after, done.why) == (3, 1, None)
    assert either_lake.ingest(NW).row.status == "skipped"
    either_lake.land(NW, sales(3), "3.parquet")
    assert either_lake.ingest(NW).row.rows_before == 3
    assert either_lake.totals() == [0, 1, 2, 3]


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "s3")], indirect=True, ids="-".join)
def test_objects_stay_known_when_old_ledger_rows_are_deleted(world: World) -> None:
    world.options = APPEND
    world.lake_options["maintenance"] = {"ledger_retention": 30, "expire_older_than": 1}
    for number in range(3):
        world.land(NW, sales(number), f"{number}.parquet")
        world.ingest(NW)
        world.ingest(NW)

    assert world.tidy(40.0).forgotten == 2

    world.unland(NW, "2.parquet")  # so that the manifest decides
    assert world.ingest(NW).row.status == "skipped"
    assert world.totals() == [0, 1, 2]


def add(world: World) -> None:
    world.ingest(NW)


def land_and_add(world: World) -> None:
    world.land(NW, sales(4), "c.parquet")
    world.ingest(NW)


def refresh(world: World) -> None:
    world.ingest(NW, force=True)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("meanwhile", "totals"),
    [(add, [1, 2]), (land_and_add, [1, 2, 4]), (refresh, [1, 2])],
    ids=["same objects", "more objects", "refresh"],
)
@pytest.mark.parametrize("force", [False, True], ids=["append", "force"])
def test_a_run_that_was_overtaken_during_its_job_adds_nothing_twice(
    world: World,
    meanwhile: Callable[[World], None],
    totals: list[float],
    force: bool,
) -> None:
    world.options = APPEND
    world.land(NW, sales(1), "a.parquet")
    world.ingest(NW)
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


@pytest.mark.parametrize("why", ["on_changed", "force"])
def test_a_refresh_that_was_overtaken_right_before_its_commit_takes_no_rows_away(local_world: World, why: str) -> None:
    """The refresh has verified its objects; then another process adds one that has just landed."""
    local_world.options = APPEND | {"on_changed": "refresh"}
    for name, total in (("a", 1), ("b", 2)):
        local_world.land(NW, sales(total), f"{name}.parquet")

    def add_one(changes: Sequence[Change]) -> None:
        assert changes[0].row.mode == "replace"
        other = replace(local_world, _opened=None)
        other.land(NW, sales(3), "c.parquet")
        other.ingest(NW)

    local_world.ingest(NW)
    if why == "on_changed":
        local_world.land(NW, sales(5), "a.parquet")
    with before("transaction", add_one):
        row = local_world.ingest(NW, force=why == "force").row

    assert local_world.totals() == ([2, 3, 5] if why == "on_changed" else [1, 2, 3])
    assert row.status == ("skipped" if why == "on_changed" else "committed")
