"""Which names of folders and objects are those of data."""

import fnmatch
from collections.abc import Iterable, Sequence


def is_data(below: Sequence[str], files: str) -> bool:
    """Whether an object, by the parts of its key below the listed folder, is data and fits the pattern."""
    if is_hidden(below):
        return False
    return _fits(below, files.lstrip("/").split("/")) if "/" in files else fnmatch.fnmatchcase(below[-1], files)


def _fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path fits a pattern, both by their parts."""
    if not names or not patterns:
        return not names and not patterns
    if patterns[0] == "**":
        return _fits(names, patterns[1:]) or _fits(names[1:], patterns)
    return fnmatch.fnmatchcase(names[0], patterns[0]) and _fits(names[1:], patterns[1:])


def is_hidden(names: Iterable[str]) -> bool:
    """Whether one of these names of folders and objects says that what lies there is no data."""
    return any(name.startswith(("_", ".")) and "=" not in name for name in names)
