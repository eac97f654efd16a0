"""S3's notifications about objects, in the forms in which they reach a queue.

Sources of the forms: AWS, "Event message structure" of S3 (the key is URL-encoded there, a blank as `+`), "Amazon S3
EventBridge events" (it is not encoded there), and "Amazon SNS message formats".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from lake_assets.detection.digests import hash_of
from lake_assets.errors import NotificationError


@dataclass(frozen=True, slots=True)
class Event:
    """The creation, replacement or removal of an object."""

    bucket: str
    key: str  # decoded
    is_removal: bool
    hash: int  # the same at each delivery of the event
    size: int = 0  # bytes of the object; 0 if the notification does not say it


def parse(body: str) -> tuple[Event, ...]:
    """Return the events of a message; none for S3's test message, and for events that change no object, such as tags.

    Args:
        body: the message of S3, directly or inside one of SNS, or of EventBridge.

    Raises:
        NotificationError: the message has none of these forms.
    """
    try:
        message = json.loads(body)
    except ValueError as error:
        raise _refused("it is not JSON") from error
    if not isinstance(message, dict):
        raise _refused("it is not a JSON object")
    if message.get("Type") == "Notification" and isinstance(message.get("Message"), str):
        return parse(message["Message"])
    if message.get("Event") == "s3:TestEvent":
        return ()
    try:
        if "detail-type" in message:
            return _of_event_bridge(message)
        if isinstance(message.get("Records"), list):
            return tuple(event for record in message["Records"] for event in _of_record(record))
    except (KeyError, TypeError, AttributeError) as error:
        raise _refused(f"it lacks {error}") from error
    raise _refused("it has no Records")


def _of_record(record: Mapping[str, Any]) -> tuple[Event, ...]:
    s3, name = record["s3"], str(record["eventName"]).removeprefix("s3:")
    if not name.startswith(("ObjectCreated:", "ObjectRemoved:", "LifecycleExpiration:")):
        return ()
    key = unquote_plus(s3["object"]["key"])
    is_removal = not name.startswith("ObjectCreated:")
    return (_event(s3["bucket"]["name"], key, s3["object"], record.get("eventTime"), is_removal=is_removal),)


def _of_event_bridge(message: Mapping[str, Any]) -> tuple[Event, ...]:
    detail, kind = message["detail"], message["detail-type"]
    if message.get("source") != "aws.s3":
        raise _refused(f"its source is {message.get('source')!r}")
    if kind not in {"Object Created", "Object Deleted"}:
        return ()
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    return (_event(bucket, key, detail["object"], message.get("time"), is_removal=kind == "Object Deleted"),)


def _event(bucket: str, key: str, described: Mapping[str, Any], time: object, *, is_removal: bool) -> Event:
    etag = described.get("eTag") or described.get("etag") or ""
    # The sequencer differs from one event of a key to the next; not every server sends it.
    order = described.get("sequencer") or time
    size = described.get("size")
    return Event(
        bucket, key, is_removal, hash_of(bucket, key, is_removal, etag, order), size if isinstance(size, int) else 0
    )


def _refused(problem: str) -> NotificationError:
    return NotificationError(
        f"a message is not a notification of S3: {problem}:",
        "it stays in the queue, whose redrive policy should move it to a dead-letter queue.",
    )
