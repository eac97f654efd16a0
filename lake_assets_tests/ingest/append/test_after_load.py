"""`after_load`: a landed object is touched once a commit has its rows, as the object that was read, and no other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lake_assets.base.errors import SourceError, StorageError
from lake_assets.config.storages import S3Storage
from lake_assets.ingest import run as module
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.run import LoadedObject, after_load
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.s3 import S3Bucket
from lake_assets.storage.store import Store
from lake_assets.streams.pending import scan_landing
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.history.restore import Restoration
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.landed_as import load
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, SW, World, plan, sales


def keys(world: World) -> list[str]:
    return [landed.key for landed in Store(world.config.streams["sales"].source).list()]


def taking(world: World, policy: Any, **options: Any) -> None:
    world.options = {"mode": "append", "after_load": policy} | options


def test_loaded_objects_are_deleted_and_their_rows_stay(world: World) -> None:
    taking(world, "delete")
    world.land(NW, sales(1, 2), "a.parquet")
    world.land(SW, sales(7))

    assert world.ingest(NW).row.status == "committed"
    assert keys(world) == ["region=SW/date=2026-02-11/batch_1.parquet"]

    assert load(world, sales(3), name="b").status == "committed"
    assert world.ingest(NW).row.status == "skipped"
    assert world.totals(NW) == [1, 2, 3]
    (state,) = [one for one in read_stream_state(world.stream).partitions if one.partition == world.partition(NW)]
    assert state.state == "committed"
    assert [p.path for p in scan_landing(world.stream).pending] == [world.partition(SW).path]
    assert check(world, "appended_objects").passed
    assert check(world, "row_counts").passed


def test_the_objects_of_partitions_that_end_together_are_taken_together(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking(local_world, "delete")
    partitions = [local_world.partition(text) for text in (NW, SW)]
    for number, text in enumerate((NW, SW)):
        local_world.land(text, sales(number), f"{number}.parquet")
    calls = []

    def taken(stream: OpenStream, objects: Sequence[LandedObject]) -> list[LoadedObject]:
        calls.append([Path(landed.key).name for landed in objects])
        return after_load(stream, objects)

    monkeypatch.setattr("lake_assets.ingest.run.after_load", taken)
    ended = [outcome.row.status for outcome in ingest_all(local_world.stream, partitions, local_world.sessions)]

    assert ended == ["committed", "committed"]
    assert calls == [["0.parquet", "1.parquet"]]
    assert keys(local_world) == []


def test_loaded_objects_are_moved_under_their_keys_and_none_is_overwritten(world: World, tmp_path: Path) -> None:
    archive = tmp_path / "archive" / "region=NW" / "date=2026-02-11"
    archive.mkdir(parents=True)
    (archive / "b.parquet").write_bytes(b"another")
    taking(world, {"move": str(tmp_path / "archive")})
    for number, name in enumerate(("a", "b", "c")):
        world.land(NW, sales(number), f"{name}.parquet")
    with world.landing.open("region=NW/date=2026-02-11/c.parquet") as file:
        (archive / "c.parquet").write_bytes(file.read())  # as a run that was killed leaves it

    world.ingest(NW)

    assert keys(world) == ["region=NW/date=2026-02-11/b.parquet"]
    assert sorted(path.name for path in archive.iterdir()) == ["a.parquet", "b.parquet", "c.parquet"]
    assert (archive / "b.parquet").read_bytes() == b"another"
    assert world.totals(NW) == [0, 1, 2]
    (left,) = world.tidy().loaded
    assert "is another object than" in left.becomes


@pytest.mark.more
@pytest.mark.parametrize("policy", ["delete", "move"])
def test_an_object_that_changed_after_it_was_read_stays(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    taking(local_world, {"move": str(tmp_path / "archive")} if policy == "move" else policy, on_changed="refresh")
    local_world.land(NW, sales(1), "a.parquet")
    act = module._take_away

    def landed_again(*arguments: Any) -> bool:
        monkeypatch.undo()
        local_world.land(NW, sales(5, 6), "a.parquet")
        return act(*arguments)

    monkeypatch.setattr(module, "_take_away", landed_again)
    local_world.ingest(NW)

    assert keys(local_world) == ["region=NW/date=2026-02-11/a.parquet"]
    with pytest.raises(SourceError, match="to replace the partition would lose their rows"):
        local_world.ingest(NW)
    assert local_world.totals(NW) == [1]


def test_quarantined_objects_and_those_of_a_failed_partition_stay(local_world: World) -> None:
    taking(local_world, "delete", on_bad_object="quarantine")
    local_world.land(NW, sales(1), "a.parquet")
    load(local_world, b"no Parquet", name="bad")

    assert local_world.totals(NW) == [1]
    assert keys(local_world) == ["region=NW/date=2026-02-11/bad.parquet"]
    assert local_world.tidy().loaded == ()


def test_a_replacement_that_would_lose_rows_is_refused(local_world: World) -> None:
    taking(local_world, "delete")
    local_world.commit(NW, 1, name="a.parquet")
    local_world.land(NW, sales(2), "b.parquet")

    with pytest.raises(SourceError, match="after_load has taken 1 loaded object of partition region=NW"):
        local_world.ingest(NW, force=True)

    assert plan(local_world.stream, local_world.partition(NW), force=True).decision.action == "fail"
    assert local_world.totals(NW) == [1]
    local_world.ingest(NW)
    assert local_world.totals(NW) == [1, 2]


@pytest.mark.parametrize(
    ("now", "on_changed", "force"),
    [("delete", "fail", False), ("delete", "refresh", False), ("delete", "fail", True), ("keep", "refresh", False)],
)
def test_rows_of_a_name_that_was_taken_away_and_lands_again_stay(
    local_world: World, now: str, on_changed: str, force: bool
) -> None:
    taking(local_world, "delete")
    local_world.commit(NW, 1, name="a.parquet")
    local_world.commit(NW, 2, name="b.parquet")
    taking(local_world, now, on_changed=on_changed)
    local_world.land(NW, sales(3, 4), "a.parquet")

    with pytest.raises(SourceError, match=r"a\.parquet has landed again|such as .*parquet, and to replace"):
        local_world.ingest(NW, force=force)

    assert local_world.totals(NW) == [1, 2]
    Path(local_world.source["path"], *NW.split(","), "a.parquet").rename(
        Path(local_world.source["path"], *NW.split(","), "c.parquet")
    )
    local_world.ingest(NW)
    assert local_world.totals(NW) == [1, 2, 3, 4]


def test_rows_that_were_taken_away_are_given_up_by_force_and_keep(local_world: World) -> None:
    taking(local_world, "delete")
    local_world.commit(NW, 1, name="a.parquet")
    taking(local_world, "keep")

    local_world.commit(NW, 3, name="a.parquet", force=True)

    assert local_world.totals(NW) == [3]


def test_what_lands_again_with_the_same_content_is_not_added_again(local_world: World) -> None:
    taking(local_world, "delete")
    local_world.commit(NW, 1, name="a.parquet")
    local_world.land(NW, sales(1), "a.parquet")

    assert local_world.ingest(NW).row.status == "skipped"
    assert local_world.totals(NW) == [1]
    assert [one.becomes for one in local_world.tidy().loaded] == ["deleted"]


def test_maintenance_takes_what_a_killed_run_has_left(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    taking(local_world, "delete")
    local_world.land(NW, sales(1), "a.parquet")
    local_world.land(SW, sales(2), "a.parquet")

    class Killed(BaseException):
        """In place of the signal: nothing after it runs."""

    def killed(*_: Any) -> bool:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("lake_assets.ingest.run.after_load", killed)
        with pytest.raises(Killed):
            local_world.ingest(NW)
    assert local_world.totals(NW) == [1]
    assert len(keys(local_world)) == 2

    found = local_world.tidy(dry_run=True).loaded
    assert [(one.uri.rpartition("region=")[2], one.becomes) for one in found] == [("NW/date=2026-02-11/a.parquet", "")]
    assert [one.becomes for one in local_world.tidy().loaded] == ["deleted"]
    assert keys(local_world) == ["region=SW/date=2026-02-11/a.parquet"]
    assert local_world.ingest(SW).row.status == "committed"
    assert local_world.tidy().loaded == ()


def test_maintenance_leaves_the_objects_of_a_restored_partition(local_world: World) -> None:
    local_world.options = {"mode": "append"}
    first = local_world.commit(NW, 1, name="a.parquet")
    local_world.commit(NW, 2, name="b.parquet")
    assert first.snapshot_id is not None
    Restoration(local_world.stream, local_world.partition(NW), first.snapshot_id).run()
    taking(local_world, "delete")

    assert local_world.tidy().loaded == ()
    assert len(keys(local_world)) == 2


def test_a_store_that_refuses_keeps_the_commit_and_says_who_tries_again(
    local_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taking(local_world, "delete")
    local_world.land(NW, sales(1), "a.parquet")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "delete_unchanged", refused)
        assert local_world.ingest(NW).row.status == "committed"

    assert "sales: after_load left 1 loaded object, which `lake-assets maintain` tries again: no right" in caplog.text
    assert [one.becomes for one in local_world.tidy().loaded] == ["deleted"]


def refused(*_: Any) -> bool:
    raise StorageError("no right:", "ask for it.")


@pytest.mark.more
@pytest.mark.parametrize("world", [("sqlite", "s3")], indirect=True, ids="-".join)
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_objects_in_s3_are_tagged_beside_their_other_tags(world: World, mode: str) -> None:
    world.options = {"mode": mode, "after_load": "tag"}
    world.land(NW, sales(1), "a.parquet")
    storage = world.config.streams["sales"].source
    assert isinstance(storage, S3Storage)
    client: Any = S3Bucket(storage).as_boto()
    where = {"Bucket": storage.bucket, "Key": f"{storage.prefix}/region=NW/date=2026-02-11/a.parquet".lstrip("/")}
    client.put_object_tagging(**where, Tagging={"TagSet": [{"Key": "team", "Value": "a"}]})

    world.ingest(NW)

    tags = {one["Key"]: one["Value"] for one in client.get_object_tagging(**where)["TagSet"]}
    assert tags == {"team": "a", "lake_assets": "loaded"}
    assert world.ingest(NW).row.status == "skipped"
    assert world.totals(NW) == [1]
