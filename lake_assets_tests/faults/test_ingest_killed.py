"""`kill -9` at every step and statement of a whole ingest: an addition, and one that leaves bad objects out."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake_assets_tests.faults.ingester import STEPS, without_spark
from lake_assets_tests.faults.modules import start
from lake_assets_tests.faults.test_append_faults import noted
from lake_assets_tests.faults.test_kill import STATEMENTS, STRATEGY_OPTIONS
from lake_assets_tests.world import NW, SW, World, sales

pytestmark = pytest.mark.kill

QUARANTINE = {"on_bad_object": "quarantine"}
APPEND: dict[str, str] = {"mode": "append"}
KINDS: dict[str, dict[str, str]] = {"append": APPEND, "replace": QUARANTINE, "both": APPEND | QUARANTINE}
WRONG_TYPE = pa.table({"id": pa.array([7], pa.int64()), "total": ["seven"]})

# Of an ingest, these statements are not those of a commit.
_OF_REPLACE = ("DELETE", "UPDATE ducklake_data_file")
# The moments that `make test-all` tries; `make kills` tries all.
MOMENTS = {
    ("both", "direct", "examination"),
    ("both", "direct", "COMMIT"),
    ("both", "insert", "after COMMIT"),
    ("replace", "direct", "second job"),
    ("append", "extension", "COMMIT"),
}


def deaths() -> Iterator[Any]:
    for kind, options in KINDS.items():
        for strategy, statements in STATEMENTS.items():
            quarantines = "on_bad_object" in options
            steps = [step for step in STEPS if quarantines or step not in ("examination", "second job")]
            for point in (*steps, *statements):
                if "mode" in options and any(text in point for text in _OF_REPLACE):
                    continue
                marks = () if (kind, strategy, point) in MOMENTS else pytest.mark.kill_all
                yield pytest.param(kind, strategy, point, marks=marks)


@pytest.mark.parametrize(("kind", "strategy", "point"), list(deaths()))
def test_death_leaves_the_old_partition_or_the_new_and_the_next_run_reads_each_object_once(
    local_world: World, tmp_path: Path, kind: str, strategy: str, point: str
) -> None:
    local_world.options = {**KINDS[kind]}
    local_world.lake_options = STRATEGY_OPTIONS.get(strategy, {})
    with without_spark():
        for text in (NW, SW):
            local_world.land(text, sales(1), "a.parquet")
            local_world.ingest(text)
    new = local_world.land(NW, sales(2), "b.parquet")
    bad = [local_world.land(NW, WRONG_TYPE, "c.parquet")] if kind != "append" else []
    chosen = [] if strategy == "insert" else ["--strategy", strategy]
    options = ["--partition", NW, *chosen, "--die-at", point]

    _, errors = (child := start(local_world, tmp_path, *options, module="ingester")).communicate(timeout=120)

    assert child.returncode == -signal.SIGKILL, errors
    is_done = point == "after COMMIT"
    assert local_world.totals(NW) == ([1, 2] if is_done else [1])
    assert local_world.totals(SW) == [1]
    with without_spark():
        row = local_world.ingest(NW).row
        assert local_world.ingest(NW).row.status == "skipped"
    assert row.status == ("skipped" if is_done else "committed")
    assert local_world.totals(NW) == [1, 2]
    times = dict(noted(local_world))
    assert [times[uri] for uri in (new, *bad)] == [1] * (1 + len(bad))
    left_out = local_world.query("SELECT uri FROM lake.ingest_files WHERE reason IS NOT NULL")
    assert left_out == [(uri,) for uri in bad]
    committed = [row for row in local_world.ledger(NW) if row.status == "committed"]
    assert [row.files_quarantined for row in committed] == ([None, None] if kind == "append" else [1, 0])
