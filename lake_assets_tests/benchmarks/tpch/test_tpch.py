"""The benchmark of TPC-H's lineitem, with fake peers. `make bench-tpch` runs the real ones."""

import datetime as dt
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.benchmarks.peers.bench import Bench
from dev.benchmarks.peers.environments import ROOT
from dev.benchmarks.peers.process import Command
from dev.benchmarks.peers.results import Failure
from dev.benchmarks.tpch.landing import Lineitem
from dev.benchmarks.tpch.page import with_figures
from dev.benchmarks.tpch.parts import PARTS, WRITERS, Course
from dev.benchmarks.tpch.plots import drawings
from dev.benchmarks.tpch.results import Measured, Results
from docs.hooks.figures import with_figures as with_site_figures

FIGURES = ROOT / "docs" / "explanation" / "tpch"
MONTHS = 60
MODES = ("AIR", "REG AIR")


@pytest.fixture
def landing(tmp_path: Path) -> Lineitem:
    """Partitions for each writer, each of ten rows."""
    for mode in MODES:
        for month in range(MONTHS):
            place = (
                tmp_path
                / "generated"
                / f"ship_mode={mode}"
                / f"ship_month={dt.date(1992 + month // 12, month % 12 + 1, 1)}"
            )
            place.mkdir(parents=True)
            pq.write_table(pa.table({"l_orderkey": range(10), "l_returnflag": ["A"] * 10}), place / "data_0.parquet")
    landing = Lineitem(tmp_path / "generated", "ship_month")
    landing.reset()
    return landing


def counted(landing: Lineitem) -> list[Sequence[str]]:
    """What a reader finds who reads the landed objects."""
    paths = sorted(landing.landed.folder.glob("*/*/*.parquet"))
    keys = ([part.partition("=")[2] for part in path.parts[-3:-1]] for path in paths)
    return [[*key, str(pq.read_metadata(path).num_rows)] for key, path in zip(keys, paths, strict=True)]


def test_a_reader_is_right_who_finds_the_old_or_the_new_rows_of_each_partition(landing: Lineitem) -> None:
    before = counted(landing)
    first, second = landing.partitions[:2]
    landing.restate([first])
    after = counted(landing)

    assert before[1:] == after[1:]
    assert (landing.wrong(before, restated=[first]), landing.wrong(after, restated=[first])) == (0, 0)
    assert (landing.wrong(before), landing.wrong(after)) == (1, 0)
    assert landing.wrong(before, restated=[second]) == 1
    # A partition that lacks, one with half of its rows, one that never landed.
    assert (landing.wrong(after[1:]), landing.wrong(after[1:], 0)) == (1, 0)
    assert landing.wrong([*after[:-1], [*after[-1][:-1], "5"]], 0) == 1
    assert landing.wrong([*after, ["TRUCK", "1992-01-01", "10"]]) == 1


def test_restated_objects_have_other_rows_and_the_generated_ones_are_kept(landing: Lineitem) -> None:
    some = landing.partitions[:1]
    landing.restate(some)
    landing.restate(some)
    (path,) = landing.landed.folder.glob("ship_mode=AIR/ship_month=1992-01-01/*.parquet")

    assert pq.ParquetFile(path).read().to_pydict() == {"l_orderkey": list(range(2, 10)), "l_returnflag": ["2"] * 8}
    landing.reset()
    assert pq.ParquetFile(path).read()["l_returnflag"].to_pylist() == ["A"] * 10


@pytest.mark.long
def test_each_part_is_measured_or_has_the_error_of_the_peer(landing: Lineitem, tmp_path: Path) -> None:
    peers = {"right": "", "loses": "loses a row", "one by one": "one by one"}
    commands = {
        name: Command(Path(sys.executable), "dev.benchmarks.peers.fake_peer", {"FAKE_PEER": how})
        for name, how in peers.items()
    }
    bench = Bench(tmp_path, commands, lambda _: None)
    found = {}
    for name in peers:
        course = Course(bench, name, landing, 60.0, 60.0, 0.5)
        course.run()
        found[name] = course

    right = found["right"].parts
    assert set(right) == set(PARTS)
    assert all(isinstance(part, Measured) for part in right.values())
    done = {name: part.done for name, part in right.items() if isinstance(part, Measured)}
    partitions = len(MODES) * MONTHS
    assert (done["once"], done["each"], done["restated"], done["restated each"]) == (partitions, partitions, 6, 6)
    assert done["writers"] >= WRITERS
    reader = right["reader"]
    assert isinstance(reader, Measured)
    assert reader.reads > 0
    assert all(
        seconds > 0 for both in found["right"].queries.values() if not isinstance(both, Failure) for seconds in both
    )

    for part in ("each", "writers", "reader", "killed"):
        failure = found["loses"].parts[part]
        assert isinstance(failure, Failure)
        assert failure.error.startswith("other rows than landed: ")
    once = found["one by one"].parts["once"]
    assert isinstance(once, Failure)
    assert once.cannot
    assert isinstance(found["one by one"].parts["each"], Measured)


def test_the_committed_page_has_the_committed_results() -> None:
    committed, s3, day, sf10 = (
        Results.model_validate_json((folder / "results.json").read_text(encoding="utf-8"))
        for folder in (FIGURES, FIGURES / "s3", FIGURES / "day", FIGURES / "sf10")
    )
    page = (ROOT / "docs" / "explanation" / "tpch.md").read_text(encoding="utf-8")
    shown = with_site_figures("explanation/tpch.md", page)

    assert shown == with_figures(page, committed, {"s3": s3, "day": day, "sf10": sf10})
    assert {f"{plot}.svg" for plot in drawings(committed)} == {*re.findall(r"\]\(tpch/([^)]+)\)", page)}
    for part, found in (part for results in (committed, s3, day, sf10) for part in results.parts.items()):
        ours = found["ours"]
        assert isinstance(ours, Measured)
        assert (ours.wrong, ours.errors) == (0, {})
        assert PARTS[part] in shown
