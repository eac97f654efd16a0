"""The cost of a commit with `deltas`: the catalog's statements and rows, in a table of any size."""

from collections import Counter
from pathlib import Path

import pytest

from dev.servers.postgres import PostgresServer
from dev.servers.postgres_proxy import PostgresProxy, plain, postgres_proxy
from lake_assets.lake.ledger.tables import create_ledger
from lake_assets_tests.faults.writer import make_table, write
from lake_assets_tests.lake.commit.test_deltas import exporting, visible
from lake_assets_tests.world import NW, World
from lake_assets_tests.world_fixtures import database_on

FILES = (3, 10)  # of other partitions
ROWS_PER_FILE = 4  # in the lists of files that DuckLake reads for both sides of the comparison


def asked(world: World, proxy: PostgresProxy) -> tuple[Counter[str], int]:
    """The statements of one commit by their texts, and the number of rows that they returned."""
    write(world, NW)
    proxy.forget()
    write(world, NW)
    texts = (plain(statement.text)[:300] for statement in proxy.statements)
    # Only some commits move the table's bounds.
    return Counter(text for text in texts if not text.startswith("UPDATE ducklake_table_column_stats")), proxy.rows


@pytest.mark.soak
def test_a_commit_reads_the_lists_of_files_and_nothing_else_of_other_partitions(
    local_world: World, postgres: PostgresServer, tmp_path: Path
) -> None:
    found = []
    with postgres_proxy(postgres) as proxy:
        for partitions in FILES:
            local_world.catalog, local_world.options = database_on(proxy.server), {}
            local_world.storage = {"type": "local", "path": str(tmp_path / f"data-{partitions}")}
            make_table(local_world)
            for number in range(partitions):
                write(local_world, f"region=R{number},date=2026-02-11")
            exporting(local_world, tmp_path / f"deltas-{partitions}")
            with local_world.stream.lake.open() as lake:
                create_ledger(lake)
            if partitions == FILES[1]:
                with postgres.connect(local_world.catalog["database"]) as connection:
                    connection.execute("VACUUM ANALYZE")  # as autovacuum does it at any moment
            found.append(asked(local_world, proxy))
            assert visible(local_world)

    (small, few), (large, many) = found
    assert small == large
    assert small.total() < 200
    assert many - few <= ROWS_PER_FILE * (FILES[1] - FILES[0])
