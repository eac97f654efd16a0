"""The roles of `deploy/postgres/roles.sql`: each suffices for its work, and every right in it is needed."""

import itertools
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lake_assets.errors import CatalogError
from lake_assets_tests.faults.writer import write
from lake_assets_tests.plain_client import plain_client
from lake_assets_tests.servers.postgres import PostgresServer
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

if TYPE_CHECKING:
    import psycopg

SQL = Path(__file__).parents[2] / "deploy/postgres/roles.sql"
PASSWORD = "a password"
INLINED = "ducklake_inlined_data_"


@dataclass
class Roles:
    """A lake of an owner, with a user of each role."""

    world: World
    owner: dict[str, Any]
    names: dict[str, str]
    connection: "psycopg.Connection[tuple[object, ...]]"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def become(self, role: str | None) -> None:
        """Use the lake as a user of this role; as the owner when None."""
        other = {} if role is None else {"user": self.names[role], "password": PASSWORD}
        self.world.catalog = self.owner | other

    def ingest(self) -> None:
        """All that a run may come to: a partition is made, replaced, unchanged, and refused."""
        world, number = self.world, next(self._numbers)
        new = f"region=R{number},date=2026-02-11"
        for partition in (NW, new):
            world.land(partition, sales(1, number))
            assert world.ingest(partition).row.status == "committed"
        assert world.ingest(new).row.status == "skipped"
        world.land(new, b"no Parquet")
        with pytest.raises(Exception, match="Parquet"):
            world.ingest(new)
        assert [row.status for row in world.ledger(new)] == ["failed", "skipped", "committed"]

    def execute(self, statement: str) -> None:
        self.connection.execute(statement.encode())

    def rights(self, role: str) -> list[tuple[str, str]]:
        """The rights of a role on tables: the right, the table."""
        found = self.connection.execute(
            "SELECT privilege_type, table_name FROM information_schema.role_table_grants WHERE grantee = %s",
            [self.names[role]],
        )
        return [(str(right), str(table)) for right, table in found.fetchall()]


@pytest.fixture
def roles(local_world: World, postgres: PostgresServer) -> Iterator[Roles]:
    owner = database_on(postgres)
    local_world.catalog = owner
    local_world.land(NW, sales(1))
    local_world.ingest(NW)
    names = {name: f"{name}_{uuid.uuid4().hex}" for name in ("lake_reader", "lake_writer")}
    script = re.sub("lake_(?:reader|writer)", lambda match: names[match[0]], SQL.read_text(encoding="utf-8"))
    with postgres.connect(owner["database"]) as connection:
        for name in names.values():
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'".encode())
        connection.execute(script.encode())
        yield Roles(local_world, owner, names, connection)


def test_a_writer_ingests(roles: Roles) -> None:
    roles.become("lake_writer")

    roles.ingest()
    write(roles.world, NW, strategy="extension")

    assert len(roles.world.totals(NW)) == 3


def test_a_writer_replaces_a_partition_from_which_others_deleted_rows(roles: Roles) -> None:
    roles.world.land(NW, sales(1, 2))
    roles.world.ingest(NW)
    with plain_client(roles.world.config.lakes["test"], read_only=False) as client:
        client.execute("DELETE FROM lake.sales WHERE total = 1")
    roles.become("lake_writer")
    roles.world.land(NW, sales(3))

    roles.world.ingest(NW)

    assert roles.world.totals(NW) == [3]


def test_every_right_of_a_writer_is_needed(roles: Roles) -> None:
    rights = roles.rights("lake_writer")
    assert len([table for _, table in rights if table.startswith(INLINED)]) == 2
    before = roles.world.totals()
    roles.become("lake_writer")

    for right, table in rights:
        needless = _works_without(roles, f"{right} ON {table}", "lake_writer", roles.ingest)
        assert not needless, f"a run succeeds without {right} on {table}"
    roles.become(None)
    assert set(before) <= set(roles.world.totals())
    roles.become("lake_writer")
    roles.ingest()


def test_a_reader_queries_and_does_nothing_else(roles: Roles) -> None:
    roles.become("lake_reader")

    assert roles.world.totals() == [1]
    assert [row.status for row in roles.world.ledger()] == ["committed"]
    roles.world.land(NW, sales(2))
    message = r"permission denied for table ducklake_.*: grant it to the catalog's user; deploy/postgres/roles.sql has"
    with pytest.raises(CatalogError, match=message):
        roles.world.ingest(NW)
    assert roles.world.totals() == [1]


def test_a_reader_needs_its_rights_also_on_tables_that_the_owner_makes_later(roles: Roles) -> None:
    with plain_client(roles.world.config.lakes["test"], read_only=False) as client:
        client.execute("CREATE TABLE lake.later (i INTEGER)")
        client.execute("INSERT INTO lake.later VALUES (7)")
    roles.become("lake_reader")

    assert roles.world.query("SELECT i FROM lake.later") == [(7,)]
    roles.execute(f"REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM {roles.names['lake_reader']}")
    with pytest.raises(Exception, match=r"permission denied|Failed to probe"):
        roles.world.query("SELECT i FROM lake.later")


def _works_without(roles: Roles, right: str, role: str, work: Callable[[], object]) -> bool:
    roles.execute(f"REVOKE {right} FROM {roles.names[role]}")
    try:
        work()
    except CatalogError as error:
        if "permission denied for table" not in str(error):
            raise
        return False
    finally:
        roles.execute(f"GRANT {right} TO {roles.names[role]}")
    return True
