"""Error messages for keys and values of the config, with how to fix them; pydantic's own name Python types."""

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin

from pydantic_core import ErrorDetails

from lake_assets.base.texts import meant, nearest, shown
from lake_assets.config.fields import Model
from lake_assets.config.lake import ATTACH_OPTIONS
from lake_assets.config.sections import Destination

_TEXT = "must be a text: write one value, in quotes if it is a number, a date or true"
_LIST = "must be a list: write it in brackets, such as [a, b]"
_MAPPING = "must be a mapping: write its keys with their values, such as {{key: value}}"
_WHOLE_NUMBER = "must be a whole number: write it in digits, such as 10"
_NUMBER = "must be a number: write it in digits, such as 1.5"
_BOOLEAN = "must be true or false"
_DATE = "must be a date: write it as 2026-01-31"
_SIZE = "must be a size: write a number and a unit, such as 256MiB"

_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "bool_parsing": _BOOLEAN,
        "bool_type": _BOOLEAN,
        "byte_size": _SIZE,
        "byte_size_unit": _SIZE,
        "date_from_datetime_inexact": _DATE,
        "date_from_datetime_parsing": _DATE,
        "date_parsing": _DATE,
        "date_type": _DATE,
        "dict_type": _MAPPING,
        "enum": "is not one of the allowed words: write {expected}",
        "finite_number": _NUMBER,
        "float_parsing": _NUMBER,
        "float_type": _NUMBER,
        "greater_than": "must be more than {gt}: write a greater number",
        "greater_than_equal": "must be {ge} or more: write a greater number",
        "int_from_float": _WHOLE_NUMBER,
        "int_parsing": _WHOLE_NUMBER,
        "int_parsing_size": _WHOLE_NUMBER,
        "int_type": _WHOLE_NUMBER,
        "less_than": "must be less than {lt}: write a smaller number",
        "less_than_equal": "must be {le} or less: write a smaller number",
        "list_type": _LIST,
        "literal_error": "is not one of the allowed words: write {expected}",
        "missing": "is missing: add it",
        "model_attributes_type": _MAPPING,
        "model_type": _MAPPING,
        "string_too_long": "is too long: leave {max_length} characters at most",
        "string_too_short": "is empty: write something, or leave the key out",
        "string_type": _TEXT,
        "string_unicode": "is not UTF-8: write the character itself for an escape such as \\uD800",
        "too_long": "has too many entries: leave {max_length} at most",
        "too_short": "has too few entries: write {min_length} at least",
        "tuple_type": _LIST,
        "union_tag_not_found": "has no type: add {discriminator}",
    }
)

FORMS: Mapping[str, str] = MappingProxyType(
    {
        "account": "3 to 24 small letters and digits",
        "account_id": "letters and digits, as in the host name of the endpoint",
        "application_id": "the application's id, of small letters and digits",
        "bucket": "the bucket's name, of small letters, digits, dots and hyphens, three at least",
        "container": "3 to 63 small letters, digits and hyphens, no two hyphens together",
        "execution_role": "arn:aws:iam::123456789012:role/name",
        "function": "package.module:name",
        "node": "up to 63 letters, digits, dots and hyphens, a letter or digit first",
        "queue_url": "https://host/account/queue, without user or password",
        "region": "a region of AWS, such as eu-central-1",
        "role_arn": "arn:aws:iam::123456789012:role/name",
        "session_name": "2 to 64 letters, digits, or any of _+=,.@-",
    }
)
"""The form of texts that must match a pattern, by the name of the field."""


def sentence(error: ErrorDetails) -> str:
    """Return the message without field and full stop. It has no value, which may be a secret, but a misspelt type."""
    kind = error["type"]
    if kind == "union_tag_invalid":
        tag, expected = (str(error.get("ctx", {})[key]) for key in ("tag", "expected_tags"))
        fix = meant(tag[:100], re.findall(r"\w+", expected)).rstrip(".")
        return f"unknown type {shown(tag)}: {fix}" if fix.endswith("?") else f"unknown type: {fix}"
    if kind == "string_pattern_mismatch":
        return f"has the wrong form: write {FORMS[str(error['loc'][-1])]}"
    if kind in _SENTENCES:
        context = error.get("ctx", {})
        return _SENTENCES[kind].format(**{name: _short(value) for name, value in context.items()})
    return error["msg"].removeprefix("Value error, ")


def _short(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# What to write for a key that belongs elsewhere, or has another name here.
_ELSEWHERE = {
    **dict.fromkeys(ATTACH_OPTIONS, "write it below attach_options of the lake"),
    "delta_export_compression": "write deltas.compression of the stream",
    "delta_export_path": "write deltas.to of the stream",
    "deploy_mode": "name the cluster as spark: {master: spark://host:7077}",
    "webhook": "use slack, email or teams, or a run_failure_sensor of Dagster's of your own",
}
_CLOSE = 0.72  # as similar as `endpoint_url` and `endpoint`; `description` is not meant by `encryption_key`


def advice(root: type[Model], location: Sequence[str | int]) -> str:
    """Return how to fix an unknown key: the key that is meant, or those of its place; begins with a colon.

    The last part of pydantic's location is the key.
    """
    key = str(location[-1])
    model = _model(root, location[:-1])
    if model is None:
        return ": remove it"
    names = sorted(field.alias or name for name, field in model.model_fields.items())
    plain = key.lower().replace("-", "_")
    if plain in names:
        return f": did you mean {plain}?"
    if (model, plain) == (Destination, "lake"):
        return ": write it one level higher, as lake of the stream"
    if hint := _ELSEWHERE.get(plain):
        return f": {hint}"
    close = nearest(plain[:100], names, most=1, cutoff=_CLOSE)
    return f": did you mean {close[0]}?" if close else f": remove it, or use one of {', '.join(names)}"


def _model(annotation: Any, location: Sequence[str | int]) -> type[Model] | None:  # noqa: ANN401 - any type
    """Return the model at pydantic's location below a type; None if there is no model, or there are several."""
    members = list(_members(annotation))
    models = [member for member in members if isinstance(member, type) and issubclass(member, Model)]
    if not location:
        return models[0] if len(models) == 1 else None
    first, rest = location[0], location[1:]
    for model in models:
        if len(models) > 1 and first in _tags(model):
            return _model(model, rest)
        for name, field in model.model_fields.items():
            if len(models) == 1 and first == (field.alias or name):
                return _model(field.annotation, rest)
    for member in members:
        if get_origin(member) in {dict, tuple, list}:
            return _model(get_args(member)[1 if get_origin(member) is dict else 0], rest)
    return None


def _members(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - any type
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif isinstance(annotation, types.UnionType) or str(origin) == "typing.Union":
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _tags(model: type[Model]) -> tuple[Any, ...]:
    return get_args(model.model_fields["type"].annotation) if "type" in model.model_fields else ()
