"""One partition over several runs: what lands before each run, what the run does, and the totals in the lake after it.

Each run is planned first, and does what its plan says.
"""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import LakeAssetsError
from lake_assets.ingest.index.verify import repair_indexed
from lake_assets.ingest.plan import Action, PartitionPlan
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.streams.pending import scan_landing
from lake_assets.upkeep.history.restore import Restoration, release
from lake_assets_tests.ingest.encrypted import ENCRYPTED
from lake_assets_tests.ingest.test_quarantine import BADS
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.upkeep.maintenance.test_run import newest_snapshot
from lake_assets_tests.world import NW, World, plan, sales

Step = dict[str, Any] | str | tuple[str, str, list[float] | None]
"""Options of the stream from now on; a statement of another client; or what happens, the outcome, and the totals.

What happens is in words: `a=1,2` lands an object with these totals, `a=!empty` one of `OBJECTS`, and `-a` removes it.
Then there is a run; with `force` by force. Instead of it, `restore:2` and `hold:2` bring the rows back of the second
commit, `release` ends a hold, and `repair` repairs registered files.
"""

OBJECTS: dict[str, pa.Table | bytes] = {kind.replace(" ", "_"): rows for kind, rows in BADS.items()} | {
    "no_rows_of_another_type": pa.table({"id": pa.array([], pa.string()), "total": pa.array([], pa.float64())}),
    "another_column": sales(2).append_column("note", pa.array(["new"])),
    "a_type_of_no_lake": pa.table({"id": pa.array([1], pa.duration("s"))}),
}
PENDING = " and is pending"
MODES: dict[Action, str] = {"register": "index", "clear": "replace"}  # of the others it is the action
APPEND = {"mode": "append"}
INDEX = {"mode": "index"}
UNRECORDED = {"record_skipped": False}
QUARANTINE = {"on_bad_object": "quarantine"}
HELD: Sequence[Step] = (
    ("a=1,2", "replace 0 to 2", [1, 2]),
    ("a=3", "replace 2 to 1", [3]),
    ("hold:1", "restore 1 to 2 held", [1, 2]),
)

