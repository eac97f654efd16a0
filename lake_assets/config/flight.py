"""A stream that the environment alone defines, by the variables of MotherDuck's scheduled-ingest Flight.

Source of the variables: https://motherduck.com/docs/cookbook/flight-scheduled-s3-ingest/; docs/flight.md says what is
the same here and what is better.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pendulum
from pydantic import ValidationError

from lake_assets.config.fields import below, check_identifier
from lake_assets.config.globs import is_glob, split_glob
from lake_assets.config.models import LakeConfig
from lake_assets.config.sentences import sentence
from lake_assets.config.web import has_query
from lake_assets.errors import ConfigError
from lake_assets.layout.hive import escape
from lake_assets.layout.template import Template
from lake_assets.layout.texts import is_unicode

SOURCE = "SOURCE_GLOB"
TOKEN = "MOTHERDUCK_TOKEN"  # noqa: S105 - the name of the variable
LAKE = "flight"

_VARIABLES = (
    SOURCE,
    "PARTITION_COLUMN",
    "LOAD_PARTITION",
    "HIVE_PARTITIONING",
    "RUN_LEDGER_TABLE",
    *(f"DESTINATION_{part}" for part in ("DATABASE", "SCHEMA", "TABLE", "STORAGE")),
    *(f"AWS_{part}" for part in ("REGION", "DEFAULT_REGION", "ENDPOINT_URL_S3", "ENDPOINT_URL", "SKIP_SIGNATURE")),
    *(f"AWS_{part}" for part in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")),
)

_FOLDER = re.compile(r"([^=]+)=\*")
_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


def flight_config(environment: Mapping[str, str], folder: Path | None = None) -> LakeConfig:
    """The config of one lake and one stream, made of the environment.

    Args:
        environment: the variables.
        folder: what relative paths begin from; they stay relative when None.

    Raises:
        ConfigError: a variable is missing or does not fit; the error names it.
    """
    _refuse_odd_bytes(environment)
    column = _identifier(environment, "PARTITION_COLUMN", "year")
    table = _identifier(environment, "DESTINATION_TABLE", None)
    in_path = _is_in_path(environment)
    value = environment.get("LOAD_PARTITION") or str(pendulum.now("UTC").year)
    glob, names = environment[SOURCE], []
    if has_query(glob):
        raise ConfigError(f"{SOURCE} has a query:", "leave it out; only public files are read from a web server.")
    if in_path:
        glob = _of_all_values(glob, column, value)
        names = _names(glob, column)
    root, files = _source(glob, names)
    # Digits are a number, as a Hive column of numbers has them; 007 is none, and stays what it is.
    kind = "integer" if _WHOLE_NUMBER.fullmatch(value) and int(value) < 2**63 else "string"
    data = {
        "lakes": {LAKE: _lake(environment)},
        "streams": {
            table: {
                "source": _storage(root, environment),
                "files": files,
                "layout": Template.hive(names).text if names else None,
                "path_columns": {name: "string" for name in names if name != column},
                "partitions": {column: {"type": kind, "values": [value], "in": "path" if in_path else "rows"}},
                "destination": {"schema": _schema(environment), "table": table},
            }
        },
    }
    try:
        return LakeConfig.model_validate(data, context=below(folder) if folder else None)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc']))}: {sentence(e)}" for e in error.errors(include_url=False))
        raise ConfigError(f"the environment ({SOURCE}, …) makes no valid config: {'; '.join(problems)}.") from error


def _refuse_odd_bytes(environment: Mapping[str, str]) -> None:
    for name in _VARIABLES:
        if not is_unicode(environment.get(name, "")):
            raise ConfigError(f"{name} is not UTF-8:", "set it to a text that is.")


def _lake(environment: Mapping[str, str]) -> dict[str, Any]:
    database = _identifier(environment, "DESTINATION_DATABASE", "flights_demo")
    storage = environment.get("DESTINATION_STORAGE")
    ledger = {
        "ledger": _identifier(environment, "RUN_LEDGER_TABLE", "ingest_runs"),
        "ledger_schema": _schema(environment),
    }
    if environment.get(TOKEN):
        # Without a bucket of one's own MotherDuck manages the files.
        own = {"storage": _storage(storage, environment)} if storage else {}
        return {"catalog": {"type": "motherduck", "database": database}, **own, **ledger}
    return {
        "catalog": {"type": "sqlite", "path": f"{database}.sqlite"},
        "storage": _storage(storage or database, environment),
        **ledger,
    }


def _schema(environment: Mapping[str, str]) -> str:
    return _identifier(environment, "DESTINATION_SCHEMA", "main")


def _identifier(environment: Mapping[str, str], name: str, default: str | None) -> str:
    value = environment.get(name) or default
    if value is None:
        raise ConfigError(f"{name} is not set:", "set it to the name of the table to fill.")
    return _checked(name, value)


def _checked(name: str, value: str) -> str:
    try:
        return check_identifier(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.") from error


def _is_in_path(environment: Mapping[str, str]) -> bool:
    """Whether folders say what partition files are of; if not, the column is in the files."""
    value = environment.get("HIVE_PARTITIONING") or "true"
    if value.lower() not in {"true", "false"}:
        raise ConfigError(f"HIVE_PARTITIONING is {value!r}:", "set it to true or false.")
    return value.lower() == "true"


def _of_all_values(glob: str, column: str, value: str) -> str:
    """The glob with a wildcard where it names the folder of the one value that is loaded."""
    *folders, files = glob.split("/")
    for index, folder in enumerate(folders):
        name, equals, only = folder.partition("=")
        if name != column or not equals or is_glob(only):
            continue
        if only != escape(value):
            raise ConfigError(
                f"{SOURCE} {glob!r} is of {folder} alone, and LOAD_PARTITION is {value}:",
                f"write {column}=* in its place, or load {only}.",
            )
        folders[index] = f"{column}=*"
    return "/".join([*folders, files])


def _names(glob: str, column: str) -> list[str]:
    """The columns that the glob's folders are named after."""
    names = [found[1] for folder in glob.split("/")[:-1] if (found := _FOLDER.fullmatch(folder))]
    return [_checked(SOURCE, name) for name in names] if column in names else [column]


