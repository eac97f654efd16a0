"""The digests of folders and of ranges of them, and the folders of a range that count as changed."""

import pytest

from lake_assets.streams.detection.reading import (
    EMPTY_DIGEST,
    MOST_OBJECTS,
    DigestRange,
    DigestRanges,
    FolderDigest,
    ScannedFolder,
)
from lake_assets.streams.detection.scan import changed_folders

SINCE = 100.0  # when the range was last read


def folder(path: str, old: int = 0, new: int = 0) -> ScannedFolder:
    """A folder whose objects have these sums of hashes; 0 for none."""
    older = FolderDigest(old, 1) if old else EMPTY_DIGEST
    fresh = FolderDigest(new, 1) if new else EMPTY_DIGEST
    return ScannedFolder(path, older.plus(fresh), older, SINCE + 1 if new else SINCE - 1)


@pytest.mark.parametrize(
    ("folders", "paths"),
    [
        ((folder("a/", 1), folder("b/", 2)), []),
        ((folder("a/", 1),), []),  # a removal only
        ((folder("a/", 1), folder("b/", 2, new=5)), ["b/"]),  # a new object changes its own folder alone
        # Where the folder cannot be told, all have changed.
        ((folder("a/", 1), folder("b/", new=5)), ["a/", "b/"]),  # rewritten
        ((folder("a/", 9), folder("b/", 2, new=5)), ["a/", "b/"]),  # another has come besides, with an old time
        ((folder("a/", 9), folder("b/", 2)), ["a/", "b/"]),  # rewritten, with an old time
        ((folder("a/", 1), folder("b/", 2), folder("c/", 4)), ["a/", "b/", "c/"]),  # moved here, with an old time
    ],
)
def test_the_folders_of_a_range_that_changed_since_its_digest(
    folders: tuple[ScannedFolder, ...], paths: list[str]
) -> None:
    range_ = DigestRange("a/", "b/", FolderDigest(3, 2), 2)

    assert [item.path for item in changed_folders(range_, folders, SINCE)] == paths


def ranges_of(count: int, objects: int = 1) -> DigestRanges:
    ranges = DigestRanges()
    for number in reversed(range(count)):
        ranges.add(f"{number:03}/", FolderDigest(number, objects))
    return ranges


@pytest.mark.parametrize("most", [1, 7, 99])
def test_joined_ranges_are_the_sum_of_their_folders(most: int) -> None:
    ranges = ranges_of(100)
    ranges.shrink(most)

    assert len(ranges) <= most
    assert sum(range_.folders for range_ in ranges) == sum(range_.digest.objects for range_ in ranges) == 100
    assert sum(range_.digest.hash_sum for range_ in ranges) == sum(range(100))
    for number in range(100):
        range_ = ranges.of(f"{number:03}/")
        assert range_ is not None
        assert range_.first <= f"{number:03}/" <= range_.last


def test_a_folder_within_a_joined_range_becomes_part_of_it() -> None:
    ranges = ranges_of(4)
    ranges.shrink(1)
    ranges.add("0015/", FolderDigest(5, 2))
    ranges.add("999/", FolderDigest(7, 3))

    joined, own = ranges
    assert (joined.folders, joined.digest) == (5, FolderDigest(0 + 1 + 2 + 3 + 5, 6))
    assert (own.first, own.folders) == ("999/", 1)


def test_ranges_that_would_take_long_to_read_are_not_joined() -> None:
    ranges = ranges_of(4, MOST_OBJECTS // 2 + 1)
    ranges.shrink(1)
    assert len(ranges) == 4
