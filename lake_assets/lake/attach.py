"""The statements that attach a DuckLake, for each catalog and storage that the config knows.

Sources: DuckLake's manual (connecting, choosing a catalog database) and DuckDB's manual (S3 API, PostgreSQL secrets).
"""

from pathlib import Path
from urllib.parse import urlsplit

from lake_assets.config.catalogs import DuckdbCatalog, PostgresCatalog, SqliteCatalog
from lake_assets.config.models import Lake
from lake_assets.config.storages import LocalStorage, S3Storage
from lake_assets.lake.engine import literal

ALIAS = "lake"

_EXTENSIONS: dict[type, tuple[str, ...]] = {
    SqliteCatalog: ("sqlite_scanner",),
    DuckdbCatalog: (),
    PostgresCatalog: ("postgres_scanner",),
    LocalStorage: (),
    S3Storage: ("httpfs",),
}


def extensions(lake: Lake) -> tuple[str, ...]:
    """The DuckDB extensions that this lake needs."""
    return ("ducklake", *_EXTENSIONS[type(lake.catalog)], *_EXTENSIONS[type(lake.storage)])


def secret_statements(lake: Lake) -> tuple[str, ...]:
    """The `CREATE SECRET` statements for catalog and storage; they hold secrets, so they are never logged."""
    statements = []
    if isinstance(lake.catalog, PostgresCatalog):
        statements.append(_create_secret("lake_catalog", "postgres", _postgres(lake.catalog)))
    if isinstance(lake.storage, S3Storage):
        statements.append(_create_secret("lake_storage", "s3", _s3(lake.storage)))
    return tuple(statements)


def attach_statement(lake: Lake, *, read_only: bool = False) -> str:
    """The `ATTACH` statement.

    The data path is always absolute: with a relative one DuckLake's own orphan clean-up deletes files that are
    live under an absolute path.
    """
    options = {"DATA_PATH": literal(data_path(lake))}
    if isinstance(lake.catalog, PostgresCatalog):
        options["META_SECRET"] = literal("lake_catalog")
    if isinstance(lake.catalog, SqliteCatalog) and not read_only:
        # Otherwise a reader's open transaction keeps every commit out. The mode stays with the file.
        options["META_JOURNAL_MODE"] = literal("WAL")
    if read_only:
        options["READ_ONLY"] = "true"
    listed = ", ".join(f"{name} {value}" for name, value in options.items())
    return f"ATTACH {literal('ducklake:' + _metadata(lake.catalog))} AS {ALIAS} ({listed})"


def data_path(lake: Lake) -> str:
    """The root of the lake's storage, with a trailing slash."""
    if isinstance(lake.storage, LocalStorage):
        return f"{Path(lake.storage.path).absolute()}/"
    return f"s3://{lake.storage.bucket}/{lake.storage.prefix}".rstrip("/") + "/"


def _metadata(catalog: SqliteCatalog | DuckdbCatalog | PostgresCatalog) -> str:
    if isinstance(catalog, PostgresCatalog):
        return "postgres:"
    prefix = "sqlite:" if isinstance(catalog, SqliteCatalog) else ""
    return f"{prefix}{Path(catalog.path).absolute()}"


def _postgres(catalog: PostgresCatalog) -> dict[str, str]:
    options = {
        "HOST": literal(catalog.host),
        "PORT": str(catalog.port),
        "DATABASE": literal(catalog.database),
        "USER": literal(catalog.user),
    }
    if catalog.password is not None:
        options["PASSWORD"] = literal(catalog.password.get_secret_value())
    return options


def _s3(storage: S3Storage) -> dict[str, str]:
    options = {"REGION": literal(storage.region), "SCOPE": literal(f"s3://{storage.bucket}")}
    if storage.key_id is None or storage.secret is None:
        options["PROVIDER"] = "credential_chain"
    else:
        options["KEY_ID"] = literal(storage.key_id)
        options["SECRET"] = literal(storage.secret.get_secret_value())
    if storage.session_token is not None:
        options["SESSION_TOKEN"] = literal(storage.session_token.get_secret_value())
    if storage.endpoint is not None:
        endpoint = urlsplit(storage.endpoint)
        options |= {
            "ENDPOINT": literal(endpoint.netloc),
            "USE_SSL": str(endpoint.scheme == "https").lower(),
            "URL_STYLE": literal("path"),
        }
    return options


def _create_secret(name: str, kind: str, options: dict[str, str]) -> str:
    listed = ", ".join(f"{key} {value}" for key, value in {"TYPE": kind, **options}.items())
    return f"CREATE OR REPLACE SECRET {name} ({listed})"
