"""`release`: a partition of all streams of a group becomes visible in one snapshot, or of none."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pydantic import ValidationError

from dev.plain_client import plain_client
from lake_assets.api import open_stream
from lake_assets.base.errors import CatalogError, CatalogUnreachableError, HeldBackError, LakeAssetsError
from lake_assets.base.events import Event, listening
from lake_assets.config.lake import Lake
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.lake.commit import direct
from lake_assets.lake.commit.change import Change, Committed
from lake_assets.lake.session import LakeSession
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.ingest.overtaking import before
from lake_assets_tests.tiers import more
from lake_assets_tests.until import until
from lake_assets_tests.world import NW, STREAM, SW, World, sales

NAMES = ["sales", "returns", "stock"]


@dataclass
class Group:
    """Streams of one world that are released together."""

    world: World
    options: dict[str, dict[str, Any]]

    def declare(self) -> None:
        """Write the streams and their group into the world's config, with landing zones that exist."""
        if "path" in self.world.source:
            for name in NAMES:
                Path(self.source(name)["path"]).mkdir(parents=True, exist_ok=True)
        self.world.sections = {
            "streams": {
                name: STREAM | {"source": self.source(name), "destination": {"table": name}} | self.options[name]
                for name in NAMES
            },
            "release": {"daily": NAMES},
        }

    def source(self, name: str) -> dict[str, Any]:
        root = "prefix" if "bucket" in self.world.source else "path"
        return self.world.source | {root: f"{self.world.source[root]}/{name}"}

    def land(self, name: str, text: str, rows: pa.Table | bytes, file: str = "a.parquet") -> None:
        source, world = self.source(name), self.world
        other = World(world.catalog, world.storage, source, world.sessions)
        other.land(text, rows, file)

    def land_all(self, text: str, total: float) -> None:
        for number, name in enumerate(NAMES):
            self.land(name, text, sales(total + number / 10))

    def ingest(self, *texts: str, name: str = "sales", **options: Any) -> list[Outcome]:
        stream = open_stream(self.world.config, name)
        partitions = [stream.config.partition(text) for text in texts]
        return list(ingest_all(stream, partitions, self.world.sessions, IngestOptions(**options)))

    def totals(self) -> dict[str, list[float]]:
        """The totals of each table, as a plain DuckDB client sees them in one snapshot."""
        with self.world.reader() as client:
            return totals_of(client)


