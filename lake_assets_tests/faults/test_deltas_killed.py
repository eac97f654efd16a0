"""Exported changes under kills and races: each commit's are visible exactly once, and no others."""

import random
import signal
import time
from pathlib import Path

import pytest

from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_kill import DEATHS_AT_RANDOM
from lake_assets_tests.faults.writer import make_table, write
from lake_assets_tests.lake.commit.test_deltas import exported, exporting, history, rows, stored, visible
from lake_assets_tests.world import NW, World

pytestmark = pytest.mark.kill

PARTITIONS = [f"region={region},date=2026-02-11" for region in ("NW", "SW", "NE", "SE")]


@pytest.mark.parametrize("strategy", ["direct", "extension", "insert"])
@pytest.mark.parametrize("statement", ["COMMIT", "after COMMIT"])
def test_a_death_makes_the_changes_visible_with_the_commit(
    local_world: World, tmp_path: Path, strategy: str, statement: str
) -> None:
    is_encrypted = strategy == "insert"
    local_world.lake_options = {"attach_options": {"encrypted": True}} if is_encrypted else {}
    exporting(local_world, tmp_path / "deltas", plaintext=is_encrypted)
    make_table(local_world)
    write(local_world, NW)
    before = visible(local_world)

    chosen = () if is_encrypted else ("--strategy", strategy)
    child = start(local_world, tmp_path, "--partition", NW, *chosen, "--die-at", statement)
    _, errors = child.communicate(timeout=60)

    assert child.returncode == -signal.SIGKILL, errors
    assert len(stored(local_world)) == 2
    assert len(visible(local_world)) == len(before) + (statement == "after COMMIT")
    write(local_world, NW)
    assert rows(exported(local_world)) == rows(history(local_world))
    assert {uri for _, uri in visible(local_world)} <= stored(local_world)


@pytest.mark.parametrize("world", [("sqlite", "local"), ("duckdb", "local"), ("postgres", "local")], indirect=True)
def test_deaths_at_random_moments_lose_and_double_nothing(world: World, tmp_path: Path) -> None:
    exporting(world, tmp_path / "deltas")
    make_table(world)
    write(world, NW)
    moments = random.Random(11)
    for _ in range(DEATHS_AT_RANDOM):
        child = start(world, tmp_path, "--partition", NW, "--times", "1000")
        assert child.stdout.readline() == "committed\n"
        time.sleep(moments.random() * 0.3)
        child.kill()
        child.communicate(timeout=60)

    write(world, NW)
    assert rows(exported(world)) == rows(history(world))


@pytest.mark.parametrize("world", [("sqlite", "local"), ("postgres", "local")], indirect=True)
@pytest.mark.parametrize("options", [(), ("--no-lock",)], ids=["lock", "no lock"])
def test_writers_at_once_export_each_commit_once(world: World, tmp_path: Path, options: tuple[str, ...]) -> None:
    exporting(world, tmp_path / "deltas")
    make_table(world)
    children = []
    for text in PARTITIONS:
        folder = tmp_path / text
        folder.mkdir()
        children.append(start(world, folder, "--partition", text, "--times", "5", *options))
    for child in children:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors

    assert len({snapshot for snapshot, _ in visible(world)}) == len(visible(world)) == 5 * len(PARTITIONS)
    assert rows(exported(world)) == rows(history(world))
    # What was written for a snapshot that another commit took is removed.
    assert stored(world) == {uri for _, uri in visible(world)}
