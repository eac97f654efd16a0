"""The newest runs of a few partitions are those that the whole ledger has, also after its rows were flushed."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.ledger import flush, lookup, relation
from lake_assets.lake.ledger.lookup import LastRuns
from lake_assets.lake.ledger.read import last_runs, recorded_commits
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets_tests.maintenance.test_run import tidy
from lake_assets_tests.world import NW, SW, World, sales

EMPTY = "region=XX,date=2026-02-11"
LOST = "region=YY,date=2026-02-11"
NEVER = "region=ZZ,date=2026-02-11"
TEXTS = (NW, SW, EMPTY, LOST, NEVER)


def both(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Mapping[str, LastRuns], Mapping[str, LastRuns]]:
    """The newest runs of some partitions; and those of all, which are the same if DuckLake reads the ledger."""
    partitions = [world.partition(text) for text in TEXTS]
    with world.stream.lake.open(read_only=True) as lake:
        few = compared(last_runs(lake, world.stream.table, partitions))
        whole = compared(last_runs(lake, world.stream.table))
        commits = recorded_commits(lake, world.stream.table, partitions)
        with monkeypatch.context() as patch:
            patch.setattr(lookup, "inlined_tables", refuse)
            assert compared(last_runs(lake, world.stream.table)) == whole
            assert compared(last_runs(lake, world.stream.table, partitions)) == few
    assert commits == {path: runs.commit for path, runs in few.items() if runs.commit is not None}
    return few, {path: whole[path] for path in few} if few.keys() == whole.keys() else whole


def compared(found: Mapping[str, LastRuns]) -> Mapping[str, LastRuns]:
    """Of `source` the fingerprint only: an unchanged partition's inlined row has the same one as its commit."""
    columns = ("source_fingerprint",)
    return {path: replace(runs, source=LedgerRow.of(columns, [runs.fingerprint])) for path, runs in found.items()}


def refuse(*_: object) -> list[str]:
    raise NotDirectError("only DuckLake reads the ledger")


def history(world: World) -> None:
    """Runs of all kinds."""
    world.options = {"on_empty": "keep"}
    for text in (NW, LOST):
        world.land(text, sales(1))
        world.ingest(text)
    world.ingest(NW)
    world.land(SW, b"")
    with pytest.raises(Exception, match="empty"):
        world.ingest(SW)
    world.land(SW, sales(2, 3))
    world.ingest(SW)
    world.land(NW, b"")
    with pytest.raises(Exception, match="empty"):
        world.ingest(NW)
    world.unland(LOST)
    world.ingest(LOST)
    world.ingest(EMPTY)


def test_a_few_partitions_have_the_runs_of_the_whole_ledger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    history(world)
    few, whole = both(world, monkeypatch)
    assert few == whole
    assert {path: runs.status for path, runs in few.items()} == {
        world.partition(NW).path: "failed",
        world.partition(SW).path: "committed",
        world.partition(LOST).path: "skipped",
    }

    monkeypatch.setattr(flush, "MANY", 1)
    tidy(world)
    assert both(world, monkeypatch) == (few, whole)  # all rows are in files
    world.ingest(SW)
    world.land(NW, sales(4))
    world.ingest(NW)
    few, whole = both(world, monkeypatch)  # some are inlined again
    assert few == whole
    assert few[world.partition(SW).path].status == "skipped"
    assert few[world.partition(SW).path].rows == 2


def test_rows_of_a_dropped_table_do_not_count(local_world: World) -> None:
    history(local_world)
    with local_world.stream.lake.open() as lake:
        lake.rows("DROP TABLE lake.sales")
    local_world.land("region=NEW,date=2026-02-11", sales(1))
    local_world.ingest("region=NEW,date=2026-02-11")
    with local_world.stream.lake.open(read_only=True) as lake:
        whole = last_runs(lake, local_world.stream.table)
        few = last_runs(lake, local_world.stream.table, [local_world.partition(text) for text in TEXTS])
    assert few == {path: runs for path, runs in whole.items() if path in few}
    assert len(few) == 3
    assert all(runs.snapshot is None for runs in few.values())
    assert few[local_world.partition(SW).path].fingerprint is None


def test_rows_that_were_deleted_do_not_count(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    history(local_world)
    tidy(local_world)
    with local_world.stream.lake.open() as lake:
        lake.rows("DELETE FROM lake.ingest_runs WHERE status = 'failed'")
        partition = local_world.partition(NW)
        (runs,) = last_runs(lake, local_world.stream.table, [partition]).values()
        assert runs.status == "skipped"


def test_more_partitions_than_a_statement_takes_are_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    history(world)
    monkeypatch.setattr(lookup, "_A_STATEMENT", 2)
    few, whole = both(world, monkeypatch)
    assert few == whole


@pytest.mark.parametrize("files", [1, 4])
def test_a_commit_in_an_older_file_is_found(local_world: World, files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(lookup, "FILES", files)
    local_world.options = {"on_empty": "keep"}
    for number, text in enumerate((NW, SW, LOST)):
        local_world.land(text, sales(number))
        local_world.ingest(text)
        tidy(local_world)
    for _ in range(2):
        local_world.ingest(NW)
        tidy(local_world)
    local_world.land(SW, sales(5))
    local_world.ingest(SW)
    tidy(local_world)
    few, whole = both(local_world, monkeypatch)
    assert few == whole
    assert {path: runs.status for path, runs in few.items()} == {
        local_world.partition(NW).path: "skipped",
        local_world.partition(SW).path: "committed",
        local_world.partition(LOST).path: "committed",
    }


def test_files_older_than_the_last_commit_are_not_read(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "MANY", 1)
    monkeypatch.setattr(lookup, "FILES", 1)
    for number in range(3):
        local_world.land(NW, sales(number))
        local_world.ingest(NW)
        tidy(local_world)
    read: list[int] = []
    of_files = relation.relation_of_files

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


def test_a_lake_without_a_ledger_has_no_runs(local_world: World) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        assert last_runs(lake, local_world.stream.table, [local_world.partition(NW)]) == {}