def totals_of(client: duckdb.DuckDBPyConnection) -> dict[str, list[float]]:
    tables = {name for (name,) in client.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    unions = " UNION ALL ".join(f"SELECT '{n}', total FROM lake.{n}" for n in NAMES if n in tables)
    rows = client.execute(unions).fetchall() if unions else []
    return {name: sorted(total for found, total in rows if found == name) for name in NAMES}


def read_on(lake: Lake, begun: Path, ended: Path) -> list[dict[str, list[float]]]:
    """Read the totals again and again, until `ended` exists; `begun` does after the first time."""
    seen = []
    with plain_client(lake) as client:
        while not ended.exists():
            seen.append(totals_of(client))
            begun.touch()
    return seen


@pytest.fixture
def group(local_world: World) -> Group:
    return group_in(local_world)


def group_in(world: World) -> Group:
    group = Group(world, {name: {} for name in NAMES})
    group.declare()
    return group


def test_a_partition_of_all_streams_is_one_snapshot(world: World) -> None:
    group = group_in(world)
    group.land_all(NW, 1)
    group.land_all(SW, 2)

    outcomes = group.ingest(NW, SW, name="returns")

    assert [outcome.row.stream for outcome in outcomes] == ["returns", "returns"]
    assert group.totals() == {"sales": [1, 2], "returns": [1.1, 2.1], "stock": [1.2, 2.2]}
    rows = group.world.ledger()
    assert {row.load_partition for row in rows} == {"region=NW/date=2026-02-11", "region=SW/date=2026-02-11"}
    assert len({row.snapshot_id for row in rows if row.load_partition.startswith("region=NW")}) == 1
    assert len(rows) == 6

    group.land_all(NW, 5)
    (again,) = group.ingest(NW)
    assert (again.row.rows_before, again.row.row_count) == (1, 1)
    assert group.totals() == {"sales": [2, 5], "returns": [2.1, 5.1], "stock": [2.2, 5.2]}
    assert {outcome.status for outcome in group.ingest(NW, SW)} == {"skipped"}

    group.land("returns", NW, sales(7))
    (unlike,) = group.ingest(NW)
    assert unlike.status == "skipped"  # as sales is; what has changed is committed
    assert group.totals() == {"sales": [2, 5], "returns": [2.1, 7], "stock": [2.2, 5.2]}


@pytest.mark.parametrize("world", [("sqlite", "local"), *more([(("postgres", "local"),)])], indirect=True)
def test_a_reader_never_sees_some_of_the_streams_only(world: World, tmp_path: Path) -> None:
    """The reader is a process, as clients are: in one, Python's SQLite and DuckDB's do not see each other's locks."""
    group = group_in(world)
    group.land_all(NW, 0)
    group.ingest(NW)
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        reader = pool.submit(read_on, world.config.lakes["test"], begun, ended)
        try:
            until(lambda: begun.exists() or reader.done(), "the reader reads")
            for total in range(1, 4):
                group.land_all(NW, total)
                group.ingest(NW)
        finally:
            ended.touch()
        seen = reader.result()

    states = [{name: [total + number / 10] for number, name in enumerate(NAMES)} for total in range(4)]
    assert [state for state in seen if state not in states] == []


@pytest.mark.more
def test_a_partition_waits_for_a_stream_in_which_nothing_has_landed_unless_that_has_a_meaning(group: Group) -> None:
    group.land("sales", NW, sales(1))
    group.land("stock", NW, sales(3))

    (outcome,) = group.ingest(NW)

    assert (outcome.status, outcome.note) == ("left_out", "it waits for returns, where nothing has landed")
    assert group.totals() == {"sales": [], "returns": [], "stock": []}
    assert [own.status for own in group.ingest(NW, name="returns", landed_only=True)] == ["left_out"]
    group.options["returns"] = {"on_empty": "keep"}
    group.declare()
    assert [outcome.status for outcome in group.ingest(NW)] == ["committed"]
    assert group.totals() == {"sales": [1], "returns": [], "stock": [3]}

    group.land("returns", NW, sales(2))
    assert [own.status for own in group.ingest(NW, name="returns")] == ["committed"]
    assert group.totals() == {"sales": [1], "returns": [2], "stock": [3]}


def test_a_failure_holds_its_key_back_and_no_other(group: Group) -> None:
    group.land_all(NW, 1)
    group.land_all(SW, 2)
    group.ingest(NW, SW)
    group.land_all(NW, 3)
    group.land_all(SW, 4)
    group.land("returns", NW, b"no Parquet")

    of_key = {outcome.partition.path: outcome for outcome in group.ingest(NW, SW)}

    held = of_key["region=NW/date=2026-02-11"]
    assert isinstance(held.error, HeldBackError)
    assert "released together with returns" in str(held.error)
    assert "it has no Parquet footer" in str(held.error)
    assert of_key["region=SW/date=2026-02-11"].status == "committed"
    assert group.totals() == {"sales": [1, 4], "returns": [1.1, 4.1], "stock": [1.2, 4.2]}
    assert {row.stream for row in group.world.ledger() if row.status == "failed"} == set(NAMES)
    assert len(group.world.data_files()) == 6 + 3  # those of the failed try are removed

    group.land("returns", NW, sales(3.1))
    assert [outcome.status for outcome in group.ingest(NW)] == ["committed"]
    assert group.totals() == {"sales": [3, 4], "returns": [3.1, 4.1], "stock": [3.2, 4.2]}


@pytest.mark.more
def test_all_streams_are_read_again_if_objects_of_one_change_meanwhile(group: Group) -> None:
    group.land_all(NW, 1)

    events: list[Event] = []

    with listening(events.append), before("verify", lambda _: group.land("stock", NW, sales(9))):
        (outcome,) = group.ingest(NW)

    assert outcome.status == "committed"
    ends = [(event.stream, event.event, event.status) for event in events if event.event in ("partition", "run")]
    assert sorted(ends) == sorted((name, event, "committed") for name in NAMES for event in ("partition", "run"))
    assert group.totals() == {"sales": [1], "returns": [1.1], "stock": [9]}
    assert len({row.snapshot_id for row in group.world.ledger()}) == 1


@pytest.mark.more
def test_rows_are_added_together_too(group: Group) -> None:
    for name in NAMES:
        group.options[name] = {"mode": "append"}
    group.declare()
    group.land_all(NW, 1)
    group.ingest(NW)
    for number, name in enumerate(NAMES):
        group.land(name, NW, sales(5 + number), "b.parquet")

    assert [outcome.status for outcome in group.ingest(NW)] == ["committed"]

    assert group.totals() == {"sales": [1, 5], "returns": [1.1, 6], "stock": [1.2, 7]}
    assert len({row.snapshot_id for row in group.world.ledger()}) == 2


def test_an_error_between_two_tables_leaves_neither(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_in(world)
    group.land_all(NW, 1)
    group.ingest(NW)
    group.land_all(NW, 2)
    original, calls = direct._end_files, []

    def fail_at_the_second(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) % len(NAMES) == 2:
            raise LakeAssetsError("the machine fails here")
        return original(*arguments)

    monkeypatch.setattr(direct, "_end_files", fail_at_the_second)
    (outcome,) = group.ingest(NW)

    assert "the machine fails here" in str(outcome.error)
    assert group.totals() == {"sales": [1], "returns": [1.1], "stock": [1.2]}


@pytest.mark.more
def test_a_restored_stream_that_is_held_keeps_its_rows_and_the_others_are_released(group: Group) -> None:
    group.land_all(NW, 1)
    group.ingest(NW)
    first = group.world.ledger()[0].snapshot_id
    group.land_all(NW, 2)
    group.ingest(NW)
    assert first is not None
    stock = open_stream(group.world.config, "stock")
    Restoration(stock, stock.config.partition(NW), first, hold=True).run()
    group.land_all(NW, 3)

    assert [outcome.status for outcome in group.ingest(NW)] == ["committed"]

    assert group.totals() == {"sales": [3], "returns": [3.1], "stock": [1.2]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"release": {"daily": ["sales", "stok"]}}, "stok is not a stream: write sales, returns, stock"),
        ({"release": {"daily": ["sales"]}}, "at least two streams"),
        (
            {"release": {"daily": ["sales", "stock"], "other": ["stock", "returns"]}},
            "stock is in the group daily",
        ),
        ({"sales": {"mode": "index"}}, "mode: index"),
        ({"stock": {"partitions": {"date": {"type": "date", "start": "2026-01-01"}}}}, "different partition columns"),
    ],
)
def test_a_group_that_cannot_be_is_refused_with_the_reason(group: Group, change: dict[str, Any], says: str) -> None:
    group.options |= {name: options for name, options in change.items() if name in NAMES}
    group.declare()
    group.world.sections |= {name: section for name, section in change.items() if name == "release"}

    with pytest.raises(ValidationError, match=says):
        _ = group.world.config


