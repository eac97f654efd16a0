"""A dataclass that a command prints as JSON: the text after each field is its description in the JSON Schema.

From 1.0 on, a key is never removed, renamed or given another type within a major version; new ones may be added.
"""

from typing import ClassVar

from pydantic import ConfigDict, PlainSerializer

AsText = PlainSerializer(str, return_type=str)
"""Marks a field whose value is its text in JSON."""


class Documented:
    """A document, or a part of one. Its subclasses are dataclasses."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = {
        "arbitrary_types_allowed": True,
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }
