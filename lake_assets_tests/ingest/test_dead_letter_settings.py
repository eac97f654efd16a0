"""`on_bad_row: dead_letter` with the other settings of a stream and of a lake."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from lake_assets.errors import SchemaError
from lake_assets_tests.checks.checked import check
from lake_assets_tests.ingest.encrypted import ENCRYPTED
from lake_assets_tests.ingest.lettering import BIG, FOLDER, LISTED, NARROW, letters, made, stored, visible, wide
from lake_assets_tests.world import NW, World, plan


@pytest.fixture
def local(local_world: World) -> World:
    local_world.options = {"on_bad_row": "dead_letter"}
    return local_world


def test_mode_append_adds_the_good_rows_of_new_objects(local: World) -> None:
    local.options |= {"mode": "append"}
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    assert local.ingest(NW).row.rows_dead_lettered == 1
    local.land(NW, wide(BIG), "c.parquet")

    row = local.ingest(NW).row

    assert (row.status, row.row_count, row.rows_dead_lettered) == ("committed", 0, 1)
    assert local.ingest(NW).row.status == "skipped"
    assert "2 landed rows" in check(local, "dead_letters").description
    assert check(local, "row_counts").passed


def test_evolve_widens_what_ducklake_can_and_the_rest_are_letters(local: World) -> None:
    local.options |= {"schema_policy": "evolve"}
    cents = pa.array(["1.00"]).cast(pa.decimal128(10, 2))
    local.land(NW, pa.table({"id": pa.array([0], pa.int32()), "price": cents}), "a.parquet")
    local.ingest(NW)
    prices = pa.array(["2.5000", "1.2345"]).cast(pa.decimal128(12, 4))
    local.land(NW, pa.table({"id": [BIG, 1], "price": prices, "new": ["x", "y"]}), "b.parquet")

    assert local.ingest(NW).row.rows_dead_lettered == 1
    assert local.query("SELECT id, price::VARCHAR, new FROM lake.sales ORDER BY id") == [
        (0, "1.00", None),
        (BIG, "2.50", "x"),
    ]


def test_letters_are_made_before_a_transform(local: World) -> None:
    local.options |= {"transform": {"sql": "SELECT id, total * 2 AS total FROM source"}}
    made(local)
    local.land(NW, wide(1, BIG, 3), "b.parquet")

    row = local.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (3, 1)
    assert [row["id"] for row in letters(local)] == [BIG]
    assert len(stored(local)) == 1


@pytest.mark.parametrize("extra", [{}, {"verify": "pages"}], ids=["footer", "pages"])
def test_copies_stay_where_footers_prove_that_all_rows_fit(local: World, extra: dict[str, Any]) -> None:
    local.options |= {"copy": "always"} | extra
    made(local)
    local.land(NW, NARROW, "b.parquet")
    other = NARROW.append_column("region", pa.array(["SW"]))
    local.land(NW, other, "c.parquet")

    row = local.ingest(NW).row

    assert (row.row_count, row.files_copied, row.rows_dead_lettered) == (2, 2, 1)
    assert stored(local) == set(visible(local))


def test_an_encrypted_lake_has_its_letters_in_the_landing_zone(local: World) -> None:
    local.lake_options = ENCRYPTED
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")

    assert local.ingest(NW).row.rows_dead_lettered == 1
    assert [row["id"] for row in letters(local)] == [BIG]


def test_letters_go_to_another_storage_if_it_is_named(local: World, tmp_path: Path) -> None:
    local.options |= {"dead_letters": {"to": str(tmp_path / "letters")}}
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")

    assert local.ingest(NW).row.rows_dead_lettered == 1
    (uri,) = visible(local)
    assert uri.startswith(f"{tmp_path}/letters/sales/region=NW/")
    assert not Path(local.stream.source.root, "_dead_letters").exists()


def test_a_column_with_a_name_of_the_letters_is_refused(local: World) -> None:
    local.land(NW, NARROW.append_column("_Row", pa.array([1])))

    with pytest.raises(SchemaError, match="column '_row', which is a name of the dead letters' own columns"):
        local.ingest(NW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_bad_row": "dead_letter", "mode": "index"}, "on_bad_row: dead_letter is for modes that write rows"),
        ({"dead_letters": {"to": "/tmp/x"}}, "dead_letters is for on_bad_row: dead_letter"),
        ({"checks": {"blocking": ["dead_letters"]}}, "checks.blocking names dead_letters"),
        (
            {"on_bad_row": "dead_letter", "source": "https://example.com/sales", "files": "a.parquet"} | LISTED,
            "the source, which is a web server",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(local_world: World, options: dict[str, Any], message: str) -> None:
    local_world.options = options
    with pytest.raises(ValidationError, match=message):
        _ = local_world.config


def test_an_encrypted_lake_needs_a_permission_for_another_storage(local: World, tmp_path: Path) -> None:
    local.lake_options = ENCRYPTED
    local.options |= {"dead_letters": {"to": str(tmp_path / "letters")}}
    with pytest.raises(ValidationError, match="write plaintext: true below dead_letters"):
        _ = local.config
    local.options |= {"dead_letters": {"to": str(tmp_path / "letters"), "plaintext": True}}
    assert local.config


def test_a_storage_of_the_lake_is_refused(local: World) -> None:
    local.options |= {"dead_letters": {"to": local.storage["path"] + "/letters"}}
    with pytest.raises(ValidationError, match="which is within the storage of lake test"):
        _ = local.config


def test_the_plan_names_the_letters(local: World) -> None:
    made(local)
    local.land(NW, wide(1, BIG), "b.parquet")
    local.ingest(NW)

    planned = plan(local.stream, local.partition(NW), force=True)

    assert planned.letters == f"{local.stream.source.root}/{FOLDER}"
    assert planned.letters_now == 1


def test_rows_whose_derived_value_is_another_or_none_are_left_out(local: World) -> None:
    local.options |= {
        "layout": "date={ts,,YY}-{ts,,MM}-{ts,,DD}",
        "partitions": {"date": {"type": "date", "from": "ts", "start": "2025-02-17", "end": "2025-02-20"}},
    }
    year_one = -62_135_596_800_000_000  # microseconds before 1970
    moments = [dt.datetime(2025, 2, 18, 10, tzinfo=dt.UTC), dt.datetime(2025, 2, 19, tzinfo=dt.UTC)]
    micros = pa.array([*(int(moment.timestamp() * 1e6) for moment in moments), year_one - 10**15], pa.int64())
    with local.landing.create("date=2025-02-18/a.parquet") as file:
        pq.write_table(pa.table({"id": [1, 2, 3], "ts": micros.view(pa.timestamp("us"))}), file)

    assert local.ingest("date=2025-02-18").row.rows_dead_lettered == 2

    first, second = (row["_reason"] for row in letters_without_times(local))
    assert first.startswith("ts is 2025-02-19 00:00:00")
    assert second.endswith("so the row belongs to another partition than date=2025-02-18")
    assert local.query("SELECT id FROM lake.sales") == [(1,)]


def letters_without_times(world: World) -> list[dict[str, Any]]:
    """The rows of visible files, without `ts`, whose years Python does not have."""
    rows: list[dict[str, Any]] = []
    for uri in visible(world):
        rows += pq.read_table(uri, columns=["id", "_reason", "_row"]).to_pylist()
    return rows
