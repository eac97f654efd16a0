"""Connections to a PostgreSQL catalog, and the errors of a server that is unreachable or refuses."""

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lake_assets.base.errors import CatalogError, CatalogUnreachableError
from lake_assets.config.catalogs import PostgresCatalog
from lake_assets.lake.database_errors import Meaning, matches

if TYPE_CHECKING:
    import psycopg

# The failed statement may contain any text, such as the error of an earlier run.
_STATEMENT = re.compile(r'(?:query|prepare query) ".*":\s', re.DOTALL)
_BEFORE_REASON = re.compile(r"^.*(?:failed|FATAL|ERROR|Postgres at \".*?\"):\s+", re.DOTALL)
_REASON = 200  # characters
TRUST_FIX = (
    "correct sslmode and sslrootcert of the catalog (what the server demands, and who vouches for it), or sslcert and "
    "sslkey (by which the server knows this client)."
)
SYSTEM_FIX = "set SSL_CERT_FILE to the file of the machine's authorities, or sslrootcert of the catalog to that file."
REACH_FIX = "correct host and port, or run it again when the server runs and has connections to spare."

# A server whose machine or network is gone is noticed within a minute: by a statement that is not acknowledged, and on
# an idle connection by probes. Without these the operating system takes two hours.
_LIVENESS = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_TEXTS = {"client_encoding": "UTF8"}  # DuckDB reads no other; a role, a database or PGCLIENTENCODING may have one


def client_options(catalog: PostgresCatalog) -> dict[str, Any]:
    """Return the options of libpq for both clients: of encryption, texts, and how long a connection may hang."""
    tls = catalog.model_dump(include={"sslmode", "sslrootcert", "sslcert", "sslkey"}, exclude_none=True)
    return {"connect_timeout": catalog.connect_timeout, **_LIVENESS, **_TEXTS, **tls}


def connect(catalog: PostgresCatalog, *, autocommit: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
    """Return a new connection; as a context manager it commits or rolls back, and closes."""
    import psycopg  # noqa: PLC0415 - an extra that only lakes on PostgreSQL need

    try:
        connection = psycopg.connect(
            host=catalog.host,
            port=catalog.port,
            dbname=catalog.database,
            user=catalog.user,
            password=catalog.password.get_secret_value() if catalog.password else None,
            autocommit=autocommit,
            prepare_threshold=None,  # a pooler may give the next transaction a session that has not prepared it
            **client_options(catalog),
        )
        if not (connection.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
            connection.execute("SET DateStyle TO ISO")  # psycopg reads times of no other
    except psycopg.OperationalError as error:
        raise (unreachable(catalog, error) or refused(catalog, error)) from error
    return connection


def unreachable(catalog: PostgresCatalog, error: Exception) -> CatalogUnreachableError | None:
    """Return the error for a server that is unreachable or accepts no connections; None for another error.

    It is of psycopg or of DuckDB, which both have libpq's texts.
    """
    text = str(error)
    said = _STATEMENT.sub("", text)
    # If the connection was lost at the commit, DuckDB says only that the rollback failed.
    lost = matches(text, Meaning.LOST)
    # A name may have several hosts: if the last one refuses for good, it does not matter that another was unreachable.
    if matches(said, Meaning.REFUSED) or not (lost or matches(said, Meaning.AWAY)):
        return None
    return unreachable_now(catalog, "the connection was lost" if lost else _reason(said))


def unreachable_now(catalog: PostgresCatalog, why: str) -> CatalogUnreachableError:
    """Return the error for a server that is unreachable for this reason."""
    return CatalogUnreachableError(f"the catalog {catalog.location} is unreachable: {why}:", REACH_FIX)


def ended_while_idle(catalog: PostgresCatalog, seconds: float) -> CatalogUnreachableError | None:
    """Return the error for a session that was lost after so many seconds in a transaction, as the server may end it.

    None if the server ends no session for that so early, or is away.
    """
    query = "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
    with suppress(CatalogError), connect(catalog) as connection:
        ((limit,),) = connection.execute(query).fetchall()  # milliseconds; 0 is no limit
        if 0 < limit <= seconds * 1000:
            return CatalogUnreachableError(
                f"the catalog {catalog.location} has ended the session of a commit, whose transaction may be idle for "
                f"{limit / 1000:g} seconds:",
                "let uploads take longer: ALTER ROLE … IN DATABASE … SET idle_in_transaction_session_timeout = '1h'.",
            )
    return None


def connection_error(catalog: PostgresCatalog, error: Exception) -> CatalogError | None:
    """Return the error for a server that is unreachable or refuses a connection; None for an error of a statement."""
    if (away := unreachable(catalog, error)) is not None:
        return away
    said = _STATEMENT.sub("", str(error))
    has_refused = matches(said, Meaning.REFUSED) or matches(said, Meaning.NOT_CONNECTED)
    return refused(catalog, error) if has_refused else None


def refused(catalog: PostgresCatalog, error: Exception) -> CatalogError:
    """Return the error for a server that refuses the user."""
    reason, fix = _reason(str(error)), "correct host, port, database, user or password."
    if matches(reason, Meaning.UNTRUSTED):
        # The wheel of psycopg looks for the machine's where no machine has them.
        fix = SYSTEM_FIX if catalog.sslrootcert == "system" else TRUST_FIX
    return CatalogError(f"the catalog {catalog.location} cannot be opened: {reason}:", fix)


def _reason(text: str) -> str:
    """Return the text of the client or the server about the last host, in one line."""
    return _BEFORE_REASON.sub("", text.strip()).split("\n", 1)[0][:_REASON].strip().rstrip(".")
