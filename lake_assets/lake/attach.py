"""The statements that attach a DuckLake, for each catalog and storage that the config knows.

Sources: DuckLake's manual (connecting, choosing a catalog database); DuckDB's manual (S3 API, Azure, PostgreSQL
secrets, the `aws` extension's credential chain); MotherDuck's manual (DuckLake, CREATE SECRET).
"""

import duckdb
from packaging.version import Version

from lake_assets.base.duckdb_engine import HttpLimits, literal
from lake_assets.base.errors import ConfigError
from lake_assets.config.connections import shared_network
from lake_assets.config.lake import DUCKLAKE_VERSION, Lake
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.backends.database_backend import ALIAS, create_secret
from lake_assets.storage.storage_kinds import backend_of


def extensions(lake: Lake) -> tuple[str, ...]:
    """Return the DuckDB extensions that this lake needs."""
    needed = [name for storage in lake.storages if (name := backend_of(storage).extension)]
    if lake.inserts_only:
        needed.append("httpfs")  # contains DuckDB's cryptography
    chain = ["aws"] if chained(lake) else []
    return tuple(dict.fromkeys(("ducklake", *catalog_backend(lake).extensions, *needed, *chain)))


def chained(lake: Lake) -> tuple[str, ...]:
    """Return the roots of the storages for which DuckDB uses AWS's credential chain."""
    return tuple(dict.fromkeys(storage.root for storage in lake.storages if backend_of(storage).is_chained))


def http_limits(lake: Lake) -> HttpLimits:
    """Return how DuckDB reaches this lake's storages; it has one setting for all of them, and the config one way."""
    limited = [storage.requests for storage in lake.storages if storage.requests is not None]
    if not limited:
        return HttpLimits()
    certificates, proxy = shared_network(lake.storages)
    patient = max(limited, key=lambda requests: requests.retry_seconds)
    return HttpLimits(
        patient.retries,
        patient.first_wait,
        max(requests.timeout for requests in limited),
        certificates,
        None if proxy is None else proxy.get_secret_value(),
    )


def secret_statements(lake: Lake) -> tuple[str, ...]:
    """Return the statements that create the secrets of catalog and storages; they must never be logged."""
    statements = [*catalog_backend(lake).login()]
    if lake.storage is not None and not lake.storage.is_local:
        statements.append(create_secret("lake_storage", backend_of(lake.storage).as_duckdb_secret()))
    sources = ((f"source_{number}", source) for number, source in enumerate(lake.indexed))
    for name, storage in (("lake_staging", lake.staging), *sources):
        if storage is None or storage.is_local:
            continue
        # If the lake lies below a source, the lake's secret is used for both: the source's key may be read-only.
        if storage is not lake.staging and lake.data_path.startswith(f"{storage.root}/"):
            continue
        # DuckDB uses the secret with the longest scope, so this one is used for the storage only.
        scope = {"SCOPE": literal(f"{storage.root}/")}
        statements.append(create_secret(name, backend_of(storage).as_duckdb_secret() | scope))
    return tuple(statements)


def attach_statement(lake: Lake, *, read_only: bool = False) -> str:
    """Return the `ATTACH` statement.

    The data path is always absolute: with a relative one DuckLake's own orphan clean-up deletes live files that have an
    absolute path. A lake that MotherDuck manages is a database of the server, and has no options. A version that the
    installed extension does not have is a ConfigError.
    """
    backend = catalog_backend(lake)
    address = f"{backend.prefix}{backend.database}"
    if lake.is_managed:
        return f"ATTACH IF NOT EXISTS {literal(address)}"
    options = {"DATA_PATH": literal(lake.data_path), **backend.attach_options(read_only=read_only)}
    if read_only:
        options["READ_ONLY"] = "true"
    for name, value in lake.attach_options.items():
        if name == DUCKLAKE_VERSION and not _has_versions(str(value)):
            continue
        if isinstance(value, dict):
            options |= {f"META_{parameter.upper()}": _value(text) for parameter, text in value.items()}
        else:
            options[name.upper()] = _value(value)
    listed = ", ".join(f"{name} {value}" for name, value in options.items())
    return f"ATTACH {literal(f'ducklake:{address}')} AS {ALIAS} ({listed})"


def _has_versions(version: str) -> bool:
    """Return whether DuckLake's extension has a choice of versions; that of DuckDB 1 has 1.0 only, and no such option.

    Raises ConfigError for another one.
    """
    if Version(duckdb.__version__).major > 1:
        return True
    if version != "1.0":
        raise ConfigError(
            f"attach_options: DuckLake {version} needs DuckDB 2, and DuckDB {duckdb.__version__} is installed:",
            "write 1.0, or leave ducklake_version out.",
        )
    return False


def _value(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else literal(value)
