"""A stream's path template in the config: its text alone, or with the time zone and the switches that go with it."""

from functools import cached_property
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from lake_assets.config import editor_schema
from lake_assets.config.model import Model
from lake_assets.errors import LayoutError
from lake_assets.layout.template import Compat, Template


class LayoutOptions(Model):
    """A path template and how it is read; docs/layout.md has its grammar."""

    template: str = Field(min_length=1, max_length=1000, description="The path template.")
    time_zone: str = Field(
        "UTC",
        description="IANA name of the zone whose clock gives the path's dates and hours.",
        json_schema_extra=editor_schema.TIME_ZONE,
    )
    nested: bool = Field(default=False, description="A `/` in a value makes folders.")
    compat: Compat | None = Field(None, description="Whose paths are read and written, if another system's.")

    @model_validator(mode="after")
    def _parses(self) -> Self:
        try:
            _ = self.parsed
        except LayoutError as error:
            raise ValueError(str(error)) from error
        return self

    @cached_property
    def parsed(self) -> Template:
        """The template, read."""
        return Template.parse(self.template, time_zone=self.time_zone, nested=self.nested, compat=self.compat)


def _from_text(value: object) -> object:
    """The text alone is short for the mapping."""
    return {"template": value} if isinstance(value, str) else value


_Text = Annotated[str, Field(json_schema_extra=editor_schema.LAYOUT)]
Layout = Annotated[LayoutOptions, BeforeValidator(_from_text, json_schema_input_type=_Text | LayoutOptions)]
