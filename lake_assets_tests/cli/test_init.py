"""`lake-assets init`: a project that runs as its README says, in a new or empty folder."""

import csv
import datetime as dt
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner, Result

from dev.servers.dagster import DagsterServer
from dev.servers.process import free_ports
from lake_assets.cli import main
from lake_assets.streams.load import load_config
from lake_assets.wings.land.writer import LandingWriter
from lake_assets.wings.templates.starter.project import first_day
from lake_assets_tests.cli.choices import changed_by_each_choice
from lake_assets_tests.pages.transcript import run
from lake_assets_tests.tiers import more
from lake_assets_tests.until import until

ROOT = Path(__file__).parents[2]
WRITTEN = {
    ".gitignore", "README.md", "dagster_home", "lake.schema.json", "lake.yaml", "landing", "late.parquet",
    "workspace.yaml",
}  # fmt: skip


def init(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["init", str(folder), *options])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_folder_gets_a_valid_project_with_two_days_of_two_regions(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "project"

    refused = init(folder, "--start", "11.2.2026")
    assert (refused.exit_code, names(tmp_path)) == (2, set())
    result = init(folder, "--start", "2026-02-11")

    assert result.exit_code == 0, result.output
    assert names(folder) == WRITTEN
    source = Path(load_config(folder / "lake.yaml").streams["sales"].source.root)
    landed = {str(file.parent.relative_to(source)): pq.ParquetFile(file).metadata for file in source.rglob("*.parquet")}
    assert landed.keys() == {f"region={r}/date=2026-02-{d}" for r in ("NW", "SW") for d in (11, 12)}
    assert sum(metadata.num_rows for metadata in landed.values()) == 800
    for name, place in (("dagster.yaml", "dagster_home/dagster.yaml"), ("workspace.yaml", "workspace.yaml")):
        assert yaml.safe_load((folder / place).read_text()) == yaml.safe_load((ROOT / name).read_text())


def test_a_project_starts_two_days_ago_so_that_no_date_is_without_landed_data(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # hidden, of others
    before = first_day()

    result = init(tmp_path)

    assert names(tmp_path) == {".git", *WRITTEN}
    start = load_config(tmp_path / "lake.yaml").streams["sales"].partitions["date"].start
    assert start in {before, first_day()}
    landed = {file.parent.name for file in (tmp_path / "landing").rglob("*.parquet")}
    assert landed == {f"date={start}", f"date={start + dt.timedelta(days=1)}"}
    assert f"date={start}" in result.output
    assert f"region=NW,date={start}" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_the_config_names_the_schema_beside_it_and_its_other_choices_are_valid(tmp_path: Path) -> None:
    init(tmp_path)
    config = tmp_path / "lake.yaml"

    assert changed_by_each_choice(config) >= 12
    first, *_ = config.read_text(encoding="utf-8").splitlines()
    schema = tmp_path / first.removeprefix("# yaml-language-server: $schema=")
    assert schema.read_text(encoding="utf-8") == CliRunner().invoke(main, ["schema"]).stdout


@pytest.mark.parametrize("name", ["lake.yaml", "notes.txt", ".gitignore", "landing", "a-folder/"])
def test_content_is_named_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    mine = tmp_path / name
    if name.endswith("/"):
        mine.mkdir()
    else:
        mine.write_text("mine")
        assert "is a file: name another folder" in init(mine).stderr
        assert "cannot be written" in init(mine / "below").stderr

    result = init(tmp_path)

    assert (result.exit_code, f"{mine} exists" in result.stderr) == (1, True)
    assert names(tmp_path) == {mine.name}
    assert mine.is_dir() or mine.read_text() == "mine"


def test_a_start_that_is_broken_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: LandingWriter) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LandingWriter, "flush", full)

    result = init(tmp_path / "new" / "project")

    assert result.exit_code == 1
    assert "cannot be written: No space left on device" in result.stderr
    assert names(tmp_path) == set()


