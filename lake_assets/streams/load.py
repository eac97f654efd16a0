"""Reads `lake.yaml`, a file or an object of a bucket. Every error names file, line, column and field."""

import os
import sys
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lake_assets.base.errors import ConfigError, SourceChangedError, StorageError, word_errors
from lake_assets.base.texts import meant
from lake_assets.config.document import (
    ConfigDocument,
    ConfigSyntaxError,
    Location,
    Problem,
    dotted,
    line_and_column,
    read_document,
)
from lake_assets.config.fields import LocatedError, validation_context
from lake_assets.config.messages import advice, sentence
from lake_assets.config.models import LakeConfig, Origin
from lake_assets.config.storages import AnyStorage, storage_at
from lake_assets.config.uris import is_uri

ConfigSource = LakeConfig | str | os.PathLike[str] | None
"""A loaded config, or the path or URI of one; None for the config that `load_config` finds."""

CONFIG_VARIABLE = "LAKE_CONFIG"
DEFAULT_FILE = "lake.yaml"

_MAX_BYTES = 2**20
_SMALLER = "name the file of a config, which is smaller."
_PLACES = "Write a path, or s3://bucket/key."
_READS = 3  # of an object that changes
_MAX_ERRORS = 50
_MAX_LENGTH = 1000  # of an error that repeats a value of the config


def load_config(path: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> LakeConfig:
    """Read and validate a config.

    Args:
        path: the file, or the URI of an object (`s3://…`, `gs://…`, `abfss://…`), which is read with the credentials
            of the environment and has no relative paths. When None, `$LAKE_CONFIG`, then `lake.yaml` of the current
            folder. If there is neither, and the environment has variables of a Flight, these define one stream
            (docs/flight.md).
        environment: the variables of `${NAME}` and `${NAME:-default}`, and those that complete a bucket.

    Raises:
        ConfigError: the file does not exist, is not YAML, or is not valid; each error is a line with file, line and
            field.
        StorageError: the object cannot be read.
    """
    if (encoding := sys.getfilesystemencoding()) != "utf-8":  # names, and the values in them, would be other ones
        raise ConfigError(
            f"Python reads the names of files as {encoding}, and they are UTF-8:", "set the variable PYTHONUTF8=1."
        )
    if is_of_variables(path, environment):
        from lake_assets.wings.importers.flight import flight_config, in_variables  # noqa: PLC0415 - a wing

        word_errors(in_variables)
        return flight_config(environment, Path.cwd())
    word_errors(str)
    place = path or environment.get(CONFIG_VARIABLE) or DEFAULT_FILE
    if isinstance(place, str) and is_uri(place):
        return parse_config(_decoded(_config_in_bucket(place, environment), place), place, environment)
    path = Path(place)
    try:
        with path.open("rb") as file:
            written = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no config file {path}:",
            f"write one with `lake-assets init`, name it with --config, set {CONFIG_VARIABLE}, or define a stream by "
            "SOURCE_GLOB.",
        ) from error
    except OSError as error:
        raise ConfigError(f"config file {path} cannot be read: {error.strerror}.") from error
    return parse_config(_decoded(written, path), path, environment)


