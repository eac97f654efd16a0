"""Restores of one partition at once, and restores beside refreshes: the lake ends as if one had run after the other."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from lake_assets.errors import PartitionHeldError
from lake_assets.history.restore import restore
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_concurrency import run_all
from lake_assets_tests.faults.writer import ROWS, make_table, overtaken, write
from lake_assets_tests.world import NW, World

pytestmark = pytest.mark.kill

ENCRYPTED = {"attach_options": {"encrypted": True}}
RACES = [
    pytest.param((catalog, "local"), options, marks=() if (catalog, options) in usual else pytest.mark.kill_all)
    for usual in [[("sqlite", {}), ("postgres", ENCRYPTED)]]
    for catalog in ("sqlite", "duckdb", "postgres")
    for options in ({}, ENCRYPTED)
]


def numbers(world: World) -> list[float]:
    """The totals of the partition, which are those of one whole commit."""
    totals = world.totals(NW)
    assert len(totals) == ROWS, "rows were doubled or lost"
    assert len(set(totals)) == 1, "rows of two commits are mixed"
    return totals


def sound(world: World) -> None:
    """No path is registered twice, and the newest commit of the ledger is the newest change of the files."""
    numbers(world)
    with world.stream.lake.open(read_only=True) as lake:
        paths = lake.rows(f"SELECT path FROM {lake.metadata}.ducklake_data_file")
        ((newest,),) = lake.rows(f"SELECT max(begin_snapshot) FROM {lake.metadata}.ducklake_data_file")
    assert len(paths) == len(set(paths))
    rows = [row for row in world.ledger(NW) if row.status == "committed"]
    assert max(row.snapshot_id or 0 for row in rows) == newest
    assert all(row.row_count == ROWS for row in rows)


@pytest.mark.parametrize(("world", "options"), RACES, indirect=["world"])
def test_restores_and_refreshes_at_once_never_double_a_partition(
    world: World, tmp_path: Path, options: dict[str, object]
) -> None:
    world.lake_options = dict(options)
    make_table(world)
    first = write(world, NW).snapshot_id
    write(world, NW)
    restorer = ["--partition", NW, "--snapshot", str(first), "--times", "2"]
    children = [start(world, tmp_path, *restorer, module="restorer") for _ in range(2)]

    run_all(world, tmp_path, ["--partition", NW, "--times", "2"])

    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors
    sound(world)
    assert len([row for row in world.ledger(NW) if row.status == "committed"]) >= 2 + 2 + 1


@pytest.mark.parametrize("world", [("postgres", "local")], indirect=True)
@pytest.mark.parametrize("what", ["refresh", "restore"])
def test_a_restore_that_is_overtaken_is_retried_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Without the lock, another commit comes after the restore has read the number of the last snapshot."""
    make_table(world)
    first = write(world, NW).snapshot_id
    restored = numbers(world)
    second = write(world, NW).snapshot_id
    assert first is not None
    assert second is not None
    other = replace(world, _opened=None)
    happened: list[object] = []

    def faster() -> None:
        happened.append(
            write(other, NW, lock=False)
            if what == "refresh"
            else restore(other.stream, other.partition(NW), second, hold=True)
        )

    monkeypatch.setattr(LakeSession, "commit_lock", lambda _: nullcontext())
    with overtaken(None, faster):
        row = restore(world.stream, world.partition(NW), first).row

    assert happened
    assert row is not None
    assert row.snapshot_id == second + 2
    assert numbers(world) == restored
    sound(world)


def test_of_a_refresh_and_a_restore_with_a_hold_the_restore_wins(local_world: World) -> None:
    """A refresh that commits after the restore finds the hold."""
    make_table(local_world)
    first = write(local_world, NW).snapshot_id
    restored = numbers(local_world)
    write(local_world, NW)
    assert first is not None
    restore(local_world.stream, local_world.partition(NW), first, hold=True)

    with pytest.raises(PartitionHeldError, match="restored and held meanwhile"):
        write(local_world, NW)

    assert numbers(local_world) == restored
