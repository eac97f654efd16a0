"""`defaults`: the keys that streams share. A stream's own keys override them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import WithJsonSchema

from lake_assets.config.document import MAX_VALUES
from lake_assets.config.fields import LocatedError

STREAM = "{stream}"
"""In a text of the defaults: the name of the stream."""

# The key of the mapping for which a text is the short form.
_SHORT: Mapping[str, str] = MappingProxyType(
    {"schedule": "cron", "automation": "cron", "layout": "template", "report": "to"}
)

Defaults = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
"""Keys of a stream, none of which is required; `schema_with_defaults` has their JSON Schema."""


def with_defaults(data: object) -> object:
    """Return the values of a config whose streams have the keys of `defaults`; without `defaults`, as it is.

    A key of the stream replaces that of the defaults. Two mappings are merged, key by key and at any depth, unless
    their `type` differs. A key that is null removes the one of the defaults. Too many values with them are a
    LocatedError.
    """
    if not isinstance(data, dict) or "defaults" not in data:
        return data
    defaults, streams = data["defaults"], data.get("streams")
    rest = {key: value for key, value in data.items() if key != "defaults"}
    if defaults is None:
        return rest
    if not isinstance(defaults, dict):
        raise LocatedError("defaults must be a mapping: write keys of a stream below it", "defaults")
    if not isinstance(streams, dict):
        return rest
    if _count_values(defaults) * len(streams) > MAX_VALUES:
        raise LocatedError(
            f"the {len(streams):,} streams have more than {MAX_VALUES:,} values with the defaults: write fewer",
            "defaults",
        )
    return rest | {"streams": {name: _filled(name, stream, defaults) for name, stream in streams.items()}}


def _filled(name: str, stream: object, defaults: Mapping[str, Any]) -> object:
    """Return the stream with the defaults; as it is if it is not a mapping, which is reported at its own key."""
    own = {} if stream is None else stream
    if not isinstance(own, dict):
        return stream
    named = {key: value if key == "layout" else _with_name(value, name) for key, value in defaults.items()}
    return _merged(named, own)


def _merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(defaults)
    for key, value in own.items():
        default = defaults.get(key)
        if isinstance(default, str) and key in _SHORT:
            default = {_SHORT[key]: default}
        if isinstance(default, dict) and isinstance(value, dict) and not _differ(default, value):
            result[key] = _merged(default, value)
        elif value is None and key in defaults:
            del result[key]
        else:
            result[key] = value
    return result


def _differ(default: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Return whether the mappings are of different types, so that their keys have nothing to do with each other."""
    return "type" in default and "type" in own and default["type"] != own["type"]


def _with_name(value: object, name: str) -> object:
    """Return a value with the name of the stream in its texts."""
    if isinstance(value, str):
        return value.replace(STREAM, name) if STREAM in value else value
    if isinstance(value, dict):
        return {key: _with_name(item, name) for key, item in value.items()}
    return [_with_name(item, name) for item in value] if isinstance(value, list) else value


def _count_values(value: object) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, items))


OF_DEFAULTS = "#/$defs/{model}Default"
"""The form of the references in the stream's schema that `schema_with_defaults` takes."""


def schema_with_defaults(schema: Mapping[str, Any], stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a config whose streams need not have what `defaults` may have.

    Without `defaults`, or with null there, it is as strict as the given one. With it, a stream has no required key at
    any depth, and any may be null. `stream` is the schema of a stream, with the references `OF_DEFAULTS`.
    """
    shared = {"Stream": stream, **stream["$defs"]}
    properties, streams = schema["properties"], schema["properties"]["streams"]
    key, strict = next(iter(streams["patternProperties"].items()))
    partial = {"anyOf": [{"$ref": OF_DEFAULTS.format(model="Stream")}, {"type": "null"}]}
    return {
        **schema,
        "$defs": schema["$defs"] | {f"{name}Default": _relaxed(shared[name]) for name in shared},
        "properties": properties
        | {"streams": {name: value for name, value in streams.items() if name != "patternProperties"}}
        | {"defaults": partial | {"description": properties["defaults"]["description"]}},
        "if": {"required": ["defaults"], "properties": {"defaults": {"type": "object"}}},
        "then": {"properties": {"streams": {"patternProperties": {key: partial}}}},
        "else": {"properties": {"streams": {"patternProperties": {key: strict}}}},
    }


def _relaxed(schema: Any) -> Any:  # noqa: ANN401 - a part of a JSON Schema
    """Return the schema without required keys, with null for any key, and with the stream's name in texts."""
    if isinstance(schema, list):
        return [_relaxed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _relaxed(value) for key, value in schema.items() if key not in {"required", "$defs"}}
    if isinstance(pattern := schema.get("pattern"), str):
        result["pattern"] = rf"\{{stream\}}|{pattern}"
    for key in ("properties", "patternProperties", "additionalProperties"):
        if isinstance(inner := result.get(key), dict):
            of_values = key == "additionalProperties"
            result[key] = _or_null(inner) if of_values else {name: _or_null(value) for name, value in inner.items()}
    return result


def _or_null(schema: object) -> Mapping[str, object]:
    return {"anyOf": [schema, {"type": "null"}]}
