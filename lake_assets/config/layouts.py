"""A stream's path template in the config: a text, or a mapping with its time zone and options."""

from functools import cached_property
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from lake_assets.config import editor_schema
from lake_assets.config.fields import short_for
from lake_assets.config.model import Model
from lake_assets.errors import LayoutError
from lake_assets.layout.template import Compat, Template


class LayoutOptions(Model):
    """A path template and how it is read; docs/layout.md has its grammar."""

    template: str = Field(min_length=1, max_length=1000, description="The path template.")
    time_zone: str = Field(
        "UTC",
        description="Time zone of the dates and hours in paths.",
        json_schema_extra=editor_schema.TIME_ZONE,
    )
    nested: bool = Field(default=False, description="A `/` in a value makes folders.")
    compat: Compat | None = Field(None, description="Read and write paths as this other system does.")

    @model_validator(mode="after")
    def _parses(self) -> Self:
        try:
            _ = self.parsed
        except LayoutError as error:
            raise ValueError(str(error)) from error
        return self

    @cached_property
    def parsed(self) -> Template:
        """The parsed template."""
        return Template.parse(self.template, time_zone=self.time_zone, nested=self.nested, compat=self.compat)


_Text = Annotated[str, Field(json_schema_extra=editor_schema.LAYOUT)]
Layout = Annotated[LayoutOptions, BeforeValidator(short_for("template"), json_schema_input_type=_Text | LayoutOptions)]
