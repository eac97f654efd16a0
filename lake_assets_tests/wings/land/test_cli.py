"""`lake-assets land` as a user types it."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets_tests.until import until
from lake_assets_tests.wings.land.streams import COLUMNS, files, landed_ids, rejects
from lake_assets_tests.world import World

PROGRAM = str(Path(sys.executable).with_name("lake-assets"))
DATE = {"date": {"type": "date", "start": "2026-01-01"}}
RECORD = {"region": "NW", "date": "2026-02-11", "id": 1, "total": 1.5}


@pytest.fixture
def config(local_world: World, tmp_path: Path) -> Callable[..., Path]:
    """Writes a config; its arguments are keys of the stream, and those of its `landing`."""

    def write(stream: dict[str, Any] | None = None, **landing: Any) -> Path:
        local_world.options = {"landing": landing} | (stream or {})
        return local_world.config_file(tmp_path)

    return write


def run(config: Path, *arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["--config", str(config), *arguments], input=stdin)


def lines(*ids: int) -> str:
    return "".join(json.dumps(RECORD | {"id": n}) + "\n" for n in ids)


def test_standard_input_and_files_land_and_bad_records_are_reported(
    config: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1, 2) + "bad\n")
    (tmp_path / "b.txt").write_text("region,date,id,total\nSW,2026-02-11,3,1.5\n")

    done = run(config(), "land", "sales", str(tmp_path / "a.jsonl"))
    (rejected,) = (tmp_path / "landing" / "_dead_letters").glob("*.jsonl")
    assert done.stdout.startswith("landed  2 records in 1 file, ")
    assert done.stderr.startswith("1 record rejected, because no JSON: ")
    assert done.stderr.rstrip().endswith(f": {rejected}")
    assert [reject["line"] for reject in rejects(tmp_path / "landing")] == [3]
    assert run(config(), "land", "sales", "--format", "csv", str(tmp_path / "b.txt")).exit_code == 0
    piped = run(config(), "land", "sales", "-", stdin=lines(4, 5))
    assert (piped.exit_code, piped.stderr) == (0, "")
    unread = run(config(), "land", "sales", str(tmp_path / "b.txt"), "--format", "csv", str(tmp_path / "absent.jsonl"))
    assert (unread.exit_code, "bug" in unread.stderr) == (1, False)
    assert "absent.jsonl cannot be read as csv" in unread.stderr
    assert landed_ids(tmp_path / "landing") == [1, 2, 3, 3, 4, 5]  # what was read before an error has landed


def test_wrong_use_is_refused(config: Callable[..., Path]) -> None:
    for arguments, code, message in (
        (["land", "sails"], 2, "there is no stream 'sails'"),
        (["land", "sales", "--drain", "x.jsonl"], 2, "--drain takes no FILE"),
    ):
        done = run(config(), *arguments)

        assert (done.exit_code, message in done.stderr) == (code, True), arguments
    wrong = run(config(columns={"id": "word"}), "land", "sales", stdin=lines(1))
    assert wrong.exit_code == 1
    assert "streams.sales.landing.columns.id: 'word' is not a column type: use boolean" in wrong.stderr


def test_an_output_that_is_away_leaves_batches_in_the_buffer_until_a_drain(
    config: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "region=NW").write_text("in the way")
    file = config(buffer={"path": "buffer"}, retries=0)

    done = run(file, "land", "sales", stdin=lines(1, 2))
    assert done.exit_code == 0, done.output
    assert "1 upload pending in the buffer" in done.stderr
    drained = run(file, "land", "sales", "--drain")
    assert drained.exit_code == 1
    assert drained.stdout.startswith("drained  0 uploads, 1 pending")
    assert "cannot be reached" in drained.stderr

    (tmp_path / "landing" / "region=NW").unlink()
    drained = run(file, "land", "sales", "--drain")
    assert drained.exit_code == 0
    assert drained.stdout == "drained  1 upload, 0 pending, 0 deleted after their retention\n"
    assert landed_ids(tmp_path / "landing") == [1, 2]


def test_records_that_reached_one_of_two_outputs_are_counted_and_no_repeat_is_advised(
    config: Callable[..., Path], tmp_path: Path
) -> None:
    away, reached = tmp_path / "away", tmp_path / "reached"
    away.mkdir()
    (away / "region=NW").write_text("in the way")
    file = config(outputs=[str(away), str(reached)], retries=0)

    done = run(file, "land", "sales", stdin=lines(1, 2, 3) + "bad\n")

    assert done.exit_code == 1
    assert landed_ids(reached) == [1, 2, 3]
    assert done.stdout.startswith("landed  0 records")
    assert f"3 records reached {reached} only, and would be there twice if landed again" in done.stderr
    assert "did not land" not in done.stderr
    assert "run it again" not in done.stderr
    (pattern,) = re.findall(r"copy the files (\S+) from there", done.stderr)
    assert [fnmatch(file.name, pattern) for file in files(reached)] == [True]


def test_an_input_of_which_no_record_fits_fails_and_the_error_has_layout_and_reason(
    config: Callable[..., Path], tmp_path: Path
) -> None:
    def twice(**column: object) -> str:
        return 2 * (json.dumps(RECORD | column) + "\n")

    for given, reason in (
        ("bad\n[]\n", "because no JSON"),
        (twice(date="2025-12-31"), "date=2025-12-31 is before start 2026-01-01"),
        (twice(date="soon"), """because field 'date' has the value "soon", which date32[day] cannot hold"""),
    ):
        done = run(config(columns=COLUMNS), "land", "sales", stdin=given)

        assert done.exit_code == 1
        (error,) = [line for line in done.stderr.splitlines() if "Error: " in line]
        assert "no record fits the stream sales, with the layout 'region={region}/date={date}': the first" in error
        assert reason in error
    assert len(rejects(tmp_path / "landing")) == 6
    inferred = run(config({"layout": "date={date}", "partitions": DATE}), "land", "sales", stdin=twice(date="soon"))
    assert (inferred.exit_code, "date='soon' is not of type date" in inferred.stderr) == (1, True), inferred.stderr
    assert "date={date}" in inferred.stderr


@pytest.mark.parametrize("pattern", ["*.pq", "batch_*.snappy.parquet", "batch_*", "*"])
def test_landed_files_have_names_that_the_stream_reads(
    config: Callable[..., Path], tmp_path: Path, pattern: str
) -> None:
    file = config({"files": pattern})

    assert run(file, "land", "sales", stdin=lines(1)).exit_code == 0

    (landed,) = [path for path in (tmp_path / "landing").rglob("batch_*") if path.is_file()]
    assert fnmatch(landed.name, pattern)
    assert "to read: 1 object" in run(file, "plan", "sales").output


def test_a_pattern_that_no_landed_file_matches_is_refused_by_validate_and_land(config: Callable[..., Path]) -> None:
    file = config({"files": "part-*.parquet"}, batch={"age": 5})
    problem = "files 'part-*.parquet' matches no file that land writes (batch_….parquet)"

    assert f"streams.sales: {problem}" in run(file, "validate").stderr

    config({"files": "part-*.parquet", "landing": None})
    assert run(file, "validate").exit_code == 0
    done = run(file, "land", "sales", stdin=lines(1))
    assert (done.exit_code, problem in done.stderr) == (1, True)


@pytest.mark.more
@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_live_edge_that_is_stopped_lands_what_it_has_read(
    config: Callable[..., Path], tmp_path: Path, number: signal.Signals
) -> None:
    file = config(batch={"age": 3600}, columns=COLUMNS)
    command = [PROGRAM, "--config", str(file), "land", "sales"]
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 2**18)
    os.write(writer, lines(*range(1500)).encode())  # before the process begins, so that it reads all of them at once
    process = subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(reader)
    until(lambda: bool(files(tmp_path / "landing")), "a thousand records are a batch")

    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    os.close(writer)

    assert process.returncode == 128 + number, err
    assert b"landed  1,500 records in 2 files" in out, out + err
    assert b"Traceback" not in err
    assert landed_ids(tmp_path / "landing") == list(range(1500))


@pytest.mark.more
@pytest.mark.kill
def test_a_program_that_writes_arrow_into_land_is_a_live_edge(config: Callable[..., Path], tmp_path: Path) -> None:
    """The generator of the stack and of the benchmarks."""
    options = "--stores=10 --regions=NW,SW --days=3 --seed=1 --per-store=100"
    words = [sys.executable, "-m", "dev.retail", *options.split(), "--format=arrow"]
    land = [PROGRAM, "--config", str(config()), "land", "sales", "--format", "arrow", "-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as generated:
        done = subprocess.run(land, stdin=generated.stdout, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, generated.returncode) == (0, 0), done.stderr
    landed = ds.dataset(str(tmp_path / "landing"), partitioning="hive", exclude_invalid_files=False).to_table()
    assert landed.num_rows == 3000
    assert len(landed.schema) == 26
    assert len(files(tmp_path / "landing")) == 6
