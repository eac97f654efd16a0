"""A column of the path that is in the file too, in another form."""

from typing import Any

import pyarrow as pa
import pytest

from lake_assets_tests.faults.without_spark import sessions  # noqa: F401 - a fixture
from lake_assets_tests.tiers import more
from lake_assets_tests.values.annotated import written
from lake_assets_tests.values.test_types_of_writers import ingest, refused, world_of
from lake_assets_tests.world import NW, World

DAY = 20_495  # 2026-02-11, since 1970
FORMS: dict[str, pa.Array] = {
    "uint16": pa.array([DAY], pa.uint16()),
    "number": pa.array([20260211]),
    "midnight": pa.array(["2026-02-11T00:00:00"]),
    "blank": pa.array(["2026-02-11 00:00:00.000"]),
    "digits": pa.array(["20260211"]),
    "dictionary": pa.array(["20260211"]).dictionary_encode(),
}


@pytest.mark.parametrize("way", ["encoded", "indexed", *more(["copied"])])
@pytest.mark.parametrize("form", ["uint16", "midnight", *more(["number", "blank", "digits", "dictionary"])])
def test_the_same_day_in_another_form_is_of_the_partition(local_world: World, form: str, way: str) -> None:
    world = world_of(local_world, way)
    world.land(NW, pa.table({"id": [1], "date": FORMS[form]}), compression="zstd")

    ingest(world)

    assert world.query("SELECT id, date::VARCHAR FROM lake.sales WHERE date = '2026-02-11'") == [(1, "2026-02-11")]


ANOTHER = "and give the layout its folder"


@pytest.mark.parametrize("way", ["encoded", "indexed"])
@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (pa.array([DAY + 1], pa.uint16()), ANOTHER),
        (pa.array([DAY]), ANOTHER),
        *more([(pa.array([20260212]), ANOTHER), (pa.array(["2026-02-12"]), "land the row in its own partition")]),
        *more([(pa.array(["2026-02-11T08:00:00"]), "another name and from: date")]),
    ],
    ids=["uint16", "days", "number", "day", "time"],
)
def test_another_day_is_refused_with_a_fix(local_world: World, value: Any, fix: str, way: str) -> None:
    refused(
        world_of(local_world, way),
        written(pa.table({"id": [1], "date": value}), {}),
        f"has a row with date=.*, and belongs to .*{fix}",
    )