def blocks(readme: Path) -> list[str]:
    """What stands in the README's blocks of shell commands, in their order."""
    return re.findall(r"^```sh\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment() -> dict[str, str]:
    """A shell's, in which this installation's commands are found and no settings of other projects."""
    kept = {name: value for name, value in os.environ.items() if name not in {"LAKE_CONFIG", "DAGSTER_HOME"}}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def started(
    command: str, folder: Path, environment: dict[str, str], log: Path, stop: int = signal.SIGINT
) -> Iterator["subprocess.Popen[bytes]"]:
    """A command of a shell in a process group of its own, which is ended by a signal."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, stop)
        try:
            process.wait(120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


@pytest.mark.journey
@pytest.mark.usefixtures("sessions")
def test_the_commands_of_the_readme_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LAKE_CONFIG", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert init(tmp_path).exit_code == 0
    commands = [line for block in blocks(tmp_path / "README.md") for line in block.splitlines()]
    assert commands.pop() == "lake-assets dev"
    assert {command.split()[1] for command in commands} >= {"doctor", "validate", "plan", "ingest", "query", "ledger"}

    outputs = []
    for command in commands:
        is_query = " query " in command
        output, code = run(f"{command} > rows.csv" if is_query else command)
        assert code == 0, f"{command}\n{output}"
        outputs.append((command, Path("rows.csv").read_text() if is_query else output))

    first, second = [output for command, output in outputs if " ingest " in command]
    assert first.count("committed  ") == 2
    day = load_config(tmp_path / "lake.yaml").streams["sales"].partitions["date"].start
    assert f"committed  region=NW/date={day}" in second
    assert f"skipped    region=SW/date={day}" in second
    before, after = [csv.DictReader(io.StringIO(output)) for command, output in outputs if " query " in command]
    assert [sum(int(row["sales"]) for row in rows) for rows in (before, after)] == [400, 450]
    assert not re.search(r"^✗", outputs[0][1], re.MULTILINE)


@pytest.mark.more
@pytest.mark.dagster
def test_dagster_starts_as_the_readme_says_and_synchronizes_with_the_same_folder(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert init(tmp_path).exit_code == 0
    (port,) = free_ports(1)
    command, log = blocks(tmp_path / "README.md")[-1].strip(), tmp_path / "log"
    url = f"http://127.0.0.1:{port}/graphql?query=%7BassetNodes%7BassetKey%7Bpath%7D%7D%7D"
    with started(f"{command} --port {port}", tmp_path, environment, log) as dagster:

        def has_the_stream() -> bool:
            assert dagster.poll() is None, log.read_text()
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    return "sales" in answer.read().decode()
            except OSError:
                return False

        until(has_the_stream, "the server shows the stream")
    assert (tmp_path / "dagster_home" / "history").exists()
    assert "SupersessionWarning" not in log.read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("LAKE_CONFIG", raising=False)
    assert CliRunner().invoke(main, ["sync-dagster"]).stdout == "sales: 0 partitions reported\n"


@pytest.mark.more
@pytest.mark.dagster
def test_the_end_of_the_daemon_is_one_line_and_what_was_launched_goes_on_at_the_next_start(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    assert init(tmp_path).exit_code == 0
    (port,) = free_ports(1)
    log, command = tmp_path / "log", f"lake-assets dev --port {port}"
    server = DagsterServer(f"http://127.0.0.1:{port}", tmp_path / "dagster_home")
    served = f"Dagster's UI is served after [0-9]+ s: {server.url}"

    def is_served() -> bool:
        assert dagster.poll() is None, log.read_text()
        return re.search(served, log.read_text()) is not None

    with started(command, tmp_path, environment, log) as dagster:
        until(is_served, "the UI is served")
        children = psutil.Process(dagster.pid).children(recursive=True)
        (daemon,) = [child for child in children if "dagster._daemon" in child.cmdline()]
        daemon.suspend()
        backfill = server.backfill("sales", [f"{dt.datetime.now(dt.UTC).date()}|NW"])  # which nothing has landed in
        daemon.kill()
        assert dagster.wait(120) == 1
    said = log.read_text()
    assert "Traceback" not in said
    assert said.splitlines()[-1] == (
        "Dagster's daemon was ended by SIGKILL, so all of Dagster ends. Run `lake-assets dev` again: queued runs go on "
        "then."
    )
    with started(command, tmp_path, environment, log) as dagster:
        until(is_served, "the UI is served")
        assert server.wait(backfill, 300) == "COMPLETED_SUCCESS"


def test_a_port_in_use_is_one_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert init(tmp_path).exit_code == 0
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = CliRunner().invoke(main, ["dev", "--host", "localhost", "--port", str(port)])

    assert done.exit_code == 2
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert error == f"Error: port {port} of localhost is in use: choose another one with --port."


@pytest.mark.dagster
@pytest.mark.parametrize("is_set", [False, *more([True])], ids=["beside the config", "of a deployment"])
def test_dev_writes_settings_only_beside_the_config(
    tmp_path: Path, environment: dict[str, str], *, is_set: bool
) -> None:
    assert init(tmp_path).exit_code == 0
    beside, of_deployment, log = tmp_path / "dagster_home", tmp_path / "deployment", tmp_path / "log"
    shutil.rmtree(beside)
    of_deployment.mkdir()
    variables = environment | ({"DAGSTER_HOME": str(of_deployment)} if is_set else {})
    with started(f"lake-assets dev --port {free_ports(1)[0]}", tmp_path, variables, log, signal.SIGKILL) as dagster:
        until(lambda: "\n" in log.read_text() or dagster.poll() is not None, "the first line")
        said = log.read_text().splitlines()[0]

    assert said.strip().endswith(f"Runs and logs: {of_deployment if is_set else beside}")
    assert (beside / "dagster.yaml").exists() is not is_set
    assert not (of_deployment / "dagster.yaml").exists()
