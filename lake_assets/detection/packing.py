"""The state of a sensor as a short text."""

import base64
import datetime as dt
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

State = TypeVar("State")

VERSION = 3


def packed(state: Mapping[str, Any]) -> str:
    """Return the state as JSON, most of it compressed."""
    text = json.dumps(state, separators=(",", ":")).encode()
    return json.dumps({"version": VERSION, "state": base64.b85encode(zlib.compress(text, 9)).decode()})


def unpacked(text: str | None, read: Callable[[Mapping[str, Any]], State]) -> State | None:
    """Return what `read` makes of a text's state; None without a text, or without one of this version that it reads.

    A sensor then starts again, which is safe; a tick that fails would fail until somebody resets the cursor.
    """
    if not text:
        return None
    try:
        outer = json.loads(text)
        if outer["version"] != VERSION:
            return None
        return read(json.loads(zlib.decompress(base64.b85decode(outer["state"]))))
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error):  # damaged, or of a version with other fields
        return None


def time_of(text: str | None) -> dt.datetime | None:
    """Return the time of a cursor that is nothing else; None without a cursor, or without a time and its zone."""
    if not text:
        return None
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
