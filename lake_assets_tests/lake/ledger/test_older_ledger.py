"""A lake whose ledger an older version made gets the columns that it lacks, once, without a command."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from dev.plain_client import plain_client
from lake_assets.lake.commit import strategy as commit
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.tables import LEDGER_COLUMNS, create_ledger
from lake_assets_tests.lake.worlds import EACH_CATALOG
from lake_assets_tests.world import NW, SW, World, sales

FIRST_RELEASE = {
    "run_id": "VARCHAR",
    "run_at": "TIMESTAMPTZ",
    **dict.fromkeys(["stream", "source_glob", "destination_table", "partition_columns", "load_partition"], "VARCHAR"),
    **dict.fromkeys(["mode", "status", "on_empty"], "VARCHAR"),
    **dict.fromkeys(["row_count", "rows_before", "source_files", "source_bytes"], "BIGINT"),
    **dict.fromkeys(["files_written", "bytes_written"], "BIGINT"),
    "source_fingerprint": "VARCHAR",
    "snapshot_id": "BIGINT",
    **dict.fromkeys(["started_at", "finished_at"], "TIMESTAMPTZ"),
    "error": "VARCHAR",
}
ADDED = [name for name in LEDGER_COLUMNS if name not in FIRST_RELEASE]


def make_older_ledger(world: World) -> None:
    """A lake with the ledger and the manifest of the first release, and a failed run of it."""
    with DuckLake(world.config.lakes["test"]).open(create=True):
        pass
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        columns = ", ".join(f"{name} {sql}" for name, sql in FIRST_RELEASE.items())
        client.execute(f"CREATE TABLE lake.ingest_runs ({columns})")
        client.execute(
            "CREATE TABLE lake.ingest_files (run_id VARCHAR, stream VARCHAR, load_partition VARCHAR, uri VARCHAR, "
            "etag VARCHAR, size BIGINT, last_modified TIMESTAMPTZ)"
        )
        for table in ("ingest_runs", "ingest_files"):
            client.execute(f"CALL lake.set_option('data_inlining_row_limit', 1000, table_name => '{table}')")
    run_as_first_release(world, "older-1")


def run_as_first_release(world: World, run_id: str) -> None:
    """Append a row as the extension strategy of the first release does it, by the names of its columns."""
    row = {"run_id": run_id, "stream": "sales", "load_partition": world.partition(NW).path, "status": "failed"}
    with plain_client(world.config.lakes["test"], read_only=False) as client:
        values = ", ".join(f"?::{sql}" for sql in FIRST_RELEASE.values())
        client.execute(
            f"INSERT INTO lake.ingest_runs ({', '.join(FIRST_RELEASE)}) VALUES ({values})",
            [row.get(name) for name in FIRST_RELEASE],
        )


@EACH_CATALOG
def test_it_is_read_as_it_is_and_the_next_run_adds_the_columns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older_ledger(world)
    assert [(row.run_id, row.files_copied) for row in world.ledger()] == [("older-1", None)]
    world.land(NW, sales(1))
    world.land(SW, sales(2))

    first = world.ingest(NW).row
    run_as_first_release(world, "older-2")  # a process of the first release goes on writing
    monkeypatch.setattr(commit, "STRATEGIES", (replace_directly,))  # which would say that it cannot
    second = world.ingest(SW).row

    assert {row.run_id: row.files_copied for row in world.ledger()} == {
        "older-1": None,
        "older-2": None,
        first.run_id: 0,
        second.run_id: 0,
    }
    assert world.ingest(SW).row.status == "skipped"


@pytest.mark.more
@EACH_CATALOG
def test_processes_that_race_add_them_once(world: World) -> None:
    make_older_ledger(world)
    barrier = Barrier(4)

    def prepare() -> None:
        lake = DuckLake(world.config.lakes["test"])
        barrier.wait()
        with lake.open() as session:
            create_ledger(session)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(prepare) for _ in range(4)]:
            done.result()

    names = [name for name, *_ in world.query("DESCRIBE lake.ingest_runs")]
    assert names == [*FIRST_RELEASE, *ADDED]
    ((changes,),) = world.query(
        "SELECT count(*) FROM lake.snapshots() WHERE list_contains(map_keys(changes), 'tables_altered')"
    )
    assert changes == 1
