"""A landed object is known by where it lies below its source, and by its content."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lake_assets.base.errors import SourceError
from lake_assets.ingest.index.verify import check_indexed, repair_indexed
from lake_assets.storage.store import Store
from lake_assets.streams.pending import scan_landing
from lake_assets.upkeep.report.objects import file_entries
from lake_assets_tests.world import NW, World, plan, sales

Change = Callable[[World, Path], None]


def _source(world: World, path: str) -> None:
    world.source = {"type": "local", "path": path}


def as_it_is(world: World, file: Path) -> None:
    """Nothing has changed."""


def restored(_: World, file: Path) -> None:
    """A backup brings the file back, with its time."""
    shutil.copy2(file, file.with_name("_saved"))
    file.with_name("_saved").replace(file)


def touched(_: World, file: Path) -> None:
    """The same bytes land again."""
    os.utime(file, (1_900_000_000, 1_900_000_000))


def linked(world: World, _: Path) -> None:
    """The source is a link to the landing zone."""
    root = Path(world.source["path"])
    (root.parent / "link").symlink_to(root)
    _source(world, str(root.parent / "link"))


def dotted(world: World, _: Path) -> None:
    """The source is spelled in another way."""
    root = Path(world.source["path"])
    _source(world, f"{root}/../{root.name}")


def moved(world: World, _: Path) -> None:
    """The landing zone is mounted elsewhere."""
    root = Path(world.source["path"])
    root.rename(root.parent / "mnt")
    _source(world, str(root.parent / "mnt"))


def copied(world: World, _: Path) -> None:
    """The landing zone is copied, without the times of its files."""
    root = Path(world.source["path"])
    shutil.copytree(root, root.parent / "copy", copy_function=shutil.copyfile)
    _source(world, str(root.parent / "copy"))


def below(world: World, _: Path) -> None:
    """The source is the folder above, and the layout names the folder."""
    root = Path(world.source["path"])
    world.options["layout"] = f"{root.name}/region={{region}}/date={{date}}"
    _source(world, str(root.parent))


READ = {"whole": {}, "in ranges": {}, "copied": {"copy": "always"}, "text": {"format": "csv", "files": "*"}}


@pytest.fixture
def appended(local_world: World, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    how = getattr(request, "param", "whole")
    if how == "in ranges":
        monkeypatch.setattr("lake_assets.spark.task.share_reader.SMALL_OBJECT", 0)
    local_world.options = {"mode": "append"} | READ[how]
    local_world.land(NW, b"id,total\n0,1\n1,2\n" if how == "text" else sales(1, 2), "a.parquet")
    local_world.ingest(NW)
    return local_world


def _file(world: World) -> Path:
    return Path(world.source["path"], "region=NW/date=2026-02-11/a.parquet")


@pytest.mark.parametrize("change", [as_it_is, restored, touched, linked, dotted, moved, copied, below])
def test_the_same_object_enters_its_partition_once(appended: World, change: Change) -> None:
    change(appended, _file(appended))

    again = appended.ingest(NW)
    pending = scan_landing(appended.stream).pending
    states = [entry.state for entry in file_entries(appended.stream) if entry.state != "left_out"]
    folder = Path(appended.source["path"], "landing" if change is below else "", "region=NW/date=2026-02-11")
    shutil.copy(folder / "a.parquet", folder / "b.parquet")
    added = appended.ingest(NW)

    assert (again.row.status, pending, states) == ("skipped", {}, ["loaded"])
    assert (added.row.status, added.row.row_count) == ("committed", 2)
    assert appended.totals(NW) == [1, 1, 2, 2]


@pytest.mark.parametrize("appended", READ, indirect=True)
def test_a_new_version_of_the_same_content_is_read_once_to_see_that(
    appended: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    digest = Store.digest

    def noted(store: Store, key: str, etag: str) -> str:
        reads.append(Path(key).name)
        return digest(store, key, etag)

    touched(appended, _file(appended))
    monkeypatch.setattr(Store, "digest", noted)
    planned = plan(appended.stream, appended.partition(NW)).decision.action
    before = len(reads)
    appended.ingest(NW)
    shutil.copy(_file(appended), _file(appended).with_name("b.parquet"))
    appended.ingest(NW)

    assert (planned, reads[before:].count("a.parquet")) == ("skip", 1)
    assert [entry.rows for entry in file_entries(appended.stream)] == [2, 2]
    assert appended.totals(NW) == [1, 1, 2, 2]


@pytest.mark.parametrize("appended", READ, indirect=True)
def test_other_content_of_the_same_size_has_changed(appended: World) -> None:
    file = _file(appended)
    is_text = file.read_bytes().startswith(b"id")
    size = file.stat().st_size
    appended.land(NW, b"id,total\n0,3\n1,4\n" if is_text else sales(3, 4), "a.parquet")
    touched(appended, file)

    with pytest.raises(SourceError, match=r"a\.parquet has changed since the rows were appended"):
        appended.ingest(NW)
    appended.options["on_changed"] = "refresh"
    refreshed = appended.ingest(NW)

    assert file.stat().st_size == size
    assert (refreshed.row.mode, appended.totals(NW)) == ("replace", [3, 4])


@pytest.mark.parametrize(("now", "is_same"), [("CRC64NVME:a", True), ("CRC64NVME:b", False), ("", False)])
def test_a_large_object_is_known_by_the_checksum_of_its_store(
    local_world: World, monkeypatch: pytest.MonkeyPatch, now: str, is_same: bool
) -> None:
    for module in ("spark.task.share_reader", "ingest.replace.replace_run"):
        monkeypatch.setattr(f"lake_assets.{module}.SMALL_OBJECT", 0)
    monkeypatch.setattr("lake_assets.spark.task.share_reader.digest_of_file", lambda *_: {})  # as of a bucket
    monkeypatch.setattr(Store, "checksum", lambda *_: "CRC64NVME:a")
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1, name="a.parquet")
    monkeypatch.setattr(Store, "checksum", lambda *_: now)
    touched(local_world, _file(local_world))

    assert plan(local_world.stream, local_world.partition(NW)).decision.action == ("skip" if is_same else "fail")


def test_objects_that_an_older_version_noted_stay_known(appended: World) -> None:
    columns = ("key", "digest", "after_load")
    appended.execute(*(f"ALTER TABLE lake.ingest_files DROP COLUMN {name}" for name in columns))
    restored(appended, _file(appended))

    planned = plan(appended.stream, appended.partition(NW)).decision.action
    skipped = appended.ingest(NW).row.status
    appended.land(NW, sales(3), "b.parquet")
    appended.ingest(NW)
    dotted(appended, _file(appended))
    again = appended.ingest(NW).row.status

    assert (planned, skipped, again) == ("skip", "skipped", "skipped")
    assert appended.totals(NW) == [1, 2, 3]


def test_a_fingerprint_of_an_older_version_is_that_of_its_objects(appended: World) -> None:
    stream, landed = appended.stream, appended.stream.manifest(appended.partition(NW))
    older = stream.fingerprint(landed, is_old=True)
    touched(appended, _file(appended))

    assert stream.has_read(landed, older)
    assert not stream.has_read(stream.manifest(appended.partition(NW)), older)


@pytest.mark.parametrize("change", [restored, linked, dotted, moved])
def test_a_partition_of_the_same_objects_is_not_replaced(local_world: World, change: Change) -> None:
    local_world.commit(NW, 1, 2, name="a.parquet")
    change(local_world, _file(local_world))

    assert local_world.ingest(NW).row.status == "skipped"
    assert scan_landing(local_world.stream).pending == {}


@pytest.mark.parametrize("change", [restored, linked, dotted, below])
def test_a_registered_object_is_registered_once(local_world: World, change: Change) -> None:
    local_world.options = {"mode": "index", "layout": "region={region}/date={date}"}
    local_world.commit(NW, 1, 2, name="a.parquet")
    change(local_world, _file(local_world))

    again = local_world.ingest(NW)

    assert (again.row.status, local_world.totals(NW)) == ("skipped", [1, 2])
    assert check_indexed(local_world.stream).is_consistent


def test_registered_objects_of_a_landing_zone_that_moved_are_repaired(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    local_world.commit(NW, 1, 2, name="a.parquet")
    moved(local_world, _file(local_world))

    again = local_world.ingest(NW)
    state = check_indexed(local_world.stream)
    repair_indexed(local_world.stream)
    local_world.ingest(NW)

    assert (again.row.status, len(state.vanished)) == ("skipped", 1)
    assert local_world.totals(NW) == [1, 2]
    assert check_indexed(local_world.stream).is_consistent
