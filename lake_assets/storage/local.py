"""Folders as stores: files are written whole under free names; errors of the system name the path and the fix."""

import errno
import os
import secrets
from pathlib import Path

from lake_assets.base.errors import StorageError
from lake_assets.base.machine import user_name
from lake_assets.storage.server_answers import Meaning, file_and_number, find

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def create(path: Path, body: bytes) -> bool:
    """Write a new file of which no reader sees a part; its folders are made. Returns False if the name is taken.

    It is not forced to disk, so a loss of power may lose it. The last of several writers at the same moment wins. (With
    a hard link instead of the rename the first would win, and it takes three times as long.) Until the file is complete
    it has a name that begins with a dot and so is never data. An OSError leaves no part of it.
    """
    # With texts and descriptors: Path and file objects would double the time for a file of some kilobytes.
    name = str(path)
    if os.path.exists(name):  # noqa: PTH110
        return False
    folder, last = os.path.split(name)
    writing = f"{folder}/.{last}.{secrets.token_hex(4)}"
    try:
        file = os.open(writing, _NEW, 0o666)
    except FileNotFoundError:
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = os.open(writing, _NEW, 0o666)
    try:
        try:
            view = memoryview(body)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)
        Path(writing).rename(path)
    except BaseException:
        Path(writing).unlink(missing_ok=True)
        raise
    return True


def refusal(error: Exception, uri: str | None) -> StorageError | None:
    """Return the error of ours for one of a folder, with the path and the fix; None if the cause is not known.

    The path is that of `uri` if the error has none.
    """
    if loop := find(error, Meaning.LINK_LOOP):
        return _loop(loop[1])
    path, number = file_and_number(error)
    if isinstance(error, OSError) and error.errno is not None:
        path, number = uri if error.filename is None else os.fsdecode(error.filename), error.errno
    if path is None or number is None:
        return None
    if number in (errno.EACCES, errno.EPERM):
        return StorageError(
            f"{path} refuses access: {os.strerror(number)}:",
            f"give the user {user_name() or os.geteuid()} rights to it (chmod, chown): to read a file, to read and "
            "enter a folder, to write where it writes.",
        )
    return _loop(path) if number == errno.ELOOP else None


def _loop(path: str) -> StorageError:
    return StorageError(f"{path} is a symbolic link that leads back to itself:", "remove the link, or correct it.")
