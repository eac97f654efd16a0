"""What a queue delivered: which partitions it tells of, and which messages are done with."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from lake_assets.config.sensors import SqsSensor
from lake_assets.config.storages import S3Storage
from lake_assets.config.streams import Stream
from lake_assets.detection.cursor import identity
from lake_assets.detection.digests import FolderDigest
from lake_assets.detection.notifications import Event, parse
from lake_assets.detection.packing import packed, unpacked
from lake_assets.detection.prefixes import TimePrefix
from lake_assets.detection.reading import UnmatchedKey
from lake_assets.detection.run_plan import ChangedFolder, RunPlan, RunTarget
from lake_assets.errors import FuturePartitionError, LakeAssetsError, NotificationError
from lake_assets.storage.names import is_data
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.locator import PartitionLocator

MOST_SEEN = 1000  # events that are remembered, so that one that is delivered again is known
MOST_REMEMBERED = 1000  # unmatched keys that are remembered; as many as folders that may wait
MOST_WAITING = 500  # folders whose events wait because of too many runs; above that no message is received
MOST_FUTURE = 500  # folders whose time has not come that are remembered; of others the queue alone knows


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the queue gave it."""

    id: str
    receipt: str
    body: str


@dataclass
class QueueCursor:
    """What is remembered between two ticks.

    Attributes:
        stream: of what; see `identity`.
        receipts: of messages whose runs are recorded once this cursor is, so that they can be deleted.
        seen: hashes of the last events, oldest first.
        waiting: a key and an event's hash for each folder that waits because too many runs were asked for.
        future: the same for each folder whose time has not come.
        reported: hashes of the last unmatched keys that were reported, oldest first.
    """

    stream: str
    receipts: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    waiting: list[tuple[str, int]] = field(default_factory=list)
    future: list[tuple[str, int]] = field(default_factory=list)
    reported: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, text: str | None, stream: Stream) -> "QueueCursor":
        """The cursor of a text; a new one where it cannot be read: the queue delivers anew what was not deleted."""
        name, state = identity(stream), unpacked(text)
        if state is None or state.get("stream") != name:
            return cls(name)
        waiting, future = ([(key, number) for key, number in state[name]] for name in ("waiting", "future"))
        return cls(name, list(state["receipts"]), list(state["seen"]), waiting, future, list(state["told"]))

    def dump(self) -> str:
        """The cursor as a text."""
        return packed(
            {
                "stream": self.stream,
                "receipts": self.receipts,
                "seen": self.seen[-MOST_SEEN:],
                "waiting": self.waiting,
                "future": self.future,
                "told": self.reported[-MOST_REMEMBERED:],
            }
        )


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What the messages of a tick come to.

    Attributes:
        targets: the runs to ask for.
        unmatched: messages and objects that were not reported before.
        cursor: for the next tick, once the requests are recorded.
        summary: one sentence.
    """

    targets: tuple[RunTarget, ...]
    unmatched: tuple[UnmatchedKey, ...]
    cursor: str
    summary: str


def sort_out(
    stream: Stream, messages: Sequence[Message], cursor: QueueCursor, now: dt.datetime | None = None
) -> Deliveries:
    """Find the partitions that the messages tell of. Order and repetition of the messages make no difference.

    A message is done with when all its events are; its receipt is then in the cursor, and the next tick deletes it. One
    with an event that waits stays in the queue, which delivers it again, so that it is not lost with the cursor; as
    does one that is no notification, or that is of another bucket or prefix.

    Args:
        stream: with a sensor of type `sqs`.
        messages: as received.
        cursor: that of the tick before, without the receipts that have been used.
        now: with time zone; the present when None.
    """
    return _Sorting(stream, cursor, now or dt.datetime.now(dt.UTC)).done(messages)


class _Sorting:
    def __init__(self, stream: Stream, cursor: QueueCursor, now: dt.datetime) -> None:
        assert isinstance(stream.sensor, SqsSensor)  # noqa: S101 - the caller has one
        assert isinstance(stream.source, S3Storage)  # noqa: S101 - the config requires it
        self.stream = stream
        self.source = stream.source
        self.cursor = cursor
        self.time_prefix = TimePrefix.of(stream)
        self.active_from = self.time_prefix.active_from(stream, now)
        self.locator = PartitionLocator(stream, Calendar(stream, now))
        self.run_plan = RunPlan(stream.columns, stream.sensor.max_runs)
        self.seen = set(cursor.seen)
        self.unmatched: list[UnmatchedKey] = []
        # By folder; which event of it is all the same, for all of the folder is ingested.
        self.waiting: dict[str, tuple[str, int]] = {}
        self.future: dict[str, tuple[str, int]] = {}

    def done(self, messages: Sequence[Message]) -> Deliveries:
        cursor = self.cursor
        for key, number in [*cursor.waiting, *cursor.future]:
            self._take(key, number)
            self._know(number)
        known = 0
        delivered = {message: events for message in messages if (events := self._events(message)) is not None}
        for event in chain.from_iterable(delivered.values()):
            known += event.hash in self.seen
            self._handle(event)
        cursor.receipts += [m.receipt for m, events in delivered.items() if not any(map(self._waits, events))]
        cursor.waiting, cursor.future = list(self.waiting.values()), list(self.future.values())[:MOST_FUTURE]
        # The events themselves name the state: none happens twice.
        targets = self.run_plan.targets(0)
        unmatched = tuple(self._new(self.unmatched))
        summary = (
            f"Received {len(messages):,} messages, {known:,} of their events again: {len(self.run_plan):,} partitions "
            f"have changed, {len(self.waiting) + len(self.future):,} wait."
        )
        return Deliveries(targets, unmatched, cursor.dump(), summary)

    def _events(self, message: Message) -> tuple[Event, ...] | None:
        """The message's events; None if it must stay in the queue."""
        try:
            events = parse(message.body)
        except NotificationError as error:
            self.unmatched.append(UnmatchedKey(f"message {message.id}", str(error)))
            return None
        if all(event.bucket == self.source.bucket and event.key.startswith(self._start) for event in events):
            return events
        self.unmatched.append(
            UnmatchedKey(
                f"message {message.id}",
                f"it tells of an object outside {self.source.root}: give each stream a queue of its own, filled by the "
                "notifications of its prefix. The message stays in the queue.",
            )
        )
        return None

    @property
    def _start(self) -> str:
        return f"{self.source.prefix}/" if self.source.prefix else ""

    def _handle(self, event: Event) -> None:
        if event.hash in self.seen:
            return
        key = event.key.removeprefix(self._start)
        folder = "".join(f"{name}/" for name in key.split("/")[: self.time_prefix.depth])
        if (
            event.is_removal
            and self.active_from is not None
            and not self.time_prefix.is_active(folder, self.active_from)
        ):
            return  # old objects expire; the lake keeps what they were
        self._take(key, event.hash)
        if len(self.future) <= MOST_FUTURE or not self._waits(event):
            self._know(event.hash)

    def _know(self, number: int) -> None:
        if number not in self.seen:
            self.seen.add(number)
            self.cursor.seen.append(number)

    def _waits(self, event: Event) -> bool:
        folder = _folder(event.key.removeprefix(self._start))
        return folder in self.waiting or folder in self.future

    def _take(self, key: str, number: int) -> None:
        if not is_data(key.split("/"), self.stream.files):
            return
        try:
            partition = self.locator.of(key)
        except FuturePartitionError as error:
            if number not in self.seen:
                self.unmatched.append(UnmatchedKey(key, str(error)))
            self.future[_folder(key)] = key, number
        except LakeAssetsError as error:
            self.unmatched.append(UnmatchedKey(key, str(error)))
        else:
            if not self.run_plan.take([ChangedFolder(key, FolderDigest(number, 1), (partition,))]):
                self.waiting[_folder(key)] = key, number

    def _new(self, unmatched: Iterable[UnmatchedKey]) -> Iterable[UnmatchedKey]:
        reported = set(self.cursor.reported)
        for item in unmatched:
            if item.hash not in reported:
                reported.add(item.hash)
                self.cursor.reported.append(item.hash)
                yield item


def _folder(key: str) -> str:
    return key.rpartition("/")[0]
