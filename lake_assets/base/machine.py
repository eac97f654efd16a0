"""The machine, which may be a container: its user, who may be a number without a name; its limits; where caches are."""

import getpass
import math
import os
import pwd
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import platformdirs

_CONTROL = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def user_name() -> str | None:
    """Return the name of the user of this process; None if the system does not know it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def has_name() -> bool:
    """Return whether the system has a name for the user of this process; variables of the environment do not count."""
    try:
        return bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return False


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity and the quota of its container."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [
        *(text.split() for text in _limits("", "cpu.max")),
        *zip(_limits("cpu", "cpu.cfs_quota_us"), _limits("cpu", "cpu.cfs_period_us"), strict=False),
    ]
    allowed = [math.ceil(int(quota) / int(period)) for quota, period in quotas if quota.isdigit()]  # else max, or -1
    return min(number, *allowed) if allowed else number


def usable_memory() -> int:
    """Return how many bytes of memory this process may use, by the machine and the limit of its container."""
    limits = [*_limits("", "memory.max"), *_limits("memory", "memory.limit_in_bytes")]
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *(int(n) for n in limits if n.isdigit())])


def _limits(controller: str, file: str) -> Iterator[str]:
    """Yield what control groups have in a file: the process's own, and the root, which is a container's.

    Source of the rule: the Linux manual, cgroups(7). A group of version 2 has no controller in its line.
    """
    lines = _OWN.read_text().splitlines() if _OWN.exists() else []
    paths = [path for _, names, path in (line.split(":", 2) for line in lines) if controller in names.split(",")]
    for path in ("", *paths):
        limit = _CONTROL / controller / path.lstrip("/") / file
        if limit.is_file():
            yield limit.read_text().strip()


def can_write(path: str | Path) -> bool:
    """Return whether this process may write to a file, or make files in a folder."""
    return os.access(path, os.W_OK, effective_ids=True)


def cache_folder() -> Path:
    """Return this user's cache folder; a folder among the temporary files if there is none that can be written to."""
    with suppress(OSError, RuntimeError):  # no home, or one that refuses
        folder = platformdirs.user_cache_path("lake-assets")
        folder.mkdir(parents=True, exist_ok=True)
        if can_write(folder):
            return folder
    folder = Path(tempfile.gettempdir(), f"lake-assets-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    # Its programs are executed, so that nobody else may have made it.
    return folder if folder.lstat().st_uid == os.getuid() else Path(tempfile.mkdtemp(prefix="lake-assets-"))
