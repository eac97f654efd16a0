"""The last commit of a partition is found by its live files, and by the ledger where those do not say."""

from collections.abc import Callable

import pytest

from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.lake.ledger import lookup, read
from lake_assets.lake.ledger.lookup import commits_by_files
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets_tests.world import NW, SW, World, sales

Reads = Callable[[], list[str]]


@pytest.fixture
def from_ledger(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """The partitions whose fingerprint was read from the ledger since the last call."""
    looked_up: list[str] = []

    def noting(session, table, partitions):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        looked_up.extend(partition.path for partition in partitions)
        return recorded_commits(session, table, partitions)

    monkeypatch.setattr(read, "recorded_commits", noting)

    def since() -> list[str]:
        taken, looked_up[:] = list(looked_up), []
        return taken

    return since


def named_commit(world: World, text: str) -> LedgerRow | None:
    with world.stream.lake.open(read_only=True) as lake:
        return commits_by_files(lake, world.stream.table, [world.partition(text)]).get(world.partition(text).path)


def test_an_ingested_partition_is_found_without_the_ledger(world: World, from_ledger: Reads) -> None:
    world.land(NW, sales(1, 2))
    first = world.ingest(NW)
    assert from_ledger() == []  # without a table
    world.execute("DELETE FROM lake.ingest_runs")

    again = world.ingest(NW)

    assert (again.row.status, from_ledger()) == ("skipped", [])
    found = named_commit(world, NW)
    assert found is not None
    assert (found.source_fingerprint, found.snapshot_id) == (first.row.source_fingerprint, first.row.snapshot_id)
    assert (found.rows_after, found.is_held) == (2, False)
    assert world.commit(NW, 3).status == "committed"
    assert (world.totals(), from_ledger()) == ([3], [])


def test_several_and_many_partitions_are_found_by_one_query(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    null = "region=__HIVE_DEFAULT_PARTITION__,date=2026-02-11"
    partitions = [world.partition(text) for text in (NW, SW, null)]
    for text in (NW, SW, null):
        world.land(text, sales(1))
    assert all(outcome.is_done for outcome in ingest_all(world.stream, partitions, world.sessions))
    absent = world.partition("region=XX,date=2026-02-11")

    def found() -> dict[str, LedgerRow]:
        with world.stream.lake.open(read_only=True) as lake:
            return commits_by_files(lake, world.stream.table, [*partitions, absent])

    singly = found()
    for limit in ("_SINGLY", "_SOME"):
        monkeypatch.setattr(lookup, limit, 1)
        assert found() == singly
    assert list(singly) == [partition.path for partition in partitions]


def test_what_other_clients_do_is_no_change_of_the_source(local_world: World, from_ledger: Reads) -> None:
    path = local_world.partition(NW).path
    local_world.commit(NW, 1, 2)
    local_world.execute("DELETE FROM lake.sales WHERE total = 1")

    found = named_commit(local_world, NW)
    assert found is not None
    assert found.rows_after == 2
    assert local_world.ingest(NW).row.status == "skipped"
    local_world.execute("DELETE FROM lake.sales")
    assert (local_world.ingest(NW).row.status, from_ledger()) == ("skipped", [path])

    local_world.execute("INSERT INTO lake.sales VALUES (9, 9, 'NW', DATE '2026-02-11')")
    assert named_commit(local_world, NW) is None
    assert (local_world.ingest(NW).row.status, from_ledger()) == ("skipped", [path])


def test_a_partition_that_an_earlier_version_wrote_is_found_in_the_ledger(
    local_world: World, from_ledger: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_world.land(NW, sales(1))
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_fingerprints", lambda *_: {})
        local_world.ingest(NW)
    assert named_commit(local_world, NW) is None

    assert local_world.ingest(NW).row.status == "skipped"
    assert from_ledger() == [local_world.partition(NW).path]
    assert local_world.commit(NW, 2).status == "committed"
    assert local_world.ingest(NW).row.status == "skipped"
    assert from_ledger() == [local_world.partition(NW).path]  # not after the refresh, which named the files


def test_a_cleared_partition_is_found_in_the_ledger(local_world: World, from_ledger: Reads) -> None:
    local_world.options = {"on_empty": "clear"}
    local_world.commit(NW, 1)
    local_world.unland(NW)
    assert local_world.ingest(NW).row.on_empty == "clear"
    assert local_world.ingest(NW).row.status == "skipped"
    assert from_ledger() == [local_world.partition(NW).path]
    assert local_world.commit(NW, 1).status == "committed"
    assert local_world.totals() == [1]
