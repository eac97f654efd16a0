"""Full disks: of the storage, of each catalog, and of exported changes. One clear error, and nothing is lost."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from dev.servers.postgres import stoppable_in
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.scenarios import assert_either, begin, finish, next_round
from lake_assets_tests.faults.without_spark import no_session
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import database_on

pytestmark = pytest.mark.kill

NOTHING_LEFT = 0
ALL = ["replace", "append", "deltas", "compaction", "restore", "evolve", "quarantine"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[str, int], Path]]:
    """Mounts small disks: file systems in memory of so many MiB."""
    mounted: list[Path] = []

    def mount(name: str, size: int) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("only root mounts the small file system that gets full")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


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


def assert_refused(
    world: World, actors: Actors, kind: str, folder: Path, *, left: int = NOTHING_LEFT, may_succeed: bool = False
) -> None:
    """A scenario of this kind whose disk gets full: its act is refused, and succeeds when there is space again."""
    scenario = begin(world, actors, kind)
    begun = next_round(scenario, kind)
    filler = fill(folder, left)

    ended = actors.run(world, begun.act, **begun.options)

    filler.unlink()
    if ended.refused is None:
        assert may_succeed, ended
        assert ended.did is not None, ended
    else:
        assert f"{folder} " in ended.refused.replace("/ ", " ")
        assert "no space left" in ended.refused
        assert "free space" in ended.refused
        assert "run it again" in ended.refused
    assert_either(world, begun.before, begun.after, cleaning=begun.cleaning)
    finish(scenario, begun)


def local(tmp_path: Path, catalog: str = "sqlite") -> World:
    return World(
        {"type": catalog, "path": str(tmp_path / "catalog" / f"catalog.{catalog}")},
        {"type": "local", "path": str(tmp_path / "storage")},
        {"type": "local", "path": str(tmp_path / "landing")},
        no_session,
    )


# `make test-all` tries one of each disk. A restore copies by links, which take no space.
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k == "compaction" else pytest.mark.soak) for k in ALL if k != "restore"]
)
def test_a_full_storage_is_one_error(
    tmp_path: Path, actors: Actors, small: Callable[[str, int], Path], kind: str
) -> None:
    assert_refused(local(tmp_path), actors, kind, small("storage", 4))


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k == "restore" else pytest.mark.soak) for k in ("replace", "restore")]
)
def test_a_full_storage_of_an_encrypted_lake_is_one_error(
    tmp_path: Path, actors: Actors, small: Callable[[str, int], Path], kind: str
) -> None:
    """DuckDB writes its files."""
    world = local(tmp_path)
    world.lake_options = {"attach_options": {"encrypted": True}}
    assert_refused(world, actors, kind, small("storage", 4))


def test_full_exported_changes_are_one_error(tmp_path: Path, actors: Actors, small: Callable[[str, int], Path]) -> None:
    assert_refused(local(tmp_path), actors, "deltas", small("deltas", 4))


@pytest.mark.parametrize("left", [NOTHING_LEFT, pytest.param(50_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "replace" else pytest.mark.soak) for k in ALL])
def test_a_full_disk_of_a_sqlite_catalog_is_one_error(
    tmp_path: Path, actors: Actors, small: Callable[[str, int], Path], kind: str, left: int
) -> None:
    assert_refused(local(tmp_path), actors, kind, small("catalog", 8), left=left)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "append" else pytest.mark.soak) for k in ALL])
def test_a_full_disk_of_a_duckdb_catalog_is_one_error(
    tmp_path: Path, actors: Actors, small: Callable[[str, int], Path], kind: str
) -> None:
    # A commit may fit into the last page of the log that an earlier one began.
    assert_refused(local(tmp_path, "duckdb"), actors, kind, small("catalog", 16), may_succeed=kind != "append")


@pytest.mark.servers
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["replace", "append", "deltas", "restore"])
def test_a_full_disk_of_a_postgres_server_is_one_error(
    tmp_path: Path, actors: Actors, small: Callable[[str, int], Path], kind: str
) -> None:
    folder = small("server", 150)
    with stoppable_in(folder) as postgres:
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
        assert_either(world, begun.before, begun.after, cleaning=begun.cleaning)
        finish(scenario, begun)


@pytest.mark.servers
@pytest.mark.soak
def test_a_postgres_server_that_ends_because_its_disk_is_full_is_one_error(
    tmp_path: Path, actors: Actors, small: Callable[[str, int], Path]
) -> None:
    """Without space for its log the server panics; with space it is started again."""
    folder = small("server", 150)
    with stoppable_in(folder) as postgres:
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
        assert_either(world, begun.before, begun.after, cleaning=begun.cleaning)
        finish(scenario, begun)