def is_of_variables(path: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the config is that of a Flight's variables, so that there is no file."""
    if path is not None or environment.get(CONFIG_VARIABLE) or Path(DEFAULT_FILE).exists():
        return False
    from lake_assets.wings.importers.flight import has_flight  # noqa: PLC0415 - a wing

    return has_flight(environment)


def loaded(config: ConfigSource) -> LakeConfig:
    """Return the config, read from its file if it is not loaded yet."""
    return config if isinstance(config, LakeConfig) else load_config(config)


def chosen(kind: Literal["stream", "lake"], known: Collection[str], name: str | None) -> str:
    """Return the name of a stream or lake of a config: the given one, or that of the only one.

    Without a clear answer, a ConfigError.
    """
    names = ", ".join(known)
    if name is None and len(known) > 1:
        raise ConfigError(f"the config has several {kind}s:", f"name one of {names}.")
    if name is not None and name not in known:
        raise ConfigError(f"there is no {kind} {name!r}:", meant(name, known))
    return name or next(iter(known))


def _config_in_bucket(uri: str, environment: Mapping[str, str]) -> bytes:
    """Return the bytes of a config in a bucket."""
    from lake_assets.storage.store import Store  # noqa: PLC0415 - a config of a file needs no client

    folder, _, key = uri.rpartition("/")
    store = Store(_bucket(folder, uri, environment))
    for _ in range(_READS):
        stored = store.find(key)
        if stored is None:
            raise ConfigError(f"there is no config {uri}:", "copy one there, or correct the URI.")
        if stored.size > _MAX_BYTES:
            raise ConfigError(f"config {uri} has more than {_MAX_BYTES:,} bytes:", _SMALLER)
        try:
            return bytes(store.get(key, stored.etag))
        except SourceChangedError:
            continue
    raise StorageError(f"config {uri} changed each time while it was read:", "run it again when its writer has ended.")


def _bucket(folder: str, uri: str, environment: Mapping[str, str]) -> AnyStorage:
    try:
        storage = storage_at(folder, environment)
    except ValidationError as error:
        problem = sentence(error.errors(include_url=False)[0])
        raise ConfigError(f"the config's URI {uri} names no object of a bucket: {problem}.", _PLACES) from error
    if storage.is_local:
        raise ConfigError(f"the config's URI {uri} names no object of a bucket.", _PLACES)
    return storage


def _decoded(written: bytes, path: Path | str) -> str:
    if len(written) > _MAX_BYTES:
        raise ConfigError(f"config file {path} has more than {_MAX_BYTES:,} bytes:", _SMALLER)
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = line_and_column(written[: error.start].decode("utf-8-sig"), error.start)
        raise _error([Problem(line, column, "the file is not UTF-8: save it as UTF-8")], path) from error


def parse_config(text: str, path: Path | str, environment: Mapping[str, str]) -> LakeConfig:
    """Validate the text of a config; its path, or its URI as a text, is for messages and for relative paths."""
    try:
        document = read_document(text, environment)
    except ConfigSyntaxError as error:
        problem = error.problem
        raise _error([Problem(problem.line, problem.column, f"not YAML: {problem.text}")], path) from error
    if document.problems:
        raise _error(sorted(set(document.problems)), path)
    if document.data is None:
        raise _error([Problem(1, 1, "the file is empty: write lakes and streams, or run `lake-assets init`")], path)
    # The file itself may be a link into another folder, as of a ConfigMap of Kubernetes.
    origin = Origin(uri=path) if isinstance(path, str) else Origin(path.parent.resolve() / path.name)
    try:
        context = validation_context(None if origin.file is None else origin.file.parent, environment)
        config = LakeConfig.model_validate(document.data, context=context)
    except ValidationError as error:
        raise _error(_problems(error, document), path) from error
    config._origin = origin  # noqa: SLF001 - only a file or an object has one
    return config


def _error(problems: Sequence[Problem], path: Path | str) -> ConfigError:
    """Return the error with the first problems, each as `file:line:column: field: what is wrong: how to fix it`."""
    texts = [f"{path}:{p.line}:{p.column}: {_sentence_of(p.text)}" for p in problems[:_MAX_ERRORS]]
    if more := problems[_MAX_ERRORS:]:
        texts.append(f"{path}: {len(more):,} more errors after these.")
    return ConfigError("\n".join(texts))


def _sentence_of(text: str) -> str:
    """Return the text with a full stop, shortened in the middle if it is long."""
    if len(text) > _MAX_LENGTH:
        text = f"{text[: _MAX_LENGTH // 2]}…{text[-_MAX_LENGTH // 2 :]}"
    return text if text.endswith(("?", ".")) else f"{text}."


def _problems(error: ValidationError, document: ConfigDocument) -> list[Problem]:
    """Return Pydantic's errors in the order of the file. Only the printed have a text: a suggestion takes long."""
    once = {}  # an error in the defaults is one of each stream
    errors = error.errors(include_url=False, include_input=False)
    with_words = _with_words(errors)
    for details in errors:
        if not _is_of_what_is_written(details["loc"], with_words):
            continue
        location = _written_location(details, document.nodes)
        cause = details.get("ctx", {}).get("error")
        at = _in_defaults(cause.location, document.nodes) if isinstance(cause, LocatedError) else location
        once[document.position(at), location, details["msg"]] = details
    located = sorted(once.items(), key=lambda entry: entry[0][0])
    printed = [Problem(*at, _message(location, details)) for (at, location, _), details in located[:_MAX_ERRORS]]
    return sorted(printed) + [Problem(*at, "") for (at, *_), _ in located[_MAX_ERRORS:]]


def _with_words(errors: Sequence[ErrorDetails]) -> dict[Location, bool]:
    """Return the values that may be a word or a mapping, and whether Pydantic has errors of keys of the mapping.

    It has the errors of both: those of a mapping are in its keys, and a word is none of the allowed ones.
    """
    words, mappings = set[Location](), set[Location]()
    for loc in (error["loc"] for error in errors):
        words |= {loc[:end] for end, part in enumerate(loc) if _is_word(part)}
        mappings |= {loc[:end] for end in range(len(loc) - 1)}
    return {value: value in mappings for value in words}


def _is_of_what_is_written(loc: Location, with_words: Mapping[Location, bool]) -> bool:
    """Return whether an error is of the form that was chosen where a word or a mapping is allowed."""
    for end, part in enumerate(loc):
        is_mapping = with_words.get(loc[:end])
        if is_mapping is not None:
            return not _is_word(part) and len(loc) > end + 1 if is_mapping else _is_word(part)
    return True


def _is_word(part: int | str) -> bool:
    """Return whether a part of Pydantic's location is its tag for a word among several."""
    return str(part).startswith("literal[")


def _message(location: Location, error: ErrorDetails) -> str:
    unknown = error["type"] == "extra_forbidden"
    message = "unknown key" + advice(LakeConfig, error["loc"]) if unknown else sentence(error)
    where = f"{dotted(location)}: " if location else "the file: " if error["type"] == "model_type" else ""
    return where + message


def _written_location(error: ErrorDetails, written: Container[Location]) -> Location:
    """Return where the value of an error is written: in its stream, or in the defaults."""
    location = _real_location(error["loc"], written)
    return location if error["type"] == "missing" else _in_defaults(error["loc"], written, location)


def _in_defaults(loc: Location, written: Container[Location], location: Location | None = None) -> Location:
    """Return the location below `defaults` if more of it is written there than below its stream."""
    location = location or loc
    if len(loc) < 3 or loc[0] != "streams":
        return location
    shared = _real_location(("defaults", *loc[2:]), written)
    below_stream = sum(location[:end] in written for end in range(3, len(location) + 1))
    below_defaults = sum(shared[:end] in written for end in range(2, len(shared) + 1))
    return shared if below_defaults > below_stream else location


def _real_location(loc: Location, written: Container[Location]) -> Location:
    """Return Pydantic's location without its union tags and `[key]` marks, which are not in the file."""
    real: Location = ()
    for index, part in enumerate(loc):
        if part != "[key]" and not _is_word(part) and ((*real, part) in written or index == len(loc) - 1):
            real = (*real, part)
    return real
