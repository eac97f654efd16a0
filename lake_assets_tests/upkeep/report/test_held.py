"""A held partition is shown as held, with the run that holds it, and is not late; a quarantined object is named."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.orchestration.assets.report_assets import report_metadata
from lake_assets.streams.pending import scan_landing
from lake_assets.upkeep.checks.check_run import CheckRun
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets.upkeep.report.html import page, section
from lake_assets.upkeep.report.state import PartitionState, read_stream_state
from lake_assets_tests.upkeep.checks.checked import by_partition, check
from lake_assets_tests.upkeep.history.test_restore import ingested
from lake_assets_tests.world import NW, SW, World, sales


def hold(world: World, *, run_id: str = "0123456789", requested_by: str | None = "ann") -> None:
    """Restore the first rows of NW, and keep refreshes off them."""
    first = min(row.snapshot_id for row in world.ledger(NW) if row.snapshot_id)
    options = IngestOptions(run_id=run_id, requested_by=requested_by)
    Restoration(world.stream, world.partition(NW), first, hold=True).run(options)


@pytest.fixture
def held(local_world: World) -> World:
    """NW has other objects than its rows, and is held; SW is as it landed."""
    ingested(local_world, 1, 2)
    ingested(local_world, 3)
    ingested(local_world, 7, text=SW)
    hold(local_world)
    return local_world


def state_of(world: World, text: str = NW) -> PartitionState:
    (state,) = [s for s in read_stream_state(world.stream).partitions if s.partition == world.partition(text)]
    return state


@pytest.mark.more
def test_it_is_held_by_the_run_that_began_the_hold_until_it_is_released(world: World) -> None:
    ingested(world, 1, 2)
    ingested(world, 3)
    hold(world)
    since = world.ledger(NW)[0].finished_at
    assert since is not None

    state = state_of(world)
    assert (state.state, state.rows, state.is_waiting) == ("held", 2, False)
    first = world.ledger(NW)[-1].snapshot_id
    rows = f"with the rows of snapshot {first}"
    assert state.holder == f"ann (run 01234567) since {since:%Y-%m-%d %H:%M} UTC, {rows}"
    world.ingest(NW)  # skipped
    assert state_of(world).holder == state.holder
    world.ingest(NW, force=True)
    forced = state_of(world)
    assert (forced.state, forced.rows, forced.holder) == ("held", 1, state.holder)
    hold(world, run_id="another", requested_by=None)
    assert state_of(world).holder == state.holder

    release(world.stream, world.partition(NW))
    assert (state_of(world).state, state_of(world).holder) == ("stale", None)
    hold(world, run_id="another", requested_by=None)
    assert str(state_of(world).holder).startswith("run another since ")


@pytest.mark.more
def test_a_ledger_of_an_older_version_has_no_holds(held: World) -> None:
    held.execute(
        "CREATE TABLE lake.older AS SELECT * EXCLUDE hold FROM lake.ingest_runs",
        "DROP TABLE lake.ingest_runs",
        "ALTER TABLE lake.older RENAME TO ingest_runs",
    )

    assert state_of(held).state == "stale"
    assert not check(held, "landing_zone").passed


def test_the_check_of_the_landing_zone_names_it_and_passes(held: World) -> None:
    both = Scope("x", (held.partition(NW), held.partition(SW)))
    for scope in (Scope(), both):
        result = check(held, "landing_zone", scope)
        assert result.passed
        assert result.description == (
            "All landed objects of 1 partition are in the lake. 1 partition is held, so no refresh changes it."
        )
        assert dict(result.numbers) | {"outside": 0, "objects_in_no_partition": 0} == {
            "partitions": 2,
            "waiting": 0,
            "held": 1,
            "outside": 0,
            "objects_in_no_partition": 0,
        }
        assert result.named[0].startswith("region=NW/date=2026-02-11: held by ann (run 01234567) since ")
    assert set(by_partition(held, "landing_zone", both).values()) == {True}
    assert check(held, "row_counts").description == (
        "The row counts of 1 partition match the landed objects. "
        "The row counts of 1 held or restored partition match the ledger."
    )
    alone = check(held, "landing_zone", Scope("x", (held.partition(NW),))).description
    assert alone == "1 partition is held, so no refresh changes it."
    assert held.partition(NW) not in scan_landing(held.stream).pending
    release(held.stream, held.partition(NW))
    assert not check(held, "landing_zone").passed
    assert held.partition(NW) in scan_landing(held.stream).pending


@pytest.mark.more
def test_a_forced_run_that_failed_is_shown_until_the_next_run(held: World) -> None:
    held.land(NW, b"no parquet")
    with pytest.raises(Exception, match="cannot be read as Parquet"):
        held.ingest(NW, force=True)

    state = state_of(held)
    assert (state.state, state.is_waiting, state.holder is None) == ("failed", False, False)
    held.ingest(NW)
    assert state_of(held).state == "held"


def test_the_report_names_it_everywhere(held: World, tmp_path: Path) -> None:
    command = ["--config", str(held.config_file(tmp_path)), "report"]

    table = CliRunner().invoke(main, [*command, "--format", "table"]).output
    documents = CliRunner().invoke(main, [*command, "--partitions", "--format", "json"]).output

    assert "held" in table.split("\n")[0].split()
    assert "sales: 1 held partition:\n  region=NW/date=2026-02-11 is held by ann (run 01234567) since " in table
    assert "`lake-assets restore sales --partition region=NW,date=2026-02-11 --release` ends the hold" in table
    rows = {row["partition"]: (row["state"], row["holder"]) for row in json.loads(documents)}
    assert rows["region=NW/date=2026-02-11"][0] == "held"
    assert rows["region=NW/date=2026-02-11"][1].startswith("ann (run 01234567) since ")
    assert rows["region=SW/date=2026-02-11"][1] is None
    state = read_stream_state(held.stream)
    html = page([section(held.stream, state)], "x", state.read_at)
    assert "Held: no refresh changes them" in html
    assert "ann (run 01234567) since " in html
    assert "<code>lake-assets restore sales --partition region=NW,date=2026-02-11 --release</code>" in html
    metadata = report_metadata(state)
    assert metadata["partitions_held"].value == 1
    assert "held by ann" in str(metadata["held"].value)
    release(held.stream, held.partition(NW))
    assert "held" not in CliRunner().invoke(main, [*command, "--format", "table"]).output


# Objects that are quarantined.

BAD = "bad.parquet"
WRONG_TYPE = pa.table({"id": pa.array([7], pa.int64()), "total": ["seven"]})


@pytest.mark.parametrize("mode", ["append", pytest.param("replace", marks=pytest.mark.more)])
def test_check_page_and_metadata_name_quarantined_objects(local_world: World, mode: str) -> None:
    local_world.options = {"on_bad_object": "quarantine", "mode": mode}
    local_world.land(NW, sales(1), "a.parquet")
    bad = local_world.land(NW, WRONG_TYPE, BAD)
    local_world.land(SW, sales(2))
    for text in (NW, SW):
        local_world.ingest(text)

    both = Scope("x", (local_world.partition(NW), local_world.partition(SW)))
    whole = "All landed objects of 2 partitions are in the lake but 1 object that is quarantined."
    for scope in (Scope(), both):
        result = check(local_world, "landing_zone", scope)
        assert (result.passed, result.numbers["quarantined"], result.description) == (True, 1, whole)
    results = CheckRun(local_world.stream, ["landing_zone"], both, by_partition=True).by_partition("landing_zone")
    assert [result.description for result in results.values()] == [
        "All landed objects of the partition are in the lake but 1 object that is quarantined.",
        "All landed objects of the partition are in the lake.",
    ]
    state = read_stream_state(local_world.stream)
    assert list(state.quarantined) == [bad]
    html = page([section(local_world.stream, state)], "x", state.read_at)
    assert "Quarantined objects: 1" in html
    assert BAD in str(report_metadata(state)["quarantined"].value)
    local_world.land(SW, sales(3), "b.parquet")
    assert check(local_world, "landing_zone").description == (
        "Objects of 1 of 2 partitions are not in the lake. Refresh these. 1 object is quarantined."
    )
