"""A server dies in the middle of a commit, and starts again, or a standby takes its place: the ledger says whether the
commit was made.
"""

import dataclasses
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dev.servers.absent import started
from dev.servers.postgres import Installation, StoppablePostgres, _makes_user, kill, superuser
from dev.servers.postgres_proxy import Fault, PostgresProxy, Rule, postgres_proxy
from dev.servers.process import free_ports, retried
from dev.servers.system_user import ensure_system_user, needs_system_user
from lake_assets.base.errors import CatalogUnreachableError
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.test_lost_answer import commit_after
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

__all__ = ["sessions"]


@dataclasses.dataclass
class Pair:
    """A primary whose commits wait for its standby, and a proxy before the one that takes writes."""

    primary: Installation
    standby: Installation
    proxy: PostgresProxy

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        kill(self.primary)
        with superuser(self.standby.data, self.standby.server.port) as connection:
            assert connection.execute("SELECT pg_promote()").fetchall() == [(True,)]
        self.proxy.upstream = self.standby.server
        with self.proxy.down():
            pass


@retried
def standing_by(place: Path) -> Iterator[Pair]:
    """A primary and its standby, with their data in an existing folder."""
    if needs_system_user():
        ensure_system_user()

    def run_folder() -> Path:
        folder = Path(tempfile.mkdtemp(dir=place))
        folder.chmod(0o755)
        return folder

    primary = Installation.made_in(run_folder())
    with (primary.data / "pg_hba.conf").open("a") as access:
        access.write("local replication postgres trust\n")
    with primary.running(run_folder(), lambda: _makes_user(primary)):
        pass
    data = run_folder() / "data"
    subprocess.run(["cp", "-a", primary.data, data], check=True)
    (data / "standby.signal").touch()
    (port,) = free_ports(1)
    standby = dataclasses.replace(primary, data=data, server=dataclasses.replace(primary.server, port=port))
    follows = f"primary_conninfo=host={primary.data} port={primary.server.port} user=postgres"
    with (
        primary.running(run_folder(), lambda: answers(primary), ("-c", "synchronous_standby_names=*")),
        standby.running(run_folder(), lambda: answers(standby), ("-c", follows)),
        superuser(primary.data, primary.server.port) as looker,
    ):
        synced = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        until(lambda: bool(looker.execute(synced).fetchall()), "the standby does not follow")
        with postgres_proxy(primary.server) as proxy:
            yield Pair(primary, standby, proxy)


def answers(installation: Installation) -> bool:
    try:
        superuser(installation.data, installation.server.port).close()
    except psycopg.OperationalError:
        return False
    return True


@dataclasses.dataclass
class Alone:
    """A server without a standby, and a proxy before it."""

    server: StoppablePostgres
    proxy: PostgresProxy

    def fail_over(self) -> None:
        """Kill the server, and start it again."""
        self.server.kill()
        self.server.start()


@pytest.fixture
def dying(request: pytest.FixtureRequest) -> Iterator[Pair | Alone]:
    """A server that dies, with a standby or alone, as the test's parameter says."""
    if request.param == "alone":
        server = request.getfixturevalue("stoppable_postgres")
        with postgres_proxy(server.server) as proxy:
            yield Alone(server, proxy)
        return
    with tempfile.TemporaryDirectory(prefix="lake-assets-pair-") as place:
        Path(place).chmod(0o755)
        with started("PostgreSQL", standing_by(Path(place))) as pair:
            yield pair


ENCRYPTED = {"attach_options": {"encrypted": True}}  # whose commits are DuckLake's


@pytest.mark.more
@pytest.mark.servers
@pytest.mark.parametrize("dying", ["standby", "alone"], indirect=True)
@pytest.mark.parametrize(
    ("fault", "lake", "is_made"),
    [
        pytest.param("lose_answer", {}, True, id="made"),
        pytest.param("reset", {}, False, id="not made"),
        pytest.param("lose_answer", ENCRYPTED, True, id="made by DuckLake"),
    ],
)
def test_a_commit_in_whose_middle_a_server_dies_counts_once(
    local_world: World,
    dying: Pair | Alone,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    lake: dict[str, Any],
    *,
    is_made: bool,
) -> None:
    local_world.catalog, local_world.lake_options = database_on(dying.proxy.server), lake
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))
    rule = dying.proxy.inject(Rule(fault, commit_after()))
    reattach, events = LakeSession.reattach, [dying.fail_over]

    def late(session: LakeSession) -> None:
        if events:
            events.pop()()
        reattach(session)

    monkeypatch.setattr(LakeSession, "reattach", late)
    with nullcontext() if is_made else pytest.raises(CatalogUnreachableError):
        assert local_world.ingest(NW).row.status == "committed"

    assert (rule.times, events) == (0, [])
    assert local_world.totals() == ([2, 3] if is_made else [1])
    assert local_world.ingest(NW).row.status == ("skipped" if is_made else "committed")
    assert local_world.totals() == [2, 3]
    assert [row.status for row in local_world.ledger()].count("committed") == 2
