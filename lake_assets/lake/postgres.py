"""A connection to a PostgreSQL catalog beside DuckLake's own."""

from typing import TYPE_CHECKING, Any

from lake_assets.config.catalogs import PostgresCatalog
from lake_assets.errors import CatalogError

if TYPE_CHECKING:
    import psycopg


def connect(catalog: PostgresCatalog, *, autocommit: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
    """A new connection; as a context it commits or rolls back, and closes.

    Raises:
        CatalogError: the server is unreachable, or refuses the user.
    """
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    try:
        return psycopg.connect(
            host=catalog.host,
            port=catalog.port,
            dbname=catalog.database,
            user=catalog.user,
            password=catalog.password.get_secret_value() if catalog.password else None,
            connect_timeout=catalog.connect_timeout,
            autocommit=autocommit,
        )
    except psycopg.OperationalError as error:
        raise CatalogError(
            f"the catalog postgres://{catalog.host}:{catalog.port}/{catalog.database} is unreachable: {error}".rstrip()
            + ":",
            "check host, port, user and password.",
        ) from error
