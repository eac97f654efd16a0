"""Reads `lake.yaml`: text, then environment, then models; every error names file, line and field."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lake_assets.config.flight import SOURCE, flight_config
from lake_assets.config.model import Model
from lake_assets.config.models import LakeConfig
from lake_assets.config.sentences import sentence
from lake_assets.errors import ConfigError

CONFIG_VARIABLE = "LAKE_CONFIG"
DEFAULT_FILE = "lake.yaml"

# A whole variable, or the beginning of what is none.
_VARIABLE = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\})?")

Location = tuple[str | int, ...]


def load_config(path: Path | None = None, environment: Mapping[str, str] = os.environ) -> LakeConfig:
    """The validated config of a file, or of the environment alone.

    Args:
        path: the file; when None, `$LAKE_CONFIG`, then `lake.yaml` of the current folder; where none of them is and
            `SOURCE_GLOB` is set, the environment defines one stream (docs/flight.md).
        environment: what `${NAME}` and `${NAME:-default}` are replaced from.

    Raises:
        ConfigError: the file is absent, not YAML, or not valid; one line an error, with file, line and field.
    """
    without_file = path is None and CONFIG_VARIABLE not in environment and not Path(DEFAULT_FILE).exists()
    if without_file and environment.get(SOURCE):
        return anchor(flight_config(environment), Path.cwd())
    path = path or Path(environment.get(CONFIG_VARIABLE, DEFAULT_FILE))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no config file {path}:",
            f"write one, name it with --config, set {CONFIG_VARIABLE}, or define a stream by {SOURCE}.",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path} cannot be read: {error}.") from error
    return parse_config(text, path, environment)


def parse_config(text: str, path: Path, environment: Mapping[str, str]) -> LakeConfig:
    """The validated config of a file's text; `path` is for messages and for relative paths.

    Raises:
        ConfigError: as `load_config`.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[Location, int] = {}
        data = _plain(node, (), lines, path, environment) if node else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not YAML: {getattr(error, 'problem', error)}.") from error
    try:
        config = LakeConfig.model_validate(data)
    except ValidationError as error:
        problems = sorted(_describe(e, lines, path) for e in error.errors(include_url=False))
        raise ConfigError("\n".join(problem for _, problem in problems)) from error
    return anchor(config, path.resolve().parent)


def _plain(
    node: yaml.Node, location: Location, lines: dict[Location, int], path: Path, environment: Mapping[str, str]
) -> Any:  # noqa: ANN401 - YAML holds anything
    """The node as Python values, its lines noted, its variables replaced, doubled keys refused."""
    lines[location] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node)
            if isinstance(key, str) and "${" in key:
                raise ConfigError(
                    f"{path}:{key_node.start_mark.line + 1}: the key {key!r} has a variable in it:",
                    "write it out; variables stand in values.",
                )
            if key in result:
                raise ConfigError(f"{path}:{key_node.start_mark.line + 1}: the key {key!r} stands here twice.")
            result[key] = _plain(value_node, (*location, key), lines, path, environment)
            lines[(*location, key)] = key_node.start_mark.line + 1
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_plain(n, (*location, i), lines, path, environment) for i, n in enumerate(node.value)]
    if isinstance(node.value, str) and "${" in node.value:
        return _substitute(node, location, path, environment)
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:  # noqa: ANN401 - whatever type YAML resolves
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def _substitute(node: yaml.Node, location: Location, path: Path, environment: Mapping[str, str]) -> str:
    """The text with variables replaced; always text, so that a password of digits stays what it is.

    As a shell does, it takes the default for a variable that is empty too.
    """
    place = f"{path}:{node.start_mark.line + 1}: {_dotted(location)}"

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        if name is None:
            raise ConfigError(
                f"{place}: ${{ begins no variable here:",
                "write it as ${NAME} or ${NAME:-default}, with letters, digits and underscores in the name and no "
                "variable in the default.",
            )
        found = environment.get(name, default)
        if found is None:
            raise ConfigError(
                f"{place}: the environment has no {name}:", f"set it, or write a default as ${{{name}:-…}}."
            )
        return found or default or ""

    return _VARIABLE.sub(value, node.value)


def _describe(error: ErrorDetails, lines: Mapping[Location, int], path: Path) -> tuple[int, str]:
    """One error's line, and the error as `file:line: field: what is wrong and the mend`."""
    location = _real_location(error["loc"], lines)
    known = location
    while known and known not in lines:
        known = known[:-1]
    message = "unknown key" + _suggestion(location) if error["type"] == "extra_forbidden" else sentence(error)
    where = f"{_dotted(location)}: " if location else "the file: " if error["type"] == "model_type" else ""
    line = lines.get(known, 1)
    return line, f"{path}:{line}: {where}{message}{'' if message.endswith('?') else '.'}"


def _real_location(loc: Location, lines: Mapping[Location, int]) -> Location:
    """Pydantic's location without the union tags and `[key]` marks that are not in the file."""
    real: Location = ()
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if part == "[key]":
            continue
        if (*real, part) in lines or last:
            real = (*real, part)
    return real


def _dotted(location: Location) -> str:
    return ".".join(str(part) for part in location)


def _suggestion(location: Location) -> str:
    """`: did you mean …?` from the keys that the model at this place knows, or nothing."""
    names = {f.alias or n for model in _models() for n, f in model.model_fields.items()}
    close = difflib.get_close_matches(str(location[-1]), sorted(names), n=1)
    return f": did you mean {close[0]}?" if close else ": remove it, or see docs/config.md for the keys there are"


def _models(base: type[BaseModel] = Model) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def anchor(config: LakeConfig, folder: Path) -> LakeConfig:
    """The config with its relative paths made absolute, from the folder that holds its file."""
    data = config.model_dump(by_alias=True)

    def anchored(mapping: dict[str, Any]) -> None:
        if "path" in mapping:
            mapping["path"] = str(folder / Path(mapping["path"]).expanduser())

    for lake in data["lakes"].values():
        for place in (lake["catalog"], lake["storage"], lake["staging"]):
            anchored(place or {})
    for stream in data["streams"].values():
        anchored(stream["source"])
        if landing := stream["landing"]:
            for place in (*landing["outputs"], landing["buffer"] or {}):
                anchored(place)
    return LakeConfig.model_validate(data)
