"""What a run does, as events: each step with its figures, each partition's outcome, each retry; and its progress.

Code that does something reports it here. Listeners get it: Dagster's log, metrics, traces. So does Python's logging, by
the logger `lake_assets.base.events`, which is off until its level is set. Code that does a long thing many times counts
here, for a progress bar, and has a checkpoint between its steps, at which it may be ended. Where nobody listens or
watches, all of this costs nothing.
"""

import dataclasses
import datetime as dt
import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TextIO, TypeVar

Item = TypeVar("Item")


class Count:
    """What has been done so far; nobody sees it here. The methods may be called by any thread, and do not raise."""

    def advance(self, number: int = 1, /) -> None:
        """Count so many more as done."""

    def describe(self, doing: str | None, /) -> None:
        """Show what is being done at this moment in place of the title; the title again with None."""


Watcher = Callable[[str, str, int | None], AbstractContextManager[Count]]
"""Gets title, unit and total of each count; its context is that of the count."""


UNWATCHED = Count()

_watcher: Watcher | None = None  # of all threads of the process


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Show all counts to the watcher, within the block."""
    global _watcher  # noqa: PLW0603 - of all threads
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


def is_watched() -> bool:
    """Return whether counts are shown."""
    return _watcher is not None


def counting(title: str, unit: str, total: int | None = None) -> AbstractContextManager[Count]:
    """Return a count for the duration of a block, which tells it what is done.

    The title is what is being done, such as `plan sales`, and the unit what is counted, in the plural; `bytes` and `%`
    are shown as sizes and shares. `total` is None if it is unknown.
    """
    return nullcontext(UNWATCHED) if _watcher is None else _watcher(title, unit, total)


def counted(items: Iterable[Item], title: str, unit: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items; each is done when the next one is asked for. The arguments are those of `counting`."""
    with counting(title, unit, total) as count:
        for item in items:
            yield item
            count.advance()


_check: Callable[[], object] | None = None  # of all threads of the process


@contextmanager
def ended_by(check: Callable[[], object]) -> Iterator[None]:
    """Call `check` at each checkpoint within the block; it raises what ends the operation, such as an interrupt."""
    global _check  # noqa: PLW0603 - of all threads
    before, _check = _check, check
    try:
        yield
    finally:
        _check = before


def checkpoint() -> None:
    """End the operation if it is to end. Called between two steps; a partition that has begun is then cancelled."""
    if _check is not None:
        _check()


LOGGER = "lake_assets.base.events"
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
        fields: dict[str, object] = {
            "time": self.time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": logging.getLevelName(self.level).lower(),
        }
        for name in _NAMES:
            if (value := getattr(self, name)) is not None:
                fields[name] = round(value, 6) if isinstance(value, float) else value
        return fields

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
    _listeners = tuple(known for known in _listeners if known != listener)


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
    start = time.perf_counter()
    try:
        yield fields
    except BaseException as error:
        fields |= failure(error)
        raise
    finally:
        report("step", step=name, seconds=time.perf_counter() - start, **fields)


def failure(error: BaseException) -> dict[str, Any]:
    """Return the fields of a step that failed. Its error's text is reported with the partition, when it is final."""
    return {"level": logging.WARNING, "status": "failed", "kind": type(error).__name__}


LogFormat = Literal["text", "json"]
VARIABLE = "LAKE_ASSETS_LOG_FORMAT"  # in the environment

_DAGSTER = "dagster_meta"  # the attribute that Dagster gives to the records of its runs


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; one that tells several events, as in Dagster's log, as a line for each.

    All other records have `"event": "log"` with their logger, message and traceback. Control characters, and characters
    outside ASCII, are escaped, so a line is always one line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines, without a line break at the end."""
        if (event := getattr(record, EVENT, None)) is not None:
            return line(event)
        events = getattr(record, EVENTS, ())
        return "\n".join([*map(line, events)] if events else [_dumped(_fields(record))])


def line(event: Event) -> str:
    """Return the event as one line of JSON."""
    return _dumped(event.fields)


def write_json(stream: TextIO | None = None) -> logging.Handler:
    """Write each event, and other loggers' warnings and errors, as JSON lines from now on; returns the handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    return handler


def stop_json(handler: logging.Handler) -> None:
    """End what `write_json` began."""
    logging.captureWarnings(capture=False)
    logging.getLogger(LOGGER).setLevel(OFF)
    logging.getLogger().removeHandler(handler)


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    time = dt.datetime.fromtimestamp(record.created, dt.UTC)
    fields: dict[str, object] = dict(Event(event="log", time=time, level=record.levelno).fields)
    meta = getattr(record, _DAGSTER, None)
    if isinstance(meta, Mapping):
        named = {"run": meta.get("run_id"), "job": meta.get("job_name"), "dagster_step": meta.get("step_key")}
        event = meta.get("dagster_event")
        named["dagster_event"] = getattr(event, "event_type_value", None)
        fields |= {name: value for name, value in named.items() if value is not None}
        message = str(meta.get("orig_message"))
    else:
        fields["logger"] = record.name
        message = record.getMessage()
    fields["message"] = message
    if record.exc_info and record.exc_info[1] is not None:
        fields["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
    return fields


def _dumped(fields: Mapping[str, object]) -> str:
    # ASCII: no separator of lines that only some programs know, and no byte that is not UTF-8.
    return json.dumps(fields, default=str)
