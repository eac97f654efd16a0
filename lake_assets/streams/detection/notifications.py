"""The messages of a queue: the partitions that they name, and the messages that can be deleted.

They hold notifications of S3, in one of several forms. Sources of the forms: AWS, "Event message structure" of S3 (the
key is URL-encoded there, a blank as `+`), "Amazon S3 EventBridge events" (it is not encoded there), and "Amazon SNS
message formats".
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote_plus

from lake_assets.base.errors import FuturePartitionError, NotificationError
from lake_assets.base.texts import count, hash_of
from lake_assets.config.layout.partition import Partition
from lake_assets.config.sections import SqsSensor
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.calendar import Calendar, deferred
from lake_assets.streams.detection.cursor import identity, packed, unpacked
from lake_assets.streams.detection.prefixes import TimePrefix
from lake_assets.streams.detection.reading import REPORTED, UnmatchedKey
from lake_assets.streams.detection.run_plan import MOST_CHANGED, RunPlan, ScanResult
from lake_assets.streams.key_cells import Cells
from lake_assets.streams.left_out import LeftOutClass, class_of, left_out_text
from lake_assets.streams.locator import PartitionLocator

MOST_SEEN = 1000  # events in the cursor, to recognize repeated deliveries
MOST_REMEMBERED = 1000  # reported unmatched keys in the cursor
MOST_FUTURE = 500  # folders of future partitions in the cursor; the messages of others stay in the queue


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message of the queue."""

    id: str
    receipt: str
    body: str


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """The creation, replacement or removal of an object."""

    bucket: str
    key: str  # decoded
    is_removal: bool
    hash: int  # the same at each delivery of the event
    size: int = 0  # bytes of the object; 0 if the notification does not say it


@dataclass
class QueueCursor:
    """The state of a sensor of type `sqs`."""

    stream: str  # see `identity`
    receipts: list[str] = field(default_factory=list)  # of messages that can be deleted once this cursor is stored
    seen: list[int] = field(default_factory=list)  # hashes of the last events, oldest first
    future: list[tuple[str, int]] = field(default_factory=list)  # key and event's hash of each folder of a future one
    reported: list[int] = field(default_factory=list)  # hashes of the last reported unmatched keys, oldest first

    @classmethod
    def load(cls, text: str | None, stream: StreamConfig) -> "QueueCursor":
        """Load a cursor; a new one if it cannot be read, as the queue delivers messages again that were not deleted."""
        name = identity(stream)
        return unpacked(text, lambda state: cls._of(name, state)) or cls(name)

    @classmethod
    def _of(cls, name: str, state: Mapping[str, Any]) -> "QueueCursor":
        if state["stream"] != name:
            return cls(name)
        future = [(key, number) for key, number in state["future"]]
        return cls(name, list(state["receipts"]), list(state["seen"]), future, list(state["reported"]))

    def dump(self) -> str:
        """Return the cursor as a text, for `load`."""
        return packed(
            {
                "stream": self.stream,
                "receipts": self.receipts,
                "seen": self.seen[-MOST_SEEN:],
                "future": self.future,
                "reported": self.reported[-MOST_REMEMBERED:],
            }
        )


