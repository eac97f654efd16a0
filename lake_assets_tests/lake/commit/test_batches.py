"""The commit of a batch: one transaction under conflicts, lost answers and exports, in few statements."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dev.servers.postgres_proxy import PostgresProxy, Rule
from lake_assets.base.errors import CatalogError
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.commit import strategy
from lake_assets.lake.commit.change import Change
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.test_lost_answer import commit_after, proxy
from lake_assets_tests.faults.writer import ROWS, make_table, prepared, write, write_together
from lake_assets_tests.ingest.batches import BATCH, TEXTS, ingest_texts, land_all, snapshots
from lake_assets_tests.lake.commit.test_deltas import exported, exporting, history, rows, stored, visible
from lake_assets_tests.lake.worlds import ON_POSTGRES
from lake_assets_tests.world import NW, SW, World

__all__ = ["proxy"]


@ON_POSTGRES
def test_a_batch_that_another_writer_overtakes_is_tried_again_whole_and_exports_what_it_changes(
    world: World, tmp_path: Path
) -> None:
    exporting(world, tmp_path / "deltas")
    make_table(world)
    other = replace(world, _opened=None)
    found = write_together(world, NW, SW, lock=False, overtaken_by=lambda: write_together(other, SW, NW, lock=False))
    assert [row.rows_before for row in found] == [ROWS, ROWS]  # new partitions, which are not doubled
    assert len(world.totals()) == 2 * ROWS
    faster: list[LedgerRow] = []

    found = write_together(world, NW, SW, lock=False, overtaken_by=lambda: faster.append(write(other, NW, lock=False)))

    assert len(world.totals()) == 2 * ROWS
    assert len(set(world.totals())) == 1
    assert [row.rows_before for row in found] == [ROWS, ROWS]
    assert {row.snapshot_id for row in found} == {(faster[0].snapshot_id or 0) + 1}
    assert rows(exported(world)) == history(world)
    assert stored(world) == {uri for _, uri in visible(world)}


def test_two_commits_of_the_same_partition_are_not_one(local_world: World) -> None:
    make_table(local_world)
    twice = [prepared(local_world, NW, number) for number in (1.0, 2.0)]

    with local_world.stream.lake.open() as lake, pytest.raises(NotDirectError):
        strategy.commit(lake, twice)

    assert local_world.totals() == []


@pytest.fixture
def filled(local_world: World, tmp_path: Path) -> World:
    """A committed batch, whose changes were exported, and the objects of the next."""
    local_world.options = dict(BATCH)
    exporting(local_world, tmp_path / "deltas", latest=True)
    land_all(local_world, 10)
    ingest_texts(local_world)
    land_all(local_world, 20)
    return local_world


@pytest.mark.more
def test_a_batch_whose_answer_is_lost_is_found(proxy: PostgresProxy, filled: World) -> None:
    rule = proxy.inject(Rule("lose_answer", commit_after()))

    outcomes = ingest_texts(filled)

    assert rule.times == 0
    assert len(set(snapshots(outcomes).values())) == 1
    assert len(snapshots(outcomes)) == len(TEXTS)
    assert len(filled.ledger()) == 2 * len(TEXTS)
    assert {len(outcome.deltas or ()) for outcome in outcomes.values() if outcome.is_done} == {1}
    assert rows(exported(filled)) == history(filled)
    assert_sound(filled)


@pytest.mark.more
@pytest.mark.parametrize("is_committed", [True, False])
def test_after_an_error_that_proves_nothing_the_ledger_says_whether_the_batch_was_committed(
    filled: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_committed: bool,
) -> None:
    def fails(session: LakeSession, changes: Sequence[Change]) -> list[LedgerRow]:
        if is_committed or len(changes) == 1:
            rows = replace_directly(session, changes)
        if len(changes) > 1:
            raise CatalogError("the disk failed:", "look at it.")
        return rows

    monkeypatch.setattr(strategy, "STRATEGIES", (fails,))
    with caplog.at_level(logging.WARNING):
        found = snapshots(ingest_texts(filled))

    assert len(found) == len(TEXTS)
    assert len(set(found.values())) == (1 if is_committed else len(TEXTS))
    assert ("6 partitions are committed one by one: the disk failed" in caplog.text) != is_committed
    assert stored(filled) == {uri for _, uri in visible(filled)}  # without those of a batch that was split
    assert rows(exported(filled)) == history(filled)
    latest = (tmp_path / "deltas" / "_latest.json").read_text()
    assert all(uri in latest for _, uri in visible(filled))
    assert_sound(filled)
