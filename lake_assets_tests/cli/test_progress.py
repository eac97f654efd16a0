"""The progress bar: on a terminal, where an operation takes long, and gone at its end, also after an error."""

import gzip
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import feather
from rich.progress import Progress

from lake_assets.base.duckdb_engine import counting_percent
from lake_assets.base.events import Count, watching
from lake_assets.cli import main
from lake_assets.wings.land.read_records import RecordSource, form_of, read_records
from lake_assets_tests.cli.terminals import left_on, on_a_screen, on_terminal
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

BAR = "1/2"
CURSOR = "\x1b[?25"  # shown or hidden


# A plan of two partitions, of which the second is planned when the file has been made.
PROGRAM = """
import time
from pathlib import Path
from lake_assets.cli import main, progress_bar
from lake_assets.base.errors import LakeAssetsError
from lake_assets.ingest import dry_run

progress_bar.SECONDS = 0
plan_in, planned = dry_run.plan_in, []

def held(*arguments):
    if planned:
        while not Path("go").exists():
            time.sleep(0.01)
        if "fail" in Path("go").read_text():
            raise LakeAssetsError("the second fails:", "try again.")
    planned.append(plan_in(*arguments))
    return planned[-1]

dry_run.plan_in = held
main(["plan", "sales", "--waiting"], prog_name="lake-assets")
"""
# Lines, printed when the bar is there.
LINES = """
import sys
import time
from lake_assets.cli import progress_bar
from lake_assets.cli.output import echo, style
from lake_assets.base.events import counted

progress_bar.SECONDS = 0
with progress_bar.progress_bar():
    for number in counted(range(3), "test", "lines", 3):
        while not hasattr(sys.stderr, "rich_proxied_file"):
            time.sleep(0.01)
        echo(style(f"line {number}", fg="red"), err=number == 1)
        print("printed")
"""


