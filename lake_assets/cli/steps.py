"""The lines of `--verbose`: an event of a run a line, on standard error."""

import logging

from lake_assets.cli.terminal import echo, style
from lake_assets.escapes import visible_name
from lake_assets.events import EVENT, Event
from lake_assets.layout.texts import count, size

_COUNTED = {"partitions": "partition", "objects": "object", "files": "file", "rows": "row", "snapshots": "snapshot"}
_ENDED = ("committed", "skipped", "failed")
_PRINTED = frozenset({"error", "message"})  # printed without --verbose too


class StepLines(logging.Handler):
    """Prints the events of a run as lines for people."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the event of a record, if it has one."""
        event = getattr(record, EVENT, None)
        if event is None or event.event in _PRINTED:
            return
        try:
            echo(style(line_of(event), dim=True), err=True)
        except Exception:  # noqa: BLE001 - logging's way: a line that cannot be printed does not end the run
            self.handleError(record)


def line_of(event: Event) -> str:
    """Return one line: what happened, its seconds, where, and its figures."""
    name = event.step if event.event == "step" else event.event
    seconds = "" if event.seconds is None else f"{event.seconds:.3f} s"
    where = event.partition or event.stream or event.lake or event.host or ""
    figures = [
        event.mode if event.event == "run_started" else None,
        event.status,
        *(count(getattr(event, key), noun) for key, noun in _COUNTED.items() if getattr(event, key) is not None),
        None if event.bytes is None else size(event.bytes),
        None if event.snapshot is None else f"snapshot {event.snapshot}",
        *(f"{getattr(event, key):,} {key}" for key in _ENDED if getattr(event, key) is not None),
        None if event.retry is None else f"retry {event.retry}",
        event.kind,
        None if event.event == "partition" else event.message,  # the command prints the error of a partition
    ]
    texts = ", ".join(filter(None, figures))
    return f"{name:<11} {seconds:>9}  {'  '.join(filter(None, [visible_name(where), texts]))}".rstrip()
