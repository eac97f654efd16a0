"""The options of DuckLake's ATTACH that a lake may set.

Source: DuckLake's manual ("Connecting"). Each option was tried with the extension of DuckDB 1.5.5, other than
`ducklake_version`, which needs DuckDB 2.
"""

from collections.abc import Callable, Mapping

from lake_assets.config.fields import check_identifier
from lake_assets.layout.texts import meant

METADATA_SCHEMA = "metadata_schema"
DUCKLAKE_VERSION = "ducklake_version"

DUCKLAKE_VERSIONS = ("1.0", "1.1")  # versions of the specification; the second needs DuckDB 2

OptionValue = bool | int | str | dict[str, bool | int | str]


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _name(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(check_identifier(value))
    except ValueError:
        return False


def _version(value: object) -> bool:
    return value in DUCKLAKE_VERSIONS


def _map(value: object) -> bool:
    return isinstance(value, dict) and all(check_identifier(key) for key in value)


_KNOWN: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "automatic_migration": (_boolean, "true or false"),
    "busy_timeout": (_count, "a number of milliseconds"),
    "data_inlining_row_limit": (_count, "a number of rows"),
    DUCKLAKE_VERSION: (_version, "'1.0' or '1.1', in quotes"),
    "encrypted": (_boolean, "true or false"),
    "metadata_parameters": (_map, "a mapping of the catalog database's own options"),
    METADATA_SCHEMA: (_name, "the name of a schema of the catalog's database: letters, digits and underscores"),
    "override_data_path": (_boolean, "true or false"),
    "write_deletion_vectors": (_boolean, "true or false"),
}

ATTACH_OPTIONS = frozenset(_KNOWN)

_OURS = "lake_assets sets it itself"
_REFUSED: Mapping[str, str] = {
    "access_mode": _OURS,
    "create_if_not_exists": f"{_OURS}: only the first ingest creates the lake",
    "data_path": f"{_OURS}, from the lake's `storage`",
    "metadata_catalog": f"{_OURS}: commits find the catalog's tables by that name",
    "metadata_path": f"{_OURS}, from the lake's `catalog`",
    "read_only": f"{_OURS}: queries are read-only and ingests are not",
    "read_write": _OURS,
    "snapshot_time": "a lake at a past snapshot cannot be written to; use AT (TIMESTAMP => …) in a query",
    "snapshot_version": "a lake at a past snapshot cannot be written to; use AT (VERSION => …) in a query",
    "type": _OURS,
}
_REFUSED_PARAMETERS: Mapping[str, str] = {
    "encryption_key": "options must not have secrets",
    "journal_mode": f"{_OURS}: a SQLite catalog is in WAL mode, because otherwise readers block commits",
    "password": "options must not have secrets; use the catalog's `password`",
    "secret": _OURS,
}


def check_attach_options(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return the options by their names in lower case."""
    checked: dict[str, OptionValue] = {}
    for name, value in options.items():
        option = name.lower()
        if option in checked:
            raise ValueError(f"attach_options has {name!r} twice: remove one of them")
        if option in _REFUSED:
            raise ValueError(f"attach_options cannot have {name!r}: {_REFUSED[option]}")
        if option.startswith("meta_"):
            raise ValueError(f"{name!r} is written as metadata_parameters: {{{option.removeprefix('meta_')}: …}}")
        if option not in _KNOWN:
            raise ValueError(f"DuckLake has no option {name!r} for ATTACH: {meant(option, _KNOWN)}")
        fits, form = _KNOWN[option]
        if not fits(value):
            raise ValueError(f"attach_options: {name} is {form}")
        checked[option] = value
    parameters = checked.get("metadata_parameters")
    for parameter in parameters if isinstance(parameters, dict) else ():
        if reason := _REFUSED_PARAMETERS.get(parameter.lower()):
            raise ValueError(f"metadata_parameters cannot have {parameter!r}: {reason}")
    return checked