RUNS: dict[str, Sequence[Step]] = {
    "new, changed, vanished and bad objects": [
        ("a=0 b=1", "replace 0 to 2", [0, 1]),
        ("-b c=9", "replace 2 to 2", [0, 9]),
        ("a=7,8", "replace 2 to 3", [7, 8, 9]),
        ("-c", "replace 3 to 2", [7, 8]),
        ("bad=!no_Parquet", r"fails bad\.parquet cannot be read as Parquet and is pending", [7, 8]),
        ("bad=!empty", r"fails bad\.parquet is empty and is pending", [7, 8]),
        ("-bad", "skipped", [7, 8]),
    ],
    "without record_skipped a run that finds what the last one found is not recorded": [
        UNRECORDED | {"on_empty": "keep"},
        ("a=1", "replace 0 to 1", [1]),
        ("", "skipped unrecorded", [1]),
        ("bad=!empty", r"fails bad\.parquet is empty and is pending", [1]),
        ("-bad", "skipped", [1]),
        ("", "skipped unrecorded", [1]),
        ("-a", "skipped keep", [1]),
        ("", "skipped keep unrecorded", [1]),
        ("b=1", "replace 1 to 1", [1]),
        {"record_skipped": True},
        ("", "skipped", [1]),
    ],
    "on_empty decides on a partition without rows": [
        {"on_empty": "clear"},
        ("", "skipped clear", None),
        {"on_empty": "fail"},
        ("a=1", "replace 0 to 1", [1]),
        ("-a", "fails on_empty", [1]),
        ("b=", "fails on_empty and is pending", [1]),
        {"on_empty": "keep"},
        ("b=!no_rows_of_another_type", "skipped keep", [1]),
        {"on_empty": "clear"},
        ("-b", "replace 1 to 0 clear", []),
        "DROP TABLE lake.sales",
        ("", "skipped clear", None),
    ],
    "append: a changed object fails the run, or replaces the partition": [
        APPEND,
        ("a=1", "append 0 to 1", [1]),
        ("a=2,3 b=4", r"fails a\.parquet has changed.*on_changed: refresh and is pending", [1]),
        {"on_changed": "refresh"},
        ("", "replace 1 to 3", [2, 3, 4]),
        ("", "skipped", [2, 3, 4]),
        ("d=20", "append 3 to 4", [2, 3, 4, 20]),
    ],
    "append: a bad object fails the run": [
        APPEND,
        ("a=1", "append 0 to 1", [1]),
        ("b=2 bad=!no_Parquet", r"fails bad\.parquet cannot be read as Parquet and is pending", [1]),
        ("bad=!empty", r"fails bad\.parquet is empty and is pending", [1]),
        ("-bad -a", "append 1 to 2", [1, 2]),
        "DROP TABLE lake.sales",  # so that all objects are new
        ("", "append 0 to 1", [2]),
    ],
    "append: on_empty is for partitions that never had a row": [
        APPEND,
        ("a=", "fails on_empty to keep and is pending", None),
        ("b=1", "append 0 to 1", [1]),
        ("c=", "append 1 to 1", [1]),
        ("", "skipped", [1]),
    ],
    "objects of each kind are quarantined, and tried again when they change and by force": [
        QUARANTINE,
        ("a=1 bad=!no_Parquet", "replace 0 to 1, 1 quarantined", [1]),
        ("", "skipped", [1]),
        ("bad=2", "replace 1 to 2", [1, 2]),
        ("bad=!another_type", "replace 2 to 1, 1 quarantined", [1]),
        ("force", "replace 1 to 1, 1 quarantined", [1]),
        ("bad=!a_damaged_page", "replace 1 to 1, 1 quarantined", [1]),
        ("bad=!a_missing_column", "replace 1 to 1, 1 quarantined", [1]),
        ("bad=!rows_of_another_partition", "replace 1 to 1, 1 quarantined", [1]),
        ("bad=!empty", "replace 1 to 1, 1 quarantined", [1]),
        ("-bad 0=!another_type", "replace 1 to 1, 1 quarantined", [1]),  # it is the first now
    ],
    "the first object that can be read makes the table": [
        QUARANTINE,
        ("a=!empty b=!no_Parquet c=!a_type_of_no_lake d=1 e=!another_type", "replace 0 to 1, 4 quarantined", [1]),
    ],
    "a hold ends by its release": [
        *HELD,
        ("", "skipped held", [1, 2]),
        ("release", "release 2 to 2 released and is pending", [1, 2]),
        ("", "replace 2 to 1", [3]),
        ("release", "fails is not held", [3]),
    ],
    "a hold is one in each mode": [
        *HELD,
        APPEND,
        ("b=4", "skipped held", [1, 2]),
        INDEX,
        ("c=5", "skipped held", [1, 2]),
        ("-a -b -c", "skipped held", [1, 2]),
        {"mode": "replace"},
        ("", "skipped held", [1, 2]),
    ],
    "append and index: no object enters twice": [
        INDEX,
        ("a=0", "index 0 to 1", [0]),
        ("", "skipped", [0]),
        APPEND,
        ("b=1", "append 1 to 2", [0, 1]),
        ("", "skipped", [0, 1]),
        INDEX,
        ("c=2", "index 2 to 3", [0, 1, 2]),
        ("", "skipped", [0, 1, 2]),
        APPEND,
        ("d=3", "append 3 to 4", [0, 1, 2, 3]),
    ],
    "index: new and bad objects, and those without rows": [
        INDEX,
        ("a=1", "index 0 to 1", [1]),
        ("b=2 bad=!no_Parquet", r"fails bad\.parquet cannot be read as Parquet and is pending", [1, 2]),
        ("bad=!empty", r"fails bad\.parquet cannot be read as Parquet: it is empty and is pending", [1, 2]),
        ("-bad", "skipped", [1, 2]),
        ("c=", "index 2 to 2", [1, 2]),
        ("-b", "skipped", None),
    ],
    "bad objects only are as no rows": [
        QUARANTINE | {"on_empty": "keep"},
        ("bad=1", "replace 0 to 1", [1]),
        ("bad=!another_type", "skipped keep, 1 quarantined and is pending", [1]),
        {"on_empty": "fail"},
        ("", r"fails column 'total' of the object .*bad\.parquet is string and is pending", [1]),
        ("bad=!empty", r"fails bad\.parquet is empty \(0 bytes\) and is pending", [1]),
        {"on_empty": "clear"},
        ("bad=!another_type", "replace 1 to 0 clear, 1 quarantined", []),
    ],
}
MORE_RUNS: dict[str, Sequence[Step]] = {
    "append: objects of rows that a restore took back stay known": [
        APPEND,
        ("a=0", "append 0 to 1", [0]),
        ("b=1", "append 1 to 2", [0, 1]),
        ("c=2", "append 2 to 3", [0, 1, 2]),
        ("restore:2", "restore 3 to 2", [0, 1]),
        ("", "skipped", [0, 1]),
        ("d=3", "append 2 to 3", [0, 1, 3]),
        ("hold:2", "restore 3 to 2 held", [0, 1]),
        ("e=4", "skipped held", [0, 1]),
        ("force", "replace 2 to 5 held", [0, 1, 2, 3, 4]),
    ],
    "a hold stays when force replaces the rows, and the present rows can be held": [
        *HELD,
        ("force", "replace 2 to 1 held", [3]),
        ("release", "release 1 to 1 released", [3]),
        ("", "skipped", [3]),
        ("hold:4", "restore 1 to 1 held", [3]),
        ("a=4", "skipped held", [3]),
        ("release", "release 1 to 1 released and is pending", [3]),
        ("", "replace 1 to 1", [4]),
    ],
    "other objects than the restored ones replace the rows": [
        ("a=1,2", "replace 0 to 2", [1, 2]),
        ("a=3", "replace 2 to 1", [3]),
        ("restore:1", "restore 1 to 2 and is pending", [1, 2]),
        ("restore:2", "restore 2 to 1", [3]),
        ("", "skipped", [3]),
        ("restore:1", "restore 1 to 2 and is pending", [1, 2]),
        ("", "replace 2 to 1", [3]),
    ],
    "an emptied partition can be held": [
        {"on_empty": "clear"},
        ("a=1", "replace 0 to 1", [1]),
        ("-a", "replace 1 to 0 clear", []),
        ("a=3", "replace 0 to 1", [3]),
        ("hold:2", "restore 1 to 0 held", []),
        ("", "skipped held", []),
    ],
    "append: rows of vanished objects stay": [
        APPEND,
        ("a=1 b=2", "append 0 to 2", [1, 2]),
        ("-a", "skipped", [1, 2]),
        ("c=3", "append 2 to 3", [1, 2, 3]),
        ("-b -c", "skipped", [1, 2, 3]),
        ("force", "skipped", [1, 2, 3]),
        ("a=5", r"fails a\.parquet has changed since the rows were appended and is pending", [1, 2, 3]),
        ("force", "replace 3 to 1", [5]),
    ],
    "append: on_bad_object fail takes quarantined objects for new ones": [
        APPEND | QUARANTINE,
        ("a=1", "append 0 to 1", [1]),
        ("bad=!another_type", "append 1 to 1, 1 quarantined", [1]),
        {"on_bad_object": "fail"},
        ("b=2", r"fails bad\.parquet and is pending", [1]),
        ("-bad", "append 1 to 2", [1, 2]),
    ],
    "append: a refresh of changed objects leaves bad ones out": [
        APPEND | QUARANTINE | {"on_changed": "refresh"},
        ("a=1", "append 0 to 1", [1]),
        ("b=2", "append 1 to 2", [1, 2]),
        ("a=5 b=!no_Parquet", "replace 2 to 1, 1 quarantined", [5]),
        ("", "skipped", [5]),
        ("b=6", "append 1 to 2", [5, 6]),
    ],
    "quarantined objects are left alone by another mode": [
        QUARANTINE,
        ("a=1 bad=!another_type", "replace 0 to 1, 1 quarantined", [1]),
        APPEND,
        ("", "skipped", [1]),
        ("bad=2", "append 1 to 2", [1, 2]),
        {"mode": "replace"},
        ("", "replace 2 to 2", [1, 2]),
    ],
    "append: a restore does not make an object new": [
        APPEND | QUARANTINE,
        ("a=1", "append 0 to 1", [1]),
        ("bad=!another_type", "append 1 to 1, 1 quarantined", [1]),
        ("bad=2", "append 1 to 2", [1, 2]),
        ("restore:2", "restore 2 to 1, 1 quarantined and is pending", [1]),
        ("", "skipped", [1]),
        ("c=3", "append 1 to 2", [1, 3]),
    ],
    "a restore of the present rows ends a hold": [
        *HELD,
        ("restore:3", "restore 2 to 2 and is pending", [1, 2]),
        ("restore:4", "unchanged", [1, 2]),
        ("", "replace 2 to 1", [3]),
    ],
    "replace and index: no row doubles": [
        ("a=1", "replace 0 to 1", [1]),
        INDEX,
        ("b=2", "index 1 to 2", [1, 2]),
        {"mode": "replace"},
        ("c=3", "replace 2 to 3", [1, 2, 3]),
        INDEX,
        ("", "skipped", [1, 2, 3]),
    ],
    "index: what a repair leaves out is pending": [
        INDEX,
        ("a=1 b=2", "index 0 to 2", [1, 2]),
        ("-a c=9 repair", "repair 2 to 1 and is pending", [2]),
        ("", "index 1 to 2", [2, 9]),
        ("b=10,20,30 d=4", "fails b.parquet has changed since it was registered and is pending", None),
        ("", "fails b.parquet has changed since it was registered and is pending", None),
        ("repair", "repair 3 to 5", [4, 9, 10, 20, 30]),
        ("", "skipped", [4, 9, 10, 20, 30]),
    ],
    "index: the path of a file that lost its rows has ended": [
        INDEX,
        ("a=1,2 b=3 c=4", "index 0 to 4", [1, 2, 3, 4]),
        ("a= -b c=7,8,9 repair", "repair 4 to 3", [7, 8, 9]),
        ("", "skipped", [7, 8, 9]),
        ("a=5 repair", "fails a.parquet changed after the lake recorded it and is pending", [7, 8, 9]),
    ],
    "index: a changed object that is no file of the table is not registered by a repair": [
        INDEX,
        ("a=3", "index 0 to 1", [3]),
        ("late=", "index 1 to 1", [3]),
        ("late=8 repair", "fails late.parquet changed after the lake recorded it and is pending", [3]),
        ("-a -late repair", "repair 1 to 0", []),
    ],
    "index: an object that replaces one whose rows were deleted is refused": [
        INDEX,
        ("a=1", "index 0 to 1", [1]),
        "DELETE FROM lake.sales",
        ("", "skipped", []),
        ("a=7", "fails a.parquet changed after the lake recorded it and is pending", []),
    ],
    "index: an object that returns after its rows were cleared is refused": [
        INDEX,
        ("a=3", "index 0 to 1", [3]),
        {"mode": "replace", "on_empty": "clear"},
        ("-a", "replace 1 to 0 clear", []),
        INDEX | {"on_empty": "fail"},
        ("a=3", "fails a.parquet was registered before and has ended and is pending", []),
    ],
    "index: objects of a dropped table are named by every run": [
        INDEX,
        ("a=1", "index 0 to 1", [1]),
        "DROP TABLE lake.sales",
        ("b=2", "fails a.parquet was registered before and has ended and is pending", [2]),
        ("", "fails a.parquet was registered before and has ended and is pending", [2]),
    ],
    "append: a quarantined object is a new one when it changes": [
        APPEND | QUARANTINE,
        ("a=1", "append 0 to 1", [1]),
        ("-a bad=!empty", "append 1 to 1, 1 quarantined", [1]),
        ("bad=!a_damaged_page", "append 1 to 1, 1 quarantined", [1]),
        ("bad=2", "append 1 to 2", [1, 2]),
        ("", "skipped", [1, 2]),
        ("bad=3", "fails bad.parquet has changed since the rows were appended and is pending", [1, 2]),
    ],
}


