"""What the documents share: the option, and how a document becomes a JSON text."""

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import click

Form = Literal["text", "json"]

form_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the output."
)


class Documented:
    """A part of a document. Its subclasses are dataclasses with a text after each field."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = MappingProxyType({"use_attribute_docstrings": True})


def json_of(document: Documented, indent: int | None = None) -> str:
    """The document as a JSON text; times as ISO 8601."""
    assert dataclasses.is_dataclass(document)  # noqa: S101 - for the type checker
    return json.dumps(dataclasses.asdict(document), indent=indent, default=dt.datetime.isoformat)
