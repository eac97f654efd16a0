"""The user of this process, who may be a number without a name or a home, as in containers; the folder of caches."""

import getpass
import os
import pwd
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs


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


def cache_folder() -> Path:
    """Return this user's cache folder; a folder among the temporary files if there is none that can be written to."""
    with suppress(OSError, RuntimeError):  # no home, or one that refuses
        folder = platformdirs.user_cache_path("lake-assets")
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    folder = Path(tempfile.gettempdir(), f"lake-assets-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    # Its programs are executed, so that nobody else may have made it.
    return folder if folder.lstat().st_uid == os.getuid() else Path(tempfile.mkdtemp(prefix="lake-assets-"))
