"""What a driver reports by Pipes, as JSON: its steps, the outcome of each partition, and at last the end of the run.

An error has the class, the text and the hint that it has in the driver's process, so that both read the same, and the
launcher's decision on a retry is that of a run in process. The listings of the objects are sent too, so that the checks
of the run need not list again.
"""

import base64
import datetime as dt
import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from lake_assets import errors
from lake_assets.errors import LakeAssetsError
from lake_assets.events import Event
from lake_assets.ingest.outcome import Outcome
from lake_assets.layout.partition import Partition

OBJECTS = 100_000  # in the listings of a run that are sent; the checks of a larger run list again

Message = dict[str, Any]
_EVENT, _OUTCOME = TypeAdapter(Event), TypeAdapter(Outcome)


@dataclass(frozen=True, slots=True)
class End:
    """The driver has reported all that it will."""

    error: Exception | None = None  # that ended the run before all partitions had an outcome
    is_cancelled: bool = False  # whether a signal ended the run


class DriverTracebackError(Exception):
    """The traceback of an error in the driver's process; Python and Dagster show it as the error's cause."""


def message_of(report: Outcome | End | Event) -> Message:
    """Return the message for a report."""
    if isinstance(report, End):
        return {"kind": "end", "fields": {"error": _of_error(report.error), "is_cancelled": report.is_cancelled}}
    if isinstance(report, Event):
        return {"kind": "event", "fields": _plain(_EVENT.dump_python(report, exclude_none=True))}
    schema = None if report.schema is None else base64.b64encode(report.schema.serialize()).decode()
    fields = {"partition": report.partition.path, "schema": schema, "error": _of_error(report.error)}
    return {"kind": "outcome", "fields": _plain(_OUTCOME.dump_python(report, exclude=set(fields))) | fields}


def report_of(message: Message, partitions: Mapping[str, Partition]) -> Outcome | End | Event:
    """Return the report of a message."""
    fields = message["fields"]
    if message["kind"] == "event":
        return _EVENT.validate_python(fields)
    error = _error(fields["error"])
    if message["kind"] == "end":
        return End(error, fields["is_cancelled"])
    schema = fields["schema"] and pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"])))
    others = {"partition": partitions[fields["partition"]], "schema": schema, "error": error}
    return _OUTCOME.validate_python(fields | others)


def _plain(values: object) -> Message:
    """Return the values, of JSON's types. Pydantic's own JSON loses names of objects that are not UTF-8."""
    plain: Message = json.loads(json.dumps(values, default=dt.datetime.isoformat))
    return plain


def _of_error(error: Exception | None) -> Message | None:
    if error is None:
        return None
    if isinstance(error, LakeAssetsError):
        text = {"problem": error.problem, "hint": error.hint}
    else:
        text = {"text": str(error), "traceback": "".join(traceback.format_exception(error))}
    return {"type": type(error).__name__, "notes": list(getattr(error, "__notes__", ()))} | text


def _error(written: Message | None) -> Exception | None:
    if written is None:
        return None
    error: Exception
    if "problem" in written:
        known = getattr(errors, written["type"], LakeAssetsError)
        is_ours = isinstance(known, type) and issubclass(known, LakeAssetsError)
        error = (known if is_ours else LakeAssetsError)(written["problem"], written["hint"])
    else:
        # A bug, whose class this process need not have; its name is part of the text that people see.
        error = type(written["type"], (Exception,), {})(written["text"])
        error.__cause__ = DriverTracebackError(f"\n{written['traceback']}")
    for note in written["notes"]:
        error.add_note(note)
    return error
