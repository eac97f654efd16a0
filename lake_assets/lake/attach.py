"""The statements that attach a DuckLake, for each catalog and storage that the config knows.

Sources: DuckLake's manual (connecting, choosing a catalog database); DuckDB's manual (S3 API, Azure, PostgreSQL
secrets, the `aws` extension's credential chain); MotherDuck's manual (DuckLake, CREATE SECRET).
"""

import os
import re
from pathlib import Path

import duckdb
from packaging.version import Version

from lake_assets.base.duckdb_engine import HttpLimits, identifier, literal
from lake_assets.base.errors import ConfigError
from lake_assets.config.catalogs import (
    DUCKLAKE_VERSION,
    Catalog,
    DuckdbCatalog,
    MotherDuckCatalog,
    PostgresCatalog,
    SqliteCatalog,
)
from lake_assets.config.connections import way_of
from lake_assets.config.lake import Lake
from lake_assets.config.secrets import MOTHERDUCK_TOKEN
from lake_assets.lake.catalog import spec
from lake_assets.lake.postgres import client_options
from lake_assets.storage.backends import backend_of

ALIAS = "lake"

_EXTENSIONS: dict[type, tuple[str, ...]] = {
    SqliteCatalog: ("sqlite_scanner",),
    DuckdbCatalog: (),
    PostgresCatalog: ("postgres_scanner",),
    MotherDuckCatalog: ("motherduck",),
}


def alias(lake: Lake) -> str:
    """Return the name of the attached lake; a managed database of MotherDuck keeps its own name."""
    if lake.is_managed and isinstance(lake.catalog, MotherDuckCatalog):
        return lake.catalog.database
    return ALIAS


def extensions(lake: Lake) -> tuple[str, ...]:
    """Return the DuckDB extensions that this lake needs."""
    needed = [name for storage in lake.storages if (name := backend_of(storage).extension)]
    if lake.inserts_only:
        needed.append("httpfs")  # contains DuckDB's cryptography
    chain = ["aws"] if chained(lake) else []
    return tuple(dict.fromkeys(("ducklake", *_EXTENSIONS[type(lake.catalog)], *needed, *chain)))


def chained(lake: Lake) -> tuple[str, ...]:
    """Return the roots of the storages for which DuckDB uses AWS's credential chain."""
    return tuple(dict.fromkeys(storage.root for storage in lake.storages if backend_of(storage).is_chained))


def http_limits(lake: Lake) -> HttpLimits:
    """Return how DuckDB reaches this lake's storages; it has one setting for all of them, and the config one way."""
    asked = [storage.requests for storage in lake.storages if storage.requests is not None]
    if not asked:
        return HttpLimits()
    certificates, proxy = way_of(lake.storages)
    patient = max(asked, key=lambda each: each.retry_seconds)
    return HttpLimits(
        patient.retries,
        patient.first_wait,
        max(each.timeout for each in asked),
        certificates,
        None if proxy is None else proxy.get_secret_value(),
    )


def secret_statements(lake: Lake) -> tuple[str, ...]:
    """Return the statements that create the secrets of catalog and storages; they must never be logged."""
    statements = []
    if isinstance(lake.catalog, PostgresCatalog):
        statements.append(_create_secret("lake_catalog", _postgres(lake.catalog)))
    if isinstance(lake.catalog, MotherDuckCatalog):
        statements.append(f"SET motherduck_token = {literal(motherduck_token())}")
    if lake.storage is not None and not lake.storage.is_local:
        statements.append(_create_secret("lake_storage", backend_of(lake.storage).as_duckdb_secret()))
    sources = ((f"source_{number}", source) for number, source in enumerate(lake.indexed))
    for name, storage in (("lake_staging", lake.staging), *sources):
        if storage is None or storage.is_local:
            continue
        # If the lake lies below a source, the lake's secret is used for both: the source's key may be read-only.
        if storage is not lake.staging and lake.data_path.startswith(f"{storage.root}/"):
            continue
        # DuckDB uses the secret with the longest scope, so this one is used for the storage only.
        scope = {"SCOPE": literal(f"{storage.root}/")}
        statements.append(_create_secret(name, backend_of(storage).as_duckdb_secret() | scope))
    return tuple(statements)


