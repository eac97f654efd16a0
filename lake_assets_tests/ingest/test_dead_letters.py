"""`on_bad_row: dead_letter`: rows that do not fit go beside the landing zone, the others are committed."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from lake_assets.base.errors import CatalogError, SchemaError
from lake_assets.upkeep.history.restore import Restoration
from lake_assets.upkeep.report.state import read_stream_state
from lake_assets_tests.ingest.encrypted import ENCRYPTED
from lake_assets_tests.ingest.landed_as import load
from lake_assets_tests.ingest.lettering import (
    BIG,
    FOLDER,
    NARROW,
    letters,
    made,
    stored,
    visible,
    wide,
)
from lake_assets_tests.ingest.test_in_rows import both_in_rows, put
from lake_assets_tests.upkeep.checks.checked import check
from lake_assets_tests.world import NW, SW, World, plan


@pytest.fixture
def lettering(world: World) -> World:
    world.options = {"on_bad_row": "dead_letter"}
    return world


@pytest.fixture
def local(local_world: World) -> World:
    local_world.options = {"on_bad_row": "dead_letter"}
    return local_world


def test_rows_that_do_not_fit_go_beside_the_landing_zone_and_the_others_are_committed(lettering: World) -> None:
    load(lettering, NARROW)
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
    assert load(lettering, NARROW, SW).rows_dead_lettered == 0
    assert check(lettering, "row_counts").passed
    found = check(lettering, "dead_letters")
    assert not found.passed
    assert "1 landed row is not in the lake" in found.description
    state = read_stream_state(lettering.stream)
    assert state.left_out.unmatched == ()
    assert [letter.rows for letter in state.dead_letters] == [1]


GIVEN: dict[str, tuple[pa.Array, pa.Array, Any, str]] = {
    "integer": (pa.array([1], pa.int16()), pa.array([2, 70_000], pa.int64()), 70_000, "70000"),
    "negative": (pa.array([1], pa.uint8()), pa.array([2, -1], pa.int64()), -1, "-1"),
    "unsigned": (pa.array([1], pa.int64()), pa.array([2, 2**63], pa.uint64()), 2**63, str(2**63)),
    "inexact": (
        pa.array(["1.00"]).cast(pa.decimal128(10, 2)),
        pa.array(["2.5000", "1.2345"]).cast(pa.decimal128(12, 4)),
        Decimal("1.2345"),
        "1.2345",
    ),
    "float": (pa.array([1.0], pa.float32()), pa.array([0.5, 0.1], pa.float64()), 0.1, "0.1"),
    "moment": (
        pa.array([0], pa.timestamp("us")),
        pa.array([1000, 1500], pa.timestamp("ns")),
        None,
        "1970-01-01 00:00:00.000001500",
    ),
    "list": (
        pa.array([[1]], pa.list_(pa.int32())),
        pa.array([[2, 3], [4, BIG]], pa.list_(pa.int64())),
        [4, BIG],
        f"[4, {BIG}]",
    ),
}


def test_each_kind_of_value_that_a_narrower_type_cannot_hold(local: World) -> None:
    load(local, pa.table({name: known for name, (known, *_) in GIVEN.items()}))

    row = load(local, pa.table({name: given for name, (_, given, *_) in GIVEN.items()}), name="b")

    assert (row.row_count, row.rows_dead_lettered) == (2, 1)
    (letter,) = letters(local)
    assert letter["_row"] == 1
    reasons = letter["_reason"].split("; ")
    for reason, (name, (*_, value, text)) in zip(reasons, GIVEN.items(), strict=True):
        assert f"'{name}" in reason
        assert text in reason
        assert value is None or letter[name] == value


def test_rows_of_another_partition_are_left_out_by_each_column(local: World) -> None:
    made(local)
    rows = wide(1, 2, BIG).append_column("region", pa.array(["NW", "SW", "SW"]))

    assert load(local, rows, name="b").rows_dead_lettered == 2
    first, second = letters(local)
    assert first["_reason"] == ("region is SW, so the row belongs to another partition than region=NW/date=2026-02-11")
    assert second["_reason"] == f"{first['_reason']}; column 'id' has the value {BIG}, which int32 cannot hold"
    assert [row["_row"] for row in (first, second)] == [1, 2]


@pytest.mark.more
def test_rows_are_written_in_bounded_parts_with_their_numbers_in_the_object_by_every_task(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.spark.task.job.MIN_SHARE", 1)
    monkeypatch.setattr("lake_assets.spark.task.bad_row_sink._HELD_ROWS", 40)
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
    many = local.land(
        SW, wide(*range(BIG, BIG + 80)).append_column("text", filler[:80]), "c.parquet", row_group_size=20
    )
    assert local.ingest(SW).row.rows_dead_lettered == 100
    assert [row["_row"] for row in letters(local) if row["_object"] == many] == list(range(80))
    assert max(pq.read_metadata(uri).num_row_groups for uri in visible(local)) == 2  # all were written before the end


@pytest.mark.more
def test_a_new_try_of_the_partition_supersedes_its_letters(local: World) -> None:
    made(local)
    load(local, wide(1, BIG), name="b")
    first = visible(local)
    planned = plan(local.stream, local.partition(NW), force=True)
    assert (planned.letters, planned.letters_now) == (f"{local.stream.source.root}/{FOLDER}", 1)
    assert local.ingest(NW, force=True).row.rows_dead_lettered == 1
    assert len(visible(local)) == 2
    assert "1 landed row is" in check(local, "dead_letters").description

    assert load(local, wide(1, 2), name="b").rows_dead_lettered == 0
    assert check(local, "dead_letters").passed
    assert check(local, "row_counts").passed
    assert read_stream_state(local.stream).dead_letters == []
    assert set(first) < stored(local)  # the user's to remove
    snapshot = next(row.snapshot_id for row in local.ledger() if row.rows_dead_lettered)
    restored = Restoration(local.stream, local.partition(NW), snapshot or 0).run()
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
    other = local.stream.source.uri(f"{FOLDER}mine.parquet")
    Path(other).write_bytes(b"x")
    for dry_run in (True, False):
        done = local.tidy(30, dry_run=dry_run)
        assert {letter.uri for letter in done.letters} == orphans
    assert stored(local) == {*visible(local), other}


def test_bad_objects_fail_the_partition_or_are_quarantined_and_bad_rows_are_letters(local: World) -> None:
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    local.land(NW, pa.table({"id": ["x"], "total": [1.0]}), "c.parquet")
    with pytest.raises(SchemaError, match="column 'id'"):
        local.ingest(NW)
    assert stored(local) == set()
    assert local.totals() == [1]
    local.options |= {"on_bad_object": "quarantine"}

    row = local.ingest(NW).row

    assert (row.row_count, row.files_quarantined, row.rows_dead_lettered) == (2, 1, 1)
    assert len(stored(local)) == len(visible(local)) == 1
    assert check(local, "row_counts").passed


def test_letters_are_no_landed_objects(local: World) -> None:
    """Neither for a pattern of all folders, nor for the report's list of objects in no partition."""
    local.options |= {"files": "/**/*.parquet", **both_in_rows()}
    table = pa.table({"id": pa.array([0], pa.int32()), "region": ["NW"], "date": [dt.date(2026, 2, 11)]})
    put(local, "in/a.parquet", table)
    local.ingest(NW)
    ids = pa.array([1, BIG, BIG], pa.int64())
    table = pa.table({"id": ids, "region": ["NW", "NW", "SW"], "date": [dt.date(2026, 2, 11)] * 3})
    put(local, "in/b.parquet", table)

    assert local.ingest(NW).row.rows_dead_lettered == 1  # the row of SW is that of another run
    assert local.ingest(NW).row.status == "skipped"
    assert local.ingest(SW).row.rows_dead_lettered == 1
    assert {row["_row"] for row in letters(local)} == {1, 2}
    assert local.ingest(NW, force=True).row.source_files == 2
    assert read_stream_state(local.stream).left_out.unmatched == ()


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_an_object_of_bad_rows_only_is_committed_without_rows(local: World, mode: str) -> None:
    local.options |= {"mode": mode}
    made(local)
    assert load(local, wide(1, BIG), name="b").rows_dead_lettered == 1
    for name in "ab":
        local.unland(NW, f"{name}.parquet")

    row = load(local, wide(BIG), name="c")

    assert (row.status, row.row_count, row.rows_before, row.rows_dead_lettered) == ("committed", 0, 2, 1)
    assert local.ingest(NW).row.status == "skipped"
    landed = "1 landed row is" if mode == "replace" else "2 landed rows"
    assert landed in check(local, "dead_letters").description
    assert check(local, "row_counts").passed