def _uses_index(steps: Sequence[Step]) -> bool:
    return any("index" in step.values() for step in steps if isinstance(step, dict))


@pytest.mark.parametrize("runs", [*RUNS, *more(MORE_RUNS)])
def test_runs_of_a_partition(local_world: World, runs: str) -> None:
    _follow(local_world, (RUNS | MORE_RUNS)[runs])


ENCRYPTED_RUNS = "objects of each kind are quarantined, and tried again when they change and by force"


@pytest.mark.more
@pytest.mark.parametrize(
    "runs",
    [
        ENCRYPTED_RUNS,
        *soak(name for name, steps in RUNS.items() if name != ENCRYPTED_RUNS and not _uses_index(steps)),
    ],
)
def test_runs_of_a_partition_in_an_encrypted_lake(local_world: World, runs: str) -> None:
    local_world.lake_options = ENCRYPTED
    _follow(local_world, RUNS[runs])


@pytest.mark.more
@pytest.mark.parametrize(
    "world", [("postgres", "s3"), pytest.param(("duckdb", "local"), marks=pytest.mark.soak)], indirect=True
)
@pytest.mark.parametrize(
    "runs",
    [
        "without record_skipped a run that finds what the last one found is not recorded",
        "append: a changed object fails the run, or replaces the partition",
        "append: rows of vanished objects stay",
        "append: a bad object fails the run",
    ],
)
def test_runs_of_a_partition_in_another_lake(world: World, runs: str) -> None:
    _follow(world, (RUNS | MORE_RUNS)[runs])


