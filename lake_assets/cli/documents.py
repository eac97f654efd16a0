"""The JSON of `--format json`, a class for each command; `lake-assets schema COMMAND` prints its JSON Schema.

A key is never removed or given another type; new ones may be added.
"""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

import click

Form = Literal["text", "json"]

form_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the output."
)


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check; `hint` is how to fix it, or empty."""

    subject: str
    status: Literal["ok", "warning", "failed"]
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class DoctorDocument:
    """What `doctor` found; `failed` is the number of failed checks."""

    failed: int
    findings: list[DoctorFinding]


@dataclass(frozen=True, slots=True)
class ConfigColumn:
    """A partition column."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class ConfigStream:
    """A stream: where its files land, and the table that they become."""

    name: str
    source: str
    lake: str
    table: str
    partitions: list[ConfigColumn]


@dataclass(frozen=True, slots=True)
class ConfigLake:
    """A lake: locations without secrets."""

    name: str
    catalog: str
    storage: str


@dataclass(frozen=True, slots=True)
class ValidateDocument:
    """A valid config; of another one, `validate` prints the error on standard error, and its exit code is 1."""

    streams: list[ConfigStream]
    lakes: list[ConfigLake]


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was not deleted."""

    uri: str
    why: str


@dataclass(frozen=True, slots=True)
class CompactedPartition:
    """A partition that was compacted, or left as it is for the reason `left`. After a dry run no file is counted."""

    stream: str
    partition: str
    files_before: int
    bytes_before: int
    files_after: int | None
    bytes_after: int | None
    left: str | None


@dataclass(frozen=True, slots=True)
class MaintainedLake:
    """The maintenance of one lake; `maintain` prints an array of them."""

    lake: str
    dry_run: bool
    expired: list[int]
    deleted: list[str]
    orphans: list[str]
    bytes_deleted: int
    kept: list[KeptFile]
    waiting: list[str]
    ledger_rows_moved: int
    ledger_rows_deleted: int
    deltas_deleted: list[str]
    dead_letters_deleted: list[str]
    compacted: list[CompactedPartition]


Document = DoctorDocument | ValidateDocument

_OUTPUTS: Mapping[str, Any] = MappingProxyType(
    {"doctor": DoctorDocument, "maintain": list[MaintainedLake], "validate": ValidateDocument}
)
COMMANDS = tuple(_OUTPUTS)


def json_of(document: Document | MaintainedLake, indent: int | None = None) -> str:
    """The document as a JSON text."""
    return json.dumps(asdict(document), indent=indent)


def output_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's `--format json`, draft 2020-12."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(_OUTPUTS[command]).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
