"""What another client has decided of the table's columns: NOT NULL and defaults."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.upkeep.history.restore import Restoration
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.ingest.landed_as import FORMATS, landed
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan

LATER = "region=NW,date=2026-02-12"
SCHEMA = pa.schema([("id", pa.int64()), ("total", pa.float64())])
FULL: dict[str, Any] = {"id": 1, "total": 1.5}
WITHOUT: dict[str, Any] = {"id": 2, "total": None}
LACKING: dict[str, Any] = {"id": 3}


def put(world: World, text: str, *rows: dict[str, Any]) -> None:
    form = world.options.get("format", "parquet")
    schema = SCHEMA if all(row.keys() == FULL.keys() for row in rows) else None
    world.land(text, landed(form, *rows, schema=schema), f"a.{form}")


def not_null(world: World) -> None:
    """A table with a partition, and another client's constraint."""
    put(world, NW, FULL)
    world.ingest(NW)
    world.execute("ALTER TABLE lake.sales ALTER total SET NOT NULL")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "append"},
        {"schema_policy": "evolve"},
        {"copy": "always"},
        *more([{"format": form} for form in FORMATS[1:]]),
        *more([{"schema_policy": "ignore_extra"}, {"rescue": "_rescued"}]),
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "replace",
)
def test_a_row_without_a_value_is_refused(local_world: World, options: dict[str, Any]) -> None:
    local_world.options = options
    not_null(local_world)

    put(local_world, SW, WITHOUT, FULL)
    with pytest.raises(SchemaError, match=r"column 'total' of .* has a row without a value, and the table has it"):
        local_world.ingest(SW)
    put(local_world, LATER, LACKING)
    with pytest.raises(SchemaError, match="total"):
        local_world.ingest(LATER)
    if "format" not in options:
        planned = plan(local_world.stream, local_world.partition(LATER))
        assert "total" in planned.decision.fails

    put(local_world, SW, FULL)
    local_world.ingest(SW)
    assert local_world.query("SELECT DISTINCT id, total FROM lake.sales") == [(1, 1.5)]


@pytest.mark.usefixtures("strategy")
def test_a_file_with_such_a_row_is_not_registered(indexed_world: World) -> None:
    not_null(indexed_world)
    put(indexed_world, SW, WITHOUT, FULL)
    put(indexed_world, LATER, FULL)

    outcomes = index(indexed_world)

    errors = {path: str(outcome.error) for path, outcome in outcomes.items() if outcome.error}
    assert "has a row without a value, and the table has it NOT NULL" in errors.pop("region=SW/date=2026-02-11")
    assert not errors
    assert indexed_world.query("SELECT total FROM lake.sales") == [(1.5,), (1.5,)]


def test_such_rows_are_dead_letters(local_world: World) -> None:
    local_world.options = {"on_bad_row": "dead_letter"}
    not_null(local_world)
    put(local_world, SW, WITHOUT, FULL)

    local_world.ingest(SW)

    assert local_world.query("SELECT id FROM lake.sales WHERE region = 'SW'") == [(1,)]
    assert [letter["id"] for letter in letters(local_world)] == [2]


def test_an_object_that_lacks_a_column_has_its_default(local_world: World) -> None:
    put(local_world, NW, FULL)
    local_world.ingest(NW)
    local_world.execute(
        "ALTER TABLE lake.sales ADD COLUMN day DATE DEFAULT '2026-01-02'",
        "ALTER TABLE lake.sales ADD COLUMN price DECIMAL(6,2) DEFAULT 1.50",
        "ALTER TABLE lake.sales ALTER price SET DEFAULT 2.5",
    )
    put(local_world, SW, FULL)
    put(local_world, LATER, FULL | {"day": None, "price": None})

    for text in (SW, LATER):
        local_world.ingest(text)

    found = local_world.query("SELECT day::VARCHAR, price::VARCHAR FROM lake.sales ORDER BY ALL")
    assert found == [("2026-01-02", "1.50"), ("2026-01-02", "2.50"), (None, None)]


def test_a_transform_may_give_the_value(local_world: World) -> None:
    local_world.options = {"transform": {"sql": "SELECT id, coalesce(total, 0.0) AS total FROM source"}}
    not_null(local_world)
    put(local_world, SW, WITHOUT)
    local_world.ingest(SW)
    assert local_world.totals(SW) == [0]


def test_an_encrypted_lake_refuses_it_too(local_encrypted: World) -> None:
    not_null(local_encrypted)
    put(local_encrypted, SW, WITHOUT)
    with pytest.raises(SchemaError, match="the table has it NOT NULL"):
        local_encrypted.ingest(SW)


def test_an_earlier_snapshot_with_such_a_row_is_not_restored(local_world: World) -> None:
    put(local_world, NW, WITHOUT)
    first = local_world.ingest(NW).row.snapshot_id
    assert first is not None
    put(local_world, NW, FULL)
    local_world.ingest(NW)
    columns = "__ducklake_metadata_lake.ducklake_column"
    local_world.execute(f"UPDATE {columns} SET nulls_allowed = false WHERE column_name = 'total'")
    again = replace(local_world, _opened=None)

    with pytest.raises(SchemaError, match=r"'total' of table main\.sales is NOT NULL, and the new rows have NULL"):
        Restoration(again.stream, again.partition(NW), first).run()

    assert again.totals() == [1.5]
    again.execute("ALTER TABLE lake.sales ALTER total DROP NOT NULL")
    Restoration(again.stream, again.partition(NW), first).run()
    assert again.query("SELECT id, total FROM lake.sales") == [(2, None)]
