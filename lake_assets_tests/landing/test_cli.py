"""`lake-assets land` and `generate` as a user types them."""

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
from types import SimpleNamespace
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result

from lake_assets.cli import main
from lake_assets_tests.landing.streams import COLUMNS, files, landed_ids, rejects
from lake_assets_tests.until import until
from lake_assets_tests.world import World

PROGRAM = str(Path(sys.executable).with_name("lake-assets"))
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


def test_standard_input_lands(config: Callable[..., Path], tmp_path: Path) -> None:
    done = run(config(), "land", "sales", "-", stdin=lines(1, 2))

    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("landed  2 records in 1 file, ")
    assert done.stderr == ""
    assert landed_ids(tmp_path / "landing") == [1, 2]


def test_several_files_land_and_bad_records_are_reported(config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1, 2) + "bad\n")
    (tmp_path / "b.txt").write_text("region,date,id,total\nSW,2026-02-11,3,1.5\n")

    done = run(config(), "land", "sales", str(tmp_path / "a.jsonl"))
    (rejected,) = (tmp_path / "landing" / "_dead_letters").glob("*.jsonl")
    assert done.stdout.startswith("landed  2 records in 1 file, ")
    assert done.stderr.startswith("1 record rejected, because no JSON: ")
    assert done.stderr.rstrip().endswith(f": {rejected}")
    done = run(config(), "land", "sales", "--format", "csv", str(tmp_path / "b.txt"))

    assert done.exit_code == 0, done.output
    assert landed_ids(tmp_path / "landing") == [1, 2, 3]
    assert [reject["line"] for reject in rejects(tmp_path / "landing")] == [3]


def test_an_unreadable_file_fails_and_what_was_read_before_lands(config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1, 2))

    done = run(config(), "land", "sales", str(tmp_path / "a.jsonl"), str(tmp_path / "absent.jsonl"))

    assert done.exit_code == 1
    assert "absent.jsonl cannot be read as jsonl" in done.stderr
    assert "bug" not in done.stderr
    assert landed_ids(tmp_path / "landing") == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("sails",), "there is no stream 'sails'"), (("sales", "--drain", "x.jsonl"), "--drain takes no FILE")],
)
def test_wrong_use(config: Callable[..., Path], arguments: tuple[str, ...], message: str) -> None:
    done = run(config(), "land", *arguments)

    assert done.exit_code == 2
    assert message in done.stderr


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


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("bad\n[]\n", "because no JSON"),
        (2 * (json.dumps(RECORD | {"date": "2025-12-31"}) + "\n"), "date=2025-12-31 is before start 2026-01-01"),
        (2 * (json.dumps(RECORD | {"date": "soon"}) + "\n"), "because date: Failed to parse string: 'soon'"),
    ],
)
def test_an_input_of_which_no_record_fits_fails_and_the_error_has_layout_and_reason(
    config: Callable[..., Path], tmp_path: Path, given: str, reason: str
) -> None:
    done = run(config(columns=COLUMNS), "land", "sales", stdin=given)

    assert done.exit_code == 1
    (error,) = [line for line in done.stderr.splitlines() if "Error: " in line]
    assert "no record fits the stream sales, with the layout 'region={region}/date={date}': the first" in error
    assert reason in error
    assert len(rejects(tmp_path / "landing")) == 2


@pytest.mark.parametrize(
    ("layout", "column", "told"),
    [
        ("date={date}", {"date": "soon"}, "date='soon' is not of type date"),
        ("date={date,,YYYY}-{date,,MM}-{date,,DD}", {"date": 7}, "date={date,,YYYY}"),
        ("date={nosuch}", {}, "no column 'nosuch', which the layout 'date={nosuch}' names"),
    ],
)
def test_a_template_that_no_value_of_inferred_columns_fits_is_an_error_that_names_both(
    config: Callable[..., Path], layout: str, column: dict[str, object], told: str
) -> None:
    partitions = {"nosuch" if "nosuch" in layout else "date": {"type": "date", "start": "2026-01-01"}}
    file = config({"layout": layout, "partitions": partitions})

    done = run(file, "land", "sales", stdin=2 * (json.dumps(RECORD | column) + "\n"))

    assert done.exit_code == 1
    (error,) = [line for line in done.stderr.splitlines() if "Error: " in line]
    assert told in error
    assert layout in error


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


def test_a_wrong_option_is_named_by_its_field(config: Callable[..., Path]) -> None:
    done = run(config(columns={"id": "word"}), "land", "sales", stdin=lines(1))

    assert done.exit_code == 1
    assert "streams.sales.landing.columns.id: 'word' is not a column type: use boolean" in done.stderr


@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
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


@pytest.mark.kill
@pytest.mark.parametrize("form", ["jsonl", "arrow"])
def test_generate_into_land_is_a_live_edge(config: Callable[..., Path], tmp_path: Path, form: str) -> None:
    generate = [
        PROGRAM,
        "generate",
        "retail",
        "--stores=10",
        "--regions=NW,SW",
        "--days=3",
        "--seed=1",
        "--per-store=100",
    ]
    generated = subprocess.Popen([*generate, "--format", form], stdout=subprocess.PIPE)
    land = [PROGRAM, "--config", str(config()), "land", "sales", "--format", form, "-"]
    done = subprocess.run(land, stdin=generated.stdout, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, generated.wait()) == (0, 0), done.stderr
    landed = ds.dataset(str(tmp_path / "landing"), partitioning="hive", exclude_invalid_files=False).to_table()
    assert landed.num_rows == 3000
    assert len(landed.schema) == 26
    assert len(files(tmp_path / "landing")) == 6


def test_generate_is_the_same_for_a_seed(config: Callable[..., Path]) -> None:
    command = ["generate", "retail", "--stores", "2", "--per-store", "3", "--days", "1"]
    first, again = run(config(), *command), run(config(), *command)
    other = run(config(), *command, "--seed", "2")

    assert first.exit_code == 0, first.output
    assert first.stdout == again.stdout != other.stdout
    assert len([json.loads(line) for line in first.stdout.splitlines()]) == 6


def test_a_rate_is_kept(config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr("lake_assets.cli.generate.time", clock)

    done = run(config(), "generate", "retail", "--stores", "1", "--per-store", "30", "--rate", "50/s")

    assert len(done.stdout.splitlines()) == 30
    assert pauses == pytest.approx([0.1] * 6)


@pytest.mark.parametrize("rate", ["fast", "0", "-5/s", "inf"])
def test_a_rate_that_is_none_is_wrong_use(config: Callable[..., Path], rate: str) -> None:
    done = run(config(), "generate", "retail", "--rate", rate)

    assert done.exit_code == 2
    assert "is not a rate: write it as 500/s" in done.stderr


def test_a_reader_that_goes_away_ends_the_generator_quietly() -> None:
    command = f"{PROGRAM} generate retail --days 50 | head -n 1"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, env=environment, check=True)

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
