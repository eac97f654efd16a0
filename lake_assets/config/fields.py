"""Field types that several models share: identifiers, paths, dates, sizes, short forms."""

import datetime as dt
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lake_assets.base.errors import ConfigError
from lake_assets.base.texts import is_unicode, shown
from lake_assets.config.editor_schema import VARIABLE, EditorSchema


class LocatedError(ValueError):
    """Two parts of the config contradict each other; `location` is the key of one of them."""

    def __init__(self, text: str, *location: str) -> None:
        super().__init__(text)
        self.location = location


class Model(BaseModel):
    """Base of all models: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's signature
        """Return the JSON Schema, for editors and for Dagster."""
        return super().model_json_schema(*args, **{"schema_generator": EditorSchema} | kwargs)

    @model_validator(mode="before")
    @classmethod
    def _no_boolean_is_a_number(cls, data: object) -> object:
        """YAML reads `yes` as true, and pydantic reads true as 1: refuse it, as a text."""
        if not isinstance(data, dict) or not any(isinstance(value, bool) for value in data.values()):
            return data
        numbers = _number_keys(cls)
        return {
            key: str(value).lower() if isinstance(value, bool) and key in numbers else value
            for key, value in data.items()
        }


@cache
def _number_keys(model: type[Model]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items() if _is_number(field.annotation))


def _is_number(annotation: Any) -> bool:  # noqa: ANN401 - any type
    types = [
        get_args(part)[0] if get_origin(part) is Annotated else part for part in get_args(annotation) or (annotation,)
    ]
    return bool not in types and any(isinstance(t, type) and issubclass(t, int | float) for t in types)


_TRUE, _FALSE = frozenset({"1", "true", "t", "yes", "y", "on"}), frozenset({"0", "false", "f", "no", "n", "off"})


def is_true(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return whether a variable says yes, in any case and with blanks around it; the default if it is empty.

    Neither yes nor no is a ConfigError.
    """
    value = environment.get(name, "").strip().lower()
    if not value:
        return default
    if value not in _TRUE | _FALSE:
        raise ConfigError(
            f"{name} is {environment[name]!r}:", "set it to true, 1, yes or on, or to false, 0, no or off."
        )
    return value in _TRUE


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDER, _ENVIRONMENT = "folder", "environment"

TEMPLATE = "{{"
"""The begin of a template of Dagster in a component's attribute, whose value comes later."""


def check_identifier(value: str) -> str:
    """Return the value, if it is an identifier; raises ValueError otherwise."""
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError(
            f"{value!r} is not an identifier: use letters, digits and underscores, not beginning with a digit"
        )
    return value


Identifier = Annotated[
    str, AfterValidator(check_identifier), Field(json_schema_extra={"pattern": rf"{VARIABLE}|^[A-Za-z_][A-Za-z0-9_]*$"})
]


def short_for(key: str) -> Callable[[object], object]:
    """Return a validator that reads a text as the mapping with this one key."""
    return lambda value: {key: value} if isinstance(value, str) else value


def validation_context(folder: Path | None, environment: Mapping[str, str] = os.environ) -> Mapping[str, Any]:
    """Return the validation context of a config; without a folder, relative paths are refused.

    The environment has the variables that complete a bucket.
    """
    if folder is not None and not is_unicode(str(folder)):
        raise ConfigError(
            f"the folder {shown(str(folder))} of the config is not UTF-8:", "rename it, or move the file."
        )
    return {_FOLDER: folder, _ENVIRONMENT: environment}


def folder_of(info: ValidationInfo) -> Path | None:
    """Return the folder of the validation context `validation_context`; None without one."""
    folder: Path | None = info.context[_FOLDER] if info.context else None
    return folder


def environment_of(info: ValidationInfo) -> Mapping[str, str]:
    """Return the variables of the validation context `validation_context`; those of this process without one."""
    environment: Mapping[str, str] = info.context[_ENVIRONMENT] if info.context else os.environ
    return environment


def _absolute(path: str, info: ValidationInfo) -> str:
    """Return the absolute path, relative to the folder in the validation context; unchanged without a context."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path!r} is in the home folder of an unknown user: write the whole path") from error
    if not info.context:
        return path
    folder = folder_of(info)
    if folder is None and not expanded.is_absolute():
        raise ValueError(
            f"{path!r} is a relative path, and a config that is read from a URI has no folder: write the whole path, "
            "or the URI of a bucket"
        )
    return str(expanded if folder is None else folder / expanded)


FolderPath = Annotated[str, Field(min_length=1), AfterValidator(_absolute)]
"""A path of this machine; `~` is the user's home folder."""

_PART = "[A-Za-z0-9_.-]+"
_WRITTEN_PREFIX = (
    Annotated[str, Field(pattern=f"^{_PART}(/{_PART})*$")] | tuple[Annotated[str, Field(pattern=f"^{_PART}$")], ...]
)


def _split(value: object) -> object:
    return tuple(value.split("/")) if isinstance(value, str) else value


def _check_key_prefix(parts: tuple[str, ...]) -> tuple[str, ...]:
    for part in parts:
        if not re.fullmatch(_PART, part):
            raise ValueError(
                f"{part!r} is not a part of an asset key: use letters, digits, underscores, hyphens and dots, as in "
                "retail/raw or [retail, raw]"
            )
    return parts


KeyPrefix = Annotated[
    tuple[str, ...], BeforeValidator(_split, json_schema_input_type=_WRITTEN_PREFIX), AfterValidator(_check_key_prefix)
]
"""The first parts of asset keys, as `retail/raw` or as a list."""


def _check_owner(owner: str) -> str:
    if not owner.startswith("team:") and "@" not in owner:
        raise ValueError(f"owner {owner!r} is neither an e-mail address nor of the form team:name")
    return owner


Owner = Annotated[str, AfterValidator(_check_owner)]
"""An owner of an asset in Dagster."""


def _check_date(value: object) -> object:
    # Pydantic reads numbers as seconds since 1970.
    if isinstance(value, int | float) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit()):
        raise PydanticCustomError("date_type", "not a date")
    return value


Date = Annotated[dt.date, BeforeValidator(_check_date)]
"""A date, written as 2026-01-31."""


def size_between(least: int, most: int, limits: str) -> Callable[[ByteSize], ByteSize]:
    """Return a validator that refuses other sizes; `limits` are the end of its error."""

    def check(size: ByteSize) -> ByteSize:
        if not least <= size <= most:
            raise ValueError(f"{size.human_readable()} is outside {limits}")
        return size

    return check


FileSize = Annotated[
    ByteSize, AfterValidator(size_between(2**20, 2**32, "1 MiB to 4 GiB: 128MiB to 512MiB are good for most tables"))
]
"""The target size of data files."""

TableReference = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)?$")]
"""A table of a lake, `stores` or `schema.stores`."""

CommitBatch = Annotated[int, Field(ge=1, le=200)] | Literal["auto"]
"""The most partitions of a commit; at most those of a Spark job."""


def as_text(value: object) -> object:
    """Return a number or boolean as a text: Spark and Dagster accept only texts, and YAML reads `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


def _as_texts(value: object) -> object:
    return {name: as_text(item) for name, item in value.items()} if isinstance(value, dict) else value


TextsByKey = Annotated[
    dict[str, str], BeforeValidator(_as_texts, json_schema_input_type=dict[str, str | bool | int | float])
]
"""Texts by name; numbers and booleans become texts."""
