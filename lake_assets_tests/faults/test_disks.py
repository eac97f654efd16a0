"""Full disks: of the storage, of each catalog, and of exported changes. One clear error, and nothing is lost."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from dev.servers.postgres import stoppable_in
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.outage import small_disk
from lake_assets_tests.faults.scenarios import begin, check, next_round
from lake_assets_tests.faults.without_spark import no_session
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

pytestmark = pytest.mark.kill

NOTHING_LEFT = 0
SIZES = {"storage": "4m", "deltas": "4m", "catalog": "8m"}  # of a disk
KINDS = ["replace", "append", "delta export", "compaction", "restore", "evolve", "quarantine"]


def fill(folder: Path, left: int = NOTHING_LEFT) -> Path:
    """Fill the disk of the folder but for so many bytes; returns the file to delete again."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop has no other end
    if left:
        os.truncate(filler, filler.stat().st_size - left)
    return filler


def local(tmp_path: Path, catalog: str = "sqlite") -> World:
    return World(
        {"type": catalog, "path": str(tmp_path / "catalog" / f"catalog.{catalog}")},
        {"type": "local", "path": str(tmp_path / "storage")},
        {"type": "local", "path": str(tmp_path / "landing")},
        no_session,
    )


# The disk that gets full, the catalog, and the kind of act; a restore copies by links, which take no space, but in an
# encrypted lake, whose files DuckDB writes.
CASES = [
    ("storage", "sqlite", "compaction"),
    ("deltas", "sqlite", "delta export"),
    ("catalog", "sqlite", "replace"),
    *soak([("catalog", "duckdb", "append"), ("encrypted storage", "sqlite", "restore")]),
    *soak([("encrypted storage", "sqlite", "replace")]),
    *soak(("storage", "sqlite", kind) for kind in KINDS if kind not in ("compaction", "restore")),
    *soak(("catalog", "sqlite", kind) for kind in KINDS if kind != "replace"),
    *soak(("catalog but for some bytes", "sqlite", kind) for kind in KINDS),
    *soak(("catalog", "duckdb", kind) for kind in KINDS if kind != "append"),
]


@pytest.mark.parametrize(("disk", "catalog", "kind"), CASES)
def test_a_full_disk_is_one_error_and_the_act_succeeds_when_there_is_space_again(
    tmp_path: Path, actors: Actors, disk: str, catalog: str, kind: str
) -> None:
    world, name = local(tmp_path, catalog), next(name for name in SIZES if name in disk)
    world.lake_options = {"attach_options": {"encrypted": True}} if "encrypted" in disk else {}
    with small_disk(tmp_path / name, "16m" if catalog == "duckdb" else SIZES[name]) as folder:
        scenario = begin(world, actors, kind)
        begun = next_round(scenario, kind)
        filler = fill(folder, 50_000 if "some bytes" in disk else NOTHING_LEFT)

        ended = actors.run(world, begun.act, **begun.options)

        filler.unlink()
        if ended.refused is None:  # a commit may fit into the last page of DuckDB's log that an earlier one began
            assert ended.did is not None, ended
            assert catalog == "duckdb"
            assert kind != "append"
        else:
            assert f"{folder} " in ended.refused.replace("/ ", " ")
            for words in ("no space left", "free space", "run it again"):
                assert words in ended.refused
        check(scenario, begun, ended)


@pytest.mark.servers
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["replace", "append", "delta export", "restore"])
def test_a_full_disk_of_a_postgres_server_is_one_error(tmp_path: Path, actors: Actors, kind: str) -> None:
    with small_disk(tmp_path / "server", "150m") as folder, stoppable_in(folder) as postgres:
        world, server = local(tmp_path), postgres.server
        world.catalog = database_on(server)
        scenario = begin(world, actors, kind)
        ingested = scenario.landed.rows()
        for number in range(300):  # whose rows of the manifest need more than the pages that PostgreSQL has
            scenario.landed.land(NW, f"more-{number}.parquet", sales(number))
        begun = next_round(scenario, kind)
        if kind != "restore":
            begun.before = ingested
        filler = fill(folder)

        ended = actors.run(world, begun.act, **begun.options)

        assert ended.refused is not None, ended
        assert f"the server of the catalog postgres://{server.host}:{server.port}" in ended.refused
        assert "No space left on device" in ended.refused
        assert "free space on the disk of its data, and run it again" in ended.refused
        filler.unlink()
        check(scenario, begun, ended)


@pytest.mark.servers
@pytest.mark.soak
def test_a_postgres_server_that_ends_because_its_disk_is_full_is_one_error(tmp_path: Path, actors: Actors) -> None:
    """Without space for its log the server panics; with space it is started again."""
    with small_disk(tmp_path / "server", "150m") as folder, stoppable_in(folder) as postgres:
        world, server = local(tmp_path), postgres.server
        world.catalog = database_on(server)
        scenario = begin(world, actors, "replace")
        begun = next_round(scenario, "replace")
        filler = fill(folder)
        with suppress(psycopg.Error), server.connect() as other:
            for number in range(4):  # each takes a new file of the log
                other.execute(f"SELECT pg_logical_emit_message(true, 'x', repeat('x', {2**24 + number}))".encode())

        ended = actors.run(world, begun.act, **begun.options)

        assert ended.refused is not None, ended
        assert "CatalogUnreachableError" in ended.refused
        filler.unlink()
        postgres.stop()
        postgres.start()
        check(scenario, begun, ended)
