"""Advice of errors about a table that has another name now."""

import pytest

from lake_assets_tests.advice.cases import Case, Cases, Steps, follow
from lake_assets_tests.world import NW, World, sales

case = Cases()


@case
def a_table_that_another_client_has_renamed_gets_its_name_back(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.execute("ALTER TABLE lake.main.sales RENAME TO other")
    yield "rename it back, by ALTER TABLE"
    local_world.execute('ALTER TABLE lake.main.other RENAME TO "sales"')
    return [1]


@case
def a_table_begins_anew_beside_one_that_was_renamed(local_world: World) -> Steps:
    local_world.commit(NW, 1)
    local_world.execute("ALTER TABLE lake.main.sales RENAME TO other")
    yield "begin a new table"
    local_world.ingest(NW, force=True)
    assert local_world.query("SELECT total FROM lake.other") == [(1,)]
    return [1]


@case
def rows_of_a_table_of_another_name_are_replaced(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.execute("ALTER TABLE lake.main.sales RENAME TO other")
    local_world.options["destination"] = {"table": "other"}
    local_world.land(NW, sales(2), "b.parquet")
    yield "use --force, which replaces the partition by its objects"
    local_world.ingest(NW, force=True)
    assert local_world.query("SELECT total FROM lake.other ORDER BY 1") == [(1,), (2,)]
    return None


@case
def rows_of_a_table_are_added_to_under_the_name_that_it_had(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.execute("ALTER TABLE lake.main.sales RENAME TO other")
    local_world.options["destination"] = {"table": "other"}
    local_world.land(NW, sales(2), "b.parquet")
    yield "rename the table back"
    local_world.execute("ALTER TABLE lake.main.other RENAME TO sales")
    del local_world.options["destination"]
    return [1, 2]


@case
def rows_of_a_stream_of_another_name_are_added_to_as_its_own(local_world: World) -> Steps:
    local_world.options = {"mode": "append"}
    local_world.commit(NW, 1)
    local_world.execute("UPDATE lake.ingest_files SET stream = 'till'", "UPDATE lake.ingest_runs SET stream = 'till'")
    local_world.land(NW, sales(2), "b.parquet")
    yield "write the stream's earlier name in streams"
    local_world.options["previously"] = ["till"]
    return [1, 2]


@pytest.mark.parametrize("steps", case)
def test_the_advice_about_names_of_tables_leads_to_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
