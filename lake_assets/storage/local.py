"""Writing a file of a folder as a store writes an object: whole, and only where its name is free."""

import os
import secrets
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def create(path: Path, body: bytes) -> bool:
    """Write a new file that no reader sees a part of; its folders are made.

    It is not forced to disk: a loss of power may take it. Of writers that come at the same moment the last one wins,
    whole. (A hard link instead of the rename would let the first one win, and takes three times as long.)

    Args:
        path: its name. Until it is whole it has another, which begins with a dot and so is never data.
        body: its bytes.

    Returns:
        False if the name is taken, and then nothing is changed.

    Raises:
        OSError: the folder cannot be written; nothing is left there.
    """
    # By texts and descriptors: for a file of some kilobytes, objects of paths and files take as long as its writing.
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
