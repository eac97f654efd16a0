"""A connection to a PostgreSQL catalog beside DuckLake's own, and what a server says that cannot be used for now."""

import re
from typing import TYPE_CHECKING, Any

from lake_assets.config.catalogs import PostgresCatalog
from lake_assets.errors import CatalogError, CatalogUnreachableError
from lake_assets.lake.vendor_errors import Meaning, matches

if TYPE_CHECKING:
    import psycopg

# The statement that failed may hold any text, such as the error of an earlier run.
_STATEMENT = re.compile(r'(?:query|prepare query) ".*":\s', re.DOTALL)
_BEFORE_REASON = re.compile(r"^.*(?:failed|FATAL|ERROR):\s+", re.DOTALL)
_REASON = 200  # characters


def place(catalog: PostgresCatalog) -> str:
    """A catalog's place for messages, without secrets."""
    return f"postgres://{catalog.host}:{catalog.port}/{catalog.database}"


def connect(catalog: PostgresCatalog, *, autocommit: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
    """A new connection; as a context it commits or rolls back, and closes.

    Raises:
        CatalogUnreachableError: the server does not answer, or takes no connections for now.
        CatalogError: the server refuses the user, or does not have the database.
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
        raise (unreachable(catalog, error) or refused(catalog, error)) from error


def unreachable(catalog: PostgresCatalog, error: Exception) -> CatalogUnreachableError | None:
    """The error for a server that is away or takes no connections; None if it has answered otherwise.

    Args:
        catalog: whose server.
        error: of psycopg or of DuckDB, which both say it in libpq's words.
    """
    text = str(error)
    said = _STATEMENT.sub("", text)
    # Of a connection that was lost at the commit DuckDB says no more than that it could not roll back either.
    lost = matches(text, Meaning.LOST)
    # An address may stand for several hosts: where the last refuses for good, it does not matter that another was away.
    if matches(said, Meaning.REFUSED) or not (lost or matches(said, Meaning.AWAY)):
        return None
    why = "the connection was lost" if lost else _reason(said)
    return CatalogUnreachableError(
        f"the catalog {place(catalog)} is unreachable: {why}:",
        "check host, port and network, and that the server runs and has connections to spare; then run it again.",
    )


def refused(catalog: PostgresCatalog, error: Exception) -> CatalogError:
    """The error for a server that has answered, and lets the user not in."""
    return CatalogError(
        f"the catalog {place(catalog)} cannot be opened: {_reason(str(error))}:",
        "check host, port, database, user and password.",
    )


def _reason(text: str) -> str:
    """What the client or the server says of the last host that was tried, in one line."""
    return _BEFORE_REASON.sub("", text.strip()).split("\n", 1)[0][:_REASON].strip().rstrip(".")
