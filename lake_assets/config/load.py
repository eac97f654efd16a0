"""Reads `lake.yaml`: text, then environment, then models; every error names file, line, column and field."""

import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lake_assets.config.document import Document, Location, Problem, dotted, read_document
from lake_assets.config.fields import below
from lake_assets.config.flight import SOURCE, flight_config
from lake_assets.config.keys import advice
from lake_assets.config.models import LakeConfig, OfStreamError
from lake_assets.config.sentences import sentence
from lake_assets.config.syntax import SyntaxFault, position
from lake_assets.errors import ConfigError

ConfigSource = LakeConfig | str | os.PathLike[str] | None
"""A loaded config, or the path of its file; None for the config in use, as `load_config` finds it."""

CONFIG_VARIABLE = "LAKE_CONFIG"
DEFAULT_FILE = "lake.yaml"

_MAX_BYTES = 2**20
_MAX_ERRORS = 50
_MAX_LENGTH = 1000  # of an error that repeats what was written


def load_config(path: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> LakeConfig:
    """The validated config of a file, or of the environment alone.

    Args:
        path: the file; when None, `$LAKE_CONFIG`, then `lake.yaml` of the current folder; where none of them is and
            `SOURCE_GLOB` is set, the environment defines one stream (docs/flight.md).
        environment: what `${NAME}` and `${NAME:-default}` are replaced from.

    Raises:
        ConfigError: the file is absent, not YAML, or not valid; one line an error, with file, line and field.
    """
    without_file = path is None and not environment.get(CONFIG_VARIABLE) and not Path(DEFAULT_FILE).exists()
    if without_file and environment.get(SOURCE):
        return flight_config(environment, Path.cwd())
    path = Path(path or environment.get(CONFIG_VARIABLE) or DEFAULT_FILE)
    try:
        with path.open("rb") as file:
            written = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no config file {path}:",
            f"write one, name it with --config, set {CONFIG_VARIABLE}, or define a stream by {SOURCE}.",
        ) from error
    except OSError as error:
        raise ConfigError(f"config file {path} cannot be read: {error.strerror}.") from error
    return parse_config(_decoded(written, path), path, environment)


def loaded(config: ConfigSource) -> LakeConfig:
    """The config itself, or that of a file.

    Raises:
        ConfigError: as `load_config`.
    """
    return config if isinstance(config, LakeConfig) else load_config(config)


def _decoded(written: bytes, path: Path) -> str:
    if len(written) > _MAX_BYTES:
        raise ConfigError(f"config file {path} has more than {_MAX_BYTES:,} bytes:", "name a config with --config.")
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = position(written[: error.start].decode("utf-8-sig"), error.start)
        fault = Problem(line, column, "the file is not UTF-8: save it as UTF-8")
        raise _refusal([fault], path) from error


def parse_config(text: str, path: Path, environment: Mapping[str, str]) -> LakeConfig:
    """The validated config of a file's text; `path` is for messages and for relative paths.

    Raises:
        ConfigError: as `load_config`.
    """
    try:
        document = read_document(text, environment)
    except SyntaxFault as fault:
        raise _refusal([Problem(fault.line, fault.column, f"not YAML: {fault.text}")], path) from fault
    if document.problems:
        raise _refusal(sorted(set(document.problems)), path)
    if document.data is None:
        raise _refusal([Problem(1, 1, "the file is empty: write lakes and streams, or run `lake-assets init`")], path)
    try:
        return LakeConfig.model_validate(document.data, context=below(path.resolve().parent))
    except ValidationError as error:
        raise _refusal(_problems(error, document), path) from error


def _refusal(problems: Sequence[Problem], path: Path) -> ConfigError:
    """The first of them, as `file:line:column: field: what is wrong: how to fix it`."""
    texts = [f"{path}:{p.line}:{p.column}: {_ended(p.text)}" for p in problems[:_MAX_ERRORS]]
    if more := problems[_MAX_ERRORS:]:
        texts.append(f"{path}: {len(more):,} more errors after these.")
    return ConfigError("\n".join(texts))


def _ended(text: str) -> str:
    if len(text) > _MAX_LENGTH:
        text = f"{text[: _MAX_LENGTH // 2]}…{text[-_MAX_LENGTH // 2 :]}"
    return text if text.endswith(("?", ".")) else f"{text}."


def _problems(error: ValidationError, document: Document) -> list[Problem]:
    """Pydantic's errors in the file's order; those that are not told have no text, for a word close to a key costs."""
    found = []
    for details in error.errors(include_url=False, include_input=False):
        location = _real_location(details["loc"], document.nodes)
        fault = details.get("ctx", {}).get("error")
        place = document.place(fault.location if isinstance(fault, OfStreamError) else location)
        found.append((place, location, details))
    found.sort(key=lambda each: each[0])
    told = [Problem(*place, _told(location, details)) for place, location, details in found[:_MAX_ERRORS]]
    return sorted(told) + [Problem(*place, "") for place, _, _ in found[_MAX_ERRORS:]]


def _told(location: Location, error: ErrorDetails) -> str:
    unknown = error["type"] == "extra_forbidden"
    message = "unknown key" + advice(LakeConfig, error["loc"]) if unknown else sentence(error)
    where = f"{dotted(location)}: " if location else "the file: " if error["type"] == "model_type" else ""
    return where + message


def _real_location(loc: Location, written: Container[Location]) -> Location:
    """Pydantic's location without the union tags and `[key]` marks that are not in the file."""
    real: Location = ()
    for position_, part in enumerate(loc):
        last = position_ == len(loc) - 1
        if part == "[key]":
            continue
        if (*real, part) in written or last:
            real = (*real, part)
    return real
