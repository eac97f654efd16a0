"""What a driver reports by Pipes, as JSON: its steps, the outcome of each partition, and at last the end of the run.

An error has the class, the text and the hint that it has in the driver's process, so that both read the same, and the
launcher's decision on a retry is that of a run in process. The listings of the objects are sent too, so that the checks
of the run need not list again.
"""

import base64
import dataclasses
import datetime as dt
import json
import traceback
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lake_assets import errors
from lake_assets.errors import LakeAssetsError
from lake_assets.events import Event
from lake_assets.ingest.partition_run import IngestResult, Outcome
from lake_assets.lake.catalog.preview import PartitionView
from lake_assets.lake.commit.deltas import DeltaFile
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, LedgerRow
from lake_assets.lake.schema.evolve import ColumnChange
from lake_assets.layout.partition import Partition
from lake_assets.parquet.job import LetterFile
from lake_assets.storage.manifest import LandedObject, Manifest

PART = 8_000  # characters of a message, or of a part of one: the log of a pod breaks lines of more than 16 KiB
OBJECTS = 100_000  # in the listings of a run that are sent; the checks of a larger run list again

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reported:
    """The outcome of one partition.

    Attributes:
        view: of the partition, if it has a result and can be read.
        has_listing: whether the manifest of its result has the objects.
    """

    outcome: Outcome
    view: PartitionView | None = None
    has_listing: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """The driver has reported all that it will.

    Attributes:
        error: that ended the run before all partitions had an outcome.
        is_cancelled: whether a signal ended the run.
    """

    error: Exception | None = None
    is_cancelled: bool = False


class DriverTracebackError(Exception):
    """The traceback of an error in the driver's process; Python and Dagster show it as the error's cause."""


def message_of(report: Reported | End | Event) -> Message:
    """The message for a report."""
    if isinstance(report, Event):
        return {"kind": "event", "fields": dict(report.fields)}
    if isinstance(report, End):
        return {"kind": "end", "error": _of_error(report.error), "is_cancelled": report.is_cancelled}
    outcome = report.outcome
    return {
        "kind": "outcome",
        "partition": outcome.partition.path,
        "result": None if outcome.result is None else _of_result(outcome.result, has_listing=report.has_listing),
        "error": _of_error(outcome.error),
        "view": None if report.view is None else dataclasses.asdict(report.view),
    }


def report_of(message: Message, partitions: Mapping[str, Partition]) -> Reported | End | Event:
    """The report of a message.

    Args:
        message: from a driver.
        partitions: those of the request by their paths.
    """
    if message["kind"] == "event":
        return Event.of_fields(message["fields"])
    error = _error(message["error"])
    if message["kind"] == "end":
        return End(error, message["is_cancelled"])
    written = message["result"]
    result = None if written is None else _result(written)
    view = None if message["view"] is None else _view(**message["view"])
    has_listing = written is None or written["objects"] is not None
    return Reported(Outcome(partitions[message["partition"]], result, error), view, has_listing)


def _of_result(result: IngestResult, *, has_listing: bool) -> Message:
    objects = [
        (landed.uri, landed.key, landed.etag, landed.size, landed.last_modified.isoformat())
        for landed in result.manifest.objects
    ]
    return {
        "objects": objects if has_listing else None,
        "row": {
            name: value.isoformat() if isinstance(value, dt.datetime) else value
            for name, value in dataclasses.asdict(result.row).items()
        },
        "left_out": dict(result.manifest.left_out),
        "destination": result.destination,
        "schema": None if result.schema is None else base64.b64encode(result.schema.serialize()).decode(),
        "seconds": dict(result.seconds),
        "changes": [dataclasses.asdict(change) for change in result.changes],
        "note": result.note,
        "not_copied": dict(result.not_copied),
        "letters": [dataclasses.asdict(letter) for letter in result.letters],
        "deltas": None if result.deltas is None else [dataclasses.asdict(file) for file in result.deltas],
    }


def _result(written: Message) -> IngestResult:
    row: Message = {
        name: dt.datetime.fromisoformat(value) if value and LEDGER_COLUMNS[name] == "TIMESTAMPTZ" else value
        for name, value in written["row"].items()
    }
    deltas, schema = written["deltas"], written["schema"]
    return IngestResult(
        row=LedgerRow(**row),
        manifest=Manifest(tuple(map(_object, written["objects"] or ())), written["left_out"]),
        destination=written["destination"],
        schema=None if schema is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))),
        seconds=written["seconds"],
        changes=tuple(ColumnChange(**change | {"path": tuple(change["path"])}) for change in written["changes"]),
        note=written["note"],
        not_copied=written["not_copied"],
        letters=[LetterFile(**letter) for letter in written["letters"]],
        deltas=None if deltas is None else [DeltaFile(**file) for file in deltas],
    )


def _object(written: Any) -> LandedObject:  # noqa: ANN401 - a list, in JSON
    uri, key, etag, size, modified = written
    return LandedObject(uri, key, etag, size, dt.datetime.fromisoformat(modified))


def _view(columns: Any, rows: int, preview: Any, descriptions: dict[str, str]) -> PartitionView:  # noqa: ANN401
    shown = None if preview is None else tuple(map(tuple, preview))
    return PartitionView(tuple((name, sql) for name, sql in columns), rows, shown, descriptions)  # lists, in JSON


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


def parts_of(message: Message, number: int) -> Iterator[Message]:
    """The message, or the parts of a long one.

    Args:
        message: of JSON's types.
        number: of the message among those of its driver.
    """
    text = json.dumps(message)
    if len(text) <= PART:
        yield message
        return
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    pieces = [packed[start : start + PART] for start in range(0, len(packed), PART)]
    for index, piece in enumerate(pieces):
        yield {"kind": "part", "message": number, "index": index, "of": len(pieces), "text": piece}


class Parts:
    """Takes messages and parts, and returns whole messages."""

    def __init__(self) -> None:
        self._pieces: dict[int, dict[int, str]] = {}

    def whole(self, message: Message) -> Message | None:
        """The message, or the one whose last missing part this is; None before."""
        if message["kind"] != "part":
            return message
        pieces = self._pieces.setdefault(message["message"], {})
        pieces[message["index"]] = message["text"]
        if len(pieces) < message["of"]:
            return None
        del self._pieces[message["message"]]
        packed = "".join(text for _, text in sorted(pieces.items()))
        whole: Message = json.loads(zlib.decompress(base64.b64decode(packed)))
        return whole
