"""The state of a sensor as a short text."""

import base64
import binascii
import datetime as dt
import json
import zlib
from collections.abc import Mapping
from typing import Any

VERSION = 2


def packed(state: Mapping[str, Any]) -> str:
    """The state as JSON, most of it compressed."""
    text = json.dumps(state, separators=(",", ":")).encode()
    return json.dumps({"version": VERSION, "state": base64.b85encode(zlib.compress(text, 9)).decode()})


def unpacked(text: str | None) -> Mapping[str, Any] | None:
    """The state of a text; None if there is no text, or none of this version that can be read."""
    if not text:
        return None
    try:
        outer = json.loads(text)
        if outer["version"] != VERSION:
            return None
        state = json.loads(zlib.decompress(base64.b85decode(outer["state"])))
    except (ValueError, KeyError, TypeError, zlib.error, binascii.Error):
        return None
    return state if isinstance(state, dict) else None


def time_of(text: str | None) -> dt.datetime | None:
    """The time of a cursor that is nothing else; None if there is no cursor, or none with a time and its zone."""
    if not text:
        return None
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
