"""`kill -9` of a whole run while its tasks write: landed objects stay, and the next run commits just their rows."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.storage.store import Store
from lake_assets_tests.faults.deadly_daemon import PART, VARIABLE
from lake_assets_tests.ingest.lettering import BIG, NARROW, letters, stored, visible, wide
from lake_assets_tests.tiers import soak
from lake_assets_tests.world import NW, World

pytestmark = pytest.mark.kill

OBJECTS = 6  # of the partition: three for each of two tasks


def numbered(first: int, *, size: int) -> pa.Table:
    """Two rows that no other object has, in about so many bytes."""
    rows = {"id": [first, first + 1], "total": [float(first), float(first + 1)]}
    return pa.table(rows | {"filler": [os.urandom(size // 2), os.urandom(size // 2)]})


def landed(world: World) -> dict[str, tuple[str, bytes]]:
    """ETag and bytes of each landed object."""
    store = Store(world.config.streams["sales"].source)
    return {
        obj.key: (obj.etag, store.get_range(obj.key, obj.etag, 0, obj.size).to_bytes())
        for obj in store.list(files="*.parquet")
    }


def die(world: World, folder: Path, death: str) -> None:
    """An ingest of the partition as a process of its own, killed in the middle of what its tasks write."""
    config = world.config_file(folder, spark={"spark.python.daemon.module": "lake_assets_tests.faults.deadly_daemon"})
    script = Path(sys.executable).with_name("lake-assets")
    child = subprocess.Popen(
        [str(script), "--config", str(config), "ingest", "sales", "--partition", NW],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {VARIABLE: death},
        start_new_session=True,  # the daemon kills it by its leader
    )
    output, _ = child.communicate(timeout=300)
    assert child.returncode == -signal.SIGKILL, output


@pytest.mark.parametrize(
    ("world", "death", "options"),
    [
        pytest.param(("sqlite", "local"), "bytes", {"copy": "any"}, id="bytes"),
        pytest.param(("sqlite", "s3"), "store", {"copy": "always"}, id="store", marks=pytest.mark.more),
        pytest.param(
            ("sqlite", "local"),
            "link",
            {"copy": "always", "immutable_source": True},
            id="link",
            marks=pytest.mark.more,
        ),
        pytest.param(("sqlite", "s3"), "parts", {"copy": "always"}, id="parts", marks=pytest.mark.soak),
    ],
    indirect=["world"],
)
def test_death_in_the_middle_of_a_copy_loses_nothing(
    world: World, tmp_path: Path, death: str, options: dict[str, Any]
) -> None:
    size = PART + 2**18 if death == "parts" else 2**19
    world.options = options | {"target_file_size": "1MiB"}
    world.land(NW, numbered(1, size=size), "old.parquet")
    world.ingest(NW)
    world.unland(NW, "old.parquet")
    for number in range(OBJECTS):
        world.land(NW, numbered(100 + 2 * number, size=size), f"batch_{number}.parquet")
    before, files = landed(world), world.data_files()

    die(world, tmp_path, death)

    leftovers = world.data_files() - files
    assert leftovers
    assert world.totals() == [1, 2]
    assert landed(world) == before
    row = world.ingest(NW).row
    rows = [float(number) for number in range(100, 100 + 2 * OBJECTS)]
    assert (row.files_copied, row.row_count, row.rows_before) == (OBJECTS, len(rows), 2)
    assert world.totals() == rows
    done = world.tidy(30)
    root = world.config.lakes["test"].own_storage.root
    assert {orphan.uri for orphan in done.orphans} == {f"{root}/{key}" for key in leftovers}
    assert len(world.data_files()) == OBJECTS
    assert world.totals() == rows
    assert landed(world) == before


@pytest.mark.more
@pytest.mark.parametrize(
    "world",
    [("sqlite", "local"), *soak([(("sqlite", "s3"),)])],
    indirect=True,
)
def test_death_while_letters_are_written_shows_none_and_the_next_run_writes_them_once(
    world: World, tmp_path: Path
) -> None:
    world.options = {"on_bad_row": "dead_letter"}
    world.land(NW, NARROW, "a.parquet")
    world.ingest(NW)
    for number in range(4):
        world.land(NW, wide(number + 1, BIG + number), f"b{number}.parquet")

    die(world, tmp_path, "letter")

    assert visible(world) == []
    orphans = stored(world)
    assert orphans
    row = world.ingest(NW).row
    assert (row.row_count, row.rows_dead_lettered) == (5, 4)
    assert sorted(letter["id"] for letter in letters(world)) == [BIG + number for number in range(4)]
    assert stored(world) == orphans | set(visible(world))
    assert {one.uri for one in world.tidy(30).letters} == orphans
    assert stored(world) == set(visible(world))
