"""Maintenance of exported changes: retention, and files that no commit made visible."""

import json
from pathlib import Path
from unittest import mock

import pytest

from lake_assets.errors import CatalogError
from lake_assets.lake.commit import strategy
from lake_assets_tests.world import NW, SW, World, sales

RETENTION = {"maintenance": {"delta_retention": 30}}


@pytest.fixture
def exporting(local_world: World, tmp_path: Path) -> World:
    local_world.options = {"deltas": {"to": str(tmp_path / "deltas"), "latest": True}}
    local_world.lake_options = RETENTION
    return local_world


def visible(world: World) -> set[str]:
    return {uri for (uri,) in world.query("SELECT uri FROM lake.ingest_deltas")}


def stored(folder: Path) -> set[str]:
    return {str(path) for path in folder.glob("*.parquet")}


def test_old_files_are_deleted_and_no_others(exporting: World, tmp_path: Path) -> None:
    exporting.commit(NW, 1)
    exporting.commit(SW, 2)
    both = visible(exporting)
    folder = tmp_path / "deltas"
    foreign = folder / "20260101T000000.000000Z-000000000001-00000000-00000000-000.parquet"
    foreign.write_bytes(b"of another lake")
    (folder / "mine.parquet").write_bytes(b"of somebody else")

    assert exporting.tidy(29).deltas == ()
    exporting.lake_options = {}
    assert exporting.tidy(3000, dry_run=True).deltas == ()
    exporting.lake_options = RETENTION
    assert {delta.uri for delta in exporting.tidy(31, dry_run=True).deltas} == both
    assert visible(exporting) == both

    result = exporting.tidy(31)

    assert {delta.uri for delta in result.deltas} == both
    assert all(delta.size > 0 for delta in result.deltas)
    assert visible(exporting) == set()
    assert stored(folder) == {str(foreign), str(folder / "mine.parquet")}
    assert json.loads((folder / "_latest.json").read_text())["files"] == []
    assert exporting.totals() == [1, 2]


@pytest.mark.more
def test_files_of_a_failed_commit_are_deleted_later(exporting: World, tmp_path: Path) -> None:
    exporting.commit(NW, 1)
    exporting.land(NW, sales(2))
    with (
        mock.patch.object(strategy, "_replace", side_effect=CatalogError("it fails")),
        pytest.raises(CatalogError, match="it fails"),
    ):
        exporting.ingest(NW)
    (orphan,) = stored(tmp_path / "deltas") - visible(exporting)

    assert exporting.tidy().deltas == ()  # an active run may commit it
    (deleted,) = exporting.tidy(4).deltas

    assert deleted.uri == orphan
    assert stored(tmp_path / "deltas") == visible(exporting)


def test_a_list_that_lacks_a_commit_is_written_again(exporting: World, tmp_path: Path) -> None:
    """As after a kill between a commit and the list."""
    exporting.commit(NW, 1)
    latest = tmp_path / "deltas" / "_latest.json"
    latest.unlink()

    exporting.tidy()

    assert {file["uri"] for file in json.loads(latest.read_text())["files"]} == visible(exporting)
