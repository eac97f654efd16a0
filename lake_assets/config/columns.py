"""The columns of a stream's table, as far as the config declares them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Self

import pyarrow as pa
from pyarrow import types as t
from pydantic import BeforeValidator, Field, model_validator

from lake_assets.config.column_types import ColumnType, arrow_type
from lake_assets.config.fields import as_text
from lake_assets.config.formats import JsonFormat, LandedFormat, TextFormat
from lake_assets.config.model import Model
from lake_assets.config.modes import Mode


class Column(Model):
    """A column of the table. The description alone is its short form."""

    type: ColumnType | None = Field(None, description="Its type in the table; that of the landed files when absent.")
    description: str | None = Field(None, description="A text, shown by Dagster; that in the landed files when absent.")
    source: str | None = Field(
        None, alias="from", min_length=1, description="Its name in the landed files, if it is another one."
    )
    omit: bool = Field(default=False, description="Landed files have it, and the table does not.")

    @model_validator(mode="after")
    def _is_there_or_not(self) -> Self:
        if self.omit and len(self.rules) > 1:
            raise ValueError(f"omit leaves the column out: remove {', '.join(sorted(self.rules.keys() - {'omit'}))}")
        return self

    @property
    def rules(self) -> dict[str, Any]:
        """What a run reads of it: all but the description, as it is written."""
        return self.model_dump(by_alias=True, exclude={"description"}, exclude_defaults=True)


def _described(value: object) -> object:
    return value if isinstance(value, dict | Column) else {"description": as_text(value)}


ColumnOrText = Annotated[
    Column, BeforeValidator(_described, json_schema_input_type=Column | str | bool | int | float | None)
]
Columns = dict[str, ColumnOrText]


def column_problems(
    columns: Mapping[str, Column], others: Mapping[str, str], sources: Collection[str], form: LandedFormat, mode: Mode
) -> Iterator[str]:
    """Yield what is wrong with the declared columns of a stream.

    Args:
        columns: by their names in the table.
        others: the columns of the table whose values are not those of the landed files, each with the key of the
            config that it is of; in lower case.
        sources: the landed columns that values of partitions come from, in lower case.
        form: of the landed files.
        mode: of the stream.
    """
    names: dict[str, str] = {}
    landed: dict[str, str] = {}
    for name, column in columns.items():
        if (other := names.setdefault(name.lower(), name)) != name:
            yield f"columns.{other} and columns.{name} differ only in the case of their letters: remove one of them"
        if name.lower() in others and column.rules:
            yield (
                f"columns.{name} can have a description only, because {others[name.lower()]} decides the rest: "
                f"remove {', '.join(column.rules)}"
            )
        given = (column.source or name).lower()
        if (column.source or column.omit) and given in sources:
            yield f"columns.{name}: partitions reads the landed column {given} by its name: remove from and omit"
        if column.source and (other := landed.setdefault(given, name)) != name:
            yield f"columns.{other} and columns.{name} are both from {column.source!r}: remove one of them"
        if mode == "index" and (refused := ", ".join(column.rules.keys() - {"type"})):
            yield f"columns.{name}: mode: index registers files as they are: remove {refused}, or use mode: replace"
        if column.type is not None and not _is_read(arrow_type(column.type), form):
            yield (
                f"columns.{name}.type: {column.type} is not read from {form.type}: declare string, and cast it in a "
                "transform"
            )


def _is_read(kind: pa.DataType, form: LandedFormat) -> bool:
    """Return whether the values of texts can be read as a type; other formats have types of their own."""
    if not isinstance(form, TextFormat):
        return True
    if t.is_list(kind) and isinstance(form, JsonFormat):
        return _is_read(kind.value_type, form)
    if t.is_struct(kind) and isinstance(form, JsonFormat):
        return all(_is_read(field.type, form) for field in kind)
    return not (t.is_nested(kind) or t.is_time(kind) or isinstance(kind, pa.BaseExtensionType))
