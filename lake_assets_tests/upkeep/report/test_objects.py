"""What has become of each landed object, and that no row of it is lost between landing zone, table and dead letters."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake_assets.base.errors import SourceError
from lake_assets.cli import main
from lake_assets.ingest.index.index_run import index_all
from lake_assets.upkeep.report.objects import FileEntry, file_entries
from lake_assets_tests.ingest.landed_as import DAMAGED, FORMATS, landed
from lake_assets_tests.ingest.lettering import BIG
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import NW, SW, World, sales


def shown(world: World, *texts: str) -> dict[str, tuple[Any, ...]]:
    """State and rows by the object's name and region."""
    entries = file_entries(world.stream, [world.partition(text) for text in texts] or None)
    return {entry.uri.partition("/landing/")[2]: (entry.state, entry.rows) for entry in entries}


def key(region: str, name: str) -> str:
    return f"region={region}/date=2026-02-11/{name}"


def test_each_landed_object_has_its_state_with_its_run_and_error(local_world: World) -> None:
    local_world.options = {"mode": "append", "on_bad_object": "quarantine"}
    local_world.land(NW, sales(1, 2), "a.parquet")
    local_world.land(NW, b"no Parquet", "bad.parquet")
    assert set(shown(local_world).values()) == {("waiting", None)}
    first = local_world.ingest(NW).row
    local_world.land(NW, sales(3), "b.parquet")
    second = local_world.ingest(NW).row
    local_world.land(NW, sales(7, 8), "b.parquet")
    local_world.unland(NW, "a.parquet")
    local_world.land(SW, sales(9))

    entries = {entry.uri.rpartition("/")[2]: entry for entry in file_entries(local_world.stream)}

    assert [(name, entry.state, entry.rows) for name, entry in entries.items()] == [
        ("a.parquet", "gone", 2),
        ("b.parquet", "changed", None),
        ("bad.parquet", "quarantined", None),
        ("batch_1.parquet", "waiting", None),
    ]
    assert (entries["a.parquet"].run_id, entries["a.parquet"].loaded_at) == (first.run_id, first.finished_at)
    assert entries["b.parquet"].run_id == second.run_id
    assert "cannot be read as Parquet" in (entries["bad.parquet"].error or "")
    assert shown(local_world, SW) == {key("SW", "batch_1.parquet"): ("waiting", None)}


def test_a_failed_partition_shows_its_error_and_an_object_of_no_partition_its_fix(local_world: World) -> None:
    local_world.land(NW, b"no Parquet", "bad.parquet")
    Path(local_world.source["path"], "stray.parquet").write_bytes(b"")
    with pytest.raises(SourceError):
        local_world.ingest(NW)

    stray, bad = file_entries(local_world.stream)

    assert (bad.state, bad.loaded_at) == ("waiting", None)
    assert "bad.parquet" in (bad.error or "")
    assert (stray.state, stray.partition) == ("left_out", "")
    assert stray.error


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="replace"),
        pytest.param({"copy": "always"}, id="copy"),
        pytest.param({"mode": "append"}, id="append"),
        pytest.param({"mode": "index"}, id="index"),
    ],
)
def test_the_rows_of_each_object_are_counted(world: World, options: dict[str, Any]) -> None:
    world.options = options
    world.land(NW, sales(1, 2, 3), "a.parquet")
    world.land(NW, sales(4), "b.parquet")
    if options.get("mode") == "index":
        assert [outcome.error for outcome in index_all(world.stream)] == [None]
    else:
        world.ingest(NW)

    entries = file_entries(world.stream)

    assert [(entry.state, entry.rows) for entry in entries] == [("loaded", 3), ("loaded", 1)]
    assert len({(entry.run_id, entry.loaded_at) for entry in entries}) == 1


def test_the_command_prints_a_table_and_documents(local_world: World, tmp_path: Path) -> None:
    local_world.commit(NW, 1, 2, name="a.parquet")
    local_world.land(SW, sales(9))
    command = ["--config", str(local_world.config_file(tmp_path)), "files"]

    table = CliRunner().invoke(main, [*command, "--format", "table"], env={"COLUMNS": "160"})
    documents = CliRunner().invoke(main, [*command, "sales", "--state", "waiting", "--format", "json"])

    assert table.exit_code == documents.exit_code == 0, table.output + documents.output
    loaded, waiting = (line.split() for line in table.stdout.splitlines() if ".parquet" in line)
    assert loaded[:3] == [key("NW", "a.parquet"), "loaded", "2"]
    assert waiting[:2] == [key("SW", "batch_1.parquet"), "waiting"]
    assert "2 objects" in table.stdout
    (document,) = json.loads(documents.stdout)
    assert document["state"] == "waiting"
    assert document.keys() == set(FileEntry.__dataclass_fields__)


ROWS = st.lists(st.sampled_from([1, 2, None, BIG]), max_size=4)  # the last one does not fit the table


@pytest.mark.parametrize("form", [*more(FORMATS[:1]), *soak(FORMATS[1:])])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(objects=st.lists(st.one_of(ROWS, st.none()), min_size=1, max_size=4), rescues=st.booleans())
def test_landed_rows_are_committed_ones_dead_letters_and_those_of_quarantined_objects(
    tmp_path_factory: pytest.TempPathFactory,
    local_world: World,
    form: str,
    objects: list[list[int | None] | None],
    rescues: bool,
) -> None:
    world = World.in_folder(
        tmp_path_factory.mktemp("accounts"),
        local_world.sessions,
        format=form,
        files="*",
        on_bad_object="quarantine",
        on_bad_row="dead_letter",
        on_empty="keep",
        columns={"id": {"type": "INTEGER"}},
        **({"rescue": "_rescued"} if rescues else {}),
    )
    schema = pa.schema([("id", pa.int32()), ("x", pa.int32())])
    world.land(SW, landed(form, {"id": 1, "x": 1}, schema=schema), "first")
    world.ingest(SW)  # makes the table
    wide = schema.set(0, pa.field("id", pa.int64()))
    for number, ids in enumerate(objects):
        rows = [{"id": one, "x": 1} for one in ids or ()]
        world.land(NW, DAMAGED[form] if ids is None else landed(form, *rows, schema=wide), str(number))

    row = world.ingest(NW).row

    entries = file_entries(world.stream, [world.partition(NW)])
    if row.status == "skipped":  # no object can be read, and `on_empty` keeps what is there
        assert {entry.state for entry in entries} == {"waiting"}
        return
    for entry, ids in zip(entries, objects, strict=True):
        assert (entry.state, entry.rows) == (("quarantined", None) if ids is None else ("loaded", len(ids)))
    assert sum(entry.rows or 0 for entry in entries) == (row.row_count or 0) + (row.rows_dead_lettered or 0)
    assert world.query("SELECT count(*) FROM lake.sales WHERE region = 'NW'") == [(row.row_count or 0,)]
    assert (row.rows_dead_lettered or 0) == (0 if rescues else sum((ids or []).count(BIG) for ids in objects))
