"""Advice of errors about a catalog in PostgreSQL: its server, the way to it, its limits, locks and rights."""

import tempfile
from functools import partial
from pathlib import Path

import pytest

from dev.servers.pgbouncer import encrypted_pgbouncer
from dev.servers.postgres import PostgresServer, StoppablePostgres, stoppable_in
from dev.servers.proxy import Rule, S3Proxy
from dev.servers.tls import authority_in
from lake_assets.lake.backends import commit_lock
from lake_assets.lake.session import LakeSession
from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.advice.test_lake import other_of
from lake_assets_tests.deploy.test_postgres_roles import Roles, roles
from lake_assets_tests.faults.outage import small_disk
from lake_assets_tests.faults.test_disks import fill
from lake_assets_tests.faults.writer import overtaken
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

__all__ = ["roles"]

case = Cases(pytest.mark.more)


def limit(world: World, server: PostgresServer, name: str, value: str) -> None:
    """Limit sessions of the catalog's user from now on."""
    with server.connect() as connection:
        role = f'ALTER ROLE "{server.user}" IN DATABASE {world.catalog["database"]}'
        connection.execute(f"{role} SET {name} = '{value}'".encode())
    world._opened = None


@case
def a_statement_gets_the_time_that_it_takes(local_world: World, postgres: PostgresServer) -> Steps:
    local_world.catalog = database_on(postgres)
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    with postgres.connect(local_world.catalog["database"]) as connection:
        body = "BEGIN PERFORM pg_sleep(1); RETURN NEW; END"
        connection.execute(f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS '{body}'".encode())
        connection.execute(
            "CREATE TRIGGER slow BEFORE INSERT ON ducklake_snapshot FOR EACH ROW EXECUTE FUNCTION slow()"
        )
    limit(local_world, postgres, "statement_timeout", "300ms")
    yield "raise it for the catalog's user: ALTER ROLE"
    limit(local_world, postgres, "statement_timeout", "10min")
    return [1, 5]


@case
def a_server_that_takes_no_writes_is_replaced_by_the_primary(local_world: World, postgres: PostgresServer) -> Steps:
    local_world.catalog = database_on(postgres)
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    limit(local_world, postgres, "default_transaction_read_only", "on")
    yield "connect to the primary server, with a user that has no default_transaction_read_only"
    limit(local_world, postgres, "default_transaction_read_only", "off")
    return [1, 5]


@case
def a_database_that_cannot_hold_a_name_is_replaced_by_one_in_utf_8(
    local_world: World, postgres: PostgresServer
) -> Steps:
    def database(name: str, encoding: str) -> dict[str, object]:
        with postgres.connect() as connection:
            made = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
            connection.execute(made.encode())
        return database_on(postgres) | {"database": name}

    local_world.lake_options = {"commit_retries": 9}  # no copy of another lake
    local_world.catalog = database("narrow", "LATIN1")
    text = "region=東京,date=2026-02-11"
    yield partial(local_world.commit, text, 1), "create another database with TEMPLATE template0 ENCODING 'UTF8'"
    local_world.catalog = database("wide", "UTF8")
    local_world.commit(text, 1)
    local_world.commit(NW, 2)
    return [1, 2]


@case
def an_upload_gets_the_time_that_it_takes(local_world: World, postgres: PostgresServer, s3_proxy: S3Proxy) -> Steps:
    local_world.catalog, local_world.storage = database_on(postgres), bucket_on(s3_proxy.s3)
    local_world.lake_options = {"attach_options": {"encrypted": True}}
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    limit(local_world, postgres, "idle_in_transaction_session_timeout", "300ms")
    slow = Rule("slow", lambda request: request.method == "PUT", times=10**6, seconds=1)
    s3_proxy.inject(slow)
    yield "let uploads take longer: ALTER ROLE"
    limit(local_world, postgres, "idle_in_transaction_session_timeout", "1h")
    return [1, 5]


@case
def client_and_server_trust_each_other(
    local_world: World, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    authority = authority_in(tmp_path)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with encrypted_pgbouncer(postgres, authority, "verify-ca") as server:
        right = database_on(postgres) | {"port": server.port, "sslmode": "verify-full"}
        local_world.catalog = right | {"sslmode": "disable"}
        local_world.land(NW, sales(1))
        yield "correct sslmode and sslrootcert of the catalog (what the server demands, and who vouches for it)"
        local_world.catalog = right | {"sslrootcert": str(authority.file)}
        yield "sslcert and sslkey (by which the server knows this client)"
        right |= {"sslcert": str(authority.client), "sslkey": str(authority.client)}
        local_world.catalog = right | {"sslrootcert": "system"}
        yield "set SSL_CERT_FILE to the file of the machine's authorities | sslrootcert of the catalog to that file"
        local_world.catalog = right | {"sslrootcert": str(authority.file)}
        local_world.ingest(NW)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        local_world.catalog = right | {"sslrootcert": "system"}
        local_world.ingest(NW, force=True)
        assert local_world.totals() == [1]
    return None


@case
def a_lock_that_a_session_holds_is_free_when_that_has_ended(
    local_world: World, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.catalog, local_world.lake_options = database_on(postgres), {"commit_retries": 0}
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    monkeypatch.setattr("lake_assets.lake.backends.database_backend.TIMEOUT", 0.05)
    with (
        commit_lock(local_world.config.lakes["test"]),
        postgres.connect(local_world.catalog["database"]) as other,
    ):
        yield partial(local_world.ingest, NW, force=True), "see which session holds it (pg_locks, locktype advisory)"
        assert other.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted").fetchall()
    with postgres.connect(local_world.catalog["database"]) as other:
        other.execute(f"ALTER DATABASE {local_world.catalog['database']} SET lock_timeout = 100")
        other.execute("BEGIN; LOCK TABLE ducklake_snapshot IN ACCESS EXCLUSIVE MODE")
        yield partial(local_world.ingest, NW, force=True), "pg_locks in PostgreSQL"
        assert other.execute("SELECT pid FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted").fetchall()
    local_world.ingest(NW, force=True)
    return [1]


@case
def a_server_of_the_catalog_that_is_away_is_started(local_world: World, stoppable_postgres: StoppablePostgres) -> Steps:
    local_world.catalog = database_on(stoppable_postgres.server)
    local_world.commit(SW, 5)
    local_world.land(NW, sales(1))
    stoppable_postgres.stop()
    yield "run it again when the server runs and has connections to spare"
    stoppable_postgres.start()
    return [1, 5]


@case
def what_a_server_of_the_catalog_refuses_is_corrected(local_world: World, postgres: PostgresServer) -> Steps:
    right = local_world.catalog = database_on(postgres)
    local_world.land(NW, sales(1))
    for wrong in ({"password": "wrong"}, {"user": "nobody"}, {"database": "none"}):
        local_world.catalog = right | wrong
        yield "correct host, port, database, user or password"
    local_world.catalog = right
    return [1]


@case
def a_full_disk_of_the_server_gets_space(local_world: World) -> Steps:
    with (
        tempfile.TemporaryDirectory() as place,  # a socket's path is short
        small_disk(Path(place, "server"), "150m") as folder,
        stoppable_in(folder) as postgres,
    ):
        local_world.catalog = database_on(postgres.server)
        local_world.commit(SW, 5)
        for number in range(300):  # which need more than the pages that PostgreSQL has
            local_world.land(NW, sales(1), f"{number}.parquet")
        filler = fill(folder)
        yield "free space on the disk of its data, "
        filler.unlink()
        local_world.ingest(NW)
        assert local_world.totals() == [*[1] * 300, 5]
    return None


@case
def a_commit_that_others_overtook_is_run_again(
    local_world: World, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    local_world.catalog = database_on(postgres)
    other, totals = other_of(local_world), iter((6.0, 7.0))
    monkeypatch.setattr(LakeSession, "takes_locks", False)
    local_world.lake_options = {"commit_retries": 0}
    local_world.commit(SW, 5)

    def beside_another(total: float) -> None:
        with overtaken(None, lambda: other.commit(SW, next(totals))):
            local_world.commit(NW, total)

    yield partial(beside_another, 1), "session.py: run it again | raise commit_retries"
    local_world.ingest(NW)
    local_world.lake_options = {"commit_retries": 1}
    beside_another(2)
    return [2, 7]


@case
def a_right_of_the_catalogs_user_is_granted(local_world: World, roles: Roles) -> Steps:
    roles.become("lake_reader")
    local_world.land(NW, sales(2))
    yield "grant it to the catalog's user. deploy/postgres/roles.sql has the rights that each kind of user needs"
    roles.become("lake_writer")
    return [2]


@pytest.mark.parametrize("steps", case)
def test_advice_about_a_catalog_in_postgresql_that_is_followed_ends_in_the_right_rows(
    steps: Case, request: pytest.FixtureRequest
) -> None:
    follow(steps, request)
