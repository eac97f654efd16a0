"""The page of all keys of the config, from the pydantic models."""

import re
import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ByteSize, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lake_assets.config import (
    automation,
    column_types,
    columns,
    connections,
    defaults,
    fields,
    partitions,
    sections,
    storages,
    uris,
)

_NAMED: tuple[tuple[object, str], ...] = (
    (defaults.Defaults, "keys of a [stream](#stream)"),
    (fields.Identifier, "identifier"),
    (fields.FolderPath, "path"),
    (fields.Date, "date"),
    (fields.FileSize, "size"),
    (fields.KeyPrefix, "asset key prefix"),
    (fields.TableReference, "table"),
    (fields.TextsByKey, "mapping of text"),
    (sections.Bytes, "size"),
    (connections.PartSize, "size"),
    (column_types.ColumnType, "column type"),
    (columns.DefaultValue, "value"),
    (partitions.LayoutColumn, "column of the layout"),
    (automation.Cron, "cron schedule"),
    (automation.TimeZone, "time zone"),
    (automation.Age, "hours"),
    (uris.S3Folder, "URI of S3"),
    (uris.S3Object, "URI of S3"),
    (uris.DriverPath, "path or URI"),
    (storages.Prefix, "text"),
)
_SHORT: tuple[tuple[object, str], ...] = (
    (automation.ScheduleOrCron, "cron schedule"),
    (automation.AutomationOrCron, "cron schedule"),
    (columns.ColumnOrText, "description"),
    (sections.Layout, "template"),
    (storages.Storage, "path or URI"),
    (storages.Source, "path, URI or glob"),
)
"""Types that have a short form: a text in place of the mapping."""

_PLAIN: Mapping[object, str] = {
    str: "text", int: "integer", float: "number", bool: "boolean", SecretStr: "secret text", ByteSize: "size",
}  # fmt: skip

_PROPER: Mapping[str, str] = {
    "Azure": "Azure",
    "Duckdb": "DuckDB",
    "Emr": "EMR",
    "Gcs": "Google Cloud",
    "Motherduck": "MotherDuck",
    "Postgres": "PostgreSQL",
    "R2": "R2",
    "S3": "S3",
    "Sqlite": "SQLite",
    "Sqs": "SQS",
}
"""Names that begin a model's name, as their owners write them."""

_INTRODUCTION = """# Config reference

    lake-assets validate
    lake-assets schema > lake.schema.json

All keys of `lake.yaml`. Unknown keys are errors. [The config](../config.md) explains how the keys work together.

| type | written as |
|---|---|
| identifier | letters, digits and underscores; the first is not a digit |
| path | a path of this machine; a relative one is relative to the config file |
| size | bytes, or a number with a unit: `256MiB` |
| date | `2026-01-31` |
| cron schedule | five fields, `15 6 * * *`, or a word such as `@daily` |
| time zone | a name of the IANA database: `Europe/Berlin` |
| secret text | text that is never shown or logged; `${NAME}` takes it from the environment |
"""


def config_page(root: type[BaseModel]) -> str:
    """The Markdown of the config's reference.

    Args:
        root: the model of the whole file.
    """
    parts = [_INTRODUCTION, *(_section(model) for model in _models(root))]
    return "\n".join(parts)


def _models(root: type[BaseModel]) -> list[type[BaseModel]]:
    """The models of the config, each after the one that first refers to it."""
    found = [root]
    for model in found:
        for name in model.model_fields:
            found += [other for other in _inner(_hints(model)[name]) if other not in found]
    return found


def _inner(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _inner(argument)


def _hints(model: type[BaseModel]) -> dict[str, Any]:
    return get_type_hints(model, include_extras=True)


def title(model: type[BaseModel]) -> str:
    """The heading of a model: its name in words, such as "Object sensor"."""
    if model.__name__ == "LakeConfig":
        return "The file"
    first, *rest = re.split(r"(?<=[a-z0-9])(?=[A-Z])", model.__name__.replace("MotherDuck", "Motherduck"))
    return " ".join([_PROPER.get(first, first), *(word.lower() for word in rest)])


def _link(model: type[BaseModel]) -> str:
    name = title(model)
    shown = name if name.partition(" ")[0] in _PROPER.values() else name.lower()
    return f"[{shown}](#{name.lower().replace(' ', '-')})"


def _section(model: type[BaseModel]) -> str:
    hints = _hints(model)
    rows = [_row(field.alias or name, field, hints[name]) for name, field in model.model_fields.items()]
    about = (model.__doc__ or "").strip()
    head = ["| key | type | default | description |", "|---|---|---|---|"]
    return "\n".join([f"## {title(model)}", "", *(line.strip() for line in about.splitlines()), "", *head, *rows, ""])


def _row(key: str, field: FieldInfo, annotation: object) -> str:
    description = _description(field)
    if key == "type" and get_origin(annotation) is Literal:
        description = description or "Says that the mapping is of this kind."
    cells = (f"`{key}`", _type(annotation), _default(field), description)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _description(field: FieldInfo) -> str:
    limits = []
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        limits += [f"{words} {getattr(m, name):,}" for m in field.metadata if getattr(m, name, None) is not None]
    text = " ".join((field.description or "").split()).replace("<", "&lt;")
    return f"{text} {', '.join(limits).capitalize()}.".strip() if limits else text


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined or default in (None, (), {}, "") or isinstance(default, BaseModel):
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`[{', '.join(map(str, default))}]`" if isinstance(default, tuple) else f"`{default}`"


def _type(annotation: Any) -> str:  # noqa: ANN401 - any type
    for known, name in _NAMED:
        if annotation is known or annotation == known:
            return name
    for known, name in _SHORT:
        if annotation is known:
            return f"{name}, or {_type(get_args(annotation)[0])}"
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _link(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    is_enum = isinstance(annotation, type) and issubclass(annotation, StrEnum)
    if origin is Literal or is_enum:
        *first, last = (f"`{value}`" for value in (annotation if is_enum else arguments))
        return f"{', '.join(first)} or {last}" if first else last
    if origin in (Union, types.UnionType):
        names = [_type(argument) for argument in arguments if argument is not type(None)]
        return " or ".join(dict.fromkeys(names))
    if origin is dict:
        return f"mapping of {_type(arguments[0])} to {_type(arguments[1])}"
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    raise TypeError(f"the config reference has no words for {annotation!r}")
