"""The page: all of it in one file, and nothing in it that is not ours to say. Its counts are by value."""

import datetime as dt
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets.api import open_stream
from lake_assets.base.errors import LayoutError
from lake_assets.base.texts import age
from lake_assets.storage.manifest import LandedObject
from lake_assets.streams.left_out import LeftOut, LeftOutObject
from lake_assets.upkeep.report.grid import heat_map
from lake_assets.upkeep.report.html import FEW, LIMIT, Section, page, section
from lake_assets.upkeep.report.state import PartitionState, StreamState, read_stream_state, summarize, total_counts
from lake_assets_tests.upkeep.report.states import commit_one_and_fail_one, days, stream_state
from lake_assets_tests.world import NW, SW, World, sales

MADE = dt.datetime(2026, 2, 12, tzinfo=dt.UTC)
EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page_of(state: StreamState, description: str = "") -> str:
    shown = Section(state, description, [("all", total_counts(summarize(state)))], [], heat_map(state))
    return page([shown], "Partitions", MADE)


def test_the_page_loads_nothing_from_elsewhere() -> None:
    text = page_of(stream_state({"d": "date"}, [((day,), "missing", None) for day in days("2026-01-01", 3)]))

    tags = Tags(text).found
    assert not {"script", "link", "iframe", "base", "object"} & {tag for tag, _ in tags}
    assert not [name for _, attributes in tags for name in ("src", "href") if name in attributes]
    assert not re.search(r"https?://|url\(|@import", text)


def test_what_others_wrote_is_text(local_world: World) -> None:
    (partition,) = stream_state({"r": "string"}, [((EVIL,), "failed", None)]).partitions
    failed = PartitionState("sales", partition.partition, "failed", error=f"column {EVIL}", finished_at=MADE)
    stray = LandedObject(f"/landing/{EVIL}", EVIL, "e", 1, MADE)
    left_out = LeftOut((LeftOutObject(stray, LayoutError("the path is not of the layout.")),))
    state = StreamState("sales", "main.sales", partition.partition.columns, MADE, (failed,), left_out)
    local_world.options = {"mode": "index"}
    local_world.land(NW, pa.table({"id": [EVIL]}))
    local_world.ingest(NW)

    text = page_of(state, f"described {EVIL}")
    previewed = page([section(local_world.stream, read_stream_state(local_world.stream, MADE))], "Partitions", MADE)

    assert "script" not in {tag for tag, _ in Tags(text + previewed).found}
    assert text.count("&lt;script&gt;") == 5  # heat map, partition, description, error, unmatched object
    assert "&lt;script&gt;" in previewed


def test_long_lists_are_cut_and_say_so() -> None:
    stale = stream_state({"n": "integer"}, [((n,), "stale", 1) for n in range(LIMIT + 7)])
    missing = stream_state({"n": "integer"}, [((n,), "missing", None) for n in range(FEW + 1)])

    assert "and 7 more" in page_of(stale)
    assert "<details>" in page_of(missing)
    assert "<details open>" in page_of(stream_state({"n": "integer"}, [((1,), "missing", None)]))


def test_each_partition_has_its_state_rows_age_error_and_first_rows(local_world: World) -> None:
    local_world.options = {"sensor": {"type": "objects"}}
    commit_one_and_fail_one(local_world)
    local_world.land("region=NE,date=2026-02-11", sales(3))
    two_hours_later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=2, minutes=1)

    part = section(local_world.stream, read_stream_state(local_world.stream, two_hours_later))

    failed, committed, missing = part.lines
    assert [line.partition.state for line in part.lines] == ["failed", "committed", "missing"]
    assert (committed.partition.rows, committed.age) == (2, "2 h")
    assert committed.preview is not None
    assert committed.preview.preview == (("0", "1.0", "NW", "2026-02-11"), ("1", "2.0", "NW", "2026-02-11"))
    assert (failed.age, missing.age) == ("", "")
    assert "cannot be read as Parquet" in (failed.partition.error or "")
    text = page([part], "Partitions of sales", MADE)
    assert "<details open>\n<summary>Partitions: 3" in text
    assert "first 2 rows" in text
    assert "not tried again until its objects change" in text
    assert "Newest runs" in text


@pytest.mark.more
def test_previews_are_those_of_the_newest_partitions_and_rows_that_cannot_be_read_do_not_stop_the_page(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.upkeep.report.html.PREVIEWS", 1)
    local_world.options = {"mode": "index"}
    uris = []
    for partition in (NW, SW):
        uris.append(local_world.land(partition, sales(1)))
        local_world.ingest(partition)
    state = read_stream_state(local_world.stream, MADE)

    newest, older = section(local_world.stream, state).lines
    assert "SW" in str(newest.partition.partition)
    assert newest.preview is not None
    assert older.preview is None
    Path(uris[1]).unlink()
    unread, _ = section(open_stream(local_world.config, "sales"), state).lines
    assert unread.preview is None
    assert uris[1] in unread.unread


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (7_300, "2 h"),
        (100_000, "27 h"),
        (172_800, "2 days"),
    ],
)
def test_an_age_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_there_is_a_row_for_each_value_beside_the_time() -> None:
    first, second = days("2026-01-01", 2)
    state = stream_state(
        {"date": "date", "region": "string"},
        [((first, "NW"), "committed", 3), ((second, "NW"), "stale", 4), ((first, None), "missing", None)],
    )

    north, null = summarize(state)

    assert (north.partitions, north.rows, north.counts["committed"], north.counts["stale"]) == ("region=NW", 7, 1, 1)
    assert (null.partitions, null.rows, null.counts["missing"]) == ("region=__HIVE_DEFAULT_PARTITION__", 0, 1)
    assert total_counts([north, null]).counts == state.counts
    # A stream of one column has one row.
    for kind, value in (("date", dt.date(2026, 1, 1)), ("string", "NW")):
        state = stream_state({"c": kind}, [((value,), "committed", 1)])  # type: ignore[dict-item]

        assert [(item.partitions, item.rows) for item in summarize(state)] == [("", 1)]
