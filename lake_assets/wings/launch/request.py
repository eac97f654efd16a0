"""What a launcher asks of a driver. It has no secret: the driver reads the config and its own environment."""

import base64
import datetime as dt
import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import pyarrow as pa
from pydantic import BaseModel, SecretStr, TypeAdapter

from lake_assets.base import errors
from lake_assets.base.errors import LakeAssetsError, LauncherError
from lake_assets.base.events import Event
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import CONFIG_MISSING, EmrServerless
from lake_assets.config.storages import AnyStorage
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.version import VERSION

OBJECTS = 100_000  # in the listings of a run that are sent; the checks of a larger run list again

PipesMessage = dict[str, Any]
_EVENT, _OUTCOME, _ANY = TypeAdapter(Event), TypeAdapter(Outcome), TypeAdapter[Any](Any)
_SENT = tuple(field.name for field in fields(Outcome))


@dataclass(frozen=True, slots=True)
class End:
    """The driver has reported all that it will."""

    error: Exception | None = None  # that ended the run before all partitions had an outcome
    is_cancelled: bool = False  # whether a signal ended the run


class DriverTracebackError(Exception):
    """The traceback of an error in the driver's process; Python and Dagster show it as the error's cause."""


def message_of(report: Outcome | End | Event) -> PipesMessage:
    """Return the message for a report."""
    if isinstance(report, End):
        return {"kind": "end", "fields": {"error": _error_message(report.error), "is_cancelled": report.is_cancelled}}
    if isinstance(report, Event):
        return {"kind": "event", "fields": _plain(_EVENT.dump_python(report, exclude_none=True))}
    schema = None if report.schema is None else base64.b64encode(report.schema.serialize()).decode()
    own = {"partition": report.partition.path, "schema": schema, "error": _error_message(report.error)}
    others = {name: getattr(report, name) for name in _SENT if name not in own}  # also what JSON of commands lacks
    return {"kind": "outcome", "fields": _plain(_ANY.dump_python(others)) | own}


def report_of(message: PipesMessage, partitions: Mapping[str, Partition]) -> Outcome | End | Event:
    """Return the report of a message."""
    sent = message["fields"]
    if message["kind"] == "event":
        return _EVENT.validate_python(sent)
    error = _error(sent["error"])
    if message["kind"] == "end":
        return End(error, sent["is_cancelled"])
    schema = sent["schema"] and pa.ipc.read_schema(pa.py_buffer(base64.b64decode(sent["schema"])))
    others = {"partition": partitions[sent["partition"]], "schema": schema, "error": error}
    return _OUTCOME.validate_python(sent | others)


def _plain(values: object) -> PipesMessage:
    """Return the values, of JSON's types. Pydantic's own JSON loses names of objects that are not UTF-8."""
    plain: PipesMessage = json.loads(json.dumps(values, default=dt.datetime.isoformat))
    return plain


def _error_message(error: Exception | None) -> PipesMessage | None:
    if error is None:
        return None
    if isinstance(error, LakeAssetsError):
        text = {"problem": error.problem, "hint": error.hint}
    else:
        text = {"text": str(error), "traceback": "".join(traceback.format_exception(error))}
    return {"type": type(error).__name__, "notes": list(getattr(error, "__notes__", ()))} | text


def _error(written: PipesMessage | None) -> Exception | None:
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


_LENGTH = 200  # of a value in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a driver is to do: partitions of a stream, and the options of `ingest_all`."""

    config: str  # path or URI of the config for the driver
    launcher_config: str  # path or URI of the launcher's config, for messages
    launcher: str
    stream: str
    facts: dict[str, str]  # those of the stream in the launcher's config
    partitions: Sequence[str]
    options: IngestOptions
    version: str = VERSION  # of the package that made the request

    @classmethod
    def of(cls, config: LakeConfig, stream: str, partitions: Sequence[Partition], options: IngestOptions) -> Self:
        """Return the request for these partitions of a stream.

        Raises LauncherError if the config is not that of a file, or the driver's place of it is not known.
        """
        return cls(
            config=_config_place(config),
            launcher_config=str(config.file or config.uri or "of Python"),
            launcher=config.runs.launcher,
            stream=stream,
            facts=facts_of(config, stream),
            partitions=[partition.path for partition in partitions],
            options=options,
        )

    @classmethod
    def of_extras(cls, extras: Mapping[str, Any]) -> Self:
        """Return the request that a launcher sent. One of another version of this package is refused."""
        if (theirs := extras.get("version")) != VERSION:
            raise LauncherError(
                f"the driver has lake-assets {VERSION}, and the run's launcher has {theirs}:",
                "install the same version for both.",
            )
        return TypeAdapter(cls).validate_python(extras)

    def check_same(self, config: LakeConfig) -> None:
        """Refuse the driver's config if its stream is another one than the launcher's.

        Credentials, and the address of a catalog, may differ: the driver can have others for the same places.
        """
        if self.stream not in config.streams:
            raise LauncherError(
                f"the launcher's config {self.launcher_config} has the stream {self.stream}, and the driver's "
                f"{self.config} has not:",
                "copy the launcher's config to the driver's place.",
            )
        own = facts_of(config, self.stream)
        for key in sorted(self.facts.keys() | own.keys()):
            if self.facts.get(key) != own.get(key):
                raise LauncherError(
                    f"{key} is {_shown(self.facts.get(key))} in the launcher's config {self.launcher_config}, and "
                    f"{_shown(own.get(key))} in the driver's {self.config}:",
                    "copy the launcher's config to the driver's place, and reload the code location if that is newer.",
                )

    @property
    def extras(self) -> dict[str, Any]:
        """The request as Pipes sends it, of JSON's types."""
        extras: dict[str, Any] = TypeAdapter(type(self)).dump_python(self, mode="json")
        return extras


def _config_place(config: LakeConfig) -> str:
    if isinstance(config.runs, EmrServerless):
        if place := config.runs.config or config.uri:
            return place
        raise LauncherError(f"{CONFIG_MISSING[0]}:", f"{CONFIG_MISSING[1]}.")
    if own := config.file or config.uri:
        return str(own)
    raise LauncherError(
        "the launcher starts a driver that reads the config's file, and this config is not of a file:",
        "write the config to a file such as lake.yaml, and load that.",
    )


def facts_of(config: LakeConfig, stream: str) -> dict[str, str]:
    """Return the facts of a stream and its lake by their keys, without secrets."""
    lake = config.lake_name(stream)
    of_lake = config.lakes[lake]
    facts = dict(_facts(config.streams[stream], f"streams.{stream}"))
    facts |= _facts(of_lake, f"lakes.{lake}")
    facts |= {f"lakes.{lake}.catalog.type": of_lake.catalog.type, f"streams.{stream}.lake": lake}
    if (database := getattr(of_lake.catalog, "database", None)) is not None:
        facts[f"lakes.{lake}.catalog.database"] = str(database)
    return facts


def _facts(value: object, key: str) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, SecretStr):
        return
    if isinstance(value, AnyStorage):
        yield key, value.root
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if not (isinstance(value, Lake) and name == "catalog"):
                yield from _facts(getattr(value, name), f"{key}.{name}")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _facts(item, f"{key}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _facts(item, f"{key}[{index}]")
    else:
        yield key, str(value)


def _shown(value: str | None) -> str:
    if value is None:
        return "absent"
    return repr(value) if len(value) <= _LENGTH else f"{value[:_LENGTH]!r}…"
