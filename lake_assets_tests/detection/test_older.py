"""The older folders that count as changed, and slices that end between two folders."""

import pytest

from lake_assets.detection.digests import NOTHING, DigestRange, FolderDigest
from lake_assets.detection.reading import Folder
from lake_assets.detection.scan import changed_folders
from lake_assets_tests.detection.bucket import Bucket
from lake_assets_tests.detection.watch import Watch, stream_of

SINCE = 100.0  # when the range was last read


def folder(path: str, old: int = 0, new: int = 0) -> Folder:
    """A folder whose objects have these sums of hashes; 0 for none."""
    older = FolderDigest(old, 1) if old else NOTHING
    fresh = FolderDigest(new, 1) if new else NOTHING
    return Folder(path, older.plus(fresh), older, SINCE + 1 if new else SINCE - 1)


def changed(digest: FolderDigest, *folders: Folder) -> list[str]:
    return [item.path for item in changed_folders(DigestRange("a/", "b/", digest, 2), folders, SINCE)]


def test_an_equal_digest_is_unchanged() -> None:
    assert changed(FolderDigest(3, 2), folder("a/", 1), folder("b/", 2)) == []


def test_a_new_object_changes_its_own_folder_alone() -> None:
    assert changed(FolderDigest(3, 2), folder("a/", 1), folder("b/", 2, new=5)) == ["b/"]


@pytest.mark.parametrize(
    "folders",
    [
        (folder("a/", 1), folder("b/", new=5)),  # rewritten
        (folder("a/", 9), folder("b/", 2, new=5)),  # another has come besides, with an old time
        (folder("a/", 9), folder("b/", 2)),  # rewritten, with an old time
        (folder("a/", 1), folder("b/", 2), folder("c/", 4)),  # moved here, with an old time
    ],
)
def test_folders_that_cannot_be_distinguished_have_all_changed(folders: tuple[Folder, ...]) -> None:
    assert changed(FolderDigest(3, 2), *folders) == [item.path for item in folders]


def test_a_removal_only_is_not_a_change() -> None:
    assert changed(FolderDigest(3, 2), folder("a/", 1)) == []


def test_an_object_behind_the_end_of_a_slice_is_sent_once() -> None:
    days = ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-04"]
    names = [f"region=NW/date={day}/{number:04}.parquet" for day in days for number in range(600)]
    seen = Watch(stream_of(scan=1000), Bucket.of(names))
    seen.tick()  # all, for the first time
    assert seen.tick() == []  # the first two days

    seen.bucket.put("region=NW/date=2025-01-02/zzz.parquet")

    assert [seen.tick() for _ in range(5)] == [[], ["NW 2025-01-02"], [], [], []]
