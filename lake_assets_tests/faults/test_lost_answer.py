"""The connection to PostgreSQL is cut between a COMMIT and its answer: the commit is found, and counts once."""

from collections.abc import Callable, Iterator

import pytest

from dev.servers.postgres import PostgresServer
from dev.servers.postgres_proxy import PostgresProxy, Rule, Statement, postgres_proxy
from lake_assets.base.errors import CatalogUnreachableError
from lake_assets.lake.ledger import flush
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

__all__ = ["sessions"]


@pytest.fixture
def proxy(local_world: World, postgres: PostgresServer) -> Iterator[PostgresProxy]:
    with postgres_proxy(postgres) as proxy:
        local_world.catalog = database_on(proxy.server)
        yield proxy


def commit_after(table: str = "ducklake_snapshot_changes") -> Callable[[Statement], bool]:
    """The first COMMIT after rows of a table of the catalog were written."""
    written: list[bool] = []

    def when(statement: Statement) -> bool:
        if table in statement.text and not statement.text.lstrip("( ").startswith("SELECT"):
            written.append("TO STDOUT" not in statement.text)
        return statement.text.startswith("COMMIT") and any(written)

    return when


DIRECT: dict[str, object] = {}
ENCRYPTED = {"attach_options": {"encrypted": True}}  # whose strategy is insert


@pytest.mark.parametrize(
    ("options", "storage"),
    [(DIRECT, "local"), *more([(ENCRYPTED, "s3")]), *soak([(DIRECT, "s3"), (ENCRYPTED, "local")])],
    ids=["direct-local", "insert-s3", "direct-s3", "insert-local"],
)
def test_a_commit_whose_answer_is_lost_is_found(
    local_world: World,
    proxy: PostgresProxy,
    options: dict[str, object],
    storage: str,
    request: pytest.FixtureRequest,
) -> None:
    """DuckLake would delete the files of the insert strategy, which the catalog names."""
    local_world.lake_options = options
    if storage == "s3":
        local_world.storage = request.getfixturevalue("s3_location")()
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))
    rule = proxy.inject(Rule("lose_answer", commit_after()))

    row = local_world.ingest(NW).row

    assert rule.times == 0
    assert (row.status, row.rows_before, row.row_count) == ("committed", 1, 2)
    assert local_world.totals() == [2, 3]
    assert [(one.run_id, one.status) for one in local_world.ledger()][:1] == [(row.run_id, "committed")]
    assert len(local_world.ledger()) == 2
    assert local_world.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_a_flush_whose_answer_is_lost_keeps_its_rows(
    local_world: World, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "MANY", 2)
    for total in (1, 2):
        local_world.commit(NW, total)
    before = local_world.ledger()
    rule = proxy.inject(Rule("lose_answer", commit_after("ducklake_data_file")))

    with local_world.stream.lake.open() as lake:
        flush.flush_ledger(lake)

    assert rule.times == 0
    assert local_world.ledger() == before
    assert len(local_world.query("FROM ducklake_list_files('lake', 'ingest_runs')")) == 1
    assert len(local_world.query("FROM lake.ingest_files")) == 2


@pytest.mark.more
@pytest.mark.parametrize("options", [DIRECT, ENCRYPTED], ids=["direct", "insert"])
def test_a_commit_that_the_server_never_heard_of_fails_and_the_next_run_makes_it(
    local_world: World, proxy: PostgresProxy, options: dict[str, object]
) -> None:
    """Where DuckLake writes the files, such a COMMIT cannot be told from a conflict, and is tried again at once."""
    local_world.lake_options = options
    local_world.commit(NW, 1)
    local_world.land(NW, sales(2, 3))
    rule = proxy.inject(Rule("reset", commit_after()))

    if options:
        local_world.ingest(NW)
    else:
        with pytest.raises(CatalogUnreachableError):
            local_world.ingest(NW)
        assert local_world.totals() == [1]
        assert [one.status for one in local_world.ledger()] == ["failed", "committed"]

    assert rule.times == 0
    local_world.ingest(NW)
    assert local_world.totals() == [2, 3]