def _source(glob: str, columns: Sequence[str]) -> tuple[str, str]:
    """The folder that holds the columns' folders, and the pattern of the files in them; of any files without one."""
    found = split_glob(glob, [f"{column}=*" for column in columns])
    if found is None and not columns:
        raise ConfigError(
            f"{SOURCE} is {glob!r}, and must have a folder before its first wildcard, and files:",
            "write it as s3://bucket/prefix/*.parquet, /data/**/*.parquet, or a path of that form.",
        )
    if found is None:
        folders = "/".join(f"{column}=*" for column in columns)
        raise ConfigError(
            f"{SOURCE} is {glob!r}, and must say one folder for each value of {', '.join(columns)}:",
            f"write it as s3://bucket/prefix/{folders}/*.parquet, or a path of that form.",
        )
    return found


def _storage(place: str, environment: Mapping[str, str]) -> str | dict[str, Any]:
    """The place as config; buckets of S3 get what the AWS variables say, the rest is the credential chain's."""
    if not place.startswith("s3://"):
        return place
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    options = {
        "region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        "endpoint": environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
    }
    if environment.get("AWS_SKIP_SIGNATURE", "").lower() == "true":
        options["anonymous"] = "true"
    elif environment.get("AWS_ACCESS_KEY_ID"):
        options["key_id"] = environment["AWS_ACCESS_KEY_ID"]
        options["secret"] = environment.get("AWS_SECRET_ACCESS_KEY")
        options["session_token"] = environment.get("AWS_SESSION_TOKEN")
    return {"type": "s3", "bucket": bucket, "prefix": prefix} | {k: v for k, v in options.items() if v}
