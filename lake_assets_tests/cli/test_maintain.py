"""The command `maintain`: what it says, and its exit code."""

import json
import os
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from lake_assets.cli import main
from lake_assets_tests.cli.conftest import Run
from lake_assets_tests.world import NW, World, sales


@pytest.fixture(autouse=True)
def _compacting(local_world: World) -> None:
    local_world.lake_options = {"maintenance": {"compact": 2}}


@pytest.fixture
def untidy(local_world: World) -> Path:
    """A lake with an orphan of last week and a partition of two files; returns the orphan."""
    local_world.commit(NW, 1)
    local_world.execute("INSERT INTO lake.sales VALUES (2, 2.0, 'NW', '2026-02-11')")
    orphan = Path(local_world.storage["path"], "main", "sales", "region=NW", "lost.parquet")
    orphan.write_bytes(b"0123456789")
    last_week = time.time() - 7 * 86400
    os.utime(orphan, (last_week, last_week))
    return orphan


def test_a_dry_run_and_then_the_deed(local_world: World, run: Run, untidy: Path) -> None:
    dry = run("maintain", "--dry-run")

    assert dry.exit_code == 0, dry.output
    for line in (
        "test: dry run, nothing was changed",
        "1 file would be deleted, 10 bytes, 1 orphan among them",
        "1 partition would be compacted",
        f"deleted    {untidy}",
        "compacted  sales region=NW/date=2026-02-11: 2 files",
    ):
        assert line in dry.output
    assert untidy.exists()

    done = run("maintain", "--lake", "test")

    assert done.exit_code == 0, done.output
    assert "1 file deleted, 10 bytes" in done.output
    assert "→ 1 file" in done.output
    assert not untidy.exists()
    assert local_world.totals() == [1, 2]
    again = run("maintain")
    assert "0 files deleted, 0 bytes" in again.output
    assert "0 partitions compacted" in again.output


def test_a_partition_that_is_left_makes_the_exit_code_1(local_world: World, run: Run, untidy: Path) -> None:
    Path(local_world.live_files()[0]).unlink()

    result = run("maintain")

    assert result.exit_code == 1
    assert "left       sales region=NW/date=2026-02-11: the data file" in result.output
    assert not untidy.exists()


def test_there_is_nothing_to_maintain_without_a_lake(run: Run) -> None:
    absent = run("maintain")

    assert (absent.exit_code, "there is no lake at sqlite:" in absent.stderr) == (1, True)


@pytest.mark.more
def test_the_document_has_the_lakes_that_were_maintained_before_an_error(local_world: World, tmp_path: Path) -> None:
    file = local_world.config_file(tmp_path)
    config = yaml.safe_load(file.read_text())
    config["lakes"]["absent"] = {
        "catalog": {"type": "sqlite", "path": str(tmp_path / "none.sqlite")},
        "storage": "none",
    }
    config["streams"]["other"] = config["streams"]["sales"] | {"lake": "absent"}
    config["streams"]["sales"]["lake"] = "test"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    local_world.land(NW, sales(1))
    local_world.ingest(NW)

    result = CliRunner().invoke(main, ["--config", str(file), "maintain", "--format", "json"])

    assert result.exit_code == 1
    assert "there is no lake at sqlite:" in result.stderr
    assert [lake["lake"] for lake in json.loads(result.stdout)] == ["test"]
