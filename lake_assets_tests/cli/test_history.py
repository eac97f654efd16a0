"""The commands `history` and `restore`, as a user calls them."""

import json

import pytest

from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.upkeep.history.test_restore import ingested
from lake_assets_tests.world import NW, SW, World


def test_a_user_finds_a_snapshot_and_restores_it(local_world: World, run: Run) -> None:
    first = ingested(local_world, 1, 2)
    ingested(local_world, 3)

    shown = run("history", "sales", "--partition", NW, "--format", "json")
    entries = json.loads(shown.output)
    assert [(entry["kept"], entry["rows_before"], entry["rows"]) for entry in entries][-1] == (first, 0, 2)

    dry = run("restore", "sales", "--partition", NW, "--snapshot", str(first), "--dry-run")
    assert dry.output.startswith(f"would be restored  region=NW/date=2026-02-11  2 rows of snapshot {first}")
    done = run("restore", "sales", "--partition", NW, "--snapshot", str(first), "--hold")
    assert done.exit_code == 0
    assert f"2 rows of snapshot {first} (before: 1), 1 file copied, snapshot" in done.output
    assert ", held\n  next      Held: refreshes skip it until you run" in done.output
    table = run("history", "sales", "--partition", NW, "--format", "table").output
    assert "restore, held" in table

    skipped = run("ingest", "sales", "--partition", NW).output
    assert skipped == (
        f"skipped    region=NW/date=2026-02-11  held until `lake-assets restore sales --partition {NW} --release`, and "
        "only --force replaces it\n"
    )
    forced = run("ingest", "sales", "--partition", NW, "--force")
    assert "it was held, and the hold remains until `lake-assets restore --release`" in forced.output
    released = run("restore", "sales", "--partition", NW, "--release")
    assert released.output.startswith("released   region=NW/date=2026-02-11  snapshot ")


def test_errors_are_one_sentence_and_set_the_exit_code(local_world: World, run: Run) -> None:
    ingested(local_world, 1)

    unknown = run("restore", "sales", "--partition", NW, "--snapshot", "999")
    missing = run("history", "sales", "--partition", SW)

    assert (unknown.exit_code, "there is no snapshot 999" in unknown.output) == (1, True)
    assert run("restore", "sales", "--partition", NW, "--release").exit_code == 1
    assert missing.exit_code == 1
    assert "has no snapshot of partition region=SW/date=2026-02-11" in missing.output


def test_the_ledger_says_who_restored_a_partition(
    local_world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    first = ingested(local_world, 1)
    ingested(local_world, 2)
    run("ingest", "sales", "--partition", NW, "--force")
    assert local_world.ledger(NW)[0].requested_by == "ann"
    run("restore", "sales", "--partition", NW, "--snapshot", str(first))

    assert local_world.ledger(NW)[0].requested_by == "ann"