def test_evolve_widens_what_ducklake_can_and_the_rest_are_letters(local: World) -> None:
    local.options |= {"schema_policy": "evolve"}
    cents = pa.array(["1.00"]).cast(pa.decimal128(10, 2))
    load(local, pa.table({"id": pa.array([0], pa.int32()), "price": cents}))
    prices = pa.array(["2.5000", "1.2345"]).cast(pa.decimal128(12, 4))

    assert load(local, pa.table({"id": [BIG, 1], "price": prices, "new": ["x", "y"]}), name="b").rows_dead_lettered == 1
    assert local.query("SELECT id, price::VARCHAR, new FROM lake.sales ORDER BY id") == [
        (0, "1.00", None),
        (BIG, "2.50", "x"),
    ]


@pytest.mark.parametrize(
    ("options", "lake_options"),
    [
        pytest.param({"transform": {"sql": "SELECT id, total * 2 AS total FROM source"}}, {}, id="before-a-transform"),
        pytest.param({}, ENCRYPTED, id="encrypted"),
        pytest.param({"dead_letters": {"to": "letters"}}, {}, id="another-storage"),
    ],
)
def test_letters_go_to_their_folder(
    local: World, tmp_path: Path, options: dict[str, Any], lake_options: dict[str, Any]
) -> None:
    root, local.lake_options = local.source["path"], lake_options
    if "dead_letters" in options:
        root = str(tmp_path / "letters")
        options = {"dead_letters": {"to": root}}
    local.options |= options
    made(local)

    row = load(local, wide(1, BIG, 3), name="b")

    assert (row.row_count, row.rows_dead_lettered) == (3, 1)
    assert [row["id"] for row in letters(local)] == [BIG]
    (uri,) = stored(local)
    folder = FOLDER.removeprefix("_dead_letters/") if "dead_letters" in options else FOLDER
    assert uri.startswith(f"{root}/{folder}")
    assert Path(local.source["path"], "_dead_letters").exists() == ("dead_letters" not in options)


