"""Field types that several models share: identifiers, secrets, sizes."""

import datetime as dt
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from lake_assets.config.editor_schema import VARIABLE
from lake_assets.errors import ConfigError
from lake_assets.layout.texts import is_unicode, shown

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDER = "folder"


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


def below(folder: Path) -> Mapping[str, Path]:
    """The context of a validation that makes relative paths absolute, from this folder.

    Raises:
        ConfigError: the folder's name is not UTF-8, and so the paths below it would not be.
    """
    if not is_unicode(str(folder)):
        raise ConfigError(
            f"the folder {shown(str(folder))} of the config is not UTF-8:", "rename it, or move the file."
        )
    return {_FOLDER: folder}


def _absolute(path: str, info: ValidationInfo) -> str:
    """The path from the folder of the validation's context; as it is where there is none."""
    try:
        whole = Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path!r} is in the home folder of a user who is not there: write the whole path") from error
    return str(info.context[_FOLDER] / whole) if info.context else path


_PART = "[A-Za-z0-9_.-]+"
_KEY_PART = re.compile(_PART)
_WRITTEN_PREFIX = (
    Annotated[str, Field(pattern=f"^{_PART}(/{_PART})*$")] | tuple[Annotated[str, Field(pattern=f"^{_PART}$")], ...]
)


def _split(value: object) -> object:
    return tuple(value.split("/")) if isinstance(value, str) else value


def check_key_prefix(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The parts, if Dagster takes them in an asset's key.

    Raises:
        ValueError: a part is empty, or has a character that no key has.
    """
    for part in parts:
        if not _KEY_PART.fullmatch(part):
            raise ValueError(
                f"{part!r} is not a part of an asset key: use letters, digits, underscores, hyphens and dots, as in "
                "retail/raw or [retail, raw]"
            )
    return parts


KeyPrefix = Annotated[
    tuple[str, ...],
    BeforeValidator(_split, json_schema_input_type=_WRITTEN_PREFIX),
    AfterValidator(check_key_prefix),
]
"""What asset keys begin with, as `retail/raw` or as a list."""

FolderPath = Annotated[str, Field(min_length=1), AfterValidator(_absolute)]
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
