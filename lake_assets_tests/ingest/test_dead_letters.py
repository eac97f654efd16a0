"""`on_bad_row: dead_letter`: rows that do not fit go beside the landing zone, the others are committed."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import CatalogError, SchemaError
from lake_assets.history.restore import restore
from lake_assets.maintenance.maintenance_run import maintain
from lake_assets.report.state import read_state
from lake_assets_tests.checks.checked import check
from lake_assets_tests.ingest.lettering import BIG, BOTH_IN_ROWS, FOLDER, NARROW, letters, made, stored, visible, wide
from lake_assets_tests.world import NW, SW, World


@pytest.fixture
def lettering(world: World) -> World:
    world.options = {"on_bad_row": "dead_letter"}
    return world


@pytest.fixture
def local(local_world: World) -> World:
    local_world.options = {"on_bad_row": "dead_letter"}
    return local_world


def test_rows_that_do_not_fit_go_beside_the_landing_zone_and_the_others_are_committed(lettering: World) -> None:
    lettering.land(NW, NARROW, "a.parquet")
    lettering.ingest(NW)
    uri = lettering.land(NW, wide(1, BIG, 3), "b.parquet")

    result = lettering.ingest(NW)

    assert (result.row.status, result.row.row_count, result.row.rows_dead_lettered) == ("committed", 3, 1)
    assert lettering.query("SELECT id FROM lake.sales ORDER BY id") == [(0,), (1,), (3,)]
    (letter,) = letters(lettering)
    assert letter == {
        "id": BIG,
        "total": 1.0,
        "_reason": f"column 'id' has the value {BIG}, which int32 cannot hold",
        "_object": uri,
        "_row": 1,
        "_run_id": result.row.run_id,
    }
    (visible_uri,) = visible(lettering)
    assert stored(lettering) == {visible_uri}
    assert visible_uri.startswith(f"{lettering.stream.source.root}/{FOLDER}")
    assert lettering.query("SELECT run_id, snapshot_id, object, rows, reason FROM lake.ingest_dead_letters") == [
        (result.row.run_id, result.row.snapshot_id, uri, 1, letter["_reason"])
    ]
    assert lettering.ingest(NW).row.status == "skipped"
    lettering.land(SW, NARROW)
    assert lettering.ingest(SW).row.rows_dead_lettered == 0
    assert check(lettering, "row_counts").passed
    found = check(lettering, "dead_letters")
    assert not found.passed
    assert "1 landed row is not in the lake" in found.description


GIVEN: dict[str, tuple[pa.Array, pa.Array, Any, str]] = {
    "an integer": (pa.array([1], pa.int16()), pa.array([2, 70_000], pa.int64()), 70_000, "70000"),
    "a negative number": (pa.array([1], pa.uint8()), pa.array([2, -1], pa.int64()), -1, "-1"),
    "an unsigned number": (pa.array([1], pa.int64()), pa.array([2, 2**63], pa.uint64()), 2**63, str(2**63)),
    "a decimal that is not exact": (
        pa.array(["1.00"]).cast(pa.decimal128(10, 2)),
        pa.array(["2.5000", "1.2345"]).cast(pa.decimal128(12, 4)),
        Decimal("1.2345"),
        "1.2345",
    ),
    "a decimal that is too large": (
        pa.array(["1.00"]).cast(pa.decimal128(4, 2)),
        pa.array(["2.50", "1234.00"]).cast(pa.decimal128(12, 2)),
        Decimal("1234.00"),
        "1234.00",
    ),
    "a double that is no float": (pa.array([1.0], pa.float32()), pa.array([0.5, 0.1], pa.float64()), 0.1, "0.1"),
    "a timestamp of nanoseconds": (
        pa.array([0], pa.timestamp("us")),
        pa.array([1000, 1500], pa.timestamp("ns")),
        None,
        "1970-01-01 00:00:00.000001500",
    ),
    "a number in a list": (
        pa.array([[1]], pa.list_(pa.int32())),
        pa.array([[2, 3], [4, BIG]], pa.list_(pa.int64())),
        [4, BIG],
        f"[4, {BIG}]",
    ),
    "a field of a struct": (
        pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
        pa.array([{"a": 2}, {"a": BIG}], pa.struct([("a", pa.int64())])),
        {"a": BIG},
        str(BIG),
    ),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_each_kind_of_value_that_a_narrower_type_cannot_hold(local: World, kind: str) -> None:
    known, given, value, text = GIVEN[kind]
    local.land(NW, pa.table({"v": known}), "a.parquet")
    local.ingest(NW)
    local.land(NW, pa.table({"v": given}), "b.parquet")

    row = local.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (2, 1)
    (letter,) = letters(local)
    assert letter["_row"] == 1
    assert text in letter["_reason"]
    if value is not None:
        assert letter["v"] == value


def test_rows_of_another_partition_are_left_out_by_each_column(local: World) -> None:
    made(local)
    rows = wide(1, 2, BIG).append_column("region", pa.array(["NW", "SW", "SW"]))
    local.land(NW, rows, "b.parquet")

    assert local.ingest(NW).row.rows_dead_lettered == 2
    first, second = letters(local)
    assert first["_reason"] == ("region is SW, so the row belongs to another partition than region=NW/date=2026-02-11")
    assert second["_reason"] == f"{first['_reason']}; column 'id' has the value {BIG}, which int32 cannot hold"
    assert [row["_row"] for row in (first, second)] == [1, 2]


def test_row_numbers_are_those_of_the_object_in_every_task_and_batch(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.parquet.job.MIN_SHARE", 1)
    made(local)
    ids = [BIG if number % 1000 == 7 else number for number in range(20_000)]
    local.options |= {"target_file_size": "1MiB"}
    filler = pa.array([f"{number * 7919:060d}" for number in range(20_000)])
    local.land(SW, pa.table({"id": pa.array([0], pa.int32()), "total": [0.0], "text": ["a"]}))
    local.options |= {"destination": {"table": "texts"}}
    local.ingest(SW)
    table = wide(*ids).append_column("text", filler)
    uri = local.land(SW, table, "big.parquet", row_group_size=1500, compression="none")

    assert local.ingest(SW).row.rows_dead_lettered == 20
    found = letters(local)
    assert sorted(row["_row"] for row in found) == list(range(7, 20_000, 1000))
    assert {row["text"] for row in found} == {filler[row["_row"]].as_py() for row in found}
    assert {row["_object"] for row in found} == {uri}
    assert len(visible(local)) > 1  # one a task


def test_an_object_of_bad_rows_only_commits_the_partition_without_rows(local: World) -> None:
    made(local)
    local.unland(NW, "a.parquet")
    local.land(NW, wide(BIG, BIG), "b.parquet")

    row = local.ingest(NW).row

    assert (row.status, row.row_count, row.rows_before, row.rows_dead_lettered) == ("committed", 0, 1, 2)
    assert local.totals() == []
    assert check(local, "row_counts").passed
    assert local.ingest(NW).row.status == "skipped"


def test_many_bad_rows_are_written_in_bounded_parts(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.parquet.letters._HELD_ROWS", 40)
    made(local)
    local.land(NW, wide(*range(BIG, BIG + 500)), "b.parquet", row_group_size=20)
    # All rows of this one are written before its end.
    local.land(NW, wide(*range(BIG, BIG + 80)), "c.parquet", row_group_size=20)

    assert local.ingest(NW).row.rows_dead_lettered == 580
    assert sorted(row["_row"] for row in letters(local)) == sorted([*range(500), *range(80)])
    assert sorted(pq.read_metadata(uri).num_row_groups for uri in visible(local)) == [2, 13]


def test_a_new_try_of_the_partition_supersedes_its_letters(local: World) -> None:
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    local.ingest(NW)
    first = visible(local)
    assert local.ingest(NW, force=True).row.rows_dead_lettered == 1
    assert len(visible(local)) == 2
    assert "1 landed row is" in check(local, "dead_letters").description

    local.land(NW, wide(1, 2), "b.parquet")

    assert local.ingest(NW).row.rows_dead_lettered == 0
    assert check(local, "dead_letters").passed
    assert check(local, "row_counts").passed
    assert read_state(local.stream).dead_letters == []
    assert set(first) < stored(local)  # the user's to remove
    snapshot = next(row.snapshot_id for row in local.ledger() if row.rows_dead_lettered)
    restored = restore(local.stream, local.partition(NW), snapshot or 0)
    assert restored.row is not None
    assert restored.row.rows_dead_lettered == 1
    assert not check(local, "dead_letters").passed
    assert check(local, "row_counts").passed or check(local, "row_counts").numbers["changed_since"] == 1


def test_a_commit_that_fails_makes_no_letter_visible(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")

    def refuse(*_: object) -> NoReturn:
        raise CatalogError("the catalog refuses:", "try later.")

    with monkeypatch.context() as patch:
        patch.setattr("lake_assets.ingest.replace.replace_run.commit", refuse)
        with pytest.raises(CatalogError):
            local.ingest(NW)

    assert visible(local) == []
    orphans = stored(local)
    assert len(orphans) == 1
    assert local.ingest(NW).row.rows_dead_lettered == 1
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
    other = local.stream.source.uri(f"{FOLDER}mine.parquet")
    Path(other).write_bytes(b"x")
    assert {
        one.uri for one in maintain(local.config, "test", local.sessions, now=later, dry_run=True).letters
    } == orphans
    assert {one.uri for one in maintain(local.config, "test", local.sessions, now=later).letters} == orphans
    assert stored(local) == {*visible(local), other}


def test_an_error_of_another_object_leaves_no_letter(local: World) -> None:
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    local.land(NW, pa.table({"id": ["x"], "total": [1.0]}), "c.parquet")

    with pytest.raises(SchemaError, match="column 'id'"):
        local.ingest(NW)

    assert stored(local) == set()
    assert local.totals() == [1]


def test_bad_objects_are_quarantined_and_bad_rows_are_letters(local: World) -> None:
    local.options |= {"on_bad_object": "quarantine"}
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    local.land(NW, pa.table({"id": ["x"], "total": [1.0]}), "c.parquet")

    row = local.ingest(NW).row

    assert (row.row_count, row.files_quarantined, row.rows_dead_lettered) == (2, 1, 1)
    assert len(stored(local)) == len(visible(local)) == 1
    assert check(local, "row_counts").passed


def test_letters_are_no_landed_objects(local: World) -> None:
    """Neither for a pattern of all folders, nor for the report's list of objects in no partition."""
    local.options |= {"files": "/**/*.parquet", "partitions": BOTH_IN_ROWS}
    table = pa.table({"id": pa.array([0], pa.int32()), "region": ["NW"], "date": [dt.date(2026, 2, 11)]})
    with local.landing.create("in/a.parquet") as file:
        pq.write_table(table, file)
    local.ingest(NW)
    ids = pa.array([1, BIG, BIG], pa.int64())
    table = pa.table({"id": ids, "region": ["NW", "NW", "SW"], "date": [dt.date(2026, 2, 11)] * 3})
    with local.landing.create("in/b.parquet") as file:
        pq.write_table(table, file)

    assert local.ingest(NW).row.rows_dead_lettered == 1  # the row of SW is that of another run
    assert local.ingest(NW).row.status == "skipped"
    assert local.ingest(SW).row.rows_dead_lettered == 1
    assert {row["_row"] for row in letters(local)} == {1, 2}
    assert local.ingest(NW, force=True).row.source_files == 2
    assert read_state(local.stream).left_out.unmatched == ()


def test_letters_are_in_no_partition_of_a_landing_zone_with_folders(local: World) -> None:
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    local.ingest(NW)

    state = read_state(local.stream)

    assert state.left_out.unmatched == ()
    assert {partition.rows for partition in state.partitions if partition.objects} == {2}
    assert [letter.rows for letter in state.dead_letters] == [1]
