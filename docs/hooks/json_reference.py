"""The page of all documents of `--format json`, from their JSON Schemas."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_REF = re.compile(r'"#/\$defs/(\w+)"')

_INTRODUCTION = """# JSON reference

    lake-assets plan sales --waiting --format json
    lake-assets schema plan

The documents that commands print with `--format json`. A document is alone on standard output; all else is on
standard error, and the exit codes are those of the text. If a command fails before it has a document, as with a config
that is not valid, standard output is empty. `lake-assets schema COMMAND` prints the JSON Schema of a document.

From version 1.0 on, fields are added, and never removed, renamed or given another type within a major version; before,
the changelog names such a change. So read the fields that you need, and ignore others. Every field of
this page is always there; one without a value is null. A time is ISO 8601 with a zone.
"""


def json_page(schemas: Mapping[str, Schema]) -> str:
    """The Markdown of the reference.

    Args:
        schemas: the JSON Schema of each command's document.
    """
    lines = [_INTRODUCTION]
    shown: set[str] = set()
    commands: dict[str, str] = {}  # by the title of the document
    for command, schema in schemas.items():
        parts = {name: schema["$defs"][name] for name in _parts(schema)}
        lines += [f"## {command}", ""]
        if (first := commands.setdefault(schema.get("title", command), command)) != command:
            lines += [f"The document of [{first}](#{first}).", ""]
        elif "properties" in schema:
            lines += _table(schema)
        elif "anyOf" in schema:
            lines += [f"One of {', '.join(map(_type, schema['anyOf']))}.", ""]
        else:
            lines += [f"An array. Each item is {_type(schema['items'])}.", ""]
        for name, part in parts.items():
            if name not in shown:
                lines += [f"### {_title(name)}", "", *_table(part)]
        shown.update(parts)
    return "\n".join(lines)


def _parts(schema: Schema) -> list[str]:
    """The names of the document's parts in the order in which its fields have them; each once."""
    found = _REF.findall(json.dumps({**schema, "$defs": None}))
    for name in found:  # which grows
        found += [other for other in _REF.findall(json.dumps(schema["$defs"][name])) if other not in found]
    return list(dict.fromkeys(found))


def _table(schema: Schema) -> Iterator[str]:
    yield from (" ".join(schema["description"].split()), "")
    if not schema["properties"]:
        return
    yield from ("| field | type | description |", "|---|---|---|")
    for name, field in schema["properties"].items():
        description = " ".join(field["description"].split()).replace("|", "&#124;")
        yield f"| `{name}` | {_type(field)} | {description} |"
    yield ""


def _title(name: str) -> str:
    first, *rest = re.split(r"(?<=[a-z])(?=[A-Z])", name)
    return " ".join([first, *(word.lower() for word in rest)])


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": str(ref)}:
            title = _title(ref.rpartition("/")[2])
            return f"[{title.lower()}](#{title.lower().replace(' ', '-')})"
        case {"anyOf": list(options)}:
            return " or ".join(map(_type, options))
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": values}:
            return f"object of {_type(values)} by name"
        case {"type": "string", "format": "date-time"}:
            return "time"
        case {"type": str(name)}:
            return {"string": "text"}.get(name, name)
    raise TypeError(f"the JSON reference has no words for {schema!r}")
