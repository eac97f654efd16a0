"""Long messages in parts, because the log of a pod breaks lines of more than 16 KiB."""

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

PART = 8_000  # characters of a message, or of a part of one

Message = dict[str, Any]


def parts_of(message: Message, number: int) -> Iterator[Message]:
    """The message, or the parts of a long one.

    Args:
        message: of JSON's types.
        number: of the message among those of its driver.
    """
    text = json.dumps(message)
    if len(text) <= PART:
        yield message
        return
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    pieces = [packed[start : start + PART] for start in range(0, len(packed), PART)]
    for index, piece in enumerate(pieces):
        yield {"kind": "part", "message": number, "index": index, "of": len(pieces), "text": piece}


class Parts:
    """Takes messages and parts, and returns whole messages."""

    def __init__(self) -> None:
        self._pieces: dict[int, dict[int, str]] = {}

    def whole(self, message: Message) -> Message | None:
        """The message, or the one whose last missing part this is; None before."""
        if message["kind"] != "part":
            return message
        pieces = self._pieces.setdefault(message["message"], {})
        pieces[message["index"]] = message["text"]
        if len(pieces) < message["of"]:
            return None
        del self._pieces[message["message"]]
        packed = "".join(text for _, text in sorted(pieces.items()))
        whole: Message = json.loads(zlib.decompress(base64.b64decode(packed)))
        return whole
