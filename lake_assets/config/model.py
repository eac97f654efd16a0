"""The base of all models of the config, and variables that say yes or no."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator

from lake_assets.config.editor_schema import EditorSchema
from lake_assets.errors import ConfigError


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
