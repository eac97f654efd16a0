"""Field types that several models share: identifiers, secrets, sizes."""

import datetime as dt
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field
from pydantic_core import PydanticCustomError

from lake_assets.config.editor_schema import VARIABLE

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_identifier(value: str) -> str:
    """The value, if it is an identifier that may stand in a statement.

    Raises:
        ValueError: it is not of the form `^[A-Za-z_][A-Za-z0-9_]*$`.
    """
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError(
            f"{value!r} is not an identifier: use letters, digits and underscores, not beginning with a digit"
        )
    return value


Identifier = Annotated[
    str,
    AfterValidator(check_identifier),
    Field(json_schema_extra={"pattern": rf"{VARIABLE}|^[A-Za-z_][A-Za-z0-9_]*$"}),
]


def _check_home(path: str) -> str:
    try:
        Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path!r} is in the home folder of a user who is not there: write the whole path") from error
    return path


FolderPath = Annotated[str, Field(min_length=1), AfterValidator(_check_home)]
"""A path of this machine; `~` is the user's home folder."""


def _check_date(value: object) -> object:
    # Pydantic takes numbers for seconds since 1970.
    if isinstance(value, int | float) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit()):
        raise PydanticCustomError("date_type", "not a date")
    return value


Date = Annotated[dt.date, BeforeValidator(_check_date)]
"""A date, written as 2026-01-31."""


def check_file_size(value: ByteSize) -> ByteSize:
    """The value, if a data file may aim at it.

    Raises:
        ValueError: it is outside 1 MiB to 4 GiB.
    """
    if not 2**20 <= value <= 2**32:
        raise ValueError(f"{value.human_readable()} is outside 1 MiB to 4 GiB: 128MiB to 512MiB serve most tables")
    return value


def _as_texts(value: object) -> object:
    """A mapping with its numbers and booleans as text: Spark and Dagster take nothing else, and YAML reads `true`."""
    if not isinstance(value, dict):
        return value
    return {
        name: str(item).lower() if isinstance(item, bool) else str(item) if isinstance(item, int | float) else item
        for name, item in value.items()
    }


Texts = Annotated[
    dict[str, str], BeforeValidator(_as_texts, json_schema_input_type=dict[str, str | bool | int | float])
]
"""Texts by name; numbers and booleans are taken as texts."""

FileSize = Annotated[ByteSize, AfterValidator(check_file_size)]
