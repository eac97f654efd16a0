"""Writing a file of a folder as a store writes an object: whole, and only where its name is free."""

import uuid
from pathlib import Path


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
    if path.exists():
        return False
    writing = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        file = writing.open("xb", buffering=0)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = writing.open("xb", buffering=0)
    try:
        with file:
            view = memoryview(body)
            while view:
                view = view[file.write(view) :]
        writing.rename(path)
    except BaseException:
        writing.unlink(missing_ok=True)
        raise
    return True
