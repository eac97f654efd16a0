"""The roles of `deploy/postgres/roles.sql`: each suffices for its work, and every right in it is needed."""

import dataclasses
import itertools
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dev.plain_client import plain_client
from dev.servers.postgres import PostgresServer
from lake_assets.base.errors import CatalogError
from lake_assets.upkeep.history.diff import DiffOptions, diff
from lake_assets.upkeep.history.history_entries import history
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.faults.writer import write
from lake_assets_tests.lake.commit.test_deltas import visible
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

if TYPE_CHECKING:
    import psycopg

__all__ = ["sessions"]

SQL = Path(__file__).parents[2] / "deploy/postgres/roles.sql"
PASSWORD = "a password"
LETTERS = {"on_bad_row": "dead_letter", "columns": {"total": {"type": "double", "nullable": False}}}
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
def roles(
    request: pytest.FixtureRequest, local_world: World, postgres: PostgresServer, tmp_path: Path
) -> Iterator[Roles]:
    """A lake with a first commit of its owner; the test's parameter are options of its stream."""
    local_world.options = dict(getattr(request, "param", {}))
    if "deltas" in local_world.options:
        local_world.options["deltas"] = {"to": str(tmp_path / "deltas")}
    catalog = database_on(postgres)
    names = {name: f"{name}_{uuid.uuid4().hex}" for name in ("lake_owner", "lake_reader", "lake_writer")}
    script = re.sub("lake_(?:owner|reader|writer)", lambda match: names[match[0]], SQL.read_text(encoding="utf-8"))
    with postgres.connect(catalog["database"]) as connection:
        for role, name in names.items():
            reads = f"IN ROLE {names['lake_reader']}" if role == "lake_writer" else ""
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {reads}".encode())
        connection.execute(f"GRANT {names['lake_owner']} TO CURRENT_USER".encode())
        connection.execute(f"ALTER DATABASE {catalog['database']} OWNER TO {names['lake_owner']}".encode())
    owner = local_world.catalog = catalog | {"user": names["lake_owner"], "password": PASSWORD}
    local_world.commit(NW, 1)
    by_owner = dataclasses.replace(postgres, user=names["lake_owner"], password=PASSWORD)
    with by_owner.connect(catalog["database"]) as connection:
        connection.execute(script.encode())
        yield Roles(local_world, owner, names, connection)


@pytest.mark.more
def test_a_writer_ingests_replaces_what_others_changed_appends_restores_and_releases(roles: Roles) -> None:
    world = roles.world
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        client.execute("DELETE FROM lake.sales WHERE total = 1")
    first = world.commit(NW, 1, 2).snapshot_id
    assert first is not None
    roles.become("lake_writer")

    roles.ingest()
    world.options = {"mode": "append"}
    assert world.commit(NW, 7, name="batch_2.parquet").mode == "append"
    world.options = {}
    write(world, NW, strategy="extension")
    assert len(world.totals(NW)) == 3
    Restoration(world.stream, world.partition(NW), first, hold=True).run()
    assert world.totals(NW) == [1, 2]
    release(world.stream, world.partition(NW))
    assert [row.mode for row in world.ledger(NW)[:2]] == ["release", "restore"]


@pytest.mark.more
@pytest.mark.parametrize("roles", [pytest.param(LETTERS, id="letters")], indirect=True)
def test_a_writer_keeps_dead_letters(roles: Roles) -> None:
    roles.become("lake_writer")
    roles.world.land(NW, pa.table({"id": [1, 2], "total": [2, None]}, schema=sales().schema), "a.parquet")

    assert roles.world.ingest(NW).row.rows_dead_lettered == 1
    assert roles.world.totals() == [1, 2]


@pytest.mark.parametrize(
    ("roles", "inlined"),
    [pytest.param({}, 2, id="plain"), pytest.param({"deltas": True}, 3, id="deltas")],
    indirect=["roles"],
)
@pytest.mark.soak
def test_every_right_of_a_writer_is_needed(roles: Roles, inlined: int) -> None:
    rights = roles.rights("lake_writer")
    assert len([table for _, table in rights if table.startswith(INLINED)]) == inlined
    before = roles.world.totals()
    roles.become("lake_writer")

    for right, table in rights:
        needless = _works_without(roles, f"{right} ON {table}", "lake_writer", roles.ingest)
        assert not needless, f"a run succeeds without {right} on {table}"
    roles.ingest()
    assert set(before) <= set(roles.world.totals())
    assert not roles.world.options or len(visible(roles.world)) >= 2


@pytest.mark.more
def test_maintenance_is_the_owners(roles: Roles) -> None:
    """A writer's compaction and clean-up fail by an error that names the table, and lose nothing."""
    world = roles.world
    world.lake_options = {"maintenance": {"expire_older_than": 1e-6, "delete_older_than": 0, "compact": 2}}
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        for number in (5, 6):
            client.execute(f"INSERT INTO lake.sales VALUES ({number}, {number}, 'NW', DATE '2026-02-11')")
    roles.become("lake_writer")
    files = world.data_files()

    with pytest.raises(CatalogError, match="permission denied for table ducklake_"):
        world.tidy(days=1)

    assert world.totals(NW) == [1, 5, 6]
    assert files <= world.data_files()
    roles.become(None)
    done = world.tidy(days=1)
    assert done.expired
    assert [item.why for item in done.compacted] == [None]
    assert world.totals(NW) == [1, 5, 6]


def test_a_reader_queries_and_does_nothing_else_also_in_tables_that_the_owner_makes_later(roles: Roles) -> None:
    world, partition = roles.world, roles.world.partition(NW)
    first = world.ledger(NW)[0].snapshot_id
    assert first is not None
    world.commit(NW, 3)
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        client.execute("CREATE TABLE lake.later (i INTEGER)")
        client.execute("INSERT INTO lake.later VALUES (7)")
    roles.become("lake_reader")

    assert world.totals() == [3]
    assert world.query("SELECT i FROM lake.later") == [(7,)]
    assert [row.status for row in world.ledger()] == ["committed"] * 2
    assert [entry.rows for entry in history(world.stream, partition)] == [1, 1]
    assert diff(world.stream, partition, DiffOptions(first)).inserted == 1
    world.land(NW, sales(2))
    message = r"permission denied for table ducklake_.*: grant it to the catalog's user. deploy/postgres/roles.sql has"
    for refused in (lambda: world.ingest(NW), lambda: Restoration(world.stream, partition, first).run()):
        with pytest.raises(CatalogError, match=message):
            refused()
    assert world.totals() == [3]
    roles.execute(f"REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM {roles.names['lake_reader']}")
    with pytest.raises(Exception, match=r"permission denied|Failed to probe"):
        world.query("SELECT i FROM lake.later")


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
