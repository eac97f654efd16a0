"""`on_bad_object: quarantine` with `schema_policy`: an object that is left out changes no column."""

import pyarrow as pa
import pytest

from lake_assets_tests.faults.ingester import without_spark
from lake_assets_tests.ingest.test_quarantine import BAD, GOOD, WRONG_TYPE, reasons
from lake_assets_tests.world import NW, World, sales

MISFITTING = WRONG_TYPE.append_column("more", pa.array(["x"]))


@pytest.fixture
def local(local_world: World) -> World:
    local_world.options = {"on_bad_object": "quarantine"}
    return local_world


def test_an_evolving_table_takes_new_columns_and_leaves_out_what_cannot_evolve(local: World) -> None:
    local.options |= {"schema_policy": "evolve"}
    local.land(NW, sales(1), GOOD)
    local.ingest(NW)
    local.land(NW, WRONG_TYPE, BAD)
    local.land(NW, sales(2).append_column("more", pa.array(["x"])), "more.parquet")
    local.land(NW, b"x" * 100, "damaged.parquet")

    assert local.ingest(NW).row.files_quarantined == 2
    assert local.totals() == [1, 2]
    assert set(reasons(local)) == {BAD, "damaged.parquet"}
    assert local.query("SELECT more FROM lake.sales ORDER BY total") == [(None,), ("x",)]


@pytest.mark.parametrize("mode", ["replace", "append"])
@pytest.mark.parametrize("name", ["a_bad.parquet", "z_bad.parquet"])
def test_a_misfitting_object_evolves_nothing(local: World, mode: str, name: str) -> None:
    local.options |= {"schema_policy": "evolve", "mode": mode}
    with without_spark():
        local.land(NW, sales(1), GOOD)
        local.ingest(NW)
        columns = local.query("DESCRIBE lake.sales")
        local.land(NW, MISFITTING, name)

        assert local.ingest(NW).row.files_quarantined == 1
        assert local.query("DESCRIBE lake.sales") == columns
        local.land(NW, sales(2).append_column("other", pa.array(["y"])), "other.parquet")
        local.ingest(NW)

    assert local.query("SELECT total, other FROM lake.sales ORDER BY total") == [(1, None), (2, "y")]
    assert list(reasons(local)) == [name]


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_ignore_extra_leaves_out_columns_of_good_objects_and_bad_objects_whole(local: World, mode: str) -> None:
    local.options |= {"schema_policy": "ignore_extra", "mode": mode}
    with without_spark():
        local.land(NW, sales(1), GOOD)
        local.ingest(NW)
        columns = local.query("DESCRIBE lake.sales")
        local.land(NW, MISFITTING, BAD)
        local.land(NW, sales(2).append_column("more", pa.array(["x"])), "more.parquet")

        assert local.ingest(NW).row.files_quarantined == 1

    assert local.query("DESCRIBE lake.sales") == columns
    assert local.totals() == [1, 2]
    assert list(reasons(local)) == [BAD]