class Notifications:
    """The notifications of one tick. The order and the repetition of messages make no difference.

    When all events of a message are handled, its receipt is added to the cursor, and the next tick deletes the message.
    A message with a deferred event stays in the queue, which delivers it again: one of a future partition, and one for
    which `RequestedCells` has no room. A message stays too if it is not a notification, or is of another bucket or
    prefix.

    The cursor is that of the tick before, without the receipts that were used. `most` is as of `RunPlan`.
    """

    def __init__(
        self, stream: StreamConfig, cursor: QueueCursor, most: int = MOST_CHANGED, now: dt.datetime | None = None
    ) -> None:
        assert isinstance(stream.sensor, SqsSensor)  # noqa: S101 - the caller has one
        now = now or dt.datetime.now(dt.UTC)
        self.stream = stream
        self.root = stream.source.root
        self.cursor = cursor
        self.time_prefix = TimePrefix.of(stream, now)
        self.locator = PartitionLocator(stream, Calendar(stream, now))
        self.cells = Cells(stream)
        self.run_plan = RunPlan(most, self.cells.noun)
        self.seen = set(cursor.seen)
        self.unmatched: list[UnmatchedKey] = []
        self.left_out: dict[str, LeftOutClass] = {}
        self.left: set[int] = set()  # hashes of the events for which there is no room
        # One event of each folder is enough, because the whole folder is ingested.
        self.future: dict[str, tuple[str, int]] = {}

    def classify(self, messages: Sequence[QueueMessage]) -> ScanResult:
        """Find the changed partitions in the messages."""
        cursor = self.cursor
        for key, number in cursor.future:
            self._add(key, number)
            self._mark_seen(number)
            if number in self.left:  # its date has begun, and there is no room yet
                self.left.remove(number)
                self.future[self._folder(key)] = key, number
        known = 0
        delivered = {message: events for message in messages if (events := self._events(message)) is not None}
        for event in chain.from_iterable(delivered.values()):
            known += event.hash in self.seen
            self._handle(event)
        cursor.receipts += [m.receipt for m, events in delivered.items() if not any(map(self._is_deferred, events))]
        cursor.future = list(self.future.values())[:MOST_FUTURE]
        unmatched = tuple(self._new(self.unmatched))
        later = len(self.left) + len(self.future)
        summary = (
            f"{self.run_plan.changed}{f', {later:,} deferred' if later else ''} "
            f"({count(len(messages), 'message')} received, {known:,} of their events again)."
            + (f" {left_out_text(self.left_out.values())}." if self.left_out else "")
        )
        return ScanResult(self.run_plan.targets, unmatched, cursor.dump(), summary)

    def _events(self, message: QueueMessage) -> tuple[ObjectEvent, ...] | None:
        """Return the message's events; None if it must stay in the queue."""
        try:
            events = object_events(message.body)
        except NotificationError as error:
            self.unmatched.append(UnmatchedKey(f"message {message.id}", str(error)))
            return None
        if all(f"s3://{event.bucket}/{event.key}".startswith(f"{self.root}/") for event in events):
            return events
        self.unmatched.append(
            UnmatchedKey(
                f"message {message.id}",
                f"it names an object outside {self.root}: give each stream a queue of its own, with the "
                "notifications of its prefix. The message stays in the queue.",
            )
        )
        return None

    @property
    def _start(self) -> str:
        """The beginning of the keys in the bucket, below the source's root."""
        return f"{self.root}/".split("/", 3)[3]

    def _handle(self, event: ObjectEvent) -> None:
        if event.hash in self.seen:
            return
        key = event.key.removeprefix(self._start)
        template, names = self.time_prefix.template, key.split("/")
        folder = key if template.file_parts else "".join(f"{name}/" for name in names[: self.time_prefix.depth])
        if event.is_removal and self.time_prefix.active_from is not None and not self.time_prefix.is_active(folder):
            return  # old objects expire, and the lake keeps their rows
        self._add(key, event.hash, event.size)
        if event.hash not in self.left and (len(self.future) <= MOST_FUTURE or not self._is_deferred(event)):
            self._mark_seen(event.hash)

    def _mark_seen(self, number: int) -> None:
        if number not in self.seen:
            self.seen.add(number)
            self.cursor.seen.append(number)

    def _is_deferred(self, event: ObjectEvent) -> bool:
        return event.hash in self.left or self._folder(event.key.removeprefix(self._start)) in self.future

    def _folder(self, key: str) -> str:
        """Return the folder of a key, or its stem; all objects there are ingested together."""
        template = self.time_prefix.template
        return (template.stem(key) or key) if template.file_parts else key.rpartition("/")[0]

    def _add(self, key: str, number: int, size: int = 0) -> None:
        location = self.locator.find(key)
        if isinstance(location, Partition):
            if not self.run_plan.take([({self.cells.of(location)}, size)]):
                self.left.add(number)
        elif isinstance(location, FuturePartitionError):
            if number not in self.seen:
                self.unmatched.append(UnmatchedKey(key, str(deferred(location))))
            self.future[self._folder(key)] = key, number
        else:
            kind = self.left_out[key] = class_of(location)
            if kind in REPORTED:
                self.unmatched.append(UnmatchedKey(key, str(location)))

    def _new(self, unmatched: Iterable[UnmatchedKey]) -> Iterable[UnmatchedKey]:
        reported = set(self.cursor.reported)
        for item in unmatched:
            if item.hash not in reported:
                reported.add(item.hash)
                self.cursor.reported.append(item.hash)
                yield item


def object_events(body: str) -> tuple[ObjectEvent, ...]:
    """Return the events of a message; none for S3's test message, and for events that change no object, such as tags.

    A message is that of S3, directly or inside one of SNS, or of EventBridge; others are a NotificationError.
    """
    try:
        message = json.loads(body)
    except ValueError as error:
        raise _refused("it is not JSON") from error
    if not isinstance(message, dict):
        raise _refused("it is not a JSON object")
    if message.get("Type") == "Notification" and isinstance(message.get("Message"), str):
        return object_events(message["Message"])
    if message.get("Event") == "s3:TestEvent":
        return ()
    try:
        if "detail-type" in message:
            return _events_of_event_bridge(message)
        if isinstance(message.get("Records"), list):
            return tuple(event for record in message["Records"] for event in _events_of_record(record))
    except (KeyError, TypeError, AttributeError) as error:
        raise _refused(f"it lacks {error}") from error
    raise _refused("it has no Records")


def _events_of_record(record: Mapping[str, Any]) -> tuple[ObjectEvent, ...]:
    s3, name = record["s3"], str(record["eventName"]).removeprefix("s3:")
    if not name.startswith(("ObjectCreated:", "ObjectRemoved:", "LifecycleExpiration:")):
        return ()
    key = unquote_plus(s3["object"]["key"])
    is_removal = not name.startswith("ObjectCreated:")
    return (_event(s3["bucket"]["name"], key, s3["object"], record.get("eventTime"), is_removal=is_removal),)


def _events_of_event_bridge(message: Mapping[str, Any]) -> tuple[ObjectEvent, ...]:
    detail, kind = message["detail"], message["detail-type"]
    if message.get("source") != "aws.s3":
        raise _refused(f"its source is {message.get('source')!r}")
    if kind not in {"Object Created", "Object Deleted"}:
        return ()
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    return (_event(bucket, key, detail["object"], message.get("time"), is_removal=kind == "Object Deleted"),)


def _event(bucket: str, key: str, described: Mapping[str, Any], time: object, *, is_removal: bool) -> ObjectEvent:
    etag = described.get("eTag") or described.get("etag") or ""
    # The sequencer differs from one event of a key to the next; not every server sends it.
    order = described.get("sequencer") or time
    size = described.get("size")
    return ObjectEvent(
        bucket, key, is_removal, hash_of(bucket, key, is_removal, etag, order), size if isinstance(size, int) else 0
    )


def _refused(problem: str) -> NotificationError:
    return NotificationError(
        f"a message is not a notification of S3: {problem}:",
        "give the queue a redrive policy, which moves such messages to a dead-letter queue.",
    )
