"""Pages whose outputs are those of the demo's lake: selections, plans, JSON, and the steps of a run.

They are followed in one lake, in this order, because each page begins with what the one before has ingested.
"""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dev.servers.absent import absent
from lake_assets.streams.load import load_config
from lake_assets.wings.templates.demo.demo_run import land, prepare, read_flights
from lake_assets_tests.pages.transcript import DOCS, follow, run, shown

pytestmark = pytest.mark.more

LANDING = Path("demo/landing/flights")
WEEK = "date=2013-01-01..2013-01-07"


@pytest.fixture
def lake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo's folder with the week of its flights, without its other stream."""
    config = prepare(Path("demo"))
    land(read_flights(), LANDING, lambda: None)
    monkeypatch.setenv("LAKE_CONFIG", str(folder / config))
    output, code = run(f"lake-assets ingest flights --yes --partition {WEEK}")
    assert code == 0, output
    return folder


def file(date: str, name: str = "part-0.parquet", origin: str = "LGA") -> Path:
    return LANDING / f"origin={origin}" / f"date={date}" / name


@pytest.mark.usefixtures("lake")
def test_the_commands_of_the_pages_about_flights_have_the_outputs_that_they_show() -> None:
    if shutil.which("jq") is None:
        absent("no jq: apt-get install jq")
    assert set(load_config(Path("demo/lake.yaml")).streams) == {"flights", "delays"}
    follow(shown(DOCS / "selection.md"))

    replaced, added = (pq.ParquetFile(file(date)).read() for date in ("2013-01-05", "2013-01-06"))
    pq.write_table(replaced[4:], file("2013-01-05"))
    pq.write_table(added[:30], file("2013-01-06", "part-1.parquet"))
    commands = [
        each for each in shown(DOCS / "how-to" / "plan-and-apply.md") if each.output is not None or ">" in each.command
    ]
    late = file("2013-01-12", "late.parquet")
    follow(commands, {"lake-assets apply": lambda: pq.write_table(added[:1], late)})

    damaged, rewritten = file("2013-01-09", origin="JFK"), file("2013-01-10", origin="JFK")
    damaged.write_text("damaged file")
    pq.write_table(pq.ParquetFile(rewritten).read().sort_by("flight"), rewritten)
    texts = (" -v ", "> run.json", "jq -c '.partitions")
    follow([each for each in shown(DOCS / "cli.md") if any(text in each.command for text in texts)])
