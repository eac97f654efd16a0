"""The columns of a stream's table, as far as the config declares them."""

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Self

import pyarrow as pa
from pyarrow import types as t
from pydantic import BeforeValidator, Field, JsonValue, model_validator

from lake_assets.config.column_types import ColumnType, arrow_type, number_format, time_format
from lake_assets.config.fields import Model, as_text


def _as_json(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.date) else value


DefaultValue = Annotated[JsonValue, BeforeValidator(_as_json)]


class DeclaredColumn(Model):
    """A column of the table. The description alone is its short form."""

    type: ColumnType | None = Field(None, description="Its type in the table; that of the landed files when absent.")
    description: str | None = Field(None, description="A text, shown by Dagster; that in the landed files when absent.")
    source: str | None = Field(
        None, alias="from", min_length=1, description="Its name in the landed files, if it is another one."
    )
    omit: bool = Field(default=False, description="Landed files have it, and the table does not.")
    nullable: bool = Field(default=True, description="Whether a row may have no value of it.")
    default: DefaultValue = Field(None, description="The value of rows that have none.")
    format: str | None = Field(
        None, min_length=1, description="How texts are read as `type`: `#,##0.00`, or `%d.%m.%Y` as strptime has it."
    )

    @model_validator(mode="after")
    def _is_there_or_not(self) -> Self:
        if self.omit and len(self.rules) > 1:
            raise ValueError(f"omit leaves the column out: remove {', '.join(sorted(self.rules.keys() - {'omit'}))}")
        return self

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        kind = None if self.type is None else arrow_type(self.type)
        for key in ("default", "format"):
            if kind is None and getattr(self, key) is not None:
                raise ValueError(f"{key} needs the column's type: add type")
        if kind is None:
            return self
        if self.default is not None:
            default_value(self.default, kind)
        if self.format is not None and t.is_temporal(kind):
            time_format(self.format, kind)
        elif self.format is not None:
            if not (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)):
                raise ValueError(f"a text is read by a format as a number or a time, not as {self.type}: remove format")
            number_format(self.format)
        return self

    @property
    def rules(self) -> dict[str, Any]:
        """What a run reads of it: all but the description, as it is written."""
        return self.model_dump(by_alias=True, exclude={"description"}, exclude_defaults=True)


def default_value(value: JsonValue, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a config as a type; a text may be a number or a time. Another one is a ValueError."""
    try:
        if isinstance(value, list | dict) or t.is_nested(kind):
            return pa.scalar(value, kind)
        return pa.array([as_text(value)], pa.string()).cast(kind)[0]
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"default {value!r} is no {kind}: {error}") from error


def _described(value: object) -> object:
    return value if isinstance(value, dict | DeclaredColumn) else {"description": as_text(value)}


ColumnOrText = Annotated[
    DeclaredColumn, BeforeValidator(_described, json_schema_input_type=DeclaredColumn | str | bool | int | float | None)
]
DeclaredColumns = dict[str, ColumnOrText]


def overridden(columns: Mapping[str, Mapping[str, Any]], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a contract with those of a config: what these say of a column counts more."""
    names = {name.lower(): name for name in columns}
    merged: dict[str, Any] = {**columns}
    for name, column in own.items():
        of_contract = merged.pop(names.get(str(name).lower(), name), {})
        written = _described(column)
        merged[name] = {**of_contract, **written} if isinstance(written, dict) else written
    return merged


def column_problems(
    columns: Mapping[str, DeclaredColumn], decided_by: Mapping[str, str], sources: Collection[str]
) -> Iterator[str]:
    """Yield what is wrong with the declared columns of a stream.

    `decided_by` has the columns of the table whose values are not those of the landed files, each with the key of the
    config that decides them, and `sources` the landed columns that values of partitions come from; in lower case.
    """
    names: dict[str, str] = {}
    landed: dict[str, str] = {}
    for name, column in columns.items():
        if (earlier := names.setdefault(name.lower(), name)) != name:
            yield f"columns.{earlier} and columns.{name} differ only in the case of their letters: remove one of them"
        if name.lower() in decided_by and column.rules:
            yield (
                f"columns.{name} can have a description only, because {decided_by[name.lower()]} decides the rest: "
                f"remove {', '.join(column.rules)}"
            )
        given = (column.source or name).lower()
        if (column.source or column.omit) and given in sources:
            yield f"columns.{name}: partitions reads the landed column {given} by its name: remove from and omit"
        if column.source and (earlier := landed.setdefault(given, name)) != name:
            yield f"columns.{earlier} and columns.{name} are both from {column.source!r}: remove one of them"
