"""The JSON Schema of the config, for editors and `dg check yaml`; it is generated from the models.

It accepts every form in which a value may be written. A text with a variable, `${NAME}` in `lake.yaml` or
`{{ env.NAME }}` in a `defs.yaml`, may replace any single value. A number, a date or a boolean may be in quotes.
"""

# ruff: noqa: D102 - pydantic names the methods after the types whose schema they return

from typing import Any

import pendulum
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema as core

VARIABLE = r"\$\{|\{\{"
"""The beginning of a variable, anywhere in a text."""

_FIELD = r"(?:\s*'(?:[^']|'')*'\s*|[^,{}]*)"
_GRANULARITY = r"\s*(?:YYYY|YY|MM|WW|DD|HH)?\s*"

TIME_ZONE: dict[str, Any] = {"anyOf": [{"enum": sorted(pendulum.timezones())}, {"pattern": VARIABLE}]}
"""One of the names of IANA's database."""

# Placeholders of one to three fields, and no other brackets. Not checked: empty names, the rules for `now()`, and the
# text between two values.
LAYOUT: dict[str, Any] = {
    "pattern": rf"{VARIABLE}|^(?:[^{{}}\\*?\[\]]|\{{{_FIELD}(?:,{_FIELD}(?:,{_GRANULARITY})?)?\}})+$"
}
"""A path template, as far as a regular expression can check it."""

_WITH_VARIABLE: JsonSchemaValue = {"type": "string", "pattern": VARIABLE}
_NUMBER_IN_QUOTES: JsonSchemaValue = {"type": "string", "pattern": rf"{VARIABLE}|[0-9]"}
_DATE_IN_QUOTES = rf"{VARIABLE}|^\s*[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"
_BOOLEANS = ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0")  # as pydantic takes them


def _in_any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


_BOOLEAN_IN_QUOTES: JsonSchemaValue = {
    "type": "string",
    "pattern": rf"{VARIABLE}|^({'|'.join(map(_in_any_case, _BOOLEANS))})$",
}


class EditorSchema(GenerateJsonSchema):
    """Pydantic's schema, extended by every form in which a value may be written: in quotes, or as a variable."""

    def int_schema(self, schema: core.IntSchema) -> JsonSchemaValue:
        return {"anyOf": [super().int_schema(schema), _NUMBER_IN_QUOTES]}

    def float_schema(self, schema: core.FloatSchema) -> JsonSchemaValue:
        return {"anyOf": [super().float_schema(schema), _NUMBER_IN_QUOTES]}

    def bool_schema(self, schema: core.BoolSchema) -> JsonSchemaValue:
        return {"anyOf": [super().bool_schema(schema), {"enum": [0, 1]}, _BOOLEAN_IN_QUOTES]}

    def date_schema(self, schema: core.DateSchema) -> JsonSchemaValue:
        return {**super().date_schema(schema), "pattern": _DATE_IN_QUOTES}

    def literal_schema(self, schema: core.LiteralSchema) -> JsonSchemaValue:
        return {"anyOf": [super().literal_schema(schema), _WITH_VARIABLE]}

    def enum_schema(self, schema: core.EnumSchema) -> JsonSchemaValue:
        return {"anyOf": [super().enum_schema(schema), _WITH_VARIABLE]}

    def str_schema(self, schema: core.StringSchema) -> JsonSchemaValue:
        result = super().str_schema(schema)
        return result | {"pattern": f"{VARIABLE}|{result['pattern']}"} if "pattern" in result else result

    def tagged_union_schema(self, schema: core.TaggedUnionSchema) -> JsonSchemaValue:
        result = super().tagged_union_schema(schema)
        return {"anyOf": result["oneOf"]} if "oneOf" in result else result
