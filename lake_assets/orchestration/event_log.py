"""Dagster's log of a run: its messages carry the run's events, so that a handler can write these as JSON.

The events are the attribute `lake_assets_events` of the message's record; `lake_assets.base.events.JsonFormatter`
writes a line for each. Dagster stores only the text of a message, so its UI shows the same with and without such a
handler.
"""

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import dagster as dg

from lake_assets.base.errors import TRANSIENT
from lake_assets.base.events import EVENTS, Event, listening
from lake_assets.base.texts import several

StepContext = dg.AssetExecutionContext | dg.OpExecutionContext
"""The context of a step: of an asset, or of an op."""


class EventLog:
    """Logs messages of a run together with the events since the last message.

    One message carries many events, because Dagster takes longer to store one than a small commit takes. Retries are a
    warning before it.
    """

    def __init__(self, log: dg.DagsterLogManager, run_id: str) -> None:
        self._log = log
        self._run_id = run_id
        self._events: list[Event] = []
        self._lock = threading.Lock()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Collect the events of the block, and log what is left of them at its end."""
        try:
            with listening(self._add):
                yield
        finally:
            self._flush()

    def info(self, text: str) -> None:
        """Log a message."""
        self._log.info(text, extra={EVENTS: self._take()})

    def error(self, text: str, exc_info: BaseException | None = None) -> None:
        """Log an error."""
        self._log.error(text, exc_info=exc_info, extra={EVENTS: self._take()})

    def _flush(self) -> None:
        if events := self._take():
            self._log.debug(str(events[-1]), extra={EVENTS: events})

    def _add(self, event: Event) -> None:
        if event.run == self._run_id and event.level >= logging.INFO:
            with self._lock:
                self._events.append(event)

    def _take(self) -> list[Event]:
        with self._lock:
            events, self._events = self._events, []
        if retries := _retries(events):
            self._log.warning("\n".join(retries))
        return events


def _retries(events: Sequence[Event]) -> list[str]:
    """Return a line for each reason of retries."""
    by_reason: dict[tuple[str | None, str | None], list[Event]] = {}
    for event in events:
        if event.event == "retry":
            by_reason.setdefault((event.kind, event.message), []).append(event)
    return [
        f"Retried{_times(len(of_reason))} ({kind}){_detail(message or _names(of_reason))}"
        for (kind, message), of_reason in by_reason.items()
    ]


def _times(number: int) -> str:
    return "" if number == 1 else f" {number:,} times"


def _names(events: Sequence[Event]) -> str:
    return several(sorted({event.partition for event in events if event.partition is not None}))


def _detail(text: str) -> str:
    return f": {text}" if text else ""


RETRIES = 2  # of a step without other errors
RETRY_SECONDS = 30  # before the first retry; twice as many before the second


def failure_or_retry(context: StepContext, failure: dg.Failure, errors: Collection[Exception]) -> dg.Failure:
    """Return the failure of a step by these errors.

    Raises dagster.RetryRequested if all of them are transient, and this was not the last retry. It is not a retry
    policy: with one, Dagster would also retry a run that somebody has cancelled.
    """
    retry = context.retry_number
    if retry < RETRIES and errors and all(isinstance(error, TRANSIENT) for error in errors):
        raise dg.RetryRequested(RETRIES, RETRY_SECONDS * 2**retry) from failure
    return failure
