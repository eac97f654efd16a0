"""A stream that environment variables define: those of MotherDuck's scheduled-ingest Flight.

Source of the variables: https://motherduck.com/docs/cookbook/flight-scheduled-s3-ingest/; docs/flight.md lists the
differences.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pendulum
from pydantic import ValidationError

from lake_assets.base.errors import ConfigError
from lake_assets.base.texts import is_unicode
from lake_assets.config.fields import check_identifier, is_true, validation_context
from lake_assets.config.layout.hive import escape
from lake_assets.config.layout.template import Template
from lake_assets.config.messages import sentence
from lake_assets.config.models import LakeConfig
from lake_assets.config.uris import has_query, is_glob, split_glob

SOURCE = "SOURCE_GLOB"
TOKEN = "MOTHERDUCK_TOKEN"  # noqa: S105 - the name of the variable
LAKE = "flight"

_SAMPLE_BUCKET = "us-prd-motherduck-open-datasets"
SAMPLE = f"s3://{_SAMPLE_BUCKET}/pypi/duckdb/pypi_daily_stats/**/*.parquet"
"""The Flight's default source: public statistics of DuckDB's downloads from PyPI, by year."""

# The variables of the Flight but its token, which is also set where nobody means a Flight.
_FLIGHT = (
    SOURCE,
    "PARTITION_COLUMN",
    "LOAD_PARTITION",
    "HIVE_PARTITIONING",
    "RUN_LEDGER_TABLE",
    *(f"DESTINATION_{part}" for part in ("DATABASE", "SCHEMA", "TABLE")),
)

_VARIABLES = (
    *_FLIGHT,
    "TRANSFORM_SQL",
    "SCHEDULE",
    "DESTINATION_STORAGE",
    *(f"AWS_{part}" for part in ("REGION", "DEFAULT_REGION", "ENDPOINT_URL_S3", "ENDPOINT_URL", "SKIP_SIGNATURE")),
    *(f"AWS_{part}" for part in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")),
)

_OF_KEYS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("source", "files", "layout", "path_columns"), SOURCE),
        "partitions": "PARTITION_COLUMN or LOAD_PARTITION",
        "destination": "DESTINATION_TABLE",
        "transform": "TRANSFORM_SQL",
        "schedule": "SCHEDULE",
        "storage": "DESTINATION_STORAGE",
        "catalog": "DESTINATION_DATABASE",
        "key_id": "AWS_ACCESS_KEY_ID",
        "secret": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
    }
)  # of the config that the variables make

# The words of hints for keys that come from a variable.
_IN_HINTS = tuple(
    (re.compile(keys), variable)
    for keys, variable in (
        ("the type of this partition column in the config", "LOAD_PARTITION, whose form decides the column's type"),
        ("the config says", "LOAD_PARTITION says"),
        ("`partitions` in the config", "PARTITION_COLUMN"),
        (r"it in the config \(`source` of a stream\)", SOURCE),
        ("(?:`(?:bucket|container)`|its name) in the config", f"{SOURCE} or DESTINATION_STORAGE"),
        ("`storage`(?: in the config)?", "DESTINATION_STORAGE"),
        ("`catalog`(?: in the config)?", "DESTINATION_DATABASE"),
        (r"\bkey_id and secret\b", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    )
)
_NO_VARIABLE = re.compile(r"\b(?:on_\w+|schema_policy|attach_options|commit_retries|in the config)\b")
_WITHOUT_VARIABLE = "No variable sets this: write the stream as a lake.yaml, as in docs/flight.md."

_FOLDER = re.compile(r"([^=]+)=\*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ANY_AGE = 10_000  # days before today, the most that a schedule has
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def has_flight(environment: Mapping[str, str]) -> bool:
    """Return whether the environment defines a stream: it has a variable of the Flight other than its token."""
    return any(environment.get(name, "").strip() for name in _FLIGHT)


def flight_config(environment: Mapping[str, str], folder: Path = Path()) -> LakeConfig:
    """Return the config of one lake and one stream, from the environment; a ConfigError names the variable.

    Blanks around a value are ignored, and an empty value is none.
    """
    _require_unicode(environment)
    environment = {name: environment.get(name, "").strip() for name in (*_VARIABLES, TOKEN)}
    column = _identifier(environment, "PARTITION_COLUMN", "year")
    table = _identifier(environment, "DESTINATION_TABLE", "duckdb_pypi_downloads")
    in_path = is_true(environment, "HIVE_PARTITIONING", default=True)
    value, partition = _partition(environment["LOAD_PARTITION"])
    glob, names = environment[SOURCE] or SAMPLE, []
    if has_query(glob):
        raise ConfigError(f"{SOURCE} has a query:", "leave it out. Only public files are read from a web server.")
    if in_path:
        glob = _with_wildcard(glob, column, value)
        names = _column_names(glob, column)
    root, files = _source(glob, names)
    data = {
        "lakes": {LAKE: _lake(environment)},
        "streams": {
            table: {
                "source": _storage(root, environment),
                "files": files,
                "layout": Template.hive(names).text if names else None,
                "path_columns": {name: "string" for name in names if name != column},
                "partitions": {column: partition | {"in": "path" if in_path else "rows"}},
                "destination": {"schema": _schema(environment), "table": table},
                "transform": {"sql": sql} if (sql := environment["TRANSFORM_SQL"]) else None,
                "schedule": _schedule(environment["SCHEDULE"], partition),
            }
        },
    }
    try:
        return LakeConfig.model_validate(data, context=validation_context(folder, environment))
    except ValidationError as error:
        problems = (f"{_variable(e['loc'])}: {in_variables(sentence(e))}" for e in error.errors(include_url=False))
        raise ConfigError(f"{'; '.join(problems)}.") from error


def _variable(location: Sequence[str | int]) -> str:
    """Return the variable that a key of the config comes from."""
    names = (_OF_KEYS.get(str(part)) for part in reversed(location))
    return next(filter(None, names), ".".join(map(str, location)))


def in_variables(text: str) -> str:
    """Return the text of an error with variables in place of the keys of a config, which there is none of."""
    for keys, variable in _IN_HINTS:
        text = keys.sub(variable, text)
    return f"{text} {_WITHOUT_VARIABLE}" if _NO_VARIABLE.search(text) and _WITHOUT_VARIABLE not in text else text


def _partition(written: str) -> tuple[str, dict[str, Any]]:
    """Return the value to load, and its partition column in the config."""
    if not written:
        year = pendulum.now("UTC").year  # a code server that runs into the next year has that one too
        return str(year), {"type": "year", "start": dt.date(year, 1, 1)}
    # Digits are a number, as in a Hive column of numbers; 007 is a text.
    if _WHOLE_NUMBER.fullmatch(written) and -(2**63) <= int(written) < 2**63:
        return written, {"type": "integer", "values": [written]}
    if _DATE.fullmatch(written):
        try:
            date = dt.date.fromisoformat(written)
        except ValueError as error:
            raise ConfigError(
                f"LOAD_PARTITION is {written!r}, and there is no such date:", "correct it. Dates are YYYY-MM-DD."
            ) from error
        return written, {"type": "date", "start": date, "end": date}
    return written, {"type": "string", "values": [written]}


def _schedule(cron: str, partition: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schedule of a cron text: each tick refreshes the partition that is loaded, however old its date is."""
    if not cron:
        return None
    return {"cron": cron, "lookback": _ANY_AGE if "end" in partition else 0} if "start" in partition else {"cron": cron}