def test_a_plan_says_what_waits_and_what_is_held_back(group: Group) -> None:
    for text in (NW, SW):
        group.land("sales", text, sales(1))
    group.land("stock", NW, sales(1))
    group.land("stock", SW, sales(1))
    group.land("returns", SW, b"no Parquet")
    stream = open_stream(group.world.config, "sales")

    waiting, held = stream.plan([NW, SW]).partitions

    assert waiting.action == "leave the partition out: it waits for returns, where nothing has landed"
    assert not waiting.commits
    assert "is released together with returns, where it failed" in held.decision.fails
    outcomes = group.ingest(NW, SW)
    assert [outcome.status for outcome in outcomes] == ["left_out", "failed"]


@pytest.mark.more
def test_a_catalog_that_is_lost_while_keys_are_committed_one_by_one_ends_the_run(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.land_all(NW, 1)
    group.land_all(SW, 2)
    tried = []

    def lost(_: LakeSession, changes: Sequence[Change]) -> list[Committed]:
        tried.append(len(changes))
        if len(changes) > len(NAMES):
            raise CatalogError("the catalog refuses:", "ask it.")
        raise CatalogUnreachableError("the server is away:", "try again.")

    monkeypatch.setattr("lake_assets.ingest.replace.replace_run.commit", lost)
    outcomes = group.ingest(NW, SW)

    assert tried == [6, 3]
    assert {str(outcome.error) for outcome in outcomes} == {"the server is away: try again."}
    assert group.totals() == {name: [] for name in NAMES}
