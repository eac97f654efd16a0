"""Comparing what was read of the older partitions with what is remembered of them."""

from collections.abc import Callable, Sequence

from lake_assets.detection.digest_ranges import DigestRange, DigestRanges
from lake_assets.detection.digests import NOTHING
from lake_assets.detection.reading import Folder, Reading, ScanPosition
from lake_assets.detection.run_plan import ChangedFolder, RunPlan


def reconcile(
    reading: Reading, ranges: DigestRanges, run_plan: RunPlan, since: float, is_active: Callable[[str], bool]
) -> ScanPosition | None:
    """Take into the run plan what has changed, and remember what is there now.

    An object that only went away is no change: landing zones are swept by age, and the lake must not lose what the
    landing zone forgets. In the active partitions it is one.

    Args:
        reading: of a stretch of keys; its active folders are left alone.
        ranges: what is remembered; brought up to date.
        run_plan: takes the changes.
        since: objects that are older, in seconds of Unix time, had landed when the ranges were last read.
        is_active: tells the active folders, which are left alone.

    Returns:
        Where to read on; None at the end of the stretch.
    """
    remembered = list(ranges)
    seen: set[DigestRange] = set()
    for range_, folders in _by_range([folder for folder in reading.folders if not is_active(folder.path)], ranges):
        if range_ is not None:
            seen.add(range_)
            if not reading.covers(range_.first):
                continue  # joined with its neighbour under way; the next sweep reads it whole
            if not reading.covers(range_.last):
                reading.left = ScanPosition(reading.start.prefix, range_.first)
                break
        changed = changed_folders(range_, folders, since)
        if changed and not run_plan.take(map(changed_folder, changed)):
            reading.left = ScanPosition(reading.start.prefix, range_.first if range_ else folders[0].path)
            break
        if range_ is not None:
            ranges.remove(range_)
        ranges.put(_range_of(folders))
    for range_ in remembered:
        if range_ not in seen and reading.covers(range_.first) and reading.covers(range_.last):
            ranges.remove(range_)
    return reading.left


def changed_folders(range_: DigestRange | None, folders: Sequence[Folder], since: float) -> Sequence[Folder]:
    """The folders of a range that have new objects, as exactly as can be told; all of them where it cannot.

    Args:
        range_: what is remembered of them; None of a new folder.
        folders: what they hold now.
        since: objects that are older had landed when the range was last read.
    """
    if range_ is None:
        return folders
    now = _range_of(folders).digest
    if now == range_.digest:
        return ()
    fresh = [folder for folder in folders if folder.newest >= since]
    if not fresh and now.objects < range_.digest.objects:
        return ()
    older = NOTHING
    for folder in folders:
        older = older.plus(folder.older)
    # Without the new objects it is what it was: so nothing else has changed.
    return fresh if fresh and older == range_.digest else folders


def changed_folder(folder: Folder) -> ChangedFolder:
    """The change of a folder to what it holds now."""
    return ChangedFolder(folder.path, folder.digest, tuple(folder.partitions))


def _by_range(folders: Sequence[Folder], ranges: DigestRanges) -> list[tuple[DigestRange | None, list[Folder]]]:
    """The folders with the range that each falls in; those of one range together."""
    groups: list[tuple[DigestRange | None, list[Folder]]] = []
    for folder in folders:
        range_ = ranges.of(folder.path)
        if range_ is not None and groups and groups[-1][0] is range_:
            groups[-1][1].append(folder)
        else:
            groups.append((range_, [folder]))
    return groups


def _range_of(folders: Sequence[Folder]) -> DigestRange:
    """The range of neighbouring folders."""
    digest = NOTHING
    for folder in folders:
        digest = digest.plus(folder.digest)
    return DigestRange(folders[0].path, folders[-1].path, digest, len(folders))