@pytest.fixture
def folder(local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a config of two landed partitions."""
    for text in (NW, SW):
        local_world.land(text, sales(1))
    local_world.config_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("then", ["a plan", *more(["fail"]), pytest.param("\x03", marks=pytest.mark.more, id="Ctrl-C")])
def test_a_bar_says_how_far_and_how_fast_it_is_and_leaves_the_terminal_as_it_was(folder: Path, then: str) -> None:
    """A plan that ends, one that fails after the bar, and one that Ctrl-C interrupts."""
    with on_terminal([sys.executable, "-c", PROGRAM]) as terminal:
        terminal.read_until(BAR)
        if then == "\x03":
            terminal.type(then)
        else:
            (folder / "new").write_text(then)
            (folder / "new").rename(folder / "go")
        code = terminal.read_all()

    left = left_on(terminal.written)
    assert code == {"fail": 1, "\x03": 130}.get(then, 0), terminal.written
    assert "plan sales" in terminal.written
    assert BAR not in "\n".join(left)
    assert terminal.written.rindex(f"{CURSOR}h") > terminal.written.rindex(f"{CURSOR}l")
    if then == "fail":
        assert left == ["Error: the second fails: try again."]
    else:
        assert left[-1].startswith("Interrupted." if then == "\x03" else "to read: 2 objects")


class AtOnce:
    """In place of the timer of a bar: one of no seconds ends when it begins, and others never."""

    def __init__(self, seconds: float, function: Callable[..., None], arguments: Sequence[object]) -> None:
        self.start = partial(function, *arguments) if seconds == 0 else int
        self.cancel = self.join = int


@pytest.mark.parametrize(
    ("options", "seconds", "environment", "has_bar"),
    [
        ((), 0, {}, True),
        pytest.param((), 60, {}, False, id="a quick command"),
        pytest.param(("--log-format", "json"), 0, {}, False, id="a JSON log"),
        pytest.param(("-q",), 0, {}, False, id="quiet"),
        pytest.param((), 0, {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param((), 0, {"FORCE_COLOR": "1"}, False, id="an error pipe where colours are forced"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_only_a_long_command_of_a_terminal_has_a_bar(
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    seconds: float,
    environment: dict[str, str],
    *,
    has_bar: bool,
) -> None:
    monkeypatch.setattr("lake_assets.cli.progress_bar.SECONDS", seconds)
    monkeypatch.setattr("lake_assets.cli.progress_bar.Timer", AtOnce)
    started: list[Progress] = []

    def start(bar: Progress) -> None:
        started.append(bar)

    monkeypatch.setattr(Progress, "start", start)
    words = [*options, "plan", "sales", "--waiting"]

    if "FORCE_COLOR" in environment:
        code = CliRunner().invoke(main, words, env=environment).exit_code
    else:
        _, code = on_a_screen(*words, environment={"NO_COLOR": ""} | environment)

    assert (code, bool(started)) == (0, has_bar)


@pytest.mark.more
def test_lines_are_printed_above_a_bar() -> None:
    with on_terminal([sys.executable, "-c", LINES]) as terminal:
        code = terminal.read_all()

    assert code == 0, terminal.written
    assert "/3" in terminal.written
    assert left_on(terminal.written) == [text for number in range(3) for text in (f"line {number}", "printed")]


Counts = dict[str, tuple[str, int, int | None]]
"""Of each title the unit, and how many are done of how many."""


@dataclass
class Recorded(Count):
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


@pytest.mark.more
def test_a_statement_of_duckdb_is_counted_as_far_as_it_is() -> None:
    recorded = Recorded()
    with duckdb.connect(config={"threads": 1}) as connection, watching(recorded.watch):
        connection.execute("CREATE TABLE numbers AS SELECT range AS number FROM range(2_000_000)")
        for _ in range(50):  # until one took long enough
            with counting_percent(connection, "test"):
                connection.execute("SELECT max(md5(number::VARCHAR)) FROM numbers").fetchall()
            unit, done, total = recorded.counts["test"]
            if done:
                break

    assert (unit, total) == ("%", 100)
    assert 0 < done <= 100


def test_a_file_is_counted_by_its_own_bytes(tmp_path: Path) -> None:
    rows = pa.table({"id": list(range(10_000))})
    text = "".join(f'{{"id":{number}}}\n' for number in range(10_000)).encode()
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))
    pq.write_table(rows, tmp_path / "a.parquet")
    feather.write_feather(rows, tmp_path / "a.arrow", compression="uncompressed")
    with pa.ipc.new_stream(tmp_path / "a.arrows", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=1000)

    for path in sorted(tmp_path.glob("a.*")):
        read: list[int] = []
        records = read_records(RecordSource(str(path), form_of(path.name)), lambda infer: infer(), read.append)

        assert sum(map(len, records)) == 10_000
        assert 0.9 * path.stat().st_size < sum(read) <= path.stat().st_size, path


@pytest.mark.more
def test_each_long_command_counts_what_it_does(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (NW, SW):
        local_world.land(text, sales(1))
    file = str(local_world.config_file(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    records = tmp_path / "records.jsonl"
    records.write_text('{"region":"NW","date":"2026-02-11","id":1,"total":1.5}\n' * 3)

    def counts(*words: str) -> Counts:
        recorded = Recorded()
        with watching(recorded.watch):
            typed = records.read_text() if words[-1] == "-" else None
            result = CliRunner().invoke(main, ["--config", file, *words], input=typed)
        assert result.exit_code == 0, result.output
        return recorded.counts

    both, landed, percent = ("partitions", 2, 2), ("objects", 2, None), ("%", 100)
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
    assert counts("query", "FROM sales")["query"][::2] == percent
    assert counts("ledger")["ledger"][0] == "rows"
    assert counts("history", "--partition", NW)["history sales"] == ("partitions", 1, 1)
    assert counts("history")["history sales"][0] == "snapshots"
    first = str(local_world.ledger(NW)[0].snapshot_id)
    local_world.commit(NW, 1, 2)
    restored = counts("restore", "sales", "--partition", NW, "--snapshot", first)
    assert restored == {"restore sales": ("partitions", 1, 1), "copy": ("files", 1, 1)}
    assert counts("diff", "sales", "--partition", NW, "--from", first)["diff sales"][::2] == percent
    assert counts("maintain")["list test"] == ("files", 4, None)
    size = records.stat().st_size
    assert counts("land", "sales", str(records), str(records)) == {"land sales": ("bytes", 2 * size, 2 * size)}
    assert counts("land", "sales", "-") == {"land sales": ("records", 3, None)}
    assert counts("init", str(tmp_path / "new"), "--from", local_world.source["path"])["look"][::2] == landed[::2]
