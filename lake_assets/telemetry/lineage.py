"""Lineage of commits to an OpenLineage receiver. Importing it needs the extra `openlineage`."""

import datetime as dt
import logging
import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from openlineage.client.transport.console import ConsoleTransport

from lake_assets.errors import ConfigError
from lake_assets.events import Event, listening
from lake_assets.ingest.outcome import PartitionEnded
from lake_assets.streams.stream import OpenStream
from lake_assets.telemetry.lineage_events import events_of

STOP_SECONDS = 5.0  # for which the end of a run is delayed at most, if the receiver does not answer
PAUSE_SECONDS = 60.0  # without a try after the receiver has failed
_MOST = 10_000  # events that are not sent yet
_OWN = "OPENLINEAGE__"  # begins variables of the client's config

_LOG = logging.getLogger(__name__)


@contextmanager
def sent_lineage(stream: OpenStream, run: tuple[str, str] | None) -> Iterator[None]:
    """Send the lineage of partitions that end within the block, of the stream and of those released with it.

    `run` is as of `exports.lineage`.
    """
    sender, began = _Sender(_client()), dt.datetime.now(dt.UTC)
    streams = {one.name: one for one in (stream, *stream.companions)}

    def trace(event: Event) -> None:
        of_event = streams.get(event.stream or "")
        if not isinstance(event, PartitionEnded) or of_event is None or (run and event.run != run[0]):
            return
        try:
            events = events_of(of_event, event, began, run)
        except Exception as error:  # noqa: BLE001 - a missing event fails no run
            sender.warn(f"no event could be made of {event.outcome.partition}: {type(error).__name__}: {error}")
            return
        for sent in events:
            sender.send(sent)

    try:
        with listening(trace):
            yield
    finally:
        sender.stop()


def _client() -> OpenLineageClient:
    before = dict(os.environ)
    try:
        client = OpenLineageClient()
        kind = (client.config.transport or {}).get("type")
    except Exception as error:
        raise ConfigError(
            f"OpenLineage's client does not take its config ({type(error).__name__}: {error}):",
            "correct its variables or its file, or set OPENLINEAGE_DISABLED=true.",
        ) from error
    finally:
        # The client writes the URL and the key into variables of its own, which children would inherit.
        for name in os.environ.keys() - before.keys():
            if name.startswith(_OWN):
                del os.environ[name]
    if isinstance(client.transport, ConsoleTransport) and kind != "console":
        raise ConfigError(
            "OpenLineage's config names no receiver:",
            "set OPENLINEAGE_URL, or `transport`, or OPENLINEAGE_DISABLED=true.",
        )
    return client


class _Sender:
    """Sends events in a thread of its own, so that a receiver that is slow or away delays nothing but the end."""

    def __init__(self, client: OpenLineageClient) -> None:
        self._client = client
        self._events: queue.Queue[RunEvent | None] = queue.Queue(_MOST)
        self._paused_until = 0.0  # by the monotonic clock
        self._has_warned = False
        self._thread = threading.Thread(target=self._work, name="openlineage", daemon=True)
        # A client that cannot connect logs each of its tries.
        self._silenced = [logging.getLogger(name) for name in ("urllib3.connectionpool", "urllib3.util.retry")]
        for logger in self._silenced:
            logger.addFilter(self._is_of_others)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Send it as soon as the earlier ones are sent, without waiting for that."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self.warn(f"the receiver is slower than the commits, so {_MOST:,} events are unsent; others are dropped")

    def stop(self) -> None:
        """Send the remaining events, for some seconds at most."""
        deadline = time.monotonic() + STOP_SECONDS
        try:
            self._events.put(None, timeout=STOP_SECONDS)
        except queue.Full:
            deadline = 0.0
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self.warn(f"the receiver did not take all events within {STOP_SECONDS:g} s; the others are dropped")
            return  # the filter stays for the thread's last tries
        for logger in self._silenced:
            logger.removeFilter(self._is_of_others)

    def warn(self, text: str) -> None:
        """Log the first problem, and no other."""
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("OpenLineage: %s. The run goes on.", text)

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            if time.monotonic() < self._paused_until:
                continue
            try:
                self._client.emit(event)
            except Exception as error:  # noqa: BLE001 - any transport's own
                self._paused_until = time.monotonic() + PAUSE_SECONDS
                self.warn(f"an event could not be sent ({type(error).__name__}: {error})")
        try:
            self._client.close(STOP_SECONDS)
        except Exception as error:  # noqa: BLE001
            self.warn(f"the last events could not be sent ({type(error).__name__}: {error})")

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread.ident
