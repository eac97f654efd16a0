"""Errors of PostgreSQL's server and client: of an unreachable server, and of one that refuses."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import duckdb
import psycopg
import pytest

from dev.servers.absent import started
from dev.servers.pgbouncer import encrypted_pgbouncer
from dev.servers.postgres import PostgresServer, StoppablePostgres, pgserver
from dev.servers.postgres_proxy import CONNECT, Rule, postgres_proxy
from dev.servers.tls import Authority, authority_in
from lake_assets import connect as connect_to
from lake_assets.base.errors import CatalogError, CatalogUnreachableError
from lake_assets.config.lake import Lake, PostgresCatalog
from lake_assets.lake.attach import attach_statement
from lake_assets.lake.backends import commit_lock
from lake_assets.lake.backends.postgres import client_options, connect_postgres, unreachable_server
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.writer import ROWS, write
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, World
from lake_assets_tests.world_fixtures import database_on

CATALOG = PostgresCatalog(type="postgres", database="lake", user="ann")
REFUSED = "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
AT = 'connection to server at "::1", port 5432 failed: '
ATTACH = 'IO Error: Failed to attach DuckLake MetaData "m" at path + "postgres:"Unable to connect to Postgres at "": '

# What the vendor's tables say of each text is tested by `test_vendor_errors.py`; this is what a user is shown of it.
SHOWN = {
    f"{ATTACH}{AT}{REFUSED}\n": "Connection refused",
    f"{AT}FATAL:  the database system is starting up": "the database system is starting up",
    "server closed the connection unexpectedly\n\tThis probably means …": "server closed the connection unexpectedly",
    "FATAL:  terminating connection due to administrator command\nSSL connection has been closed unexpectedly": (
        "terminating connection due to administrator command"
    ),
    'TransactionContext Error: Failed to commit: Failed to execute query "ROLLBACK": ': "the connection was lost",
    # The server has answered.
    f'{ATTACH}{AT}FATAL:  password authentication failed for user "ann"\n': None,
    f'{AT}{REFUSED}\n{AT.replace("::1", "127.0.0.1")}FATAL:  password authentication failed for user "ann"': None,
    "failed to resolve host 'typo': [Errno -2] Name or service not known": None,
    "Failed to execute query \"INSERT INTO ingest_runs VALUES ('Connection refused')\": ERROR:  disk full": None,
}


@pytest.mark.parametrize("text", SHOWN)
def test_an_unreachable_server_is_recognized_by_its_text(text: str) -> None:
    error, why = unreachable_server(CATALOG, duckdb.IOException(text)), SHOWN[text]

    problem = f"the catalog postgres://localhost:5432/lake is unreachable: {why}:"
    assert (error and error.problem) == (problem if why else None)


def test_settings_of_a_database_are_not_those_of_a_catalogs_sessions(
    local_world: World, postgres: PostgresServer
) -> None:
    settings = {"DateStyle": "SQL, DMY", "TimeZone": "Asia/Kolkata", "client_encoding": "LATIN1", "search_path": "x"}
    local_world.catalog = database_on(postgres)
    local_world.lake_options = {"commit_retries": 9}  # no copy of another lake
    database = local_world.catalog["database"]
    with postgres.connect() as connection:
        for name, value in settings.items():
            connection.execute(f"ALTER DATABASE {database} SET {name} = {value!r}".encode())
    text = "region=São,date=2026-02-11"
    for total in (1, 2):
        assert local_world.commit(text, total).status == "committed"
        with connect_to(local_world.config) as reader:
            assert reader.execute("SELECT region, total FROM sales").fetchall() == [("São", total)]


def lake_on(catalog: dict[str, Any], world: World) -> DuckLake:
    return DuckLake(Lake.model_validate({"catalog": catalog, "storage": world.storage}))


def opened(lake: DuckLake) -> None:
    with lake.open(create=True):
        pass


def locked(lake: DuckLake) -> None:
    with commit_lock(lake.config):
        pass


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"database": "none"}])
def test_a_server_that_refuses_is_not_unreachable(
    local_world: World, postgres: PostgresServer, wrong: dict[str, str]
) -> None:
    catalog = database_on(postgres) | wrong | {"sslcert": "/of a certificate.pem"}  # which DuckDB's error has too
    said = rf"(?:{next(iter(wrong.values()))}|password authentication failed).*: correct host"
    for reach in (opened, locked):
        with pytest.raises(CatalogError, match=said) as raised:
            reach(lake_on(catalog, local_world))
        assert not isinstance(raised.value, CatalogUnreachableError)


def test_a_session_that_the_server_ends_is_unreachable_and_the_next_one_works(
    local_world: World, postgres: PostgresServer
) -> None:
    catalog = database_on(postgres)
    lake = lake_on(catalog, local_world)

    def directly(session: LakeSession) -> None:
        with session.write() as database:
            postgres.end_sessions(catalog["database"])
            database.rows("SELECT 1")

    def by_the_extension(session: LakeSession) -> None:
        with session.transaction():
            session.rows("CREATE TABLE lake.t (a INTEGER)")
            postgres.end_sessions(catalog["database"])

    opened(lake)
    for work in (directly, by_the_extension):
        with pytest.raises(CatalogUnreachableError, match="unreachable: ") as raised, lake.open() as session:
            work(session)
        assert "ROLLBACK" not in str(raised.value)
    with lake.open() as session:
        assert session.current_snapshot() == 0


def test_a_lock_whose_session_ends_fails_one_that_waits_for_it_and_not_its_owner(
    local_world: World, postgres: PostgresServer
) -> None:
    """The lock is for speed: the catalog itself refuses overlapping commits."""
    catalog = database_on(postgres)
    config = lake_on(catalog, local_world).config
    blocked = f"FROM pg_stat_activity WHERE datname = '{catalog['database']}' AND wait_event = 'advisory'"

    def end_the_one_that_waits() -> None:
        with postgres.connect() as other:
            end = f"SELECT pg_terminate_backend(pid) {blocked}".encode()
            until(lambda: bool(other.execute(end).fetchall()), "nothing waits for the lock")

    with commit_lock(config), ThreadPoolExecutor(1) as pool:
        ended = pool.submit(end_the_one_that_waits)
        with pytest.raises(CatalogUnreachableError, match="unreachable: server closed"), commit_lock(config):
            pass
        ended.result()
        postgres.end_sessions(catalog["database"])


def test_a_stopped_server_is_the_same_error_everywhere_and_shows_no_password(
    local_world: World, stoppable_postgres: StoppablePostgres
) -> None:
    local_world.catalog = database_on(stoppable_postgres.server)
    lake = local_world.stream.lake
    opened(lake)
    with connect_to(local_world.config) as connection:
        stoppable_postgres.stop()
        with pytest.raises(duckdb.Error) as shown:
            connection.execute("SELECT count(*) FROM lake.snapshots()")
    assert "pass" not in str(shown.value)
    messages = set()
    for reach in (
        lambda: opened(lake),
        lambda: locked(lake),
        lambda: connect_postgres(lake.config.catalog),  # type: ignore[arg-type]
        lambda: connect_to(local_world.config),
    ):
        with pytest.raises(CatalogUnreachableError) as raised:
            reach()
        messages.add(str(raised.value))
    assert len(messages) == 1
    assert "pass" not in messages.pop()
    stoppable_postgres.start()
    opened(lake)


@pytest.mark.more
@pytest.mark.parametrize(
    "encrypted", [pytest.param(False, id="driver"), pytest.param(True, id="DuckDB", marks=pytest.mark.more)]
)
def test_a_server_that_accepts_connections_and_never_answers_is_unreachable(
    local_world: World, postgres: PostgresServer, *, encrypted: bool
) -> None:
    """DuckDB itself connects first to an encrypted lake."""
    with postgres_proxy(postgres) as proxy:
        catalog = database_on(proxy.server)
        options = {"attach_options": {"encrypted": True}} if encrypted else {}

        def lake_of(catalog: dict[str, Any]) -> DuckLake:
            return DuckLake(Lake.model_validate({"catalog": catalog, "storage": local_world.storage} | options))

        opened(lake_of(catalog))
        lake = lake_of(catalog | {"connect_timeout": 2})
        proxy.inject(Rule("hang", lambda statement: statement.text == CONNECT, times=100))

        with pytest.raises(CatalogUnreachableError, match="timeout expired"), lake.open():
            pass


def test_connections_notice_within_a_minute_that_the_server_is_gone(
    local_world: World, postgres: PostgresServer
) -> None:
    lake = lake_on(database_on(postgres), local_world)
    assert isinstance(lake.config.catalog, PostgresCatalog)
    with connect_postgres(lake.config.catalog) as connection:
        options = {parameter.keyword: parameter.val for parameter in connection.pgconn.info}
        bounds = client_options(lake.config.catalog)

    given = {name.decode(): (value or b"").decode() for name, value in options.items()}
    assert {name: given[name] for name in bounds} == {name: str(value) for name, value in bounds.items()}
    assert bounds["keepalives_idle"] + bounds["keepalives_interval"] * bounds["keepalives_count"] == 60
    assert bounds["tcp_user_timeout"] == 60_000
    for name, value in bounds.items():
        assert f"{name}={value}" in attach_statement(lake.config)


@pytest.mark.more
def test_writers_that_get_no_connection_are_run_again_and_lose_nothing(local_world: World) -> None:
    """As many processes want more connections than `max_connections` permits."""
    texts = [f"region=R{number},date=2026-02-11" for number in range(6)]
    with started("PostgreSQL", pgserver("-c", "max_connections=7")) as server:  # three of which are the superuser's
        local_world.catalog = database_on(server)
        local_world.commit(NW, 0)
        reasons = "slots are reserved|too many clients"
        with ExitStack() as others:
            with pytest.raises(psycopg.OperationalError, match=reasons):
                [others.enter_context(server.connect()) for _ in range(7)]
            for reach in (lambda: local_world.commit(NW, 7), lambda: connect_to(local_world.config)):
                with pytest.raises(CatalogUnreachableError, match=f"(?:{reasons}).*connections to spare"):
                    reach()
        assert local_world.totals() == [0]

        def commit(text: str) -> int:
            world, refusals = replace(local_world, _opened=None), 0
            while True:
                try:
                    write(world, text)
                except CatalogUnreachableError:
                    refusals += 1
                else:
                    return refusals

        with ThreadPoolExecutor(len(texts)) as pool:
            assert sum(pool.map(commit, texts)) >= 1
        assert len(local_world.totals()) == 1 + ROWS * len(texts)
        assert len(local_world.ledger()) == 1 + len(texts)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """That of the server, and another one; in folders whose names a connection string has to quote."""
    one, other = (authority_in(tmp_path_factory.mktemp(name)) for name in ("it's a certificate", "other"))
    return one, other


@pytest.fixture(scope="module")
def encrypted(postgres: PostgresServer, authorities: tuple[Authority, Authority]) -> Iterator[PostgresServer]:
    with encrypted_pgbouncer(postgres, authorities[0]) as server:
        yield server


def test_both_clients_check_the_certificate_of_a_server_that_demands_encryption(
    local_world: World, encrypted: PostgresServer, authorities: tuple[Authority, Authority]
) -> None:
    ours, other = ({"sslmode": "verify-full", "sslrootcert": str(each.file)} for each in authorities)
    local_world.catalog = database_on(encrypted) | ours
    local_world.commit(NW, 1)
    assert local_world.commit(NW, 2).status == "committed"
    with connect_to(local_world.config) as connection:
        assert connection.execute("SELECT total FROM sales").fetchall() == [(2,)]

    for options, said in (
        (other, "certificate verify failed|SSL error"),
        ({"sslmode": "disable"}, "SSL required"),
        ({"host": "127.0.0.2"}, "does not match host name"),
        ({"sslmode": "require", "sslrootcert": "system"}, "weak sslmode"),
    ):
        _refused_by_both(local_world, options, said)


def _refused_by_both(world: World, options: dict[str, str], said: str) -> None:
    lake = lake_on(world.catalog | options, world)
    for reach in (opened, locked):
        with pytest.raises(CatalogError, match=f"(?:{said}).*: .*sslrootcert") as raised:
            reach(lake)
        assert not isinstance(raised.value, CatalogUnreachableError)


@pytest.mark.more
def test_both_clients_have_a_certificate_if_the_server_demands_one(
    local_world: World, postgres: PostgresServer, authorities: tuple[Authority, Authority]
) -> None:
    ours, other = authorities
    pair = {"sslcert": str(ours.client), "sslkey": str(ours.client)}
    with encrypted_pgbouncer(postgres, ours, "verify-ca") as server:
        without = database_on(postgres) | {"port": server.port, "sslmode": "verify-full", "sslrootcert": str(ours.file)}
        local_world.catalog = without | pair
        local_world.commit(NW, 1)
        with connect_to(local_world.config) as connection:
            assert connection.execute("SELECT total FROM sales").fetchall() == [(1,)]

        local_world.catalog = without
        theirs = {"sslcert": str(other.client), "sslkey": str(other.client)}
        for options, said in (
            ({}, "certificate required|SSL error"),
            (theirs, "unknown ca|SSL error"),
            (pair | {"sslkey": str(ours.file.with_name("none.pem"))}, "private key file"),
        ):
            _refused_by_both(local_world, options, said)


@pytest.mark.more
def test_both_clients_trust_the_machines_authorities(
    local_world: World,
    encrypted: PostgresServer,
    authorities: tuple[Authority, Authority],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_world.catalog = database_on(encrypted) | {"sslrootcert": "system"}
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities[1].file))
    _refused_by_both(local_world, {}, "certificate verify failed|SSL error")

    monkeypatch.setenv("SSL_CERT_FILE", str(authorities[0].file))
    local_world.commit(NW, 1)
    with connect_to(local_world.config) as connection:
        assert connection.execute("SELECT total FROM sales").fetchall() == [(1,)]