def _follow(world: World, steps: Sequence[Step]) -> None:
    world.landing  # noqa: B018 - makes the folder
    for step in steps:
        if isinstance(step, dict):
            world.options = world.options | step
        elif isinstance(step, str):
            world.execute(step)
        else:
            happens, outcome, totals = step
            _land(world, happens)
            assert _run(world, happens, outcome) == outcome, step
            assert totals is None or world.totals() == totals, step


def _land(world: World, happens: str) -> None:
    for word in happens.split():
        name, equals, text = word.partition("=")
        if word.startswith("-"):
            world.unland(NW, f"{word[1:]}.parquet")
        elif equals:
            rows = OBJECTS[text[1:]] if text.startswith("!") else sales(*map(float, text.split(",") if text else ()))
            world.land(NW, rows, f"{name}.parquet")


def _run(world: World, happens: str, outcome: str) -> str:
    """What a run does, or a restore or release in its place; an error that matches the outcome is named as there."""
    act = next((word for word in happens.split() if word[0] != "-" and "=" not in word), "run")
    planned = plan(world.stream, world.partition(NW), force=act == "force") if act in ("run", "force") else None
    newest = newest_snapshot(world) if "unrecorded" in outcome else None
    try:
        row = _acted(world, act)
    except LakeAssetsError as error:
        _, fails, pattern = outcome.removesuffix(PENDING).partition("fails ")
        text = f"fails {pattern if fails and re.search(pattern, str(error)) else error}"
        if planned is not None:
            failed = world.ledger()[0]
            assert failed.status == "failed"
            assert failed.on_empty == ("fail" if "on_empty" in pattern else None)
            assert planned.decision.fails
    else:
        if row is None:
            return "unchanged"
        text = _described(row)
        if not world.options.get("record_skipped", True) and row.run_id not in {row.run_id for row in world.ledger()}:
            assert newest_snapshot(world) == newest
            text += " unrecorded"
        if planned is not None:
            _check_planned(planned, row)
    is_pending = world.partition(NW) in scan_landing(world.stream).pending
    return text + (PENDING if is_pending else "")


