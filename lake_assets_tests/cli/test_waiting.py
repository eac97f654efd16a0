"""A command names a storage that does not answer, while it waits for it; one that takes its time is not named."""

import re
from threading import Event
from typing import Any

import pytest

from dev.servers.postgres import PostgresServer
from dev.servers.postgres_proxy import CONNECT, postgres_proxy
from dev.servers.postgres_proxy import Rule as ServerRule
from dev.servers.proxy import Rule, S3Proxy
from lake_assets.cli.terminal import info
from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

pytestmark = pytest.mark.servers

ALWAYS = 10**6
REQUESTS = {"retries": 0, "timeout": 5, "connect_timeout": 2}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.cli.waiting.SILENCE", 2.0)
    monkeypatch.setattr("lake_assets.cli.waiting.ASKED", 1.0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life has more than two seconds, on a busy machine too."""
    monkeypatch.setattr("lake_assets.cli.waiting.SILENCE", 3.5)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set when a line has been printed."""
    event = Event()

    def noted(*arguments: Any, **options: Any) -> None:
        info(*arguments, **options)
        event.set()

    monkeypatch.setattr("lake_assets.cli.waiting.info", noted)
    return event


def bucket(proxy: S3Proxy) -> dict[str, Any]:
    return bucket_on(proxy.s3) | {"requests": REQUESTS}


@pytest.mark.more
@pytest.mark.parametrize("command", [["plan", "sales", "--waiting"], ["check", "sales"]])
def test_a_landing_zone_that_does_not_answer_is_named(
    local_world: World, run: Run, s3_proxy: S3Proxy, command: list[str]
) -> None:
    local_world.source = bucket(s3_proxy)
    s3_proxy.inject(Rule("hang", times=ALWAYS))

    result = run(*command)

    assert result.exit_code == 1
    line = f"s3://{local_world.source['bucket']}/some/prefix at {s3_proxy.s3.endpoint} has not answered for 2 seconds: "
    assert result.stderr.count(line) == 1
    assert "correct endpoint of the storage" in result.stderr
    if command[0] == "check":
        assert "has not answered" not in run("-q", *command).stderr


@pytest.mark.more
@pytest.mark.parametrize(
    "command", [["query", "SELECT sum(total) FROM sales"], *soak([["ingest", "sales", "--partition", NW]])]
)
def test_the_lakes_storage_that_does_not_answer_duckdb_or_a_task_is_named(
    local_world: World, run: Run, s3_proxy: S3Proxy, command: list[str]
) -> None:
    local_world.storage = bucket(s3_proxy)
    local_world.commit(NW, 1, 2)
    local_world.land(NW, sales(3), "b.parquet")
    s3_proxy.inject(Rule("hang", times=ALWAYS))

    result = run(*command)

    assert result.exit_code == 1
    assert "the query failed" not in result.stderr
    assert f"{local_world.storage['bucket']}/some/prefix at {s3_proxy.s3.endpoint} has not answered" in result.stderr


@pytest.mark.more
@pytest.mark.usefixtures("patient")
def test_a_request_that_takes_long_is_not_named_while_the_storage_answers_others(
    local_world: World, run: Run, s3_proxy: S3Proxy
) -> None:
    local_world.source = bucket(s3_proxy)
    s3_proxy.inject(Rule("slow", seconds=4.5))

    result = run("plan", "sales", "--waiting")

    assert result.exit_code == 0, result.output
    assert "has not answered" not in result.stderr


@pytest.mark.more
def test_a_catalogs_server_that_hangs_within_a_session_is_named(
    local_world: World, run: Run, postgres: PostgresServer, named: Event
) -> None:
    with postgres_proxy(postgres) as proxy:
        local_world.catalog = database_on(proxy.server)
        local_world.commit(NW, 1)

        def hang() -> None:
            proxy.inject(ServerRule("hang", lambda statement: statement.text == CONNECT))
            assert named.wait(60), "no line about the server"

        proxy.inject(ServerRule("call", lambda statement: statement.text != CONNECT, call=hang))

        result = run("ingest", "sales", "--partition", NW)

        assert result.exit_code == 0, result.output
        where = f"the catalog postgres://{proxy.server.host}:{proxy.server.port}/"
        assert re.search(rf"{where}\w+ has not answered for 2 seconds: correct host and port", result.stderr)
