"""What the documents share: the option, and how a document becomes a JSON text on standard output."""

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import click

from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.terminal import echo

Form = Literal["text", "json"]

form_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the output."
)


class Documented:
    """A part of a document. Its subclasses are dataclasses with a text after each field."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }


def json_of(document: Documented, indent: int | None = None) -> str:
    """The document as a JSON text; times as ISO 8601."""
    assert dataclasses.is_dataclass(document)  # noqa: S101 - for the type checker
    return json.dumps(dataclasses.asdict(document), indent=indent, default=dt.datetime.isoformat)


@contextmanager
def documented(form: Form, make: Callable[[BaseException | None], Documented]) -> Iterator[None]:
    """Print the document of a block when it ends, also by an error, which is raised again.

    Args:
        form: nothing is printed unless it is `json`.
        make: returns the document, with the error.
    """
    try:
        yield
    except BaseException as error:
        if form == "json":
            # A library may have turned the interrupt into an error of its own.
            echo(json_of(make(KeyboardInterrupt() if interrupt.pressed else error), indent=1))
        raise
    if form == "json":
        echo(json_of(make(None), indent=1))
