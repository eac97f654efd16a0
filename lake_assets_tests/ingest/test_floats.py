"""Conditions on floating-point columns find all their rows, also NaN and the bounds of a file."""

import numpy as np
import pyarrow as pa
import pytest

from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.world import NW, SW, World

NUMBERS = ["-4.2983307e+16", "0.1", "1e-40", "3.4028235e+38"]


def floats(*texts: str) -> pa.Table:
    numbers = [np.float32(text) for text in texts]
    return pa.table(
        {"id": range(len(texts)), "f": pa.array(numbers, pa.float32()), "d": pa.array(numbers, pa.float64())}
    )


def found(world: World, condition: str) -> int:
    ((count,),) = world.query(f"SELECT count(*) FROM lake.sales WHERE {condition}")
    return int(count)


@pytest.mark.parametrize("way", ["registered", "inserted", "indexed"])
def test_a_number_at_the_end_of_a_files_range_is_found(local_world: World, way: str) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": way == "inserted"}}
    local_world.options = {"mode": "index"} if way == "indexed" else {}
    # The first commit of a table goes by the extension, the second directly.
    for text, numbers in {NW: NUMBERS[:2], SW: NUMBERS[2:]}.items():
        local_world.land(text, floats(*numbers))
        if way == "indexed":
            assert not [outcome.error for outcome in index(local_world, text).values() if outcome.error]
        else:
            local_world.ingest(text)
    for number in NUMBERS:
        assert found(local_world, f"f = '{number}'::FLOAT") == 1
    assert found(local_world, "f <= '-4.2983307e+16'::FLOAT") == 1
    assert found(local_world, "f >= '3.4028235e+38'::FLOAT") == 1


@pytest.mark.parametrize("way", ["registered", "inserted"])
def test_nan_is_found(local_world: World, way: str) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": way == "inserted"}}
    for text in (NW, SW):
        local_world.land(text, floats("1.5", "nan"))
        local_world.ingest(text)
    for column, kind in {"f": "FLOAT", "d": "DOUBLE"}.items():
        assert found(local_world, f"{column} = 'nan'::{kind}") == 2
        assert found(local_world, f"{column} > 100::{kind}") == 2
        assert found(local_world, f"{column} = 1.5::{kind}") == 2
        assert found(local_world, f"{column} IS NULL") == 0


@pytest.mark.parametrize("way", ["registered", "inserted"])
def test_min_and_max_of_a_column_that_became_wider_are_values_of_it(local_world: World, way: str) -> None:
    local_world.lake_options = {"attach_options": {"encrypted": way == "inserted"}}
    local_world.options = {"schema_policy": "evolve"}
    numbers = floats("-79.72874450683594", "57.55294418334961").drop_columns(["d"])
    local_world.land(NW, numbers)
    local_world.ingest(NW)
    wider = numbers.set_column(1, "f", numbers["f"].cast(pa.float64()))
    local_world.land(SW, wider)
    local_world.ingest(SW)
    assert local_world.query("SELECT min(f), max(f) FROM lake.sales") == [(-79.72874450683594, 57.55294418334961)]
