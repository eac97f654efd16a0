"""Logs for programs: a JSON object a line, for each event of a run and each record of Python's logging."""

import datetime as dt
import json
import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Literal, TextIO

from lake_assets.events import EVENT, EVENTS, LOGGER, OFF, Event

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