def _require_unicode(environment: Mapping[str, str]) -> None:
    for name in _VARIABLES:
        if not is_unicode(environment.get(name, "")):
            raise ConfigError(f"{name} is not UTF-8:", "set it to a text in UTF-8.")


def _lake(environment: Mapping[str, str]) -> dict[str, Any]:
    database = _identifier(environment, "DESTINATION_DATABASE", "flights_demo")
    storage = environment.get("DESTINATION_STORAGE")
    ledger = {
        "ledger": _identifier(environment, "RUN_LEDGER_TABLE", "ingest_runs"),
        "ledger_schema": _schema(environment),
    }
    if environment.get(TOKEN):
        # Without a bucket, MotherDuck manages the files.
        own = {"storage": _storage(storage, environment)} if storage else {}
        return {"catalog": {"type": "motherduck", "database": database}, **own, **ledger}
    return {
        "catalog": {"type": "sqlite", "path": f"{database}.sqlite"},
        "storage": _storage(storage or database, environment),
        **ledger,
    }


def _schema(environment: Mapping[str, str]) -> str:
    return _identifier(environment, "DESTINATION_SCHEMA", "main")


def _identifier(environment: Mapping[str, str], name: str, default: str) -> str:
    value = environment[name] or default
    return _checked(name, value)


def _checked(name: str, value: str) -> str:
    try:
        return check_identifier(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.") from error


def _with_wildcard(glob: str, column: str, value: str) -> str:
    """Return the glob with a wildcard in the column's folder, which may name the one value that is loaded."""
    *folders, files = glob.split("/")
    for index, folder in enumerate(folders):
        name, equals, folder_value = folder.partition("=")
        if name != column or not equals or is_glob(folder_value):
            continue
        if folder_value != escape(value):
            raise ConfigError(
                f"{SOURCE} {glob!r} has only {folder}, and LOAD_PARTITION is {value}:",
                f"write {column}=* in its place, or load {folder_value}.",
            )
        folders[index] = f"{column}=*"
    return "/".join([*folders, files])


def _column_names(glob: str, column: str) -> list[str]:
    """Return the columns of the glob's folders `name=*`."""
    names = [match[1] for folder in glob.split("/")[:-1] if (match := _FOLDER.fullmatch(folder))]
    return [_checked(SOURCE, name) for name in names] if column in names else [column]


def _source(glob: str, columns: Sequence[str]) -> tuple[str, str]:
    """Return the folder above the columns' folders, and the pattern of the file names."""
    folders = [f"{column}=*" for column in columns]
    source = split_glob(glob, folders)
    if source is None and not columns:
        raise ConfigError(
            f"{SOURCE} is {glob!r}, and must have a folder before its first wildcard, and files:",
            "write it as s3://bucket/prefix/*.parquet or /data/**/*.parquet.",
        )
    if source is None:
        raise ConfigError(
            f"{SOURCE} is {glob!r}, and must have a folder for each value of {', '.join(columns)}:",
            f"write it as s3://bucket/prefix/{'/'.join(folders)}/*.parquet.",
        )
    return source


def _storage(uri: str, environment: Mapping[str, str]) -> str | dict[str, Any]:
    """Return the storage's config; an S3 bucket gets the keys of the AWS variables."""
    if not uri.startswith("s3://"):
        return uri
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    storage: dict[str, Any] = {"type": "s3", "bucket": bucket, "prefix": prefix}
    if bucket == _SAMPLE_BUCKET:  # public, and on no server of the user's
        return storage | {"anonymous": True, "region": "us-east-1", "endpoint": None}
    if is_true(environment, "AWS_SKIP_SIGNATURE", default=False):
        return storage | {"anonymous": True}
    keys = {
        "key_id": environment.get("AWS_ACCESS_KEY_ID"),
        "secret": environment.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": environment.get("AWS_SESSION_TOKEN"),
    }
    return storage | {name: key for name, key in keys.items() if key and keys["key_id"]}
