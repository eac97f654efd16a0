"""Comparison of the older partitions with their digests in the cursor."""

from collections.abc import Callable, Sequence

from lake_assets.detection.digest_ranges import DigestRange, DigestRanges
from lake_assets.detection.digests import total
from lake_assets.detection.reading import Folder, Reading, ScanPosition
from lake_assets.detection.run_plan import ChangedFolder, RunPlan


def reconcile(
    reading: Reading, ranges: DigestRanges, run_plan: RunPlan, since: float, is_active: Callable[[str], bool]
) -> ScanPosition | None:
    """Add changed folders to the run plan, and update their digests.

    A removed object is not a change here, although it is one in the active partitions: landing zones are cleaned by
    age, and the lake must keep the rows.

    Args:
        reading: of a range of keys.
        ranges: the digests of the older folders; updated.
        run_plan: the changed folders are added to it.
        since: Unix time in seconds; older objects had landed when the ranges were last read.
        is_active: whether a folder is active; active folders are ignored.

    Returns:
        The position to continue from; None at the end of the range of keys.
    """
    before = list(ranges)
    seen: set[DigestRange] = set()
    for range_, folders in _by_range([folder for folder in reading.folders if not is_active(folder.path)], ranges):
        if range_ is not None:
            seen.add(range_)
            if not reading.covers(range_.first):
                continue  # joined with its neighbour during the sweep; the next sweep reads it whole
            if not reading.covers(range_.last):
                reading.rest = ScanPosition(reading.start.prefix, range_.first)
                break
        changed = changed_folders(range_, folders, since)
        if changed and not run_plan.take(map(changed_folder, changed)):
            reading.rest = ScanPosition(reading.start.prefix, range_.first if range_ else folders[0].path)
            break
        if range_ is not None:
            ranges.remove(range_)
        ranges.put(_range_of(folders))
    for range_ in before:
        if range_ not in seen and reading.covers(range_.first) and reading.covers(range_.last):
            ranges.remove(range_)
    return reading.rest


def changed_folders(range_: DigestRange | None, folders: Sequence[Folder], since: float) -> Sequence[Folder]:
    """The folders of a range with new objects; all folders if that is not certain, or if the range is None, so new.

    Objects before `since`, Unix time in seconds, had landed when the range was last read.
    """
    if range_ is None:
        return folders
    now = _range_of(folders).digest
    if now == range_.digest:
        return ()
    fresh = [folder for folder in folders if folder.newest >= since]
    if not fresh and now.objects < range_.digest.objects:
        return ()
    # If the digest without the new objects is unchanged, nothing else has changed.
    is_rest_unchanged = total(folder.older for folder in folders) == range_.digest
    return fresh if fresh and is_rest_unchanged else folders


def changed_folder(folder: Folder) -> ChangedFolder:
    """Return a changed folder, with its objects now."""
    return ChangedFolder(folder.path, folder.digest, tuple(folder.partitions), folder.size)


def _by_range(folders: Sequence[Folder], ranges: DigestRanges) -> list[tuple[DigestRange | None, list[Folder]]]:
    """Return the folders grouped by the range that holds them; None for a new folder."""
    groups: list[tuple[DigestRange | None, list[Folder]]] = []
    for folder in folders:
        range_ = ranges.of(folder.path)
        if range_ is not None and groups and groups[-1][0] is range_:
            groups[-1][1].append(folder)
        else:
            groups.append((range_, [folder]))
    return groups


def _range_of(folders: Sequence[Folder]) -> DigestRange:
    """Return the range of neighbouring folders."""
    digest = total(folder.digest for folder in folders)
    return DigestRange(folders[0].path, folders[-1].path, digest, len(folders))
