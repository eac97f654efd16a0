"""The progress bar: on a terminal, where an operation takes long, and gone at its end, also after an error."""

import gzip
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import feather
from rich.progress import Progress

from lake_assets.cli import main
from lake_assets.cli.progress_columns import Done, Pace
from lake_assets.duckdb_engine import followed
from lake_assets.landing.read_records import form_of, read_records
from lake_assets.progress import Count, counted, counting, watching
from lake_assets_tests.cli.terminals import Terminal, left_on, on_terminal
from lake_assets_tests.world import NW, SW, World, sales

BAR = "1/2 partitions"
CURSOR = "\x1b[?25"  # shown or hidden

# A plan of two partitions, of which the second is planned when the file has been made.
PROGRAM = """
import time
from pathlib import Path
from lake_assets.cli import main, progress_bar
from lake_assets.errors import LakeAssetsError
from lake_assets.ingest import dry_run

progress_bar.SECONDS = {seconds}
plan_in, planned = dry_run.plan_in, []

def held(*arguments):
    if planned:
        while not Path("go").exists():
            time.sleep(0.01)
        {then}
    planned.append(plan_in(*arguments))
    return planned[-1]

dry_run.plan_in = held
main(prog_name="lake-assets")
"""


@pytest.fixture
def folder(local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a config of two landed partitions."""
    for text in (NW, SW):
        local_world.land(text, sales(1))
    local_world.config_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Lines, printed when the bar is there.
LINES = """
import sys
import time
from lake_assets.cli import progress_bar
from lake_assets.cli.terminal import echo, style
from lake_assets.progress import counted

progress_bar.SECONDS = 0
with progress_bar.progress_bar():
    for number in counted(range(3), "test", "lines", 3):
        while not hasattr(sys.stderr, "rich_proxied_file"):
            time.sleep(0.01)
        echo(style(f"line {number}", fg="red"), err=number == 1)
        print("printed")
"""


@contextmanager
def planning(
    *options: str,
    seconds: float = 0,
    then: str = "pass",
    pipe: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    program = PROGRAM.format(seconds=seconds, then=then)
    words = [sys.executable, "-c", program, *options, "plan", "sales", "--waiting"]
    with on_terminal(words, environment, pipe) as terminal:
        yield terminal


def test_a_bar_says_how_many_are_done_how_fast_and_how_long_the_others_take_and_then_goes(folder: Path) -> None:
    with planning() as terminal:
        terminal.read_until(BAR)
        terminal.read_until("left")
        (folder / "go").touch()
        code = terminal.read_all()

    assert code == 0, terminal.written
    assert "plan sales" in terminal.written
    left = left_on(terminal.written)
    assert BAR not in "\n".join(left)
    assert left[-1].startswith("to read: 2 objects")
    assert terminal.written.rindex(f"{CURSOR}h") > terminal.written.rindex(f"{CURSOR}l")


def test_lines_are_printed_above_a_bar() -> None:
    with on_terminal([sys.executable, "-c", LINES]) as terminal:
        code = terminal.read_all()

    assert code == 0, terminal.written
    assert "/3 lines" in terminal.written
    assert left_on(terminal.written) == [text for number in range(3) for text in (f"line {number}", "printed")]


@pytest.mark.usefixtures("folder")
def test_an_interrupted_command_leaves_no_half_of_a_bar() -> None:
    with planning() as terminal:
        terminal.read_until(BAR)
        terminal.type("\x03")
        code = terminal.read_all()

    assert (code, left_on(terminal.written)[-1]) == (130, "Interrupted.")
    assert "partitions" not in "\n".join(left_on(terminal.written))
    assert terminal.written.rindex(f"{CURSOR}h") > terminal.written.rindex(f"{CURSOR}l")


def test_an_error_is_below_what_the_bar_was_above(folder: Path) -> None:
    with planning(then="raise LakeAssetsError('the second fails:', 'try again.')") as terminal:
        terminal.read_until(BAR)
        (folder / "go").touch()
        code = terminal.read_all()

    assert code == 1
    assert left_on(terminal.written) == ["Error: the second fails: try again."]


@pytest.mark.parametrize(
    ("options", "seconds", "environment"),
    [((), 60, {}), (("--log-format", "json"), 0, {}), (("-q",), 0, {}), ((), 0, {"NO_COLOR": "1"})],
    ids=["a quick command", "a JSON log", "quiet", "NO_COLOR"],
)
def test_there_is_no_bar(folder: Path, options: tuple[str, ...], seconds: float, environment: dict[str, str]) -> None:
    (folder / "go").touch()
    with planning(*options, seconds=seconds, environment=environment) as terminal:
        code = terminal.read_all()

    assert code == 0, terminal.written
    assert CURSOR not in terminal.written


def test_what_is_piped_has_no_bar_and_the_terminal_has_one(folder: Path) -> None:
    with planning(pipe=folder / "out") as terminal:
        terminal.read_until(BAR)
        (folder / "go").touch()
        code = terminal.read_all()

    assert code == 0, terminal.written
    assert left_on(terminal.written) == []
    text = (folder / "out").read_text()
    assert "\x1b" not in text
    assert "to read: 2 objects" in text


def test_an_error_pipe_is_no_terminal_even_where_colours_are_forced(folder: Path) -> None:
    (folder / "go").touch()
    words = [sys.executable, "-c", PROGRAM.format(seconds=0, then="pass"), "plan", "sales", "--waiting"]
    with on_terminal(["sh", "-c", '"$@" 2> errors', "sh", *words], {"FORCE_COLOR": "1"}) as terminal:
        assert terminal.read_all() == 0

    assert (folder / "errors").read_text() == ""


def test_nothing_is_shown_where_nobody_watches() -> None:
    with counting("test", "things", 2) as count:
        count.advance(2)
        count.describe("something")
    assert list(counted([1, 2], "test", "things")) == [1, 2]


@pytest.mark.parametrize(
    ("unit", "done", "total", "seconds", "text"),
    [
        ("partitions", 0, 10, 5, "0/10 partitions "),
        ("partitions", 2, 10, 4, "2/10 partitions 0.5/s, 16 s left"),
        ("partitions", 12_000, None, 4, "12,000 partitions 3,000/s"),
        ("partitions", 1, 601, 1, "1/601 partitions 1/s, 10 min left"),
        ("partitions", 0, None, 4, " "),
        ("bytes", 3_000_000, 12_000_000, 2, "3.0 MB/12.0 MB 1.5 MB/s, 6 s left"),
        ("%", 40, 100, 2, "40 % 20 %/s, 3 s left"),
    ],
)
def test_the_figures_of_a_bar(unit: str, done: int, total: int | None, seconds: float, text: str) -> None:
    clock = iter([0.0, *[seconds] * 9])
    progress = Progress(get_time=lambda: next(clock))
    progress.add_task("test", total=total, unit=unit, completed=done)
    (task,) = progress.tasks

    assert f"{Done().render(task)} {Pace().render(task)}" == text


def test_a_statement_of_duckdb_is_counted_as_far_as_it_is() -> None:
    recorded = Recorded()
    with duckdb.connect(config={"threads": 1}) as connection, watching(recorded.watch):
        connection.execute("CREATE TABLE numbers AS SELECT range AS number FROM range(2_000_000)")
        for _ in range(50):  # until one took long enough
            with followed(connection, "test"):
                connection.execute("SELECT max(md5(number::VARCHAR)) FROM numbers").fetchall()
            unit, done, total = recorded.counts["test"]
            if done:
                break

    assert (unit, total) == ("%", 100)
    assert 0 < done <= 100


GENERATE = """
from lake_assets.cli import main, progress_bar
progress_bar.SECONDS = 0
main(prog_name="lake-assets")
"""


def test_records_that_are_generated_into_a_file_have_a_bar_and_those_into_a_pipe_have_none(tmp_path: Path) -> None:
    """The reader of a pipe has a bar of its own on the same terminal."""
    words = ["generate", "retail", "--stores", "1", "--per-store", "300", "--rate", "300/s"]
    command = [sys.executable, "-c", GENERATE, *words]
    with on_terminal(command, pipe=tmp_path / "records.jsonl") as terminal:
        terminal.read_until("/300 records")
        assert terminal.read_all() == 0
    with on_terminal(["sh", "-c", '"$@" | cat > /dev/null', "sh", *command]) as terminal:
        assert terminal.read_all() == 0

    assert terminal.written == ""
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 300


Counts = dict[str, tuple[str, int, int | None]]
"""Of each title the unit, and how many are done of how many."""


@dataclass
class Recorded:
    """Counts that are kept, each by its title."""

    counts: Counts = field(default_factory=dict)
    title: str = ""

    @contextmanager
    def watch(self, title: str, unit: str, total: int | None) -> Iterator[Count]:
        self.counts[title] = (unit, 0, total)
        yield Recorded(self.counts, title)

    def advance(self, number: int = 1, /) -> None:
        unit, done, total = self.counts[self.title]
        self.counts[self.title] = (unit, done + number, total)

    def describe(self, doing: str | None, /) -> None:
        pass


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.arrow", "a.arrows"])
def test_a_file_is_counted_by_its_own_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = pa.table({"id": list(range(10_000))})
    if name == "a.parquet":
        pq.write_table(rows, path)
    elif name == "a.arrow":
        feather.write_feather(rows, path, compression="uncompressed")
    elif name == "a.arrows":
        with pa.ipc.new_stream(path, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=1000)
    else:
        text = "".join(f'{{"id":{number}}}\n' for number in range(10_000)).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    read: list[int] = []

    records = read_records(None, str(path), form_of(name), lambda infer: infer(), 0, read.append)

    assert sum(map(len, records)) == 10_000
    assert 0.9 * path.stat().st_size < sum(read) <= path.stat().st_size


def test_each_long_command_counts_what_it_does(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    file = str(local_world.config_file(tmp_path))
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))

    def counts(*words: str, typed: str = "") -> Counts:
        recorded = Recorded()
        with watching(recorded.watch):
            result = CliRunner().invoke(main, ["--config", file, *words], input=typed)
        assert result.exit_code == 0, result.output
        return recorded.counts

    both = ("partitions", 2, 2)
    landed = ("objects", 2, None)
    assert counts("plan", "sales", "--waiting")["plan sales"] == both
    ingested = counts("ingest", "sales", "--waiting")
    assert ingested["sales"] == both
    assert ingested["list sales"][0] in {"prefixes", "objects"}
    assert counts("report").items() >= {"report": ("streams", 1, 1), "list sales": landed}.items()
    checks = counts("check")
    assert checks["check sales"] == checks["read sales"]
    assert checks["check sales"][1] == checks["check sales"][2]
    assert counts("sync-dagster").items() >= {"report sales": both, "sync-dagster": ("streams", 1, 1)}.items()
    assert counts("metrics").items() >= {"metrics": ("lakes", 1, 1), "list sales": landed}.items()
    assert counts("query", "FROM sales")["query"][::2] == ("%", 100)
    assert counts("ledger")["ledger"][0] == "rows"
    assert counts("history", "--partition", NW)["history sales"] == ("partitions", 1, 1)
    assert counts("history")["history sales"][0] == "snapshots"
    local_world.land(NW, sales(1, 2))
    local_world.ingest(NW)
    snapshot = next(row.snapshot_id for row in local_world.ledger() if row.row_count == 1)
    restored = counts("restore", "sales", "--partition", NW, "--snapshot", str(snapshot))
    assert restored == {"restore sales": ("partitions", 1, 1), "copy": ("files", 1, 1)}
    diffed = counts("diff", "sales", "--partition", NW, "--from", str(snapshot))
    assert diffed["diff sales"][::2] == ("%", 100)
    assert counts("changes", "sales", "--from", "0")["changes of sales"][1] > 2
    out = str(tmp_path / "changes.csv")
    assert counts("changes", "sales", "--from", "0", "--out", out)["changes of sales"][1] > 2
    assert counts("maintain")["list test"] == ("files", 4, None)
    records = tmp_path / "records.jsonl"
    records.write_text('{"region":"NW","date":"2026-02-11","id":1,"total":1.5}\n' * 3)
    size = records.stat().st_size
    assert counts("land", "sales", str(records), str(records)) == {"land sales": ("bytes", 2 * size, 2 * size)}
    typed = counts("land", "sales", "-", typed=records.read_text())
    assert typed == {"land sales": ("records", 3, None)}
    assert counts("init", str(tmp_path / "new"), "--from", local_world.source["path"])["look"][::2] == landed[::2]