def _check_planned(planned: PartitionPlan, row: LedgerRow) -> None:
    """Check that a run committed if its plan says so, and the rows and the mode of its plan."""
    is_done = row.status == "committed"
    action = planned.decision.action
    assert not planned.decision.fails
    assert planned.decision.is_hold == (row.hold == "held" and not is_done)
    if is_done and isinstance(planned.rows_after, int) and not row.files_quarantined:
        assert planned.rows_after == row.rows_after
    if is_done:
        assert row.mode == MODES.get(action, action)
    assert planned.commits == is_done


def _acted(world: World, act: str) -> LedgerRow | None:
    name, _, number = act.partition(":")
    if name in ("restore", "hold"):
        commits = [row.snapshot_id for row in world.ledger() if row.snapshot_id is not None][::-1]
        return Restoration(world.stream, world.partition(NW), commits[int(number) - 1], hold=name == "hold").run().row
    if name == "repair":
        repaired = repair_indexed(world.stream)
        if repaired.errors:
            raise repaired.errors[0]
        return repaired.rows[0]
    if name == "release":
        return release(world.stream, world.partition(NW))
    return world.ingest(NW, force=name == "force").row


def _described(row: LedgerRow) -> str:
    done = f"{row.mode} {row.rows_before} to {row.rows_after}" if row.status == "committed" else row.status
    left_out = f", {row.files_quarantined} quarantined" if row.files_quarantined else ""
    return " ".join(filter(None, (done, row.on_empty, row.hold))) + left_out
