"""What the documents share: the option, and how a document becomes a JSON text on standard output."""

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import click

from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import write_csv, write_json
from lake_assets.cli.terminal import echo

Form = Literal["text", "json"]

form_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the output."
)
json_option = click.option("--json", "form", flag_value="json", help="The same as --format json.")


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


def write_documents(documents: Iterable[Documented]) -> None:
    """Print an array of documents, one a line."""
    write_json(map(json_of, documents))


@contextmanager
def collected(form: Form) -> Iterator[list[Documented]]:
    """Documents that a block makes one after another, printed as an array when it ends.

    They are printed after an error too: what was done by then is done.

    Args:
        form: nothing is printed unless it is `json`.
    """
    documents: list[Documented] = []
    try:
        yield documents
    finally:
        if form == "json":
            write_documents(documents)


def write_csv_of(kind: type[Documented], documents: Iterable[Documented]) -> None:
    """Print documents of one kind as CSV: a column for each field; times as ISO 8601, NULL as an empty field."""
    assert dataclasses.is_dataclass(kind)  # noqa: S101 - for the type checker
    names = [field.name for field in dataclasses.fields(kind)]
    write_csv(names, ([_cell(getattr(document, name)) for name in names] for document in documents))


def _cell(value: object) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


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
