"""A dataclass that a command prints as JSON: the text after each field is its description in the JSON Schema.

From 1.0 on, a key is never removed, renamed or given another type within a major version; new ones may be added.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ConfigDict, Field, PlainSerializer, computed_field

from lake_assets.base.errors import text_of

AsText = PlainSerializer(str, return_type=str)
"""Marks a field whose value is its text in JSON."""

NotInJson = Field(exclude=True)
"""Marks a field that JSON leaves out."""

if TYPE_CHECKING:
    in_json = property
else:

    def in_json(getter: Any) -> Any:  # noqa: ANN401 - a decorator
        """Return a property that JSON has too, among the fields."""
        return computed_field(property(getter))


class Documented:
    """A document, or a part of one. Its subclasses are dataclasses."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = {
        "arbitrary_types_allowed": True,
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }


@dataclass(frozen=True, slots=True)
class Failure(Documented):
    """An error."""

    kind: str
    """Its class, such as `SchemaDriftError`, or `KeyboardInterrupt`."""
    message: str
    """What is wrong, where, and the fix; as on standard error."""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Return what JSON has of an error."""
        message = text_of(error) if isinstance(error, Exception) else "The command was interrupted."
        return cls(type(error).__name__, message)


AsFailure = PlainSerializer(Failure.of, return_type=Failure)
"""Marks a field with an error."""
