"""A real PgBouncer before a PostgreSQL server, in transaction mode: each transaction gets any session of the server."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dev.servers.absent import absent, started
from dev.servers.postgres import PostgresServer
from dev.servers.process import free_ports, listens, retried, running
from dev.servers.system_user import SYSTEM_USER, needs_system_user
from dev.servers.tls import Authority

# The next transaction gets the session that was idle for longest, so a client seldom gets its last one again.
_SETTINGS = """\
[databases]
* = host={server.host} port={server.port} user='{user}' password='{password}'
[pgbouncer]
listen_addr = 127.0.0.1, 127.0.0.2
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
"""
_ENCRYPTED = """\
client_tls_sslmode = {sslmode}
client_tls_ca_file = {folder}/authority.pem
client_tls_key_file = {folder}/server.pem
client_tls_cert_file = {folder}/server.pem
"""


@retried
def _pgbouncer(
    server: PostgresServer, authority: Authority | None = None, sslmode: str = "require"
) -> Iterator[PostgresServer]:
    """PgBouncer on a free port of 127.0.0.1, which asks for no password; with an authority it demands encryption."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/bin:/usr/bin")
    if program is None:
        absent("no PgBouncer: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-pgbouncer-"))
    folder.chmod(0o755)  # it refuses to run as root
    (port,) = free_ports(1)
    user, password = (text.replace("'", "''") for text in (server.user, server.password))
    file = folder / "pgbouncer.ini"
    own = _SETTINGS.format(server=server, user=user, password=password, port=port)
    if authority is not None:
        for pem in (authority.server, authority.file):
            (folder / pem.name).write_bytes(pem.read_bytes())
        own += _ENCRYPTED.format(folder=folder, sslmode=sslmode)
    file.write_text(own)
    pooled = replace(server, port=port)
    with running(
        [program, str(file)],
        folder=folder,
        ready=lambda: _answers(pooled) if sslmode == "require" else listens(port),
        user=SYSTEM_USER if needs_system_user() else None,
    ):
        yield pooled


def _answers(server: PostgresServer) -> bool:
    import psycopg  # noqa: PLC0415 - may not be installed

    try:
        server.connect().close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture(scope="session")
def pgbouncer(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A PgBouncer in transaction mode before `postgres`."""
    with started("PgBouncer", _pgbouncer(postgres)) as server:
        yield server


@contextmanager
def encrypted_pgbouncer(
    server: PostgresServer, authority: Authority, sslmode: str = "require"
) -> Iterator[PostgresServer]:
    """A PgBouncer that demands encryption, and has a certificate of this authority; by `verify-ca` clients have one."""
    with started("PgBouncer", _pgbouncer(server, authority, sslmode)) as encrypted:
        yield encrypted
