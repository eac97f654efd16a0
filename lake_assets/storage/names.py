"""Names of folders and objects that are data."""

import fnmatch
from collections.abc import Iterable, Sequence


def is_data(below: Sequence[str], files: str) -> bool:
    """Whether an object is data and matches the pattern, by the parts of its key below the listed folder."""
    if is_hidden(below):
        return False
    return _fits(below, files.lstrip("/").split("/")) if "/" in files else fnmatch.fnmatchcase(below[-1], files)


def _fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path matches a pattern; both are split at slashes."""
    if not names or not patterns:
        return not names and not patterns
    if patterns[0] == "**":
        return _fits(names, patterns[1:]) or _fits(names[1:], patterns)
    return fnmatch.fnmatchcase(names[0], patterns[0]) and _fits(names[1:], patterns[1:])


def is_hidden(names: Iterable[str]) -> bool:
    """Whether one of these names of folders and objects marks its content as no data."""
    return any(name.startswith(("_", ".")) and "=" not in name for name in names)