@pytest.mark.parametrize("extra", [{}, {"verify": "pages"}], ids=["footer", "pages"])
def test_copies_stay_where_footers_prove_that_all_rows_fit(local: World, extra: dict[str, Any]) -> None:
    local.options |= {"copy": "always"} | extra
    made(local)
    local.land(NW, NARROW, "b.parquet")
    local.land(NW, NARROW.append_column("region", pa.array(["SW"])), "c.parquet")

    row = local.ingest(NW).row

    assert (row.row_count, row.files_copied, row.rows_dead_lettered) == (2, 2, 1)
    assert stored(local) == set(visible(local))


def test_a_column_with_a_name_of_the_letters_is_refused(local: World) -> None:
    local.land(NW, NARROW.append_column("_Row", pa.array([1])))

    with pytest.raises(SchemaError, match="column '_row', which is a name of the dead letters' own columns"):
        local.ingest(NW)


def test_a_storage_for_letters_is_not_the_lakes_and_an_encrypted_lake_needs_a_permission(
    local: World, tmp_path: Path
) -> None:
    local.options |= {"dead_letters": {"to": local.storage["path"] + "/letters"}}
    with pytest.raises(ValidationError, match="which is within the storage of lake test"):
        _ = local.config
    local.lake_options = ENCRYPTED
    local.options |= {"dead_letters": {"to": str(tmp_path / "letters")}}
    with pytest.raises(ValidationError, match="write plaintext: true below dead_letters"):
        _ = local.config
    local.options |= {"dead_letters": {"to": str(tmp_path / "letters"), "plaintext": True}}
    assert local.config


def test_rows_whose_derived_value_is_another_or_none_are_left_out(local: World) -> None:
    local.options |= {
        "layout": "date={ts,,YY}-{ts,,MM}-{ts,,DD}",
        "partitions": {"date": {"type": "date", "from": "ts", "start": "2025-02-17", "end": "2025-02-20"}},
    }
    year_one = -62_135_596_800_000_000  # microseconds before 1970
    moments = [dt.datetime(2025, 2, 18, 10, tzinfo=dt.UTC), dt.datetime(2025, 2, 19, tzinfo=dt.UTC)]
    micros = pa.array([*(int(moment.timestamp() * 1e6) for moment in moments), year_one - 10**15], pa.int64())
    put(local, "date=2025-02-18/a.parquet", pa.table({"id": [1, 2, 3], "ts": micros.view(pa.timestamp("us"))}))

    assert local.ingest("date=2025-02-18").row.rows_dead_lettered == 2

    reasons = [
        text for uri in visible(local) for text in pq.read_table(uri, columns=["_reason"])["_reason"].to_pylist()
    ]
    assert reasons[0].startswith("ts is 2025-02-19 00:00:00")  # of the other, Python does not have the year
    assert reasons[1].endswith("so the row belongs to another partition than date=2025-02-18")
    assert local.query("SELECT id FROM lake.sales") == [(1,)]
