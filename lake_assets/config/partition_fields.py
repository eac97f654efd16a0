"""A partition column in the config: its type, its values and their source."""

import datetime as dt
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from lake_assets.config.fields import Date
from lake_assets.config.model import Model
from lake_assets.layout.hive import HIVE_NULL
from lake_assets.layout.partition import Empty, PartitionType
from lake_assets.layout.times import TIME_TYPES


def _day_is_date(value: object) -> object:
    return "date" if value == "day" else value


ColumnType = Annotated[
    PartitionType, BeforeValidator(_day_is_date, json_schema_input_type=PartitionType | Literal["day"])
]
KeyTime = Annotated[
    Literal["year", "month", "week", "date"],
    BeforeValidator(_day_is_date, json_schema_input_type=Literal["year", "month", "week", "date", "day"]),
]
LayoutColumn = Annotated[str, Field(min_length=1)]


class PartitionField(Model):
    """A partition column of a stream and its values."""

    type: ColumnType = Field("string", description="Type of the values; `day` is `date`.")
    values: tuple[str, ...] | None = Field(None, description="All values; discovered when absent.")
    start: Date | None = Field(None, description="First date, for types that are times.")
    end: Date | None = Field(None, description="Last date, for types that are times; today when absent.")
    keys: KeyTime | None = Field(
        None,
        description="Dagster's keys of a time: each `year`, `month`, `week` or `day` is one, and its run takes all "
        "partitions in it. Each partition is one when absent.",
    )
    source: LayoutColumn | None = Field(
        None,
        alias="from",
        description="Column that the values come from: of the layout, or with `in: rows` of the files.",
    )
    empty: Empty = Field("refuse", description="Meaning of an empty value in a path: an error, NULL, or a value.")
    exact: bool = Field(
        False,
        description="Whether a letter such as é and its decomposed form, as macOS writes names, are two values; else "
        "the composed one is the value of both. With `in: rows` and in mode index they are two.",
    )
    where: Literal["path", "rows"] = Field(
        "path",
        alias="in",
        description="Where a row's value is: in its object's path, or in this column of the rows.",
    )

    @field_validator("values", mode="before", json_schema_input_type=list[str | int | float] | None)
    @classmethod
    def _values_as_text(cls, values: object) -> object:
        if not isinstance(values, list):
            return values
        for value in values:
            # YAML reads `NO` as false; a region with that name must not become "False".
            if isinstance(value, bool):
                raise ValueError(f"{value} is a boolean in YAML: put the value in quotes, such as 'NO'")  # noqa: TRY004 - pydantic takes ValueError
            if isinstance(value, dt.datetime):
                raise ValueError(f"{value} is a time in YAML: put the value in quotes")  # noqa: TRY004 - as above
            if not isinstance(value, str | int | float | dt.date):
                raise ValueError(f"values must be texts or numbers: write each in quotes, and NULL as '{HIVE_NULL}'")  # noqa: TRY004 - as above
        return [str(value) for value in values]

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        is_time = self.type in TIME_TYPES
        if is_time and self.values is not None:
            raise ValueError(f"a {self.type} column takes start and end, not values: remove values")
        if is_time and self.start is None:
            raise ValueError(f"a {self.type} column needs start, the first date, such as 2026-01-01")
        if self.keys is not None and not (is_time and _parts(self.keys) < _parts(self.type)):
            coarser = ", ".join(name for name in TIME_TYPES if is_time and _parts(name) < _parts(self.type))
            raise ValueError(
                f"keys: {self.keys} joins times that are shorter than a {self.keys}, and the type is {self.type}: "
                + (f"write {coarser}, or remove it" if coarser else "remove it")
            )
        if self.empty != "refuse" and self.type != "string":
            raise ValueError(f"empty is for the type string, and a {self.type} has no empty value: remove it")
        if self.empty == "null" and self.where == "rows":
            raise ValueError("empty: null is for paths, and rows distinguish '' from NULL: write empty: value")
        if not is_time and (self.start or self.end):
            raise ValueError(f"start and end are for the types {', '.join(TIME_TYPES)}: write one, or remove them")
        if self.start and self.end and self.end < self.start:
            raise ValueError(f"end {self.end} is before start {self.start}: correct one of them")
        if self.values is not None and (not self.values or len(set(self.values)) < len(self.values)):
            raise ValueError("values must be at least one: write each once, or remove values")
        return self


def _parts(kind: str) -> int:
    """Return the number of parts of a time: 1 of a year, 4 of an hour."""
    return len(TIME_TYPES[kind].parts)