def create_statements(lake: Lake) -> tuple[str, ...]:
    """Return the statements before the first ATTACH of a lake; they may contain secrets and must never be logged."""
    if not isinstance(lake.catalog, MotherDuckCatalog):
        return ()  # ATTACH itself creates the lake
    database = identifier(lake.catalog.database)
    if lake.is_managed:
        return ("ATTACH 'md:'", f"CREATE DATABASE IF NOT EXISTS {database} (TYPE DUCKLAKE)")
    path = literal(lake.data_path)
    statements = ["ATTACH IF NOT EXISTS 'md:'"]
    if lake.catalog.store_secret:
        options = backend_of(lake.own_storage).as_duckdb_secret()
        statements.append(_create_secret(f"{lake.catalog.database}_storage", options, where=" IN MOTHERDUCK"))
    statements.append(f"CREATE DATABASE IF NOT EXISTS {database} (TYPE DUCKLAKE, DATA_PATH {path})")
    return tuple(statements)


def attach_statement(lake: Lake, *, read_only: bool = False) -> str:
    """Return the `ATTACH` statement.

    The data path is always absolute: with a relative one DuckLake's own orphan clean-up deletes live files that have an
    absolute path. A lake that MotherDuck manages is a database of the server, and has no options. A version that the
    installed extension does not have is a ConfigError.
    """
    if lake.is_managed:
        return f"ATTACH IF NOT EXISTS {literal(f'md:{alias(lake)}')}"
    options = {"DATA_PATH": literal(lake.data_path)}
    if isinstance(lake.catalog, PostgresCatalog):
        options["META_SECRET"] = literal("lake_catalog")
    if isinstance(lake.catalog, SqliteCatalog) and not read_only:
        # Otherwise a reader's open transaction blocks every commit. The file keeps the mode.
        options["META_JOURNAL_MODE"] = literal("WAL")
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
    return f"ATTACH {literal('ducklake:' + _metadata(lake.catalog))} AS {ALIAS} ({listed})"


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


def motherduck_token() -> str:
    """Return MotherDuck's token from the environment; raises ConfigError without one."""
    token = os.environ.get(MOTHERDUCK_TOKEN)
    if not token:
        raise ConfigError(f"a lake on MotherDuck needs {MOTHERDUCK_TOKEN} in the environment:", "set it to a token.")
    return token


def catalog_source(lake: Lake) -> tuple[str, list[str]]:
    """Return what to attach to read the catalog's database itself, and the options of ATTACH."""
    catalog, source = lake.catalog, _metadata(lake.catalog)
    if isinstance(catalog, PostgresCatalog):
        return source.removeprefix("postgres:"), ["TYPE postgres", "SECRET lake_catalog"]
    return source.removeprefix("sqlite:"), ["TYPE sqlite"] if isinstance(catalog, SqliteCatalog) else []


def _metadata(catalog: Catalog) -> str:
    """Return the catalog's database after `ducklake:` in ATTACH."""
    if isinstance(catalog, PostgresCatalog):
        return "postgres:" + " ".join(f"{name}={_of_libpq(value)}" for name, value in client_options(catalog).items())
    if isinstance(catalog, MotherDuckCatalog):
        return f"md:{spec.motherduck_database(catalog.database)}"
    prefix = "sqlite:" if isinstance(catalog, SqliteCatalog) else ""
    return f"{prefix}{Path(catalog.path).absolute()}"


def _of_libpq(value: object) -> str:
    """Return a value for a connection string of libpq."""
    text = re.sub(r"([\\'])", r"\\\1", str(value))
    return text if text.isalnum() else f"'{text}'"


def _postgres(catalog: PostgresCatalog) -> dict[str, str]:
    options = {
        "TYPE": "postgres",
        "HOST": literal(catalog.host),
        "PORT": str(catalog.port),
        "DATABASE": literal(catalog.database),
        "USER": literal(catalog.user),
    }
    if catalog.password is not None:
        options["PASSWORD"] = literal(catalog.password.get_secret_value())
    return options


def _create_secret(name: str, options: dict[str, str], where: str = "") -> str:
    listed = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"CREATE OR REPLACE SECRET {name}{where} ({listed})"


def _value(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else literal(value)
