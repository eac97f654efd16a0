"""What a run does, as events: each step with its figures, each partition's outcome, each retry.

Code that does something reports it here. Listeners get it: Dagster's log, metrics, traces. So does Python's logging, by
the logger `lake_assets.events`, which is off until its level is set.
"""

import dataclasses
import datetime as dt
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

LOGGER = "lake_assets.events"
EVENT = "lake_assets_event"  # the attribute of a record of Python's logging that has its event
EVENTS = "lake_assets_events"  # of a record that tells several at once, as in Dagster's log

OFF = logging.CRITICAL + 1

_LOG = logging.getLogger(LOGGER)
_LOG.setLevel(OFF)
_LOG.addHandler(logging.NullHandler())  # otherwise Python prints warnings of a logger without a handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. Fields that do not apply are None."""

    event: str  # run_started, task, step, retry, partition, run, maintenance, restore, command, error, message
    time: dt.datetime = dataclasses.field(default_factory=lambda: dt.datetime.now(dt.UTC))
    level: int = logging.INFO  # of Python's logging
    run: str | None = None
    lake: str | None = None
    stream: str | None = None
    partition: str | None = None
    step: str | None = None  # list, check, start, job, verify, commit, export, evolve, examine, ledger, register, …
    status: str | None = None  # committed, skipped, failed, cancelled or left_out
    mode: str | None = None  # replace, append or index
    host: str | None = None  # of a task
    seconds: float | None = None
    partitions: int | None = None  # that a step handled together, or that a run has
    committed: int | None = None  # partitions of a run
    skipped: int | None = None
    failed: int | None = None
    objects: int | None = None  # landed ones
    files: int | None = None  # written ones
    rows: int | None = None
    rows_before: int | None = None
    bytes: int | None = None  # of landed objects where nothing is written, otherwise of written files
    snapshot: int | None = None
    snapshots: int | None = None  # that maintenance expired
    retry: int | None = None  # counts from 1
    kind: str | None = None  # of an error: its class; of a retry: conflict, locked, task, or the error's class
    message: str | None = None

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields that apply, by name: time as ISO 8601 in UTC, the level by its name, all others as they are."""
        found: dict[str, object] = {
            "time": self.time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": logging.getLevelName(self.level).lower(),
        }
        for name in _NAMES:
            if (value := getattr(self, name)) is not None:
                found[name] = round(value, 6) if isinstance(value, float) else value
        return found

    def __str__(self) -> str:
        """Return one line for people."""
        fields = self.fields
        return " ".join([self.event, *(f"{name}={fields[name]}" for name in fields if name not in _BEFORE)])


_BEFORE = ("time", "level", "event")
_NAMES = tuple(field.name for field in dataclasses.fields(Event) if field.name not in ("time", "level"))

Listener = Callable[[Event], None]
"""Gets each event, in the thread that reports it. It must not raise."""

_listeners: tuple[Listener, ...] = ()
_scope: ContextVar[Mapping[str, Any] | None] = ContextVar("scope", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass all events of the process to the listener, within the block."""
    listen(listener)
    try:
        yield
    finally:
        unlisten(listener)


def listen(listener: Listener) -> None:
    """Pass all events of the process to the listener from now on."""
    global _listeners  # noqa: PLW0603 - replaced as a whole, so that other threads see the old or the new tuple
    _listeners = (*_listeners, listener)


def unlisten(listener: Listener) -> None:
    """Pass no more events to the listener."""
    global _listeners  # noqa: PLW0603
    _listeners = tuple(other for other in _listeners if other != listener)


@contextmanager
def about(**fields: Any) -> Iterator[None]:  # noqa: ANN401 - fields of an event
    """Give these fields to all events that are reported within the block, in this thread."""
    token = _scope.set({**(_scope.get() or {}), **fields})
    try:
        yield
    finally:
        _scope.reset(token)


def report(event: str, **fields: Any) -> None:  # noqa: ANN401 - fields of an event
    """Report an event; the fields are those of `Event`."""
    if _listeners or fields.get("level", logging.INFO) >= _LOG.level:
        pass_on(Event(event=event, **{**(_scope.get() or {}), **fields}))


def pass_on(event: Event) -> None:
    """Pass an event to the listeners and to Python's logging, as `report` does it with a new one."""
    for listener in _listeners:
        listener(event)
    if event.level >= _LOG.level:
        # Not by `log`: after Ctrl-C, `logging.disable` suppresses what libraries say, but this is still to be told.
        record = _LOG.makeRecord(LOGGER, event.level, __file__, 0, str(event), (), None, extra={EVENT: event})
        _LOG.handle(record)


@contextmanager
def step(name: str, **fields: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - fields of an event
    """Report a step at its end with its duration, and with the kind of its error if it fails.

    The block may fill further fields of the event into what it gets.
    """
    found: dict[str, Any] = dict(fields)
    start = time.perf_counter()
    try:
        yield found
    except BaseException as error:
        found |= failure(error)
        raise
    finally:
        report("step", step=name, seconds=time.perf_counter() - start, **found)


def failure(error: BaseException) -> dict[str, Any]:
    """Return the fields of a step that failed. Its error's text is reported with the partition, when it is final."""
    return {"level": logging.WARNING, "status": "failed", "kind": type(error).__name__}
